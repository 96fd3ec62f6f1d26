//! Children of slots that were removed from the program.

use std::sync::Arc;

use super::super::provided;
use super::scene::{NONE, ONCE, Scene, applied, chain, id, slot, waiting};
use crate::graph::{Flags, PreviousKind, SlotSpec};
use crate::observed::{Child, ChildId, Run, Write};

/// Lists a kind as a previous one.
fn listing(scene: Scene, resource: &str) -> Scene {
    let kind = PreviousKind { kind: "ConfigMap".to_owned(), resource: resource.into() };
    Scene { graph: scene.graph.with_previous(vec![kind]), ..scene }
}

/// Two slots with their children, and the children of two that were removed.
fn left() -> Scene {
    let scene = chain(NONE).child("c", "config", 0).child("w", "web", 1);
    let scene = scene.child("dns", "dns", 2).child("front", "front", 3).child("other", "other", 3);
    listing(scene.returned(0, &[("c", applied())]).returned(1, &[("w", applied())]), "configmaps")
}

fn going(child: &mut Child) {
    child.is_terminating = true;
}

fn keep(child: &mut Child) {
    child.label.iter_mut().for_each(|label| label.keep = true);
}

#[test]
fn they_are_pruned_from_the_deepest_on_if_their_kind_is_listed() {
    let scene = left();
    assert_eq!(scene.steps(), ["prune front at 7", "prune other at 7"]);
    let mut scene = scene.change("front", going).change("other", going);
    assert!(scene.steps().is_empty(), "they may still use the other one");
    scene.observed.children.retain(|id, _| !["front", "other"].contains(&&*id.name));
    assert_eq!(scene.steps(), ["prune dns at 7"]);
    let unlisted = listing(chain(NONE).child("front", "front", 3), "secrets");
    let unlisted = unlisted.returned(0, &[]).returned(1, &[]);
    assert!(unlisted.steps().is_empty());
}

#[test]
fn they_are_pruned_also_if_no_slot_is_left() {
    let scene = Scene::new(Vec::new()).child("front", "front", 3).child("dns", "dns", 2);
    assert!(scene.steps().is_empty());
    assert_eq!(listing(scene, "configmaps").steps(), ["prune front at 7"]);
}

