//! Properties of the planner, and that each of them finds the mistakes that it is for.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use super::super::mistakes::{Mistake, plant};
use super::histories::{HistoryEvent, events, graphs};
use super::model::{Checked, World};
use crate::graph::Graph;

/// A million of them take some minutes.
fn histories() -> u32 {
    std::env::var("KOOPER_HISTORIES").map_or(2_000, |number| number.parse().expect("a number"))
}

fn run(property: fn(&Graph, &[HistoryEvent]) -> Checked, mistake: Option<Mistake>) -> Result<(), String> {
    plant(mistake);
    let mut config = Config { cases: histories(), failure_persistence: None, ..Config::default() };
    // A planted mistake is searched for until it is found, and what it was found in need not be short.
    if mistake.is_some() {
        (config.cases, config.max_shrink_iters) = (config.cases * 20, 0);
    }
    let mut runner = TestRunner::new(config);
    let result = runner.run(&(graphs(), events()), |(graph, events)| property(&graph, &events));
    plant(None);
    result.map_err(|error| match error {
        TestError::Fail(reason, (graph, events)) => format!("{reason}\n{}{events:#?}", graph.to_text()),
        TestError::Abort(reason) => reason.to_string(),
    })
}

/// Whatever has happened, and in whatever order: when the trouble is over, the children are those of a fresh start.
/// On the way nothing is created too early, and nothing is deleted that is wanted or in use.
fn ends_like_a_fresh_start(graph: &Graph, events: &[HistoryEvent]) -> Checked {
    let mut world = World::new(graph);
    events.iter().try_for_each(|event| world.happens(event))?;
    let mut fresh = world.fresh();
    world.settle()?;
    fresh.settle()?;
    prop_assert_eq!(world.state(), fresh.state());
    Ok(())
}

/// An owner that is deleted at any moment leaves nothing but what is kept, and its children go from the deepest on,
/// whenever the process ends and whatever other clients edit. If it is deleted without its children, none of them is.
fn is_deleted_in_waves(graph: &Graph, events: &[HistoryEvent]) -> Checked {
    let mut world = World::new(graph);
    events.iter().try_for_each(|event| world.happens(event))?;
    world.clone().delete(false, events)?;
    world.delete(true, events)
}

#[test]
fn any_order_of_events_leads_to_the_state_of_a_fresh_start() {
    run(ends_like_a_fresh_start, None).unwrap_or_else(|found| panic!("{found}"));
}

#[test]
fn an_owner_that_is_deleted_at_any_moment_takes_its_children_with_it_in_order() {
    run(is_deleted_in_waves, None).unwrap_or_else(|found| panic!("{found}"));
}

#[test]
fn each_planted_mistake_is_found() {
    type Property = fn(&Graph, &[HistoryEvent]) -> Checked;
    // Which check finds it first is left to chance.
    let pruned = ["is pruned, and is wanted", "which is not ready", "which is held", "is in use"].as_slice();
    for (mistake, property, findings) in [
        (Mistake::HeldTakenForAbsent, ends_like_a_fresh_start as Property, pruned),
        (Mistake::PruneBeforeReady, ends_like_a_fresh_start, pruned),
        (Mistake::PruneAfterFailure, ends_like_a_fresh_start, pruned),
        (Mistake::PruneBeforeComplete, ends_like_a_fresh_start, pruned),
        (Mistake::WaveSkipped, is_deleted_in_waves, &["is deleted before it"]),
        (Mistake::LabelLost, is_deleted_in_waves, &["left over", "is deleted before it"]),
        (Mistake::LabelLost, ends_like_a_fresh_start, &[""]),
        (Mistake::AdoptionForgotten, ends_like_a_fresh_start, &["is pruned, and stays"]),
        (Mistake::AnnotationUnread, ends_like_a_fresh_start, &["has the annotation that keeps it"]),
        (Mistake::AnnotationUnread, is_deleted_in_waves, &["has the annotation that keeps it", "left over"]),
        (Mistake::ForeignTaken, is_deleted_in_waves, &["is of another controller"]),
        (Mistake::MarkUnread, is_deleted_in_waves, &["left over", "is deleted before it"]),
        (Mistake::UnlabelledUnseen, ends_like_a_fresh_start, &["is applied twice", "being deleted", "left == right"]),
        (Mistake::EditLeft, ends_like_a_fresh_start, &["left == right"]),
        (Mistake::AbsenceUnread, ends_like_a_fresh_start, &["its kind is not installed"]),
    ] {
        let found = run(property, Some(mistake)).expect_err(&format!("{mistake:?} is not found"));
        assert!(findings.iter().any(|finding| found.contains(finding)), "{mistake:?}: {found}");
    }
}
