//! Requests that are forbidden or rejected, and what the error recommends.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, LoadBalancerIngress, LoadBalancerStatus, PersistentVolumeClaim, Pod, PodSpec, Secret,
    Service, ServiceStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kooper::prelude::*;
use kooper::{Controller, Evictor};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde_json::json;

use super::{get, secret};
use crate::fixture::{Start, with_name};
use crate::live::{HandledStates, Live, configmap, connection, grant};

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

#[test]
fn a_rejection_by_admission_does_not_name_a_rule() {
    let namespace = "forbidden";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
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
    let seen = HandledStates::default();
    let handler = move |pods: Applier<Pod>,
                        secrets: Applier<Secret>,
                        claims: Applier<PersistentVolumeClaim>,
                        deployments: Applier<Deployment>,
                        seen: State<HandledStates>| async move {
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
    };
    let controller =
        Controller::builder::<ConfigMap>("forbidden").namespaces([namespace]).fields("metadata.name=one").workers(1);
    let live = controller.state(seen.clone()).handler(handler).start_on(cluster);
    let rest = "no rule is missing";
    seen.wait_for(&[
        ("security", &*format!("meet the Pod Security Standard of namespace `{namespace}`, or change its label `pod-security.kubernetes.io/enforce`: {rest}")),
        ("quota", &*format!("raise the ResourceQuota of namespace `{namespace}` or request less: {rest}")),
        ("limits", &*format!("set requests and limits that the LimitRange of namespace `{namespace}` allows: {rest}")),
        ("immutable", "`spec.selector` cannot be changed: keep the value, or delete the object and let the next \
                       reconciliation create it again"),
    ]);
    live.stop();
}

#[test]
fn a_forbidden_request_is_reported_with_the_missing_rule() {
    let namespace = "refusals";
    let Some(cluster) = ControlPlane::shared_in(namespace, grant(namespace, "", "services")) else { return };
    cluster.must(&["-n", namespace, "create", "service", "clusterip", "web", "--tcp=80"]);
    let seen = HandledStates::default();
    let handler = move |service: Arc<Service>,
                        applier: Applier<Service>,
                        deleter: Deleter<Service>,
                        statuses: StatusWriter<Service>,
                        evictor: Evictor,
                        recorder: Recorder,
                        seen: State<HandledStates>| async move {
        recorder.normal("Synced", "the permission is missing");
        let other: Service = with_name("other");
        let ingress = LoadBalancerIngress { ip: Some("192.0.2.1".to_owned()), ..LoadBalancerIngress::default() };
        let balancer = LoadBalancerStatus { ingress: Some(vec![ingress]) };
        let errors = [
            ("apply", applier.apply(&other).await.err()),
            ("delete", deleter.delete_object(&service).await.err()),
            (
                "status",
                statuses
                    .apply_status(
                        &service,
                        &ServiceStatus { load_balancer: Some(balancer), ..ServiceStatus::default() },
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
    };
    let controller = Controller::builder::<Service>("refusals")
        .namespaces([namespace])
        .state(seen.clone())
        .handler(handler)
        .build()
        .unwrap();
    let live = Live::start(connection(cluster.limited_kubeconfig(), None), [controller]);
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
