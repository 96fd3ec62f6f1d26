//! Capabilities on a real API server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, LoadBalancerIngress, LoadBalancerStatus, PersistentVolumeClaim, Pod, PodSpec, Secret,
    Service, ServiceStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kooper::capability::PatchBody;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::{Controller, Evictor};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde_json::{Value, json};

use crate::live::{Live, Seen, configmap, connection, grant, state};

fn start(kubeconfig: &Path, controller: Controller) -> Live {
    Live::start(connection(kubeconfig, None), [controller])
}

fn get(cluster: &ControlPlane, namespace: &str, what: &str, name: &str) -> Value {
    let output = cluster.kubectl(&["-n", namespace, "get", what, name, "--ignore-not-found", "-o", "json"]);
    serde_json::from_str(&output.stdout).unwrap_or_default()
}

/// Waits for an Event about an object, and returns it.
fn event(cluster: &ControlPlane, namespace: &str, about: &str, right: impl Fn(&Value) -> bool) -> Value {
    let list = || -> Value {
        let text = cluster.must(&["-n", namespace, "get", "events.events.k8s.io", "-o", "json"]);
        serde_json::from_str(&text).unwrap()
    };
    let find = || {
        let events = list();
        let mut items = events["items"].as_array().unwrap().iter();
        items.find(|event| event["regarding"]["name"] == about && right(event)).cloned()
    };
    until(&format!("an Event about {about}"), find, || list().to_string())
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn pod(namespace: &str, name: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.namespace = Some(namespace.to_owned());
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    let container = Container { name: "work".to_owned(), image: Some("work".to_owned()), ..Container::default() };
    pod.spec = Some(PodSpec { containers: vec![container], ..PodSpec::default() });
    pod
}

fn secret(name: &str, value: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.string_data = Some([("value".to_owned(), value.to_owned())].into());
    secret
}

/// A controller of ConfigMaps, each of which owns a Secret with the name in its value.
fn parents(namespace: &str, seen: &Seen, set: impl FnOnce(Builder<ConfigMap>) -> Builder<ConfigMap>) -> Controller {
    let seen = seen.clone();
    let handler = move |parent: Arc<ConfigMap>, secrets: OwnedApplier<Secret>| {
        let seen = seen.clone();
        async move {
            let Some((name, value)) = state(&parent) else { return Ok(()) };
            let child = secret(value, "ours");
            let done = if name.starts_with("adopts") {
                secrets.adopt(&parent, &child).await
            } else {
                secrets.apply_owned(&parent, &child).await
            };
            match &done {
                Ok(_) => seen.note(name, "applied"),
                Err(AccessError::NotOurs { owner, .. }) => {
                    let owner = owner.as_deref().and_then(|owner| owner.split(" (").next()).unwrap_or("none");
                    seen.note(name, format!("not ours: {owner}"));
                }
                Err(error) => seen.note(name, error.to_string()),
            }
            done.map(drop)
        }
    };
    let builder = Controller::builder::<ConfigMap>("parents").namespaces([namespace]).handler(handler);
    set(builder).build().unwrap()
}

#[test]
fn a_child_is_created_and_corrected_and_never_taken_from_another_owner() {
    let namespace = "children";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.must(&["-n", namespace, "create", "secret", "generic", "foreign", "--from-literal=value=theirs"]);
    cluster.must(&["-n", namespace, "create", "secret", "generic", "orphan", "--from-literal=value=theirs"]);
    cluster.apply([configmap(namespace, "one", "first")]);
    let seen = Seen::default();
    let live = start(cluster.kubeconfig(), parents(namespace, &seen, |builder| builder));
    seen.wait_for(&[("one", "applied")]);
    let child = get(cluster, namespace, "secret", "first");
    let owner = &child["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["name"], &owner["blockOwnerDeletion"]), (&json!("one"), &json!(true)), "{child}");

    // Drift is corrected, and a deleted child is created again.
    let value = |name: &str| get(cluster, namespace, "secret", name)["data"]["value"].as_str().map(str::to_owned);
    let ours = || (value("first").as_deref() == Some("b3Vycw==")).then_some(());
    cluster.must(&["-n", namespace, "patch", "secret", "first", "-p", r#"{"stringData":{"value":"drift"}}"#]);
    until("the drift is corrected", ours, || format!("{:?}", value("first")));
    cluster.must(&["-n", namespace, "delete", "secret", "first"]);
    until("the child comes back", ours, || format!("{:?}", value("first")));

    // An object of another owner, or without one, is not changed.
    cluster.apply([configmap(namespace, "two", "foreign"), configmap(namespace, "three", "first")]);
    seen.wait_for(&[("two", "not ours: none"), ("three", "not ours: ConfigMap `one`")]);
    assert_eq!(value("foreign").as_deref(), Some("dGhlaXJz"));
    let exists = event(cluster, namespace, "two", |event| event["reason"] == "ErrResourceExists");
    assert_eq!((&exists["type"], &exists["related"]["name"]), (&json!("Warning"), &json!("foreign")), "{exists}");
    cluster.apply([configmap(namespace, "adopts", "orphan"), configmap(namespace, "adopts-too", "first")]);
    seen.wait_for(&[("adopts", "applied"), ("adopts-too", "not ours: ConfigMap `one`")]);
    assert_eq!(value("orphan").as_deref(), Some("b3Vycw=="));
    live.stop();
}

#[test]
fn an_owner_without_its_child_is_queued_when_the_other_child_is_deleted() {
    let namespace = "contested";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.apply([configmap(namespace, "one", "wanted")]);
    let seen = Seen::default();
    // Its own retry would be too late for the test.
    let long = Duration::from_secs(3600);
    let controller = parents(namespace, &seen, |builder| builder.resync(None).backoff(long, long));
    let live = start(cluster.kubeconfig(), controller);
    seen.wait_for(&[("one", "applied")]);
    cluster.apply([configmap(namespace, "two", "wanted")]);
    seen.wait_for(&[("two", "not ours: ConfigMap `one`")]);
    // The child is deleted with its owner.
    cluster.must(&["-n", namespace, "delete", "configmap", "one"]);
    seen.wait_for(&[("two", "applied")]);
    let child = get(cluster, namespace, "secret", "wanted");
    assert_eq!(child["metadata"]["ownerReferences"][0]["name"], "two", "{child}");
    live.stop();
}

#[test]
fn fields_applied_under_a_former_name_are_taken_over() {
    let namespace = "renamed";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.apply([configmap(namespace, "one", "1")]);
    let seen = Seen::default();
    let run = |name: &str, former: &[&str], data: &[(&str, &str)]| {
        let mut settings = ConfigMap::default();
        settings.metadata.name = Some("settings".to_owned());
        settings.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        let (log, seen, noted) = (seen.clone(), seen.clone(), name.to_owned());
        let handler = move |configs: Applier<ConfigMap>| {
            let (seen, settings, name) = (seen.clone(), settings.clone(), noted.clone());
            async move {
                configs.apply(&settings).await?;
                seen.note(name, "applied");
                Ok::<_, kooper::BoxError>(())
            }
        };
        let controller = Controller::builder::<ConfigMap>(name).namespaces([namespace]).fields("metadata.name=one");
        let live =
            start(cluster.kubeconfig(), controller.former_names(former.to_vec()).handler(handler).build().unwrap());
        log.wait_for(&[(name, "applied")]);
        live.stop();
    };
    run("old", &[], &[("kept", "1"), ("dropped", "1")]);
    run("new", &["old"], &[("kept", "2")]);
    assert_eq!(get(cluster, namespace, "configmap", "settings")["data"], json!({"kept": "2"}));
    let managed =
        cluster.must(&["-n", namespace, "get", "configmap", "settings", "--show-managed-fields", "-o", "json"]);
    assert!(managed.contains("/new\"") && !managed.contains("/old\""), "{managed}");
}

#[test]
fn an_object_that_is_not_cached_yet_is_not_taken_over() {
    let namespace = "unseen";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.must(&["-n", namespace, "create", "secret", "generic", "there", "--from-literal=value=theirs"]);
    cluster.apply([configmap(namespace, "one", "1")]);
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |secrets: Applier<Secret>| {
        let seen = noted.clone();
        async move {
            for name in ["there", "absent"] {
                // As for a child that is not in the cache.
                let mut child = secret(name, "ours");
                child.metadata.resource_version = Some("1".to_owned());
                match secrets.apply(&child).await {
                    Ok(_) => seen.note(name, "created"),
                    Err(error) if error.is_conflict() => seen.note(name, "conflict"),
                    Err(error) => seen.note(name, error.to_string()),
                }
            }
        }
    };
    let controller =
        Controller::builder::<ConfigMap>("unseen").namespaces([namespace]).workers(1).fields("metadata.name=one");
    let live = start(cluster.kubeconfig(), controller.handler(handler).build().unwrap());
    seen.wait_for(&[("there", "conflict"), ("absent", "created")]);
    live.stop();
}

#[test]
fn a_deletion_only_affects_the_object_with_the_expected_uid() {
    let namespace = "deletions";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.apply([configmap(namespace, "one", "1")]);
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |config: Arc<ConfigMap>,
                        configs: Deleter<ConfigMap>,
                        getter: Getter<ConfigMap>,
                        patcher: Patcher<ConfigMap>,
                        creator: Creator<ConfigMap>| {
        let seen = noted.clone();
        async move {
            let key = ObjectKey::namespaced(namespace, "two");
            let mut other = ConfigMap::default();
            other.metadata.name = Some("two".to_owned());
            let other = creator.create(&other).await?;
            let twice = creator.create(&other).await.unwrap_err();
            seen.note("twice", twice.code().unwrap_or_default().to_string());

            let mut stale = other.clone();
            stale.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
            configs.delete_object(&stale).await?;
            let tests = PatchBody::json(json!([{"op": "add", "path": "/data", "value": {}}]));
            assert!(patcher.patch_object(&stale, tests).await.unwrap_err().is_conflict());
            let refused =
                patcher.patch_object(&stale, PatchBody::merge(json!({"data": {"a": "b"}}))).await.unwrap_err();
            seen.note("stale", format!("{} {}", getter.fetch(&key).await?.is_some(), refused.is_conflict()));

            patcher
                .patch_object(&other, PatchBody::json(json!([{"op": "add", "path": "/data", "value": {"a": "b"}}])))
                .await?;
            let changed = configs.delete_unchanged(&other).await.unwrap_err();
            seen.note("changed", format!("{} {}", getter.fetch(&key).await?.is_some(), changed.is_conflict()));

            configs.delete_object(&other).await?;
            configs.delete(&key).await?;
            seen.note("deleted", getter.fetch(&key).await?.is_none().to_string());
            configs.delete_object(&config).await?;
            Ok::<_, kooper::BoxError>(())
        }
    };
    let controller = Controller::builder::<ConfigMap>("deletions").namespaces([namespace]).fields("metadata.name=one");
    let live = start(cluster.kubeconfig(), controller.handler(handler).build().unwrap());
    seen.wait_for(&[("twice", "409"), ("stale", "true true"), ("changed", "true true"), ("deleted", "true")]);
    live.stop();
}

#[test]
fn an_unchanged_status_is_not_written() {
    let namespace = "statuses";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.must(&["-n", namespace, "create", "service", "clusterip", "web", "--tcp=80"]);
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |service: Arc<Service>, call: Call, statuses: StatusWriter<Service>| {
        let seen = noted.clone();
        async move {
            let status = service.status.clone().unwrap_or_default();
            let mut conditions = Conditions::of(&service, status.conditions.as_deref().unwrap_or_default());
            conditions.set("Seen", true, "Handled", "it was handled").ready("Done", "all is done");
            let status = ServiceStatus { conditions: Some(conditions.into_vec()), ..status };
            let written = statuses.apply_status(&service, &status).await?;
            if written {
                seen.note("written", service.metadata.uid.as_deref().unwrap_or_default());
            } else {
                seen.note(if call.reasons().to_string().contains("resync") { "resync" } else { "event" }, "suppressed");
            }
            Ok::<_, kooper::BoxError>(())
        }
    };
    let controller =
        Controller::builder::<Service>("statuses").namespaces([namespace]).resync(Some(Duration::from_secs(1)));
    let live = start(cluster.kubeconfig(), controller.handler(handler).build().unwrap());
    // Its own write causes one call, which writes nothing.
    seen.wait_for(&[("event", "suppressed")]);
    let before = get(cluster, namespace, "service", "web");
    let ready = before["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Ready").unwrap();
    assert_eq!(ready["status"], "True", "{before}");
    seen.wait_for(&[("resync", "suppressed")]);
    let after = get(cluster, namespace, "service", "web");
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    let managers = cluster.must(&["-n", namespace, "get", "service", "web", "--show-managed-fields", "-o", "json"]);
    assert!(managers.contains("/statuses\""), "the field manager is the controller: {managers}");
    live.stop();
}

#[test]
fn a_second_status_in_one_call_is_compared_with_the_first() {
    let namespace = "statuses-twice";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.must(&["-n", namespace, "create", "service", "loadbalancer", "web", "--tcp=80"]);
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |service: Arc<Service>, statuses: StatusWriter<Service>| {
        let seen = noted.clone();
        async move {
            let status = |address: &str| {
                let ingress = LoadBalancerIngress { ip: Some(address.to_owned()), ..LoadBalancerIngress::default() };
                let balancer = LoadBalancerStatus { ingress: Some(vec![ingress]) };
                ServiceStatus { load_balancer: Some(balancer), ..ServiceStatus::default() }
            };
            if service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref()).is_none() {
                statuses.apply_status(&service, &status("192.0.2.1")).await?;
                seen.note("first", "done");
                return Ok(());
            }
            // Changed and changed back: the object that the call received has the last status.
            let there = statuses.apply_status(&service, &status("192.0.2.2")).await?;
            let back = statuses.apply_status(&service, &status("192.0.2.1")).await?;
            let same = statuses.apply_status(&service, &status("192.0.2.1")).await?;
            seen.note("second", format!("{there} {back} {same}"));
            Ok::<_, kooper::BoxError>(())
        }
    };
    let controller = Controller::builder::<Service>("twice").namespaces([namespace]).workers(1);
    let live = start(cluster.kubeconfig(), controller.handler(handler).build().unwrap());
    seen.wait_for(&[("first", "done"), ("second", "true true false")]);
    live.stop();
    let service = get(cluster, namespace, "service", "web");
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1", "{service}");
}

#[test]
fn a_job_is_deleted_with_its_pods_and_a_pod_is_evicted_by_its_uid() {
    let namespace = "dependents";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work"}]}});
    cluster.apply([
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": namespace, "name": "work"},
            "spec": {"template": template},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": "alone"},
            "spec": {"containers": [{"name": "work", "image": "work"}]},
        }),
    ]);
    let pods = || cluster.must(&["-n", namespace, "get", "pods", "-o", "name", "-l", "job-name=work"]);
    until("the job has a pod", || (!pods().is_empty()).then_some(()), pods);
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |job: Arc<Job>, jobs: Deleter<Job>, getter: Getter<Pod>, evictor: Evictor| {
        let seen = noted.clone();
        async move {
            let key = ObjectKey::namespaced(namespace, "alone");
            let Some(alone) = getter.fetch(&key).await? else { return Ok(()) };
            let mut successor = alone.clone();
            successor.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
            evictor.evict(&successor).await?;
            let remains = getter.fetch(&key).await?.is_some();
            evictor.evict(&alone).await?;
            evictor.evict(&alone).await?;
            seen.note("alone", format!("{remains} {}", getter.fetch(&key).await?.is_some()));
            jobs.delete_object(&job).await?;
            Ok::<_, kooper::BoxError>(())
        }
    };
    let controller = Controller::builder::<Job>("dependents").namespaces([namespace]).workers(1).resync(None);
    let live = start(cluster.kubeconfig(), controller.handler(handler).build().unwrap());
    seen.wait_for(&[("alone", "true false")]);
    until("the pods of the job are gone", || pods().is_empty().then_some(()), pods);
    live.stop();
}

#[test]
fn a_rejection_by_admission_does_not_name_a_rule() {
    let namespace = "forbidden";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.must(&["label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    cluster.must(&["-n", namespace, "create", "quota", "secrets", "--hard=secrets=0"]);
    cluster.apply([
        json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"namespace": namespace, "name": "claims"},
            "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": namespace, "name": "web"},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "web"}]},
                },
            },
        }),
        configmap(namespace, "one", "1"),
    ]);
    // The quota controller has processed the quota.
    let quota = || get(cluster, namespace, "quota", "secrets");
    until("the quota is counted", || quota()["status"]["used"].is_object().then_some(()), || quota().to_string());
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |pods: Applier<Pod>,
                        secrets: Applier<Secret>,
                        claims: Applier<PersistentVolumeClaim>,
                        deployments: Applier<Deployment>| {
        let seen = noted.clone();
        async move {
            let claim = serde_json::from_value(json!({
                "metadata": {"name": "claim"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
            }));
            let changed = serde_json::from_value(json!({
                "metadata": {"name": "web"},
                "spec": {
                    "selector": {"matchLabels": {"app": "other"}},
                    "template": {
                        "metadata": {"labels": {"app": "other"}},
                        "spec": {"containers": [{"name": "web", "image": "web"}]},
                    },
                },
            }));
            let errors = [
                ("security", pods.apply(&Pod { metadata: named("pod"), ..pod(namespace, "pod") }).await.err()),
                ("quota", secrets.apply(&secret("secret", "ours")).await.err()),
                ("limits", claims.apply(&claim?).await.err()),
                ("immutable", deployments.apply(&changed?).await.err()),
            ];
            for (name, error) in errors {
                let reason = error.as_ref().and_then(std::error::Error::source);
                let text = reason.map_or_else(String::new, ToString::to_string);
                seen.note(name, text.rsplit("; ").next().unwrap_or_default());
            }
            Ok::<_, kooper::BoxError>(())
        }
    };
    let controller =
        Controller::builder::<ConfigMap>("forbidden").namespaces([namespace]).fields("metadata.name=one").workers(1);
    let live = start(cluster.kubeconfig(), controller.handler(handler).build().unwrap());
    let rest = "no rule is missing";
    seen.wait_for(&[
        ("security", &*format!("meet the Pod Security Standard of namespace `{namespace}`, or change its label `pod-security.kubernetes.io/enforce`: {rest}")),
        ("quota", &*format!("raise the ResourceQuota of namespace `{namespace}` or request less: {rest}")),
        ("limits", &*format!("set requests and limits that the LimitRange of namespace `{namespace}` allows: {rest}")),
        ("immutable", "`spec.selector` cannot be changed: keep the value, or delete the object and let the next call create it again"),
    ]);
    live.stop();
}

