//! The local clock that decides whether a lease is valid.

use std::sync::Arc;
use std::time::Duration;

/// A moment of a local clock: the time since its start.
pub(super) type Moment = Duration;

/// A clock that never goes back. Timers only wake tasks; this clock decides.
pub(super) trait Clock: Send + Sync + 'static {
    fn now(&self) -> Moment;
}

/// The clock of this machine. It continues while the machine is suspended, so that a
/// laptop that was asleep does not assume that it is still the leader.
pub(super) fn system() -> Arc<dyn Clock> {
    #[cfg(target_os = "linux")]
    return Arc::new(BootTime);
    #[cfg(not(target_os = "linux"))]
    return Arc::new(SinceStart(std::time::Instant::now()));
}

#[cfg(target_os = "linux")]
struct BootTime;

#[cfg(target_os = "linux")]
impl Clock for BootTime {
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
    }
}

/// The standard library's clock, for other systems. On Windows and macOS it may
/// stop during a suspension.
#[cfg(not(target_os = "linux"))]
struct SinceStart(std::time::Instant);

#[cfg(not(target_os = "linux"))]
impl Clock for SinceStart {
    fn now(&self) -> Moment {
        self.0.elapsed()
    }
}

/// Tokio's clock, which a test can pause.
#[cfg(test)]
pub(super) struct TokioTime(pub(super) tokio::time::Instant);

#[cfg(test)]
impl Clock for TokioTime {
    fn now(&self) -> Moment {
        self.0.elapsed()
    }
}
