//! The reference that histories are compared with, learned from histories without faults.

use std::collections::{BTreeMap, BTreeSet};

use super::common::{Common, Uncompared};
use super::difference::Difference;
use super::end::kind_of;
use super::outcome::Outcome;
use super::problem::Problem;
use super::recorder::RecordedWrite;
use super::trial::Trial;

/// Maximum number of additional calls for each object until the end state is reached, compared with
/// a history without faults.
const MORE: u64 = 10;

/// The common properties of histories without faults.
pub(super) struct Reference {
    outcomes: Vec<Outcome>,
    common: Common,
    /// Resources whose numbers of creations or deletions differ.
    uncounted: BTreeSet<(String, &'static str)>,
    /// Paths and kinds that the test ignores.
    ignored: Vec<String>,
}

impl Reference {
    /// Learns from histories without faults, of which there is at least one.
    pub(super) fn learn(outcomes: Vec<Outcome>, ignored: Vec<String>) -> Self {
        let common = Common::learn(&outcomes.iter().map(|outcome| &outcome.end).collect::<Vec<_>>());
        let all: Vec<_> = outcomes.iter().map(|outcome| counts(&outcome.written, &ignored)).collect();
        let differs = |key: &&(String, &'static str)| all.iter().any(|counts| counts.get(*key) != all[0].get(*key));
        let uncounted = all.iter().flat_map(BTreeMap::keys).filter(differs).cloned().collect();
        Self { outcomes, common, uncounted, ignored }
    }

    /// Learns from further histories, too.
    pub(super) fn learn_more(&mut self, more: Vec<Outcome>) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.extend(more);
        *self = Self::learn(outcomes, std::mem::take(&mut self.ignored));
    }

    /// The first of the histories.
    pub(super) fn outcome(&self) -> &Outcome {
        &self.outcomes[0]
    }

    /// The number of the histories.
    pub(super) fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Returns the problem with a history, if any.
    pub(super) fn judge(&self, trial: &Trial, outcome: &Outcome) -> Option<Problem> {
        if let Some(problem) = &outcome.problem {
            return Some(problem.clone());
        }
        let mut differences = self.common.differences(&outcome.end);
        differences.retain(|difference| self.matters(&difference.object, difference.kind.path()));
        // Of names that are drawn by chance, a count of what was created is more telling than one of what is left.
        let is_number = |difference: &&Difference| difference.kind.path().is_none() && self.common.is_drawn(difference);
        if let Some(difference) = differences.iter().find(|difference| !is_number(difference)) {
            return Some(Problem::Differs(Box::new(difference.clone())));
        }
        let other = match trial {
            // Another sequence of states is reached by other writes.
            Trial::Sequence(_) => None,
            // Calls are retried for as long as a cache is stale.
            Trial::Event { .. } => self.miscounted(outcome),
            // Writes cannot be counted: if their response is lost, the recorder has no status.
            Trial::Storm { .. } => self.late(outcome),
            Trial::Undisturbed | Trial::Write { .. } | Trial::Prefix { .. } => {
                self.miscounted(outcome).or_else(|| self.late(outcome))
            }
        };
        let number = || differences.into_iter().next().map(|difference| Problem::Differs(Box::new(difference)));
        let fails = || {
            let call = outcome.failing.filter(|_| self.outcome().failing.is_none())?;
            Some(Problem::Fails { why: None, call })
        };
        other.or_else(number).or_else(|| outcome.unrest.clone()).or_else(fails)
    }

    /// Returns everything that differs between the histories and is compared only in part, if the
    /// test does not ignore it.
    pub(super) fn uncompared(&self) -> Vec<Uncompared> {
        let path = |uncompared: &Uncompared| uncompared.field.as_ref().map(|field| field.path.clone());
        let mut all = self.common.uncompared();
        all.retain(|uncompared| self.matters(&uncompared.object, path(uncompared).as_deref()));
        all
    }

    /// An object of which nothing is compared, if there is one.
    pub(super) fn unseen(&self) -> Option<Problem> {
        let uncompared = self.uncompared();
        self.common.unseen().find_map(|object| {
            let of_object = uncompared.iter().filter(|uncompared| uncompared.object == object);
            let fields: Vec<_> =
                of_object.filter_map(|uncompared| Some(format!("`{}`", uncompared.field.as_ref()?.path))).collect();
            (!fields.is_empty()).then(|| Problem::Unseen { object: object.to_owned(), fields })
        })
    }

    /// Returns a problem if it took too many calls to reach the end state.
    fn late(&self, outcome: &Outcome) -> Option<Problem> {
        let (calls, expected) = (outcome.calls, self.outcome().calls);
        (calls > expected + MORE * self.outcome().primaries.max(1)).then_some(Problem::Slow { calls, expected })
    }

    /// Returns whether the test compares an object, or the field at this path: neither its kind nor
    /// the field is ignored.
    fn matters(&self, object: &str, path: Option<&str>) -> bool {
        let begins = |ignored: &String| {
            let rest = path.and_then(|path| path.strip_prefix(ignored.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        !self.ignored.iter().any(|ignored| ignored == kind_of(object) || begins(ignored))
    }

    fn miscounted(&self, outcome: &Outcome) -> Option<Problem> {
        let counts = |outcome: &Outcome| counts(&outcome.written, &self.ignored);
        let (expected, found) = (counts(self.outcome()), counts(outcome));
        let number = |counts: &Counts, key| counts.get(key).copied().unwrap_or_default();
        let mut keys = expected.keys().chain(found.keys()).filter(|key| !self.uncounted.contains(*key));
        let key = keys.find(|key| number(&expected, key) != number(&found, key))?;
        let (expected, found) = (number(&expected, key), number(&found, key));
        Some(Problem::Counts { resource: key.0.clone(), verb: key.1, expected, found })
    }
}

/// Numbers of objects, by their resource and by `created` or `deleted`.
type Counts = BTreeMap<(String, &'static str), usize>;

fn counts(written: &[RecordedWrite], ignored: &[String]) -> Counts {
    let mut counts = Counts::new();
    let mut deleted = BTreeSet::new();
    let is_ignored = |one: &&RecordedWrite| one.kind.as_ref().is_some_and(|kind| ignored.contains(kind));
    for one in written.iter().filter(|one| !is_ignored(one)) {
        if one.creates() {
            *counts.entry((one.resource.clone(), "created")).or_default() += 1;
        }
        // An object that waits for its finalizers is deleted once, however often that is requested.
        let is_first = one.uid.as_ref().is_none_or(|uid| deleted.insert(uid));
        if one.verb == "delete" && one.succeeded() && !one.of_subresource && is_first {
            *counts.entry((one.resource.clone(), "deleted")).or_default() += 1;
        }
    }
    counts
}
