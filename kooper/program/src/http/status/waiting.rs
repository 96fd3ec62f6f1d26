//! What a key waits for, as a sentence.

use std::fmt;
use std::time::Duration;

use kooper_runtime::internal::queue::{Run, Timer, Waiting};
use kooper_runtime::queue::Lane;

use super::model::shown;

/// What a key waits for.
pub(super) fn described(waiting: &Waiting) -> String {
    Sentence(waiting).to_string()
}

struct Sentence<'a>(&'a Waiting);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0;
        match waiting.run {
            Some(Run::Last) => return f.write_str("it is running"),
            Some(Run::MayFollow) => {
                return f.write_str(
                    "it is running, and runs once more afterwards unless all changes since then are its own writes",
                );
            }
            None => {}
        }
        if let Some((time, lane)) = waiting.queued {
            return write!(f, "it has waited {} for a worker, in the lane of {}", Time(time), name(lane));
        }
        if let Some(limit) = waiting.parked {
            return write!(
                f,
                "it waits until the caches contain the writes of its last call, for at most {}",
                Time(limit)
            );
        }
        if let Some(forbidden) = waiting.forbidden {
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
            return match waiting.timer {
                Some((time, _)) => write!(f, "; if it changes, it is called in {}", Time(time)),
                None => Ok(()),
            };
        }
        if let Some(time) = waiting.debounced {
            return write!(f, "it has changed, and is called in {} if nothing else changes", Time(time));
        }
        let failures = waiting.failures.unwrap_or(0);
        match waiting.timer {
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
                if waiting.failures.is_some() {
                    f.write_str("it is not retried: ")?;
                }
                f.write_str("it waits for a change")?;
                waiting.resync.map_or(Ok(()), |time| write!(f, ", or for its resync in {}", Time(time)))
            }
        }
    }
}

fn name(lane: Lane) -> &'static str {
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
        f.write_str(&shown(self.0))
    }
}

#[cfg(test)]
mod tests {
    use kooper_runtime::internal::queue::ForbiddenKey;

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
                Waiting { parked: Some(5 * SECOND), ..none() },
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
                Waiting { debounced: Some(2 * SECOND), resync: Some(60 * SECOND), ..none() },
                "it has changed, and is called in 2.0s if nothing else changes",
            ),
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
            assert_eq!(described(&waiting), expected);
        }
    }
}
