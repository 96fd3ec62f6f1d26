use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ConfigMap, LoadBalancerIngress, LoadBalancerStatus, Namespace, Pod, Secret, Service, ServiceStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde_json::json;

use super::*;
use kooper::prelude::*;
use kooper_access::AccessError;
use kooper_access::capability::{PatchBody, by};
use kooper_runtime::internal::error::chain;

fn named<T: Resource + Default>(name: &str) -> T {
    let mut object = T::default();
    object.meta_mut().name = Some(name.to_owned());
    object
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// An owner with a child, a status, an Event, and something to read.
async fn expose(
    service: Arc<Service>,
    secrets: OwnedApplier<Secret>,
    configs: Reader<ConfigMap>,
    statuses: StatusWriter<Service>,
    recorder: Recorder,
) -> Result<()> {
    let mut secret: Secret = named(&format!("{}-token", service.name_any()));
    secret.string_data = Some([("configs".to_owned(), configs.list().count().to_string())].into());
    secrets.apply_owned(&service, &secret).await?;
    // It is what the Service has.
    let empty = ServiceStatus { conditions: Some(Vec::new()), ..Default::default() };
    assert!(!statuses.apply_status(&service, &empty).await?);
    let ingress = LoadBalancerIngress { ip: Some("192.0.2.1".to_owned()), ..Default::default() };
    let load_balancer = Some(LoadBalancerStatus { ingress: Some(vec![ingress]) });
    if statuses.apply_status(&service, &ServiceStatus { load_balancer, ..Default::default() }).await? {
        recorder.normal("Exposed", "the token is there");
    }
    Ok(())
}

#[tokio::test]
async fn a_handler_with_children_is_called_as_a_function() -> Result<()> {
    let cluster = FakeCluster::new();
    cluster.put::<ConfigMap>(&named("one"))?;
    let service = cluster.put::<Service>(&named("web"))?;
    let arguments = cluster.arguments(&service);
    expose(service.clone(), arguments.take(), arguments.take(), arguments.take(), arguments.take()).await?;

    assert_eq!(cluster.summary(), ["apply secrets default/web-token", "apply services/status default/web"]);
    let [secret] = cluster.written::<Secret>()?.try_into().unwrap();
    assert_eq!(secret.data.unwrap()["configs"].0, b"1");
    let owner = &secret.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.name.as_str(), Some(&owner.uid)), ("web", service.metadata.uid.as_ref()));
    assert_eq!(cluster.sent()[0].field_manager.as_deref(), Some("test/service"));
    assert_eq!(cluster.sent()[1].body["status"], json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}));
    let events = cluster.events();
    assert_eq!(events.iter().map(ToString::to_string).collect::<Vec<_>>(), ["Normal Exposed: the token is there"]);
    assert_eq!(events[0].regarding.name.as_deref(), Some("web"));
    Ok(())
}

#[tokio::test]
async fn a_child_of_another_owner_is_found_and_not_changed() -> Result<()> {
    let cluster = FakeCluster::new();
    let other = cluster.put::<Service>(&named("other"))?;
    cluster.put(&kooper_access::capability::owned_by(&other, named::<Secret>("web-token"))?)?;
    let service = cluster.put::<Service>(&named("web"))?;
    let arguments = cluster.arguments(&service);
    let ended = expose(service.clone(), arguments.take(), arguments.take(), arguments.take(), arguments.take()).await;
    assert!(matches!(ended.unwrap_err().downcast_ref(), Some(AccessError::NotOurs { .. })));
    assert!(cluster.summary().is_empty());
    let events = cluster.events();
    assert!(events[0].to_string().starts_with("Warning ErrResourceExists: "), "{}", events[0]);
    Ok(())
}

