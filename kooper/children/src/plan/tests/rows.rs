//! The rows of the table of events, and the flags.

use super::super::{SlotState, provided};
use super::scene::{KEEP, NONE, ONCE, PRUNE, RECREATE, Scene, applied, chain, id, label, slot, waiting};
use crate::graph::{Flags, Recreate, Returns, SlotSpec};
use crate::observed::{Run, SlotLabel, Write};
use crate::readiness::Readiness;

#[test]
fn a_child_without_labels_is_kept_or_deleted_if_kubernetes_would_do_otherwise() {
    let keep = |resource: &str| {
        let config = SlotSpec { resource: "configmaps".into(), ..slot("config", &["web"], NONE) };
        let slots = vec![slot("web", &[], NONE), config];
        let kept = SlotSpec { resource: resource.into(), ..slot("kept", &[], KEEP) };
        let scene = Scene::new(slots.into_iter().chain([kept]).collect()).child("c", "config", 1);
        scene.change("c", |child| child.label = None).while_deleting()
    };
    let apart = |scene: Scene| scene.change("c", |child| child.is_apart = true);
    for scene in [keep("configmaps"), apart(keep("configmaps"))] {
        assert_eq!(scene.steps(), ["release c"], "it may be one that is kept");
    }
    assert_eq!(keep("secrets").steps(), Vec::<String>::new(), "Kubernetes deletes it");
    assert_eq!(apart(keep("secrets")).steps(), ["wave 1: c at any version"], "Kubernetes does not delete it");
    let foreign = apart(keep("secrets")).change("c", |child| child.is_foreign = true);
    assert_eq!(foreign.steps(), Vec::<String>::new(), "another controller deletes it");
}

#[test]
fn a_child_whose_annotation_keeps_it_is_never_deleted() {
    let kept = |scene: Scene| scene.change("c", |child| child.is_protected = true);
    let obsolete = |flags| Scene::new(vec![slot("config", &[], flags)]).child("c", "config", 0).returned(0, &[]);
    assert_eq!(obsolete(PRUNE).steps(), ["prune c at 7"]);
    assert_eq!(kept(obsolete(PRUNE)).steps(), Vec::<String>::new());
    assert_eq!(kept(obsolete(PRUNE)).plan().kept, [("config".into(), id("c"))]);
    let immutable = [("c", Write::Immutable("it is immutable".to_owned()))];
    let changed = kept(chain(RECREATE).child("c", "config", 0)).returned(0, &immutable);
    assert_eq!(changed.steps(), Vec::<String>::new());
    let why = "it is immutable; remove its annotation `kooper.rs/keep` to let it be created again";
    assert_eq!(changed.plan().slots[0], SlotState::Stalled(why.to_owned()));
    assert_eq!(kept(chain(NONE).child("c", "config", 0)).while_deleting().steps(), ["release c"]);
}

#[test]
fn a_child_that_is_being_deleted_is_given_to_others_only_if_there_is_no_other() {
    let scene = || chain(NONE).child("new", "config", 0).child("old", "config", 0);
    let going = |scene: Scene, name: &str| scene.change(name, |child| child.is_terminating = true);
    let given = |scene: &Scene| provided(&scene.graph, &scene.observed, 0).into_iter().cloned().collect::<Vec<_>>();
    let one = going(scene(), "old");
    assert_eq!(given(&one), [id("new")]);
    assert_eq!(given(&going(one, "new")), [id("new"), id("old")], "such as to a cleanup");
}

#[test]
fn a_function_that_fails_holds_what_depends_on_it_and_nothing_else() {
    let scene = Scene::new(vec![slot("config", &[], NONE), slot("web", &["config"], NONE), slot("alone", &[], NONE)]);
    let scene = scene.child("c", "config", 0).child("w", "web", 1).run(0, Run::Failed("no".to_owned()));
    assert_eq!(scene.steps(), ["call 2"]);
    let held = SlotState::Held("waits for config, which has failed".to_owned());
    assert_eq!(scene.plan().slots, [SlotState::Failed("no".to_owned()), held, SlotState::Pending]);
}

