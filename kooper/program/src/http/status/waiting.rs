//! Sentences about keys that wait.

use std::time::Duration;

use kooper_runtime::internal::queue::{Run, Timer, Waiting};
use kooper_runtime::queue::Lane;

use super::model::shown;

/// The event or time that a key waits for, as a sentence.
pub(super) fn described(waiting: &Waiting) -> String {
    match waiting.run {
        Some(Run::Last) => return "it is running".to_owned(),
        Some(Run::MayFollow) => {
            return "it is running, and runs once more afterwards unless all changes since then are its own writes"
                .to_owned();
        }
        None => {}
    }
    if let Some((time, lane)) = waiting.queued {
        return format!("it has waited {} for a worker, in the lane of {}", shown(time), name(lane));
    }
    if let Some(limit) = waiting.parked {
        let limit = shown(limit);
        return format!("it waits until the caches contain the writes of its last call, for at most {limit}");
    }
    if let Some(forbidden) = waiting.forbidden {
        let retried = match (forbidden.probe.map(shown), forbidden.is_first) {
            (None, _) => {
                "it has been granted for another object, so this one is retried, at the shared retry rate".to_owned()
            }
            (Some(time), true) => format!("it is retried in {time}"),
            (Some(time), false) => {
                format!("another object that lacks it is retried in {time}, and this one after that one succeeds")
            }
        };
        let called = waiting.timer.map(|(time, _)| format!("; if it changes, it is called in {}", shown(time)));
        return format!("it lacks a permission: {retried}{}", called.unwrap_or_default());
    }
    if let Some(time) = waiting.debounced {
        return format!("it has changed, and is called in {} if nothing else changes", shown(time));
    }
    let failures = match waiting.failures.unwrap_or(0) {
        1 => "1 failure".to_owned(),
        failures => format!("{failures} failures"),
    };
    match waiting.timer {
        Some((Duration::ZERO, Timer::Retry)) => "its retry is due, and waits for the shared retry rate".to_owned(),
        Some((time, Timer::Retry)) => format!("it is retried in {}, after {failures}", shown(time)),
        Some((time, Timer::Held)) => format!("it has changed, and is called in {}, after {failures}", shown(time)),
        Some((time, Timer::Conflict)) => format!("it met a conflict, and is called again in {}", shown(time)),
        Some((time, Timer::Requeue)) => format!("its requeue is due in {}", shown(time)),
        None => {
            let dropped = if waiting.failures.is_some() { "it is not retried: " } else { "" };
            let resync = waiting.resync.map(|time| format!(", or for its resync in {}", shown(time)));
            format!("{dropped}it waits for a change{}", resync.unwrap_or_default())
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