#[test]
fn they_stay_until_all_slots_are_applied_and_ready_and_nothing_else_is_pruned() {
    let changed = |change: fn(Scene) -> Scene| {
        let steps = change(left()).steps();
        steps.into_iter().filter(|step| step.starts_with("prune")).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(changed(|scene| scene.run(1, Run::NotCalled)), none);
    assert_eq!(changed(|scene| scene.run(1, Run::Failed("no".to_owned()))), none);
    assert_eq!(changed(|scene| scene.run(1, Run::Waits("no".to_owned()))), none);
    assert_eq!(changed(|scene| scene.returned(1, &[("w", Write::Pending)])), none);
    assert_eq!(changed(|scene| scene.returned(1, &[("w", Write::Refused("quota".to_owned()))])), none);
    assert_eq!(changed(|scene| scene.returned(1, &[("w", Write::Immutable("no".to_owned()))])), none);
    assert_eq!(changed(|scene| scene.change("w", |child| child.readiness = waiting())), none);
    assert_eq!(changed(|scene| scene.child("old", "web", 1)), ["prune old at 7"]);
    assert_eq!(changed(|scene| scene.child("old", "web", 1).change("old", going)), none);
    let not_ready = Flags { not_ready: true, ..NONE };
    let mut scene = Scene::new(vec![slot("config", &[], not_ready)]).child("c", "config", 0).child("dns", "dns", 2);
    scene = scene.change("c", |child| child.readiness = waiting()).returned(0, &[("c", applied())]);
    assert_eq!(listing(scene, "configmaps").steps(), ["prune dns at 7"], "this slot does not count");
}

#[test]
fn a_child_that_a_renamed_function_returns_gets_its_label_and_stays() {
    let renamed = |write: Write| {
        let scene = chain(NONE).child("c", "former", 0).child("w", "web", 1);
        listing(scene.returned(0, &[("c", write)]).returned(1, &[("w", applied())]), "configmaps").steps()
    };
    assert_eq!(renamed(Write::Pending), ["apply c as config 0"]);
    assert!(renamed(applied()).is_empty(), "a policy has changed the label");
}

#[test]
fn what_is_kept_and_the_children_of_others_stay() {
    let changed = |change: fn(&mut Child)| {
        let scene = left().change("front", change).change("other", change);
        assert_eq!(scene.steps(), ["prune dns at 7"], "nothing waits for what stays");
        scene.plan().kept
    };
    let kept = ["front", "other"].map(|name| (Arc::from(name), id(name)));
    assert_eq!(changed(|child| child.is_protected = true), kept);
    assert_eq!(changed(|child| child.is_kept = true), kept);
    assert_eq!(changed(keep), kept);
    let foreign = |child: &mut Child| (child.label, child.is_foreign) = (None, true);
    assert_eq!(changed(foreign), []);
    assert_eq!(changed(|child| child.label = None), [], "the handler has applied it");
}

#[test]
fn no_event_is_recorded_of_what_is_kept_while_a_slot_is_held() {
    let held = left().change("front", |child| child.is_kept = true);
    assert_eq!(held.run(1, Run::Waits("no".to_owned())).plan().kept, []);
}

#[test]
fn a_deletion_that_is_refused_is_sent_once_in_a_pass() {
    let mut scene = left();
    scene.observed.refused.insert(id("front"), "forbidden".to_owned());
    assert_eq!(scene.steps(), ["prune other at 7"]);
}

#[test]
fn the_first_child_that_is_refused_or_does_not_end_is_named() {
    let scene = left();
    assert_eq!(scene.plan().undeleted, None, "it is about to be deleted");
    let mut scene = scene.change("front", going).change("other", going);
    assert_eq!(scene.plan().undeleted, Some((id("front"), None)));
    scene.observed.refused.insert(id("other"), "forbidden".to_owned());
    assert_eq!(scene.plan().undeleted, Some((id("other"), Some("forbidden".to_owned()))));
    let scene = scene.change("front", keep).change("other", keep);
    assert_eq!(scene.plan().undeleted, None, "they stay");
    let held = left().change("front", going).run(1, Run::Waits("no".to_owned()));
    assert_eq!(held.plan().undeleted, None, "its turn has not come");
}

#[test]
fn they_are_part_of_the_waves_and_released_if_their_slot_has_kept_them() {
    let scene = left().while_deleting();
    assert_eq!(scene.steps(), ["wave 3: front at any version", "wave 3: other at any version"]);
    let adopted = scene.change("other", |child| child.is_kept = true);
    assert_eq!(adopted.change("front", keep).steps(), ["release front", "wave 3: other at any version"]);
}

/// A slot whose children were ConfigMaps in another version of the program, and are Secrets now, with the old child.
fn of_another_kind() -> Scene {
    let password = SlotSpec { resource: "secrets".into(), ..slot("password", &[], ONCE) };
    Scene::new(vec![password, slot("web", &["password"], NONE)]).child("old", "password", 0)
}

#[test]
fn the_child_of_a_slot_that_had_another_kind_is_not_one_of_the_slot() {
    let scene = of_another_kind();
    assert_eq!(scene.steps(), ["call 0"]);
    assert!(provided(&scene.graph, &scene.observed, 0).is_empty());
    let mut scene = scene.returned(1, &[]);
    let (old, secret) = (id("old"), ChildId { resource: "secrets".into(), ..id("new") });
    scene.observed.children.insert(secret.clone(), scene.observed.children[&old].clone());
    assert_eq!(provided(&scene.graph, &scene.observed, 0), [&secret]);
    assert!(scene.steps().is_empty(), "its kind is not listed");
    assert_eq!(listing(scene, "configmaps").steps(), ["prune old at 7"]);
}

#[test]
fn the_child_of_a_slot_that_had_another_kind_is_released_if_the_slot_has_kept_it() {
    let mut scene = of_another_kind();
    scene.graph = Scene::new(vec![scene.graph.nodes()[0].spec.clone()]).graph;
    let scene = scene.while_deleting();
    assert_eq!(scene.steps(), ["wave 0: old at any version"]);
    assert_eq!(scene.change("old", keep).steps(), ["release old"]);
}