#[test]
fn a_slot_that_waits_is_held_without_failure_and_keeps_its_children() {
    let scene = chain(NONE).child("c", "config", 0).run(0, Run::Waits("no address".to_owned()));
    assert_eq!(scene.steps(), Vec::<String>::new());
    let held = "waits for config: no address".to_owned();
    assert_eq!(scene.plan().slots, [SlotState::Held("no address".to_owned()), SlotState::Held(held)]);
}

#[test]
fn a_child_is_created_when_its_input_is_ready_and_updated_before() {
    let created = |readiness: Readiness| {
        let scene = chain(NONE).child("c", "config", 0).returned(0, &[("c", applied())]);
        scene.change("c", |child| child.readiness = readiness)
    };
    assert_eq!(created(Readiness::Ready).steps(), ["call 1"]);
    assert!(created(waiting()).steps().is_empty());
    // Others would wait for a volume that is bound when one of their pods is scheduled.
    assert_eq!(created(Readiness::Usable("unbound".to_owned())).steps(), ["call 1"]);
    let update = created(waiting()).child("w", "web", 1);
    assert_eq!(update.steps(), ["call 1"]);
    assert_eq!(update.returned(1, &[("w", Write::Pending)]).steps(), ["apply w as web 1"]);
}

#[test]
fn what_follows_after_a_slot_waits_for_it_only_to_be_created() {
    let after = |scene: Scene| scene.returned(0, &[("c", applied())]);
    let new = || {
        let later = SlotSpec { after: vec!["config".to_owned()], ..slot("web", &[], NONE) };
        Scene::new(vec![slot("config", &[], NONE), later])
    };
    assert!(after(new()).steps().is_empty(), "config does not exist yet");
    assert_eq!(after(new().child("w", "web", 1)).steps(), ["call 1"]);
}

#[test]
fn a_child_that_was_deleted_is_created_again_when_it_is_gone() {
    let scene = chain(NONE).returned(0, &[("c", Write::Pending)]);
    assert_eq!(scene.steps(), ["apply c as config 0"]);
    let going = scene.child("c", "config", 0).change("c", |child| child.is_terminating = true);
    assert!(going.steps().is_empty());
    assert!(matches!(&going.plan().slots[0], SlotState::Held(why) if why.contains("is being deleted")));
}

#[test]
fn under_a_new_name_the_new_child_is_ready_before_the_old_one_is_pruned() {
    let renamed = |readiness: Readiness| {
        let scene = chain(NONE).child("old", "config", 0).child("new", "config", 0).child("w", "web", 1);
        let scene = scene.change("new", |child| child.readiness = readiness);
        scene.returned(0, &[("new", applied())]).returned(1, &[("w", applied())])
    };
    assert!(renamed(waiting()).steps().is_empty());
    assert_eq!(renamed(Readiness::Ready).steps(), ["prune old at 7"]);
    let unready = renamed(Readiness::Ready).change("w", |child| child.readiness = waiting());
    assert!(unready.steps().is_empty(), "web may still use the old one");
}

#[test]
fn recreation_deletes_the_old_child_before_the_new_one_is_created() {
    let flags = Flags { recreate: Some(Recreate::Orphan), ..NONE };
    let scene = chain(flags).child("old", "config", 0).returned(0, &[("new", Write::Pending)]);
    assert_eq!(scene.steps(), ["recreate old at 7"]);
    let gone = chain(flags).returned(0, &[("new", Write::Pending)]);
    assert_eq!(gone.steps(), ["apply new as config 0"]);
}