#[test]
fn events_are_recorded_and_become_a_series() {
    let namespace = "records-events";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.apply([configmap(namespace, "one", "1")]);
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |config: Arc<ConfigMap>, recorder: Recorder| {
        recorder.action("Sync").normal("Synced", "all is well");
        recorder.warning("Odd", "é".repeat(600));
        if let Some((name, value)) = state(&config) {
            noted.note(name, value);
        }
        async {}
    };
    let controller =
        Controller::builder::<ConfigMap>("recorder").namespaces([namespace]).resync(None).fields("metadata.name=one");
    let live = start(cluster.kubeconfig(), controller.handler(handler).build().unwrap());
    for value in ["1", "2", "3"] {
        cluster.apply([configmap(namespace, "one", value)]);
        seen.wait_for(&[("one", value)]);
    }
    let synced = event(cluster, namespace, "one", |event| event["reason"] == "Synced" && event["series"]["count"] == 3);
    assert_eq!((&synced["type"], &synced["action"]), (&json!("Normal"), &json!("Sync")), "{synced}");
    let controller = synced["reportingController"].as_str().unwrap();
    assert!(controller.ends_with("/recorder"), "{controller}");
    event(cluster, namespace, "one", |event| event["reason"] == "Odd" && event["type"] == "Warning");
    assert_eq!(live.metric(r#"kooper_events_dropped_total{controller="recorder"}"#), 0.0);
    live.stop();
}

#[test]
fn a_forbidden_request_is_reported_with_the_missing_rule() {
    let namespace = "refusals";
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", namespace]);
    cluster.apply(grant(namespace, "", "services"));
    cluster.must(&["-n", namespace, "create", "service", "clusterip", "web", "--tcp=80"]);
    let seen = Seen::default();
    let noted = seen.clone();
    let handler = move |service: Arc<Service>,
                        applier: Applier<Service>,
                        deleter: Deleter<Service>,
                        statuses: StatusWriter<Service>,
                        evictor: Evictor,
                        recorder: Recorder| {
        let seen = noted.clone();
        async move {
            recorder.normal("Synced", "the permission is missing");
            let mut other = Service::default();
            other.metadata.name = Some("other".to_owned());
            let errors = [
                ("apply", applier.apply(&other).await.err()),
                ("delete", deleter.delete_object(&service).await.err()),
                (
                    "status",
                    statuses
                        .apply_status(
                            &service,
                            &ServiceStatus { conditions: Some(Vec::new()), ..ServiceStatus::default() },
                        )
                        .await
                        .err(),
                ),
                ("evict", evictor.evict(&pod(namespace, "pod")).await.err()),
            ];
            for (name, error) in errors {
                let reason = error.as_ref().and_then(std::error::Error::source);
                let text = reason.map_or_else(String::new, ToString::to_string);
                seen.note(name, text.rsplit("; ").next().unwrap_or_default());
            }
        }
    };
    let controller =
        Controller::builder::<Service>("refusals").namespaces([namespace]).handler(handler).build().unwrap();
    let live = start(cluster.limited_kubeconfig(), controller);
    for (name, rule) in [
        ("apply", "services: create, patch"),
        ("delete", "services: delete"),
        ("status", "services/status: patch"),
        ("evict", "pods/eviction: create"),
    ] {
        seen.wait_for(&[(name, format!("grant the rule \"{rule}\" in namespace `{namespace}`").as_str())]);
    }
    live.wait_for_metric(r#"kooper_events_dropped_total{controller="refusals"}"#, |dropped| dropped > 0.0);
    live.stop();
}