#[tokio::test]
async fn each_verb_is_recorded_and_has_a_response() -> Result<()> {
    let cluster = FakeCluster::new();
    let pod = cluster.put::<Pod>(&named("one"))?;
    let arguments = cluster.arguments(&pod);

    let getter: Getter<Pod> = arguments.take();
    assert_eq!(getter.fetch(&key("one")).await?.as_ref(), Some(&*pod));
    assert_eq!(getter.fetch(&key("two")).await?, None);

    let creator: Creator<Secret> = arguments.take();
    let made = creator.create(&named("made")).await?;
    assert_eq!((made.name_any().as_str(), made.namespace().as_deref()), ("made", Some("default")));
    assert!(made.uid().is_some() && made.resource_version().is_some());
    let mut generated = Secret::default();
    generated.metadata.generate_name = Some("made-".to_owned());
    let names = [creator.create(&generated).await?.name_any(), creator.create(&generated).await?.name_any()];
    assert!(names[0] != names[1] && names[0].starts_with("made-"), "{names:?}");

    let applier: Applier<ConfigMap> = arguments.take();
    let mut config: ConfigMap = named("config");
    config.metadata.namespace = Some(String::new());
    let applied = applier.apply(&config).await?;
    assert!(applied.uid().is_some() && applied.namespace().as_deref() == Some("default"), "that of the call");

    let patcher: Patcher<Pod> = arguments.take();
    let merge = PatchBody::merge(json!({"metadata": {"labels": {"tier": "web"}, "finalizers": null}}));
    assert_eq!(patcher.patch_object(&pod, merge).await?.labels()["tier"], "web");
    let remove = PatchBody::json(json!([{"op": "remove", "path": "/metadata/labels"}]));
    assert_eq!(patcher.patch(&key("one"), remove).await?.spec, pod.spec);
    assert!(patcher.patch(&key("two"), PatchBody::merge(json!({}))).await.unwrap_err().is_not_found());

    let deleter: Deleter<Pod> = arguments.take();
    deleter.delete_object(&pod).await?;
    deleter.delete(&key("two")).await?;
    let evictor: Evictor = arguments.take();
    evictor.evict(&pod).await?;
    let statuses: StatusWriter<Pod> = arguments.take();
    let running = k8s_openapi::api::core::v1::PodStatus { phase: Some("Running".to_owned()), ..Default::default() };
    assert!(statuses.apply_status(&pod, &running).await?);
    assert!(statuses.apply_status(&named("two"), &running).await.is_err());

    let expected = [
        "get pods default/one",
        "get pods default/two",
        "create secrets default/made",
        "create secrets default/made-",
        "create secrets default/made-",
        "apply configmaps default/config",
        "patch pods default/one",
        "patch pods default/one",
        "patch pods default/two",
        "delete pods default/one",
        "delete pods default/two",
        "create pods/eviction default/one",
        "apply pods/status default/one",
    ];
    assert_eq!(cluster.summary(), expected);
    cluster.forget();
    assert!(cluster.sent().is_empty());
    assert!(getter.fetch(&key("one")).await?.is_some(), "requests do not change the cluster");
    Ok(())
}

#[tokio::test]
async fn a_generated_name_does_not_conflict_with_an_object_that_is_named_as_its_prefix() -> Result<()> {
    let cluster = FakeCluster::new();
    let made = cluster.put::<Secret>(&named("made"))?;
    let creator: Creator<Secret> = cluster.arguments(&made).take();
    let mut generated = Secret::default();
    generated.metadata.generate_name = Some("made".to_owned());
    assert_ne!(creator.create(&generated).await?.name_any(), "made");
    Ok(())
}

#[tokio::test]
async fn a_rejection_names_the_resource_with_its_group() -> Result<()> {
    let cluster = FakeCluster::new();
    let deployment = cluster.put::<Deployment>(&named("web"))?;
    let arguments = cluster.arguments(&deployment);
    let creator: Creator<Deployment> = arguments.take();
    let rejected = creator.create(&named("web")).await.unwrap_err();
    assert!(chain(&rejected).contains("deployments.apps \"web\" already exists"), "{rejected:?}");
    let patcher: Patcher<Deployment> = arguments.take();
    let rejected = patcher.patch(&key("other"), PatchBody::merge(json!({}))).await.unwrap_err();
    assert!(chain(&rejected).contains("deployments.apps \"other\" not found"), "{rejected:?}");
    Ok(())
}

