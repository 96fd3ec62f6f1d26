//! What came of a history.

use super::end::End;
use super::problem::Problem;
use super::tape::Written;

/// What came of a history.
#[derive(Default)]
pub(super) struct Outcome {
    /// What went wrong that no comparison is needed for.
    pub(super) problem: Option<Problem>,
    /// What a call in the desired state has written.
    pub(super) unrest: Option<Problem>,
    /// The first call that failed in the desired state.
    pub(super) failing: Option<usize>,
    pub(super) end: End,
    pub(super) written: Vec<Written>,
    /// The watch events that the controllers received after the scenario began, each with its number.
    pub(super) events: Vec<(String, u64)>,
    /// The calls until the desired state was reached; after a storm, those from its end on.
    pub(super) calls: u64,
    /// The number of objects that the controllers handle, at the end or since the scenario began.
    pub(super) primaries: u64,
    /// Whether what was to go wrong went wrong.
    pub(super) met: bool,
    /// The last requests.
    pub(super) requests: Vec<String>,
    /// The faults that were injected, as a plan that injects them again.
    pub(super) injected: String,
}