#[test]
fn what_a_list_with_recreate_no_longer_has_is_pruned_after_its_users() {
    for recreate in [Recreate::Foreground, Recreate::Orphan] {
        let many =
            SlotSpec { returns: Returns::Many, ..slot("config", &[], Flags { recreate: Some(recreate), ..NONE }) };
        let scene = Scene::new(vec![many, slot("web", &["config"], NONE)]);
        let scene = scene.child("a", "config", 0).child("b", "config", 0).child("w", "web", 1);
        let shrunk = scene.returned(0, &[("a", applied())]);
        assert_eq!(shrunk.steps(), ["call 1"], "web uses both");
        assert_eq!(shrunk.returned(1, &[("w", applied())]).steps(), ["prune b at 7"]);
    }
}

#[test]
fn a_slot_without_children_is_pruned_after_what_depends_on_it() {
    let maybe = |name: &str, inputs: &[&str]| SlotSpec { returns: Returns::Maybe, ..slot(name, inputs, NONE) };
    let both = || Scene::new(vec![maybe("config", &[]), maybe("web", &["config"])]).child("c", "config", 0);
    let scene = both().child("w", "web", 1).returned(0, &[]).returned(1, &[]);
    assert_eq!(scene.steps(), ["prune w at 7"]);
    let scene = scene.change("w", |child| child.is_terminating = true);
    assert!(scene.steps().is_empty(), "it still exists");
    assert_eq!(both().returned(0, &[]).returned(1, &[]).steps(), ["prune c at 7"]);
}

#[test]
fn what_is_kept_is_not_pruned() {
    let renamed = |flags: Flags| {
        let slots = vec![slot("config", &[], flags)];
        let scene = Scene::new(slots).child("old", "config", 0).child("new", "config", 0);
        scene.returned(0, &[("new", applied())])
    };
    assert!(renamed(KEEP).steps().is_empty());
    let adopted = |flags| renamed(flags).change("old", |child| child.is_kept = true);
    assert!(adopted(NONE).steps().is_empty());
    assert_eq!(adopted(PRUNE).steps(), ["prune old at 7"]);
    let adopt = Flags { adopt: true, ..NONE };
    assert!(adopted(adopt).steps().is_empty());
    assert_eq!(renamed(adopt).steps(), ["prune old at 7"], "the slot has created it");
}

#[test]
fn what_was_created_once_is_neither_made_nor_written_again() {
    assert_eq!(chain(ONCE).child("c", "config", 0).steps(), ["call 1"]);
    assert_eq!(chain(ONCE).steps(), ["call 0"]);
    // It is a child from before, of which only the function knows the name.
    let before = chain(ONCE).child("c", "config", 0).change("c", |child| child.label = None);
    assert_eq!(before.returned(0, &[("c", Write::Pending)]).steps()[0], "label c as config");
}

#[test]
fn a_child_in_another_namespace_is_taken_by_others_only_after_the_function_has_named_it() {
    let elsewhere = |scene: Scene| scene.child("a", "config", 0).change("a", |child| child.is_elsewhere = true);
    let given = |scene: &Scene| provided(&scene.graph, &scene.observed, 0).into_iter().cloned().collect::<Vec<_>>();
    let once = Flags { once: true, ..Flags::default() };
    let forged = elsewhere(chain(once));
    assert_eq!(forged.steps(), ["call 0"]);
    let named = forged.returned(0, &[("a", Write::Pending)]);
    assert_eq!((named.steps(), given(&named)), (vec!["call 1".to_owned()], vec![id("a")]));
    let created = elsewhere(chain(once)).returned(0, &[("c", Write::Pending)]);
    assert_eq!(created.steps(), ["apply c as config 0"]);
    let both = elsewhere(chain(once).child("c", "config", 0));
    assert_eq!((both.steps(), given(&both)), (vec!["call 1".to_owned()], vec![id("c")]));
    let held = elsewhere(chain(Flags::default()).child("w", "web", 1)).run(0, Run::Waits("no address".to_owned()));
    assert_eq!((held.steps(), given(&held)), (vec![], vec![]));
    let both = held.child("c", "config", 0);
    assert_eq!((both.steps(), given(&both)), (vec!["call 1".to_owned()], vec![id("c")]));
}