#[tokio::test]
async fn the_response_to_an_apply_has_the_status_of_the_existing_object() -> Result<()> {
    let cluster = FakeCluster::new();
    let mut pod: Pod = named("one");
    pod.status =
        Some(k8s_openapi::api::core::v1::PodStatus { phase: Some("Running".to_owned()), ..Default::default() });
    let pod = cluster.put(&pod)?;
    let applier: Applier<Pod> = cluster.arguments(&pod).take();
    let applied = applier.apply(&named("one")).await?;
    assert_eq!((&applied.status, applied.uid()), (&pod.status, pod.uid()));
    assert_ne!(applied.resource_version(), pod.resource_version());
    let applied = applier.apply(&named("two")).await?;
    assert!(applied.status.is_none() && applied.uid() != pod.uid());
    Ok(())
}

#[tokio::test]
async fn a_test_sets_the_requests_that_are_rejected() -> Result<()> {
    let cluster = FakeCluster::new();
    let config = cluster.put::<ConfigMap>(&named("one"))?;
    cluster.reply(|sent| (sent.verb == "create").then(|| Reply::rejected(403, "Forbidden", "exceeded quota: secrets")));
    cluster.reply(|sent| {
        (sent.verb == "get" && sent.resource == "secrets").then(|| Reply::object(&named::<Secret>("it")))
    });
    let arguments = cluster.arguments(&config);
    let creator: Creator<Secret> = arguments.take();
    let rejected = creator.create(&named("one")).await.unwrap_err();
    assert!(rejected.is_forbidden() && chain(&rejected).contains("exceeded quota"), "{rejected:?}");
    let getter: Getter<Secret> = arguments.take();
    assert_eq!(getter.fetch(&key("any")).await?.unwrap().name_any(), "it");
    cluster.reply(|sent| (sent.verb == "get").then(|| Reply::rejected(404, "NotFound", "gone")));
    assert_eq!(getter.fetch(&key("any")).await?, None, "the last reply is used first");
    Ok(())
}

