//! Problems with histories, and the oracles that find them.

use std::fmt;

use super::difference::{Difference, Divergence};

/// A problem with a history.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Problem {
    /// The scenario, or the start of the controllers, failed.
    Failed(String),
    /// The controllers ended.
    Ended(String),
    /// Objects change without an end.
    Unsettled(Vec<String>),
    /// A call in the desired state has written.
    Writes { what: String, call: usize },
    /// A call in the desired state fails: because the server refuses what it writes, or with a panic, or as without
    /// faults it does not.
    Fails { why: Option<String>, call: usize },
    /// The end state is another one.
    Differs(Box<Difference>),
    /// A declared child exists without its owner.
    Orphan(String),
    /// A declared child is deleted while one of an earlier wave exists.
    OutOfOrder { what: String, before: String },
    /// Nothing of an object is compared, as these fields differ from run to run.
    Unseen { object: String, fields: Vec<String> },
    /// Objects were created or deleted more or less often.
    Counts { resource: String, verb: &'static str, expected: usize, found: usize },
    /// The end state was reached late: the number of calls, and that without faults.
    Slow { calls: u64, expected: u64 },
}

/// The oracle that finds a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oracle {
    /// The scenario itself passes, and the controllers run to its end.
    Scenario,
    /// The objects at the end are those of a history without faults.
    EndState,
    /// No object is left over, and no declared child outlives its owner.
    Orphans,
    /// With `deletion = ordered`, no declared child is deleted before those of earlier waves are gone.
    DeletionOrder,
    /// As many objects are created and deleted as without faults.
    Counts,
    /// The end state is reached in at most ten calls more than without faults.
    Convergence,
    /// Something of each object at the end is the same in all histories without faults.
    Comparison,
    /// In the end state, 50 more calls for each object change nothing, and do not fail.
    Rest,
}

impl Problem {
    pub(super) fn oracle(&self) -> Oracle {
        match self {
            Self::Failed(_) | Self::Ended(_) => Oracle::Scenario,
            Self::Unsettled(_) | Self::Writes { .. } | Self::Fails { .. } => Oracle::Rest,
            Self::Orphan(_) => Oracle::Orphans,
            Self::Differs(difference) if matches!(difference.kind, Divergence::LeftOver(..)) => Oracle::Orphans,
            Self::OutOfOrder { .. } => Oracle::DeletionOrder,
            Self::Differs(_) => Oracle::EndState,
            Self::Unseen { .. } => Oracle::Comparison,
            Self::Counts { .. } => Oracle::Counts,
            Self::Slow { .. } => Oracle::Convergence,
        }
    }
}

/// As the second half of a sentence that begins with the trial.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "the scenario fails: {error}"),
            Self::Ended(why) => write!(f, "the controllers end: {why}"),
            Self::Unsettled(objects) => write!(f, "these objects never stop changing: {}", objects.join(", ")),
            Self::Writes { what, call } => {
                write!(f, "`{what}` still changes an object in call {call} after the desired state was reached")
            }
            Self::Fails { why, call } => {
                let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
                write!(f, "call {call} after the desired state was reached fails{why}")
            }
            Self::Differs(difference) => difference.fmt(f),
            Self::Orphan(child) => write!(f, "{child} is left over: its owner no longer exists"),
            Self::OutOfOrder { what, before } => {
                write!(f, "`{what}` is sent while {before} of an earlier wave still exists")
            }
            Self::Unseen { object, fields } => {
                let fields = fields.join(", ");
                write!(
                    f,
                    "`{object}` cannot be compared, because it differs in each history: {fields}; if that is \
                     intended, pass it to `ignore`"
                )
            }
            Self::Counts { resource, verb, expected, found } => {
                write!(f, "{found} {resource} are {verb} instead of {expected}")
            }
            Self::Slow { calls, expected } => {
                write!(f, "it takes {calls} calls until the desired state is reached instead of {expected}")
            }
        }
    }
}
