//! Several namespaces, some of which cannot be watched.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::{Controller, KindExt};
use kooper_tests::control_plane::ControlPlane;

use crate::live::{HandledStates, Live, configmap, connection, grant, record};

fn controller(name: &str, namespaces: &[&str], seen: &HandledStates) -> Controller {
    let builder = Controller::builder::<ConfigMap>(name).namespaces(namespaces.iter().copied()).resync(None);
    builder.owns(Secret::all()).state(seen.clone()).handler(record).build().unwrap()
}

#[test]
fn a_missing_or_forbidden_namespace_does_not_stop_the_others_and_is_handled_once_it_can_be_watched() {
    let [open, missing] = ["namespaces-open", "namespaces-missing"];
    let grants = [grant(open, "", "configmaps"), grant(open, "", "secrets")];
    let objects = grants.into_iter().flatten().chain([configmap(open, "open", "1")]);
    let Some(cluster) = ControlPlane::shared_in(open, objects) else { return };

    let seen = HandledStates::default();
    let controllers = [controller("several", &[open, missing], &seen)];
    let live = Live::start(connection(cluster.limited_kubeconfig(), None), controllers);
    seen.wait_for(&[("open", "1")]);
    let left_out =
        |resource: &str| format!("several: {resource} in {missing}: left out until it can be watched: not allowed: ");
    live.wait_for_ready(true, &[&left_out("configmaps"), &left_out("secrets")]);

    // The namespace exists, but only half of the rules are granted. Its keys wait, because the children cannot be read.
    cluster.must(&["create", "namespace", missing]);
    cluster.apply([configmap(missing, "late", "1")]);
    cluster.apply(grant(missing, "", "configmaps"));
    let objects = cluster.must(&["get", "configmaps", "--output=name", "--namespace", open]).lines().count() + 1;
    live.wait_for_metric("kooper_store_objects{controller=\"several\"}", |stored| stored >= objects as f64);
    cluster.apply([configmap(missing, "late", "2"), configmap(open, "open", "2")]);
    seen.wait_for(&[("open", "2")]);
    live.wait_for_ready(true, &[&left_out("secrets")]);
    assert_eq!(seen.of("late"), None);

    cluster.apply(grant(missing, "", "secrets"));
    seen.wait_for(&[("late", "2")]);
    live.wait_for_ready(true, &["ok"]);
    cluster.apply([configmap(missing, "late", "3")]);
    seen.wait_for(&[("late", "3")]);
    live.stop();
}

#[test]
fn a_program_without_a_watchable_namespace_is_not_ready() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let (seen, none) = (HandledStates::default(), ["namespaces-none", "namespaces-nowhere"]);
    let live = Live::start(connection(cluster.limited_kubeconfig(), None), [controller("nowhere", &none, &seen)]);
    live.wait_for_ready(
        false,
        &["nowhere: none of its namespaces can be watched: ", "configmaps in namespaces-none", "in namespaces-nowhere"],
    );
    assert!(live.is_alive());
    live.stop();
}
