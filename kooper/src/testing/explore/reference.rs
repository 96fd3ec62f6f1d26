//! What histories without faults have in common: what the others are compared with.

use std::collections::{BTreeMap, BTreeSet};

use super::end::{Difference, Divergence};
use super::outcome::Outcome;
use super::problem::Problem;
use super::tape::Written;
use super::trial::Trial;

/// How many calls more than without faults it may take for each object until the end state is reached.
const MORE: u64 = 10;

/// What histories without faults have in common.
pub(super) struct Reference {
    outcome: Outcome,
    /// Objects and fields that differ between them.
    by_chance: BTreeSet<(String, Option<String>)>,
    /// Resources whose numbers of creations or deletions differ.
    uncounted: BTreeSet<(String, &'static str)>,
    /// Paths and kinds that the test ignores.
    ignored: Vec<String>,
}

impl Reference {
    /// Learns from two histories without faults.
    pub(super) fn learn(first: Outcome, second: &Outcome, ignored: Vec<String>) -> Self {
        let differences = first.end.differences(&second.end);
        let by_chance = differences.into_iter().map(|difference| match difference.kind {
            Divergence::Field { path, .. } => (difference.object, Some(path)),
            _ => (difference.object, None),
        });
        let by_chance = by_chance.collect();
        let (one, other) = (counts(&first.written, &ignored), counts(&second.written, &ignored));
        let uncounted =
            one.keys().chain(other.keys()).filter(|key| one.get(*key) != other.get(*key)).cloned().collect();
        Self { outcome: first, by_chance, uncounted, ignored }
    }

    /// The first of the histories.
    pub(super) fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// What is wrong with a history, if anything is.
    pub(super) fn judge(&self, trial: &Trial, outcome: &Outcome) -> Option<Problem> {
        if let Some(problem) = &outcome.problem {
            return Some(problem.clone());
        }
        let differences = self.outcome.end.differences(&outcome.end);
        if let Some(difference) = differences.into_iter().find(|difference| self.matters(difference)) {
            return Some(Problem::Differs(difference));
        }
        let other = match trial {
            // Another sequence of states is reached by other writes.
            Trial::Sequence(_) => None,
            // Calls are retried for as long as a cache is stale.
            Trial::Event { .. } => self.miscounted(outcome),
            // What was stored although its answer was lost is not on tape.
            Trial::Storm { .. } => self.late(outcome),
            Trial::Undisturbed | Trial::Write { .. } | Trial::Prefix { .. } => {
                self.miscounted(outcome).or_else(|| self.late(outcome))
            }
        };
        let fails = || {
            let call = outcome.failing.filter(|_| self.outcome.failing.is_none())?;
            Some(Problem::Fails { why: None, call })
        };
        other.or_else(|| outcome.unrest.clone()).or_else(fails)
    }

    /// Whether it took many calls until the end state was reached.
    fn late(&self, outcome: &Outcome) -> Option<Problem> {
        let (calls, expected) = (outcome.calls, self.outcome.calls);
        (calls > expected + MORE * self.outcome.primaries.max(1)).then_some(Problem::Slow { calls, expected })
    }

    fn matters(&self, difference: &Difference) -> bool {
        let kind = |object: &str| object.split(' ').next().unwrap_or_default().to_owned();
        if self.ignored.contains(&kind(&difference.object)) {
            return false;
        }
        let Divergence::Field { path, .. } = &difference.kind else {
            // Names that the controllers draw by chance: only their number is compared.
            let drawn = self.by_chance.iter().filter(|(_, path)| path.is_none());
            return !drawn.map(|(object, _)| kind(object)).any(|drawn| drawn == kind(&difference.object));
        };
        let begins =
            |other: &str| path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let chance = |(object, by_chance): &(String, Option<String>)| {
            *object == difference.object && by_chance.as_deref().is_none_or(begins)
        };
        !self.by_chance.iter().any(chance) && !self.ignored.iter().any(|other| begins(other))
    }

    fn miscounted(&self, outcome: &Outcome) -> Option<Problem> {
        let counts = |outcome: &Outcome| counts(&outcome.written, &self.ignored);
        let (expected, found) = (counts(&self.outcome), counts(outcome));
        let number = |counts: &Counts, key| counts.get(key).copied().unwrap_or_default();
        let mut keys = expected.keys().chain(found.keys()).filter(|key| !self.uncounted.contains(*key));
        let key = keys.find(|key| number(&expected, key) != number(&found, key))?;
        let (expected, found) = (number(&expected, key), number(&found, key));
        Some(Problem::Counts { resource: key.0.clone(), verb: key.1, expected, found })
    }
}

/// How many objects of each resource were created and deleted.
type Counts = BTreeMap<(String, &'static str), usize>;

fn counts(written: &[Written], ignored: &[String]) -> Counts {
    let mut counts = Counts::new();
    let mut deleted = BTreeSet::new();
    let is_ignored = |one: &&Written| one.kind.as_ref().is_some_and(|kind| ignored.contains(kind));
    for one in written.iter().filter(|one| !is_ignored(one)) {
        if one.creates() {
            *counts.entry((one.resource.clone(), "created")).or_default() += 1;
        }
        // An object that waits for its finalizers is deleted once, however often that is requested.
        if one.verb == "delete" && one.succeeded() && !one.of_subresource && deleted.insert(one.uid.clone()) {
            *counts.entry((one.resource.clone(), "deleted")).or_default() += 1;
        }
    }
    counts
}
