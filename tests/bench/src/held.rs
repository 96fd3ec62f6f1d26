//! Time for which the library holds locks.

use std::time::Duration;

/// The longest time since the last call for which the library held a lock that workers need, in CPU time of the thread
/// that held it. Zero without the feature `measure`.
#[allow(clippy::must_use_candidate, reason = "a call also begins anew")]
pub fn longest_held() -> Duration {
    #[cfg(feature = "measure")]
    return kooper::__private::v1::longest_held();
    #[cfg(not(feature = "measure"))]
    Duration::ZERO
}