#[test]
fn a_kind_that_is_not_installed_holds_its_slot_or_skips_it() {
    let absent = |flags: Flags| {
        let mut scene = Scene::new(vec![slot("monitor", &[], flags)]);
        scene.observed.slots[0].is_absent = true;
        scene.plan().slots
    };
    assert_eq!(absent(Flags { optional: true, ..NONE }), [SlotState::Skipped]);
    assert_eq!(absent(NONE), [SlotState::Held("the kind ConfigMap is not installed".to_owned())]);
}

#[test]
fn an_object_of_somebody_else_is_awaited_and_never_written() {
    let external = Flags { external: true, ..NONE };
    assert_eq!(chain(external).steps(), ["call 0"]);
    let mut scene = chain(external).returned(0, &[("tls", applied())]);
    assert!(scene.steps().is_empty());
    scene.observed.external.insert(id("tls"), Readiness::Ready);
    assert_eq!(scene.steps(), ["call 1"]);
}

#[test]
fn an_owner_that_is_deleted_loses_its_children_in_waves_without_a_call() {
    let all = || chain(KEEP).child("c", "config", 0).child("w", "web", 1).child("x", "web", 5);
    let scene = all().while_deleting();
    assert_eq!(scene.steps(), ["release c", "wave 5: x at any version"]);
    assert_eq!(scene.plan().blocking, [id("x")]);
    let scene = scene.change("x", |child| child.is_terminating = true);
    assert_eq!(scene.steps(), ["release c"]);
    assert_eq!(scene.plan().blocking, [id("x")], "a finalizer of its own keeps it");
    let mut orphaned = all().while_deleting();
    orphaned.owner.is_ordered = false;
    assert_eq!(orphaned.steps(), ["release c", "release w", "release x"]);
    assert_eq!(orphaned.plan().blocking, []);
}

