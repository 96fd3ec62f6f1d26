//! The Kubernetes Events that a replica records on its Lease.

use std::time::Duration;

use kooper::kube::Client;
use kooper::kube::client::Body;
use kooper_tests::wait::eventually;

use super::replica::{Replica, cluster, wait_for, writer};
use crate::fixture::Log;
use crate::live::connection;

/// A client that delays writes of Events.
fn slow(client: Client) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            if request.uri().path().ends_with("/events") {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

#[test]
fn a_stop_waits_until_the_last_event_is_recorded_on_the_lease() {
    let namespace = "leader-last-word";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let controller = writer("writer", namespace, "first", &log).build().unwrap();
    let replica = Replica::with(connection(cluster.kubeconfig(), None), [controller], |operator, client| {
        operator.lease_client(client.clone()).client(slow(client))
    });
    wait_for(&log, "first wrote");
    let place = format!("--namespace={namespace}");
    let recorded = |message: &str| {
        let path = "--output=jsonpath={.items[*].message}";
        // As `kubectl describe` finds them.
        let uid = cluster.must(&["get", "lease", "shop-writer", &place, "--output=jsonpath={.metadata.uid}"]);
        let object = format!("involvedObject.name=shop-writer,involvedObject.uid={uid}");
        let selector = format!("--field-selector={object},reason=LeaderElection");
        cluster.must(&["get", "events", &place, &selector, path]).contains(message)
    };
    eventually("the Event of the new leader", || recorded(" became leader"));
    replica.stop();
    assert!(recorded(" stopped leading"), "recorded before the replica ended");
}