#[tokio::test]
async fn a_response_that_is_not_an_object_is_an_error_of_each_verb() -> Result<()> {
    let cluster = FakeCluster::new();
    let pod = cluster.put::<Pod>(&named("one"))?;
    // A proxy that requires a login responds with the code 200.
    cluster.reply(|_| Some(Reply::object(&"<html>log in</html>")));
    let arguments = cluster.arguments(&pod);
    let running = k8s_openapi::api::core::v1::PodStatus { phase: Some("Running".to_owned()), ..Default::default() };
    let failed = [
        arguments.take::<Getter<Pod>, _>().fetch(&key("one")).await.map(drop),
        arguments.take::<Creator<Secret>, _>().create(&named("made")).await.map(drop),
        arguments.take::<Patcher<Pod>, _>().patch_object(&pod, PatchBody::merge(json!({}))).await.map(drop),
        arguments.take::<StatusWriter<Pod>, _>().apply_status(&pod, &running).await.map(drop),
        arguments.take::<Deleter<Pod>, _>().delete_object(&pod).await,
        arguments.take::<Evictor, _>().evict(&pod).await,
    ];
    for ended in failed {
        let error = ended.unwrap_err();
        assert!(matches!(error, AccessError::Unanswered { .. }), "{error:?}");
        assert!(error.to_string().contains("no response from the API server: not a Kubernetes object"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn an_object_that_was_not_read_is_not_written_as_unchanged() -> Result<()> {
    let cluster = FakeCluster::new();
    let pod = cluster.put::<Pod>(&named("one"))?;
    let mut built: Pod = named("one");
    built.metadata.namespace = Some("default".to_owned());
    let arguments = cluster.arguments(&pod);
    let (pods, statuses): (Deleter<Pod>, StatusWriter<Pod>) = (arguments.take(), arguments.take());
    let running = k8s_openapi::api::core::v1::PodStatus { phase: Some("Running".to_owned()), ..Default::default() };
    for version in [None, Some(String::new())] {
        built.metadata.resource_version = version;
        let deleted = pods.delete_unchanged(&built).await;
        let applied = statuses.apply_status_unchanged(&built, &running).await.map(drop);
        for error in [deleted.unwrap_err(), applied.unwrap_err()] {
            assert!(error.to_string().starts_with("Pod `default/one` has no resource version"), "{error}");
        }
    }
    assert!(cluster.summary().is_empty());
    pods.delete_unchanged(&pod).await?;
    assert!(statuses.apply_status_unchanged(&pod, &running).await?);
    Ok(())
}

/// Replies to requests by their number, from 0. Returns how many were sent.
fn reply_by_number(
    cluster: &FakeCluster,
    reply: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static,
) -> Arc<AtomicUsize> {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    cluster.reply(move |_| reply(counted.fetch_add(1, Ordering::Relaxed)));
    sent
}

#[tokio::test]
async fn an_edit_begins_again_if_another_object_has_the_name_by_then() -> Result<()> {
    let cluster = FakeCluster::new();
    let config = cluster.put::<ConfigMap>(&named("one"))?;
    let replaced = "Precondition failed: UID in precondition: 1, UID in object meta: 2";
    let sent = reply_by_number(&cluster, |number| (number == 1).then(|| Reply::rejected(409, "Conflict", replaced)));
    let configs: Patcher<ConfigMap> = cluster.arguments(&config).take();
    let edit = |config: &mut ConfigMap| {
        config.data.get_or_insert_default().insert("a".to_owned(), "b".to_owned());
    };
    let edited = configs.edit(&key("one"), edit).await?;
    assert_eq!(edited.data.unwrap()["a"], "b");
    assert_eq!(sent.load(Ordering::Relaxed), 4, "both times it was read, too");
    Ok(())
}

#[tokio::test]
async fn a_creation_is_sent_again_after_a_conflict_of_a_quota() -> Result<()> {
    let cluster = FakeCluster::new();
    let config = cluster.put::<ConfigMap>(&named("one"))?;
    let sent = reply_by_number(&cluster, |number| {
        let status = json!({
            "status": "Failure", "code": 409, "reason": "Conflict",
            "message": "Operation cannot be fulfilled on resourcequotas \"all\": the object has been modified; please \
                        apply your changes to the latest version and try again",
            "details": {"name": "all", "kind": "resourcequotas"},
        });
        (number % 3 < 2).then(|| Reply::status(&serde_json::from_value(status).unwrap()))
    });
    let arguments = cluster.arguments(&config);
    arguments.take::<Creator<Secret>, _>().create(&named("made")).await?;
    arguments.take::<OwnedApplier<Secret>, _>().apply_owned(&config, &named("child")).await?;
    assert_eq!(sent.load(Ordering::Relaxed), 6);
    Ok(())
}

#[tokio::test]
async fn a_child_that_a_webhook_denies_is_not_taken_for_one_that_exists() -> Result<()> {
    let cluster = FakeCluster::new();
    let config = cluster.put::<ConfigMap>(&named("one"))?;
    let denied = "admission webhook \"lamps.example.com\" denied the request: it is still lit";
    cluster.reply(move |_| Some(Reply::rejected(409, "Conflict", denied)));
    let secrets: OwnedApplier<Secret> = cluster.arguments(&config).take();
    let error = secrets.apply_owned(&config, &named("child")).await.unwrap_err();
    assert!(matches!(error, AccessError::Rejected(_)) && error.to_string().contains("still lit"), "{error:?}");
    assert_eq!(cluster.summary(), ["apply secrets default/child"]);
    Ok(())
}

#[tokio::test]
async fn a_reader_returns_the_objects_at_the_time_of_the_call() -> Result<()> {
    let cluster = FakeCluster::new();
    let namespace = cluster.put::<Namespace>(&named("shop"))?;
    let secrets: Reader<Secret> = cluster.arguments(&namespace).take();
    assert_eq!(secrets.list().count(), 0);
    let mut secret: Secret = named("one");
    secret.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
    let first = cluster.put(&secret)?;
    let second = cluster.put(&secret)?;
    assert_eq!(secrets.select(by::label("tier", "web")).count(), 1);
    assert_eq!(first.uid(), second.uid(), "an object that is put again is the same one");
    assert_ne!(first.resource_version(), second.resource_version());
    cluster.remove::<Secret>(&key("one"));
    cluster.remove::<Secret>(&key("one"));
    assert!(secrets.get(&key("one"))?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_cluster_scoped_object_has_no_namespace() -> Result<()> {
    let cluster = FakeCluster::new();
    let namespace = cluster.put::<Namespace>(&named("shop"))?;
    assert_eq!(namespace.namespace(), None);
    let arguments = cluster.arguments(&namespace);
    let getter: Getter<Namespace> = arguments.take();
    assert!(getter.fetch(&ObjectKey::cluster_scoped("shop")).await?.is_some());
    let statuses: StatusWriter<Namespace> = arguments.take();
    let active = k8s_openapi::api::core::v1::NamespaceStatus { phase: Some("Active".to_owned()), ..Default::default() };
    assert!(statuses.apply_status(&namespace, &active).await?);
    let creator: Creator<Secret> = arguments.take();
    assert!(creator.create(&named("one")).await.is_err(), "it has no namespace");
    assert_eq!(cluster.summary(), ["get namespaces shop", "apply namespaces/status shop"]);
    Ok(())
}

#[tokio::test]
async fn a_controller_of_metadata_receives_the_metadata_of_an_object() -> Result<()> {
    async fn label(pod: Arc<PartialObjectMeta<Pod>>, patcher: Patcher<Pod>) -> Result<()> {
        let key = ObjectKey::new(pod.namespace().as_deref(), &pod.name_any());
        patcher.patch(&key, PatchBody::merge(json!({"metadata": {"labels": {"seen": "true"}}}))).await?;
        Ok(())
    }
    let cluster = FakeCluster::new();
    cluster.put::<Pod>(&named("one"))?;
    let controller = Controller::builder::<Pod>("label").metadata_only().handler(label).build()?;
    assert_eq!(cluster.reconcile(&controller, &key("one")).await?, Action::done());

    let pod = cluster.put::<PartialObjectMeta<Pod>>(&named("two"))?;
    let arguments = cluster.arguments(&pod);
    label(pod.clone(), arguments.take()).await?;
    assert_eq!(cluster.summary(), ["patch pods default/one", "patch pods default/two"]);
    Ok(())
}

#[tokio::test]
async fn an_object_without_a_name_is_rejected() {
    let cluster = FakeCluster::new();
    assert!(cluster.put(&Pod::default()).is_err());
    assert!(cluster.put::<Namespace>(&named("")).is_err());
    let arguments = cluster.arguments(&cluster.put::<Pod>(&named("one")).unwrap());
    let applied = arguments.take::<Applier<Secret>, _>().apply(&named("")).await.unwrap_err();
    assert_eq!(applied.to_string(), "a Secret to write has no name: set `metadata.name`");
    let got = arguments.take::<Getter<Secret>, _>().fetch(&key("")).await.unwrap_err();
    assert_eq!(got.to_string(), "the key `default/` of a Secret has no name: pass that of an object");
    assert!(cluster.summary().is_empty());
}

#[tokio::test]
async fn a_call_has_its_attempt_and_can_be_cancelled() -> Result<()> {
    let cluster = FakeCluster::new();
    let pod = cluster.put::<Pod>(&named("one"))?;
    let arguments = cluster.arguments(&pod).attempt(3);
    let call: Call = arguments.take();
    assert_eq!((call.attempt(), call.key(), call.reasons().to_string().as_str()), (3, &key("one"), "retry"));
    assert!(!call.is_cancelled());
    arguments.cancel();
    call.cancelled().await;
    Ok(())
}

#[tokio::test]
async fn a_request_without_a_response_is_an_error() -> Result<()> {
    let cluster = FakeCluster::new();
    let pod = cluster.put::<Pod>(&named("one"))?;
    let client: Client = cluster.arguments(&pod).take();
    let pods = Api::<Pod>::default_namespaced(client);
    assert_eq!(pods.get("one").await?, *pod);
    let error = pods.list(&kube::api::ListParams::default()).await.unwrap_err().to_string();
    assert!(error.contains("this cluster has no response to `list pods default/`"), "{error}");
    Ok(())
}

#[tokio::test]
async fn requests_of_many_tasks_are_all_recorded() -> Result<()> {
    let cluster = FakeCluster::new();
    let pod = cluster.put::<Pod>(&named("one"))?;
    let applier: Applier<ConfigMap> = cluster.arguments(&pod).take();
    let apply = |number: usize| {
        let applier = applier.clone();
        async move { applier.apply(&named(&format!("config-{number}"))).await }
    };
    let applied: Vec<_> = futures_util::future::try_join_all((0..500).map(apply)).await?;
    let versions: std::collections::HashSet<_> = applied.iter().map(ResourceExt::resource_version).collect();
    assert_eq!((versions.len(), cluster.written::<ConfigMap>()?.len()), (500, 500));
    Ok(())
}

const FINALIZER: &str = "example.com/services";

/// A controller with everything around its handler.
fn whole(built: &Arc<AtomicUsize>) -> Controller {
    let built = built.clone();
    let init = move || {
        built.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok::<_, HandlerError>("state".to_owned()))
    };
    async fn handle(service: Arc<Service>, secrets: OwnedApplier<Secret>, state: State<String>) -> Result<Action> {
        let mut secret: Secret = named(&service.name_any());
        secret.string_data = Some([("state".to_owned(), String::clone(&state))].into());
        secrets.apply_owned(&service, &secret).await?;
        Ok(Action::requeue_after(Duration::from_secs(60)))
    }
    async fn clean_up(service: Arc<Service>, pods: Deleter<Pod>) -> Result<()> {
        pods.delete(&key(&service.name_any())).await?;
        Ok(())
    }
    let builder = Controller::builder::<Service>("services").init(init).cleanup(FINALIZER, clean_up);
    builder.when(|service: &Service| service.name_any() != "ignored").handler(handle).build().unwrap()
}

#[tokio::test]
async fn a_controller_is_called_as_a_worker_calls_it() -> Result<()> {
    let (cluster, built) = (FakeCluster::new(), Arc::default());
    let controller = whole(&built);
    let service = cluster.put::<Service>(&named("web"))?;
    let action = cluster.reconcile(&controller, &key("web")).await?;
    assert_eq!(action, Action::requeue_after(Duration::from_secs(60)));
    assert_eq!(cluster.summary(), ["patch services default/web", "apply secrets default/web"]);
    assert_eq!(cluster.sent()[0].body["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(cluster.sent()[1].field_manager.as_deref(), Some("test/services"));

    cluster.forget();
    let mut deleted = (*service).clone();
    deleted.metadata.finalizers = Some(vec![FINALIZER.to_owned(), "example.com/other".to_owned()]);
    deleted.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    cluster.put(&deleted)?;
    assert_eq!(cluster.reconcile(&controller, &key("web")).await?, Action::done());
    assert_eq!(cluster.summary(), ["delete pods default/web", "patch services default/web"]);
    assert_eq!(cluster.sent()[1].body["metadata"]["finalizers"], json!(["example.com/other"]));
    assert_eq!(built.load(Ordering::Relaxed), 1, "the state is built once");
    Ok(())
}

#[tokio::test]
async fn a_controller_is_not_called_for_filtered_and_absent_objects() -> Result<()> {
    let cluster = FakeCluster::new();
    let controller = whole(&Arc::default());
    cluster.put::<Service>(&named("ignored"))?;
    assert_eq!(cluster.reconcile(&controller, &key("ignored")).await?, Action::done());
    assert!(cluster.summary().is_empty());
    let error = cluster.reconcile(&controller, &key("absent")).await.unwrap_err().to_string();
    assert_eq!(error, "the cluster has no Service `default/absent`: add it with `put` first");
    Ok(())
}

#[tokio::test]
async fn a_failed_cleanup_keeps_the_finalizer() -> Result<()> {
    let cluster = FakeCluster::new();
    let mut service: Service = named("web");
    service.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    service.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    cluster.put(&service)?;
    cluster.reply(|sent| (sent.verb == "delete").then(|| Reply::rejected(500, "InternalError", "not now")));
    let error = cluster.reconcile(&whole(&Arc::default()), &key("web")).await.unwrap_err();
    assert!(chain(&*error).contains("not now"), "{error:?}");
    assert_eq!(cluster.summary(), ["delete pods default/web"]);
    Ok(())
}