#[test]
fn what_cannot_be_changed_is_deleted_only_if_it_is_recreated() {
    let immutable = || Write::Immutable("it is immutable".to_owned());
    let scene = |flags: Flags, write: Write| chain(flags).child("c", "config", 0).returned(0, &[("c", write)]);
    let stalls = |scene: Scene| match &scene.plan().slots[0] {
        SlotState::Stalled(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    let kept = scene(NONE, immutable());
    assert_eq!(kept.steps(), Vec::<String>::new());
    assert_eq!(stalls(kept), "it is immutable; write `recreate` to delete it and create it again");
    assert_eq!(scene(RECREATE, immutable()).steps(), ["recreate c at 7"]);
    let invalid = scene(RECREATE, Write::Invalid("it is invalid".to_owned()));
    assert_eq!(invalid.steps(), Vec::<String>::new());
    assert_eq!(stalls(invalid), "it is invalid");
    let unknown = scene(RECREATE, Write::Refused("it was refused".to_owned()));
    assert_eq!(unknown.steps(), Vec::<String>::new());
    assert_eq!(unknown.plan().slots[0], SlotState::Failed("it was refused".to_owned()));
}

#[test]
fn slots_that_swap_their_names_lose_no_child_while_one_of_them_is_held() {
    let slots = || vec![slot("a", &[], NONE), slot("b", &[], NONE)];
    let scene = || Scene::new(slots()).child("x", "a", 0).child("y", "b", 0).returned(0, &[("y", Write::Pending)]);
    let held = scene().run(1, Run::Waits("it waits".to_owned()));
    assert_eq!(held.steps(), Vec::<String>::new());
    assert_eq!(held.plan().slots[0], SlotState::Held("waits for b, whose child configmaps `y` is".to_owned()));
    let decided = scene().returned(1, &[("x", Write::Pending)]);
    assert_eq!(decided.steps(), ["apply y as a 0", "apply x as b 0"]);
}

#[test]
fn a_child_that_another_slot_returns_does_not_stand_for_what_is_created_once() {
    let scene = Scene::new(vec![slot("a", &[], ONCE), slot("b", &[], NONE)]);
    let scene = scene.child("x", "a", 0).returned(1, &[("x", Write::Pending)]);
    assert_eq!(scene.steps(), ["call 0"]);
    let decided = scene.returned(0, &[("y", Write::Pending)]);
    assert_eq!(decided.steps(), ["apply y as a 0", "apply x as b 0"]);
}

#[test]
fn a_list_that_was_created_in_part_is_completed_and_its_other_children_are_left_alone() {
    let keys =
        || Scene::new(vec![SlotSpec { returns: Returns::Many, ..slot("keys", &[], ONCE) }]).child("a", "keys", 0);
    assert_eq!(keys().steps(), ["call 0"]);
    let returned = keys().returned(0, &[("a", Write::Pending), ("b", Write::Pending)]);
    assert_eq!(returned.steps(), ["apply b as keys 0"]);
}

#[test]
fn the_labels_of_what_was_created_once_are_restored_and_its_body_is_not() {
    let mut scene = chain(ONCE).child("c", "config", 4);
    assert_eq!(scene.steps(), ["label c as config"]);
    scene.observed.refused.insert(id("c"), "a policy".to_owned());
    assert_eq!(scene.steps(), Vec::<String>::new(), "once in a pass");
    assert_eq!(scene.plan().slots[0], SlotState::Failed("a policy".to_owned()));
}

#[test]
fn what_was_created_once_names_the_version_of_its_owner_that_the_program_has() {
    let outdated = |flags: Flags| chain(flags).child("c", "config", 0).change("c", |child| child.is_outdated = true);
    assert_eq!(outdated(ONCE).steps(), ["label c as config"]);
    let listed = outdated(ONCE).returned(0, &[("c", Write::Pending)]);
    assert_eq!(listed.steps()[0], "label c as config");
    assert_eq!(outdated(NONE).steps(), ["call 0"], "it is applied");
}

#[test]
fn the_old_child_serves_until_its_replacement_may_be_created() {
    let web = || SlotSpec { after: vec!["config".to_owned()], ..slot("web", &[], RECREATE) };
    let scene = |write: Write, name: &str| {
        let scene = Scene::new(vec![slot("config", &[], NONE), web()]);
        let scene = scene.child("c", "config", 0).child("w", "web", 1).returned(0, &[("c", applied())]);
        scene.returned(1, &[(name, write)])
    };
    for (write, name) in [(Write::Immutable("its selector".to_owned()), "w"), (Write::Pending, "new")] {
        assert_eq!(scene(write.clone(), name).steps(), ["recreate w at 7"]);
        let rolls = scene(write, name).change("c", |child| child.readiness = waiting());
        assert_eq!(rolls.steps(), Vec::<String>::new());
        let SlotState::Held(why) = &rolls.plan().slots[1] else { panic!("{:?}", rolls.plan()) };
        assert!(why.starts_with("waits for config: it starts"), "{why}");
        assert_eq!(why.contains("its selector"), name == "w", "{why}");
    }
}

#[test]
fn a_child_that_may_be_of_the_slot_is_updated_while_what_comes_before_is_not_ready() {
    let after = || vec!["config".to_owned()];
    let scene = |label: Option<SlotLabel>, resource: &str| {
        let later = SlotSpec { after: after(), resource: resource.into(), ..slot("web", &[], NONE) };
        let scene = Scene::new(vec![slot("config", &[], NONE), later]);
        let scene = scene.child("c", "config", 0).child("w", "former", 1).returned(0, &[("c", applied())]);
        let scene = scene.change("c", |child| child.readiness = waiting());
        scene.change("w", |child| child.label = label).steps()
    };
    assert_eq!(scene(Some(label("former", 1)), "configmaps"), ["call 1"]);
    assert_eq!(scene(None, "configmaps"), ["call 1"]);
    assert!(scene(None, "secrets").is_empty(), "it is of another kind");
    assert!(scene(Some(label("config", 0)), "configmaps").is_empty(), "it is of another slot");
}

#[test]
fn a_slot_that_returns_nothing_is_as_late_as_one_that_creates_something() {
    let maybe = SlotSpec { after: vec!["config".to_owned()], returns: Returns::Maybe, ..slot("web", &[], NONE) };
    let scene = Scene::new(vec![slot("config", &[], NONE), maybe, slot("app", &["web"], NONE)]);
    let scene = scene.child("c", "config", 0).returned(0, &[("c", applied())]).returned(1, &[]);
    assert_eq!(scene.steps(), ["call 2"]);
    let scene = scene.change("c", |child| child.readiness = waiting());
    assert_eq!(scene.steps(), Vec::<String>::new());
    assert_eq!(scene.plan().slots[1], SlotState::Held("waits for config: it starts".to_owned()));
}

#[test]
fn a_child_that_does_not_decode_is_applied_as_that_may_mend_it_and_holds_up_what_takes_it() {
    let scene = chain(NONE).child("c", "config", 0).child("w", "web", 1);
    let scene = scene.returned(0, &[("c", Write::Pending)]).change("c", |child| {
        (child.is_unreadable, child.readiness) = (true, waiting());
    });
    assert_eq!(scene.steps(), ["apply c as config 0"]);
    let scene = scene.returned(0, &[("c", applied())]);
    assert_eq!(scene.steps(), Vec::<String>::new());
    let held = SlotState::Held("waits for config: it starts".to_owned());
    assert_eq!(scene.plan().slots, [SlotState::NotReady("it starts".to_owned()), held]);
    let scene = scene.run(0, Run::Waits("no address".to_owned()));
    assert_eq!(scene.steps(), Vec::<String>::new());
}

#[test]
fn a_child_that_uses_what_is_being_deleted_is_deleted_before_its_replacement_may_be_created() {
    let job = SlotSpec { after: vec!["config".to_owned()], ..slot("job", &[], RECREATE) };
    let scene = Scene::new(vec![slot("config", &[], RECREATE), job]).child("c", "config", 0).child("j", "job", 1);
    let scene = scene.returned(0, &[("c", Write::Pending)]).change("c", |child| child.is_terminating = true);
    let scene = scene.returned(1, &[("j", Write::Immutable("its volume".to_owned()))]);
    assert_eq!(scene.steps(), ["recreate j at 7"]);
}

#[test]
fn a_deletion_that_is_refused_fails_its_slot() {
    let mut pruned = Scene::new(vec![slot("config", &[], PRUNE)]).child("a", "config", 0);
    pruned = pruned.child("b", "config", 0).returned(0, &[("a", applied())]);
    assert_eq!(pruned.steps(), ["prune b at 7"]);
    pruned.observed.refused.insert(id("b"), "forbidden".to_owned());
    assert_eq!(pruned.steps(), Vec::<String>::new(), "once in a pass");
    assert_eq!(pruned.plan().slots, [SlotState::Failed("forbidden".to_owned())]);
}

#[test]
fn a_child_of_a_slot_that_is_not_known_is_released_if_a_slot_of_its_kind_keeps_its_children() {
    let renamed = |resource: &str| {
        let keep = slot("config", &[], KEEP);
        Scene::new(vec![SlotSpec { resource: resource.into(), ..keep }])
            .child("c", "former", 0)
            .while_deleting()
            .steps()
    };
    assert_eq!(renamed("configmaps"), ["release c"]);
    assert_eq!(renamed("secrets"), ["wave 0: c at any version"]);
}
