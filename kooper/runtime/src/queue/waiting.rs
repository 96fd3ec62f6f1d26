//! Descriptions of waiting keys for users.

use std::fmt;
use std::time::Duration;

use super::Lane;
use super::entry::Timer;
use super::writes::TIMEOUT;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reasons;

/// A key, what it waits for, and the reasons of its next call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyView {
    pub(crate) key: ObjectKey,
    pub(crate) waiting: Waiting,
    pub(crate) reasons: Reasons,
}

/// Some keys, and how many others there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyViews {
    pub(crate) shown: Vec<KeyView>,
    pub(crate) more: usize,
}

/// The state of the queue that determines the next run of a key. Its `Display` is a
/// sentence for users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) run: Option<Run>,
    /// The time for which it has waited for a worker, and its lane.
    pub(super) queued: Option<(Duration, Lane)>,
    /// `true` if it waits for a cache.
    pub(super) parked: bool,
    /// The time until it is added, zero if that is due, and what adds it.
    pub(super) timer: Option<(Duration, Timer)>,
    /// The failures in a row, if it has failed.
    pub(super) failures: Option<u32>,
    pub(super) forbidden: Option<ForbiddenKey>,
    /// The time until its resync.
    pub(super) resync: Option<Duration>,
}

/// A run of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    Last,
    /// The key was added, or an event was received, since it began.
    MayFollow,
}

/// A key that lacks a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForbiddenKey {
    /// `true` if it is the next one to be tried of the keys that lack the permission.
    pub(super) is_first: bool,
    /// The time until one of them is tried; `None` if one has succeeded.
    pub(super) probe: Option<Duration>,
}

impl Waiting {
    /// Returns `true` if the key waits for a worker.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued.is_some()
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.run {
            Some(Run::Last) => return f.write_str("it is running"),
            Some(Run::MayFollow) => {
                return f.write_str(
                    "it is running, and runs once more afterwards unless all changes since then are its own writes",
                );
            }
            None => {}
        }
        if let Some((time, lane)) = self.queued {
            return write!(f, "it has waited {} for a worker, in the lane of {}", Time(time), described(lane));
        }
        if self.parked {
            return write!(
                f,
                "it waits until the caches contain the writes of its last call, for at most {}",
                Time(TIMEOUT)
            );
        }
        if let Some(forbidden) = self.forbidden {
            write!(f, "it lacks a permission: ")?;
            match (forbidden.probe, forbidden.is_first) {
                (None, _) => write!(
                    f,
                    "it has been granted for another object, so this one is retried, at the shared retry rate"
                )?,
                (Some(time), true) => write!(f, "it is retried in {}", Time(time))?,
                (Some(time), false) => {
                    write!(f, "another object that lacks it is retried in {}", Time(time))?;
                    write!(f, ", and this one after that one succeeds")?;
                }
            }
            return match self.timer {
                Some((time, _)) => write!(f, "; if it changes, it is called in {}", Time(time)),
                None => Ok(()),
            };
        }
        let failures = self.failures.unwrap_or(0);
        match self.timer {
            Some((Duration::ZERO, Timer::Retry)) => {
                f.write_str("its retry is due, and waits for the shared retry rate")
            }
            Some((time, Timer::Retry)) => write!(f, "it is retried in {}, after {}", Time(time), Failures(failures)),
            Some((time, Timer::Held)) => {
                write!(f, "it has changed, and is called in {}, after {}", Time(time), Failures(failures))
            }
            Some((time, Timer::Conflict)) => write!(f, "it met a conflict, and is called again in {}", Time(time)),
            Some((time, Timer::Requeue)) => write!(f, "its requeue is due in {}", Time(time)),
            None => {
                if self.failures.is_some() {
                    f.write_str("it is not retried: ")?;
                }
                f.write_str("it waits for a change")?;
                self.resync.map_or(Ok(()), |time| write!(f, ", or for its resync in {}", Time(time)))
            }
        }
    }
}

fn described(lane: Lane) -> &'static str {
    match lane {
        Lane::Event => "events",
        Lane::Retry => "retries and requeues",
        Lane::Background => "resyncs and first lists",
    }
}

/// `1 failure`, `2 failures`
struct Failures(u32);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failure{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// A duration for people: in tenths of a second below ten seconds, else in seconds.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::metrics::status::shown(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_a_key_waits_for_is_a_sentence() {
        let none = Waiting::default;
        let forbidden = |is_first, probe| Some(ForbiddenKey { is_first, probe });
        for (waiting, expected) in [
            (none(), "it waits for a change"),
            (Waiting { resync: Some(90 * SECOND), ..none() }, "it waits for a change, or for its resync in 1m30s"),
            (Waiting { run: Some(Run::Last), ..none() }, "it is running"),
            (
                Waiting { run: Some(Run::MayFollow), ..none() },
                "it is running, and runs once more afterwards unless all changes since then are its own writes",
            ),
            (
                Waiting { queued: Some((SECOND / 4, Lane::Event)), failures: Some(3), ..none() },
                "it has waited 0.2s for a worker, in the lane of events",
            ),
            (
                Waiting { parked: true, ..none() },
                "it waits until the caches contain the writes of its last call, for at most 5.0s",
            ),
            (
                Waiting { timer: Some((2 * SECOND, Timer::Retry)), failures: Some(1), ..none() },
                "it is retried in 2.0s, after 1 failure",
            ),
            (
                Waiting { timer: Some((Duration::ZERO, Timer::Retry)), failures: Some(2), ..none() },
                "its retry is due, and waits for the shared retry rate",
            ),
            (
                Waiting { timer: Some((SECOND, Timer::Held)), failures: Some(2), resync: Some(SECOND), ..none() },
                "it has changed, and is called in 1.0s, after 2 failures",
            ),
            (Waiting { timer: Some((3600 * SECOND, Timer::Requeue)), ..none() }, "its requeue is due in 1h"),
            (
                Waiting { timer: Some((SECOND, Timer::Conflict)), ..none() },
                "it met a conflict, and is called again in 1.0s",
            ),
            (
                Waiting { failures: Some(2), resync: Some(60 * SECOND), ..none() },
                "it is not retried: it waits for a change, or for its resync in 1m",
            ),
            (
                Waiting { forbidden: forbidden(true, Some(SECOND)), failures: Some(1), ..none() },
                "it lacks a permission: it is retried in 1.0s",
            ),
            (
                Waiting { forbidden: forbidden(false, Some(SECOND)), timer: Some((SECOND, Timer::Held)), ..none() },
                "it lacks a permission: another object that lacks it is retried in 1.0s, and this one after that one \
                 succeeds; if it changes, it is called in 1.0s",
            ),
            (
                Waiting { forbidden: forbidden(false, None), ..none() },
                "it lacks a permission: it has been granted for another object, so this one is retried, at the shared \
                 retry rate",
            ),
        ] {
            assert_eq!(waiting.to_string(), expected);
        }
    }
}
