//! The rules for the three timings of a lease.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::duration;

/// The default time after which a lease expires if it is not renewed.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);

/// The default time for which the leader tries to renew before it steps down.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// The default time between two tries.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Checks the timings of a lease.
///
/// Each must be at least a second. The renew deadline must be at most two thirds of the
/// lease duration, to allow for clock drift, and more than 1.2 times the retry period, so
/// that one lost request does not lose the lease.
///
/// # Errors
///
/// The first rule that is violated.
pub fn check(lease: Duration, renew: Duration, retry: Duration) -> Result<(), TimingError> {
    for (timing, value) in
        [(Timing::LeaseDuration, lease), (Timing::RenewDeadline, renew), (Timing::RetryPeriod, retry)]
    {
        if value < Duration::from_secs(1) {
            return Err(TimingError::TooShort { timing, value });
        }
    }
    if renew.as_nanos() * 3 > lease.as_nanos() * 2 {
        return Err(TimingError::RenewTooLong { lease, renew });
    }
    if renew.as_nanos() * 5 <= retry.as_nanos() * 6 {
        return Err(TimingError::RetryTooLong { renew, retry });
    }
    Ok(())
}

/// One of the three timings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// The time after which a lease expires if it is not renewed.
    LeaseDuration,
    /// The time for which the leader tries to renew before it steps down.
    RenewDeadline,
    /// The time between two tries.
    RetryPeriod,
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseDuration => "lease_duration",
            Self::RenewDeadline => "renew_deadline",
            Self::RetryPeriod => "retry_period",
        })
    }
}

/// Why the timings of a lease are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimingError {
    /// A timing is shorter than a second.
    TooShort {
        /// The timing.
        timing: Timing,
        /// Its value.
        value: Duration,
    },
    /// The renew deadline is more than two thirds of the lease.
    RenewTooLong {
        /// The lease's duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// The renew deadline is not more than 1.2 times the retry period.
    RetryTooLong {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
}

impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { timing, value } => {
                write!(f, "`{timing}` is {}, shorter than a second: write at least \"1s\"", duration::format(*value))
            }
            Self::RenewTooLong { lease, renew } => {
                let (lease, renew) = (duration::format(*lease), duration::format(*renew));
                write!(
                    f,
                    "`renew_deadline` is {renew}, more than two thirds of `lease_duration`, {lease}: \
                     write a shorter `renew_deadline` or a longer `lease_duration`"
                )
            }
            Self::RetryTooLong { renew, retry } => {
                let (renew, retry) = (duration::format(*renew), duration::format(*retry));
                write!(
                    f,
                    "`renew_deadline` is {renew}, not more than 1.2 times `retry_period`, {retry}: \
                     write a longer `renew_deadline` or a shorter `retry_period`"
                )
            }
        }
    }
}

impl Error for TimingError {}
