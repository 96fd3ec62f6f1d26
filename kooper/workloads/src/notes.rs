//! The Kubernetes Events of a pod, as the scheduler and the kubelet of a cluster record them.

use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::api::events::v1 as events;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::Resource as _;

use kooper_access::Creator;
use kooper_runtime::internal::clock;

/// The scheduler and the kubelet as clients see them.
const SCHEDULER: &str = "default-scheduler";
const KUBELET: &str = "kubelet";

/// Records what the scheduler has decided.
pub(super) async fn of_scheduler(notes: &Creator<events::Event>, pod: &Pod, failed: bool, note: String) {
    let (reason, action) = if failed { ("FailedScheduling", "Scheduling") } else { ("Scheduled", "Binding") };
    let event = events::Event {
        metadata: metadata(pod),
        event_time: Some(MicroTime(clock::wall())),
        type_: Some(kind(failed).to_owned()),
        reason: Some(reason.to_owned()),
        action: Some(action.to_owned()),
        note: Some(note),
        regarding: Some(pod.object_ref(&())),
        reporting_controller: Some(SCHEDULER.to_owned()),
        reporting_instance: Some(format!("{SCHEDULER}-simulated")),
        ..events::Event::default()
    };
    // An Event that is refused, as in a namespace that is being deleted, stops nothing.
    drop(notes.create(&event).await);
}

/// Records what the kubelet does with a container.
pub(super) async fn of_kubelet(notes: &Creator<Event>, pod: &Pod, container: &str, reason: &str, message: String) {
    let field = |list: &str| format!("spec.{list}{{{container}}}");
    let initial =
        pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).any(|one| one.name == container);
    let field_path = field(if initial { "initContainers" } else { "containers" });
    let now = Time(clock::wall());
    let host = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let event = Event {
        metadata: metadata(pod),
        type_: Some(kind(false).to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        involved_object: ObjectReference { field_path: Some(field_path), ..pod.object_ref(&()) },
        source: Some(EventSource { component: Some(KUBELET.to_owned()), host: host.clone() }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        reporting_component: Some(KUBELET.to_owned()),
        reporting_instance: host,
        ..Event::default()
    };
    drop(notes.create(&event).await);
}

fn kind(warning: bool) -> &'static str {
    if warning { "Warning" } else { "Normal" }
}

/// A name that no other Event has, in the namespace of the pod.
fn metadata(pod: &Pod) -> ObjectMeta {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let number = u128::from(LAST.fetch_add(1, Ordering::Relaxed)) & 0xffff;
    let moment = u128::try_from(clock::wall().as_nanosecond()).unwrap_or_default();
    // The number takes the place of the last 65 µs, as a clock may show the same moment twice, or an earlier one.
    let name = format!("{pod_name}.{:x}", moment & !0xffff | number);
    ObjectMeta { name: Some(name), namespace: pod.metadata.namespace.clone(), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kooper_apiserver::ApiServer;
    use kube::api::{Api, DeleteParams, ListParams, PostParams};
    use serde_json::json;

    use super::*;
    use crate::Simulation;

    /// Who recorded what for these reasons, in order, when there are so many.
    async fn recorded(events: &Api<Event>, reasons: &[&str], count: usize) -> Vec<(String, String, String)> {
        let mut all = Vec::new();
        for _ in 0..1000 {
            all = events.list(&ListParams::default()).await.unwrap().items;
            let mut found = all.clone();
            found.retain(|event| event.reason.as_deref().is_some_and(|reason| reasons.contains(&reason)));
            if found.len() >= count {
                // The versions are in the order of the writes.
                found.sort_by_key(|event| {
                    event.metadata.resource_version.as_ref().and_then(|text| text.parse::<u64>().ok())
                });
                let shown = |event: Event| {
                    let source = event.source.and_then(|source| source.component);
                    let by = source.or(event.reporting_component).unwrap_or_default();
                    (by, event.reason.unwrap_or_default(), event.message.unwrap_or_default())
                };
                return found.into_iter().map(shown).collect();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("there are no {count} Events for {reasons:?}: {all:#?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_has_the_events_of_its_life() {
        let server = ApiServer::start().await.unwrap();
        let simulation = Simulation::visible(&server);
        let pods = Api::<Pod>::default_namespaced(server.client());
        let container = json!({"name": "main", "image": "web:1"});
        let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [container]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let events = Api::<Event>::default_namespaced(server.client());
        let expected = [
            (SCHEDULER, "Scheduled", "Successfully assigned default/web to node-1"),
            (KUBELET, "Pulled", "Container image \"web:1\" already present on machine"),
            (KUBELET, "Created", "Container created"),
            (KUBELET, "Started", "Container started"),
            (KUBELET, "Killing", "Stopping container main"),
        ];
        let expected = expected.map(|(by, reason, message)| (by.to_owned(), reason.to_owned(), message.to_owned()));
        // Until the node is ready, the scheduler may have found none.
        let reasons = ["Scheduled", "Pulled", "Created", "Started", "Killing"];
        assert_eq!(recorded(&events, &reasons, 4).await, expected[..4]);
        pods.delete("web", &DeleteParams::default()).await.unwrap();
        assert_eq!(recorded(&events, &reasons, 5).await, expected);
        simulation.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_no_node_takes_has_one_event_that_says_why() {
        let server = ApiServer::start().await.unwrap();
        let simulation = Simulation::visible(&server);
        let pods = Api::<Pod>::default_namespaced(server.client());
        let container = json!({"name": "main", "image": "web:1"});
        let pod = json!({"metadata": {"name": "picky"}, "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [container]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let events = Api::<Event>::default_namespaced(server.client());
        recorded(&events, &["FailedScheduling"], 1).await;
        // The node renews its lease meanwhile, and the scheduler looks at the pod again.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let why = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
        let found = recorded(&events, &["FailedScheduling"], 1).await;
        assert_eq!(
            found.last().map(|(by, reason, message)| (&**by, &**reason, &**message)),
            Some((SCHEDULER, "FailedScheduling", why))
        );
        assert!(found.len() <= 2, "{found:?}");
        simulation.stop().await;
    }
}
