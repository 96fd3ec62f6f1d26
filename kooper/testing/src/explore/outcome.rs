//! The outcome of a history.

use super::end::EndState;
use super::problem::Problem;
use super::recorder::RecordedWrite;

/// The outcome of a history, which is compared with that of histories without faults.
#[derive(Default)]
pub(super) struct Outcome {
    /// A problem that is found without a comparison.
    pub(super) problem: Option<Problem>,
    /// A problem with the calls in the desired state, such as a write that still changes an object.
    pub(super) unrest: Option<Problem>,
    /// The first call that failed in the desired state.
    pub(super) failing: Option<usize>,
    pub(super) end: EndState,
    pub(super) written: Vec<RecordedWrite>,
    /// The watch events that the controllers received after the scenario began, each with its number.
    pub(super) events: Vec<(String, u64)>,
    /// The calls until the desired state was reached; after a storm, those from its end on.
    pub(super) calls: u64,
    /// The number of objects that the controllers handle, at the end or since the scenario began.
    pub(super) primaries: u64,
    /// `false` if the planned fault did not occur.
    pub(super) met: bool,
    /// The last requests.
    pub(super) requests: Vec<String>,
    /// The faults that were injected, as a plan that injects them again.
    pub(super) injected: String,
}
