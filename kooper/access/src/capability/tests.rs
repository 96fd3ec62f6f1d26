use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};

use super::*;
use crate::plan::Reach;
use crate::{Controller, KindExt};

/// The rules of a controller, with where they have to hold, in order.
fn rules(controller: &Controller) -> Vec<String> {
    let needs = controller.plan().needs().iter();
    let mut rules: Vec<_> = needs
        .map(|need| match &need.reach {
            Reach::Watched => need.rule.to_string(),
            reach => format!("{} {reach:?}", need.rule),
        })
        .collect();
    rules.sort();
    rules
}

#[test]
fn each_argument_adds_its_rules() {
    async fn all(
        _: Getter<Secret>,
        _: Creator<Secret>,
        _: Patcher<Secret>,
        _: Deleter<Secret>,
        _: Evictor,
        _: StatusWriter<Pod>,
    ) {
    }
    let controller = Controller::builder::<ConfigMap>("all").handler(all).build().unwrap();
    let expected = [
        "configmaps: list, watch",
        "events: create, patch",
        "pods/eviction: create",
        "pods/status: patch",
        "secrets: create",
        "secrets: delete",
        "secrets: get",
        "secrets: patch",
    ];
    assert_eq!(rules(&controller), expected);
}

#[test]
fn children_add_the_rules_for_owner_references_and_events() {
    async fn apply(_: Applier<Secret>) {}
    async fn apply_owned(_: OwnedApplier<Secret>) {}
    let controller = Controller::builder::<ConfigMap>("apply").handler(apply).build().unwrap();
    assert_eq!(rules(&controller), ["configmaps: list, watch", "events: create, patch", "secrets: create, patch"]);
    let controller = Controller::builder::<ConfigMap>("apply").owns(Secret::all()).handler(apply).build().unwrap();
    let expected = [
        "configmaps/finalizers: update",
        "configmaps: list, watch",
        "events.k8s.io/events: create, patch",
        "events: create, patch",
        "secrets: create, patch",
        "secrets: list, watch",
    ];
    assert_eq!(rules(&controller), expected);
    let controller = Controller::builder::<ConfigMap>("apply").handler(apply_owned).build().unwrap();
    assert_eq!(rules(&controller), expected);
}

#[test]
fn children_that_are_named_several_times_are_watched_once() {
    async fn twice(_: OwnedApplier<Secret>, _: Reader<Secret>, _: OwnedApplier<Secret>) {}
    async fn clean_up(_: OwnedApplier<Secret>) {}
    let builder = Controller::builder::<ConfigMap>("twice").owns(Secret::all()).cleanup("example.com/twice", clean_up);
    let controller = builder.owns(Secret::all()).handler(twice).build().unwrap();
    assert_eq!(controller.plan().owned().len(), 1);
    assert_eq!(controller.plan().caches().count(), 1);
}

#[test]
fn events_about_cluster_scoped_objects_are_in_default() {
    async fn record(_: Recorder) {}
    let controller = Controller::builder::<Node>("record").handler(record).build().unwrap();
    let expected = [
        "events.k8s.io/events: create, patch Namespace(\"default\")",
        "events: create, patch Namespace(\"default\")",
        "nodes: list, watch Cluster",
    ];
    assert_eq!(rules(&controller), expected);
}
