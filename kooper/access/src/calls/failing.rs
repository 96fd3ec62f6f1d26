//! The keys whose last call failed, for people and for the log of their recovery.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use tokio::time::Instant;

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::held::{LockGuard, drop_aside};

/// The keys of one controller that have failed since their last success.
#[derive(Debug, Default)]
pub struct Failing {
    state: Mutex<FailingKeys>,
}

#[derive(Debug, Default)]
struct FailingKeys {
    keys: BTreeMap<ObjectKey, Failures>,
    /// The last errors of the keys, as long as there is room.
    errors: Errors,
}

/// The last errors of some keys, for people.
#[derive(Debug, Default)]
struct Errors {
    texts: BTreeMap<ObjectKey, Box<str>>,
    bytes: usize,
}

/// The bytes of all errors that are kept, with `ENTRY` for each.
const ROOM: usize = 2 << 20;

/// The bytes of an entry besides its text.
const ENTRY: usize = 128;

/// The longest part of an error that is kept, in characters.
const LONGEST: usize = 512;

impl Errors {
    /// Keeps an error, cut off at the end of a character.
    fn keep(&mut self, key: &ObjectKey, text: &str) {
        self.forget(key);
        let end = text.char_indices().nth(LONGEST).map(|(end, _)| end);
        let kept: Box<str> = end.and_then(|end| text.get(..end)).map_or(text.into(), |kept| format!("{kept}…").into());
        let bytes = self.bytes + kept.len() + ENTRY;
        if bytes <= ROOM {
            self.bytes = bytes;
            self.texts.insert(key.clone(), kept);
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        if let Some(text) = self.texts.remove(key) {
            self.bytes -= text.len() + ENTRY;
        }
    }
}

/// The failed calls of a key since its last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(super) calls: u32,
    since: Instant,
    same: SameError,
    /// When the last line was logged.
    logged: Instant,
    /// `true` if the last error is logged: it differs from the previous one, or the last
    /// log line is old.
    pub(super) is_logged: bool,
    /// The last Event about them.
    reported: Option<ReportedEvent>,
    /// `true` if the key is not retried.
    gave_up: bool,
}

/// An Event about the failures of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReportedEvent {
    at: Instant,
    /// When the next call is, as far as the Event says.
    until: Instant,
}

/// Consecutive calls of a key that failed with the same error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SameError {
    /// The hash of its text.
    error: u64,
    pub(super) calls: u32,
    since: Instant,
}

/// A key that keeps failing with the same error is logged again after this time.
const REMIND: Duration = Duration::from_secs(30);

/// An Event about a key is out of date after this time.
const REPORT: Duration = Duration::from_secs(10);

impl Failures {
    /// Returns the time since the first of these failures.
    pub(super) fn duration(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns the consecutive failures with the last error.
    pub(super) fn same(&self) -> SameError {
        self.same
    }

    /// Returns whether an Event has reported the failures.
    pub(super) fn is_reported(&self) -> bool {
        self.reported.is_some()
    }

    /// Returns whether the last Event about the failures is out of date, or there is none.
    /// `next` is the time until the next call.
    pub(super) fn is_outdated(&self, next: Option<Duration>) -> bool {
        let now = Instant::now();
        self.reported.is_none_or(|ReportedEvent { at, until }| {
            let later = next.is_some_and(|next| now + next > until + REPORT);
            later || now.saturating_duration_since(at) >= REPORT
        })
    }
}

impl SameError {
    /// Returns the time since the first of these calls failed.
    pub(super) fn duration(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Failing {
    /// Notes a failed call, and the text of its error.
    pub(super) fn note(&self, key: &ObjectKey, error: &str) {
        let hashes = BuildHasherDefault::<DefaultHasher>::default();
        let (now, text, error) = (Instant::now(), error, hashes.hash_one(error));
        let mut state = self.lock();
        let same = SameError { error, calls: 0, since: now };
        let first =
            Failures { calls: 0, since: now, same, logged: now, is_logged: true, reported: None, gave_up: false };
        let failures = state.keys.entry(key.clone()).or_insert(first);
        failures.calls = failures.calls.saturating_add(1);
        let is_other = failures.calls == 1 || failures.same.error != error;
        if is_other {
            failures.same = same;
        }
        failures.same.calls = failures.same.calls.saturating_add(1);
        failures.is_logged = failures.same.calls == 1 || now.saturating_duration_since(failures.logged) >= REMIND;
        if failures.is_logged {
            failures.logged = now;
        }
        if is_other {
            state.errors.keep(key, text);
        }
    }

    /// The failures of a key, unless its next call has succeeded meanwhile.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Failures> {
        self.lock().keys.get(key).copied()
    }

    /// Notes whether a key is retried. Returns whether it was until now, and is not any
    /// more.
    pub(super) fn gives_up(&self, key: &ObjectKey, retried: bool) -> bool {
        let mut state = self.lock();
        let Some(failures) = state.keys.get_mut(key) else { return false };
        !std::mem::replace(&mut failures.gave_up, !retried) && !retried
    }

    /// Notes that an Event reports the failures of a key, and that its next call is
    /// after this time.
    pub(super) fn reported(&self, key: &ObjectKey, next: Option<Duration>) {
        let at = Instant::now();
        if let Some(failures) = self.lock().keys.get_mut(key) {
            failures.reported = Some(ReportedEvent { at, until: at + next.unwrap_or_default() });
        }
    }

    /// Forgets a key that succeeded, or whose object was removed or is not handled.
    /// Returns its failures.
    pub(super) fn forget(&self, key: &ObjectKey) -> Option<Failures> {
        let mut state = self.lock();
        state.errors.forget(key);
        state.keys.remove(key)
    }

    /// Forgets all keys, because another replica leads.
    pub(super) fn clear(&self) {
        let before = std::mem::take(&mut *self.lock());
        drop_aside(before);
    }

    /// Returns the number of keys that have failed since their last success.
    pub(crate) fn keys(&self) -> usize {
        self.lock().keys.len()
    }

    /// Some of the keys, first those whose error is known.
    #[must_use]
    pub fn some_keys(&self, most: usize) -> Vec<ObjectKey> {
        let state = self.lock();
        let known = state.errors.texts.keys().take(most);
        let unknown = state.keys.keys().filter(|key| !state.errors.texts.contains_key(key));
        // Of more keys than that, enough have a known error.
        known.chain(unknown.take(most)).take(most).cloned().collect()
    }

    /// The last error of a key, and how many of its calls have failed.
    #[must_use]
    pub fn last_error(&self, key: &ObjectKey) -> Option<(String, u32)> {
        let state = self.lock();
        let calls = state.keys.get(key)?.calls;
        let error = state
            .errors
            .texts
            .get(key)
            .map_or("too many objects fail, so their errors are only in the log", |error| error);
        Some((error.to_owned(), calls))
    }

    fn lock(&self) -> LockGuard<MutexGuard<'_, FailingKeys>> {
        LockGuard::new(self.state.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("shop", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_recovered_key_returns_the_number_and_the_duration_of_its_failures() {
        let failing = Failing::default();
        assert_eq!(failing.forget(&key("a")), None);
        failing.note(&key("a"), "shut");
        tokio::time::advance(Duration::from_secs(90)).await;
        failing.note(&key("a"), "unfit");
        let failures = failing.forget(&key("a")).unwrap();
        assert_eq!((failures.calls, failures.duration()), (2, Duration::from_secs(90)));
        assert_eq!(failing.forget(&key("a")), None, "it is reported once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_error_is_logged_again_after_some_time_and_another_one_at_once() {
        let failing = Failing::default();
        let note = |error: &str| {
            failing.note(&key("a"), error);
            let failures = failing.get(&key("a")).unwrap();
            (failures.is_logged, failures.same().calls, failures.same().duration())
        };
        let second = Duration::from_secs(1);
        assert_eq!(note("shut"), (true, 1, Duration::ZERO));
        tokio::time::advance(29 * second).await;
        assert_eq!(note("shut"), (false, 2, 29 * second));
        tokio::time::advance(second).await;
        assert_eq!(note("shut"), (true, 3, 30 * second));
        assert_eq!(note("shut"), (false, 4, 30 * second));
        assert_eq!(note("open"), (true, 1, Duration::ZERO));
        assert_eq!(note("shut"), (true, 1, Duration::ZERO), "the count is that of failures in a row");
        failing.reported(&key("a"), None);
        failing.reported(&key("other"), None);
        assert!(failing.forget(&key("a")).is_some_and(|failures| failures.is_reported() && failures.calls == 6));
        assert_eq!(failing.forget(&key("other")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_out_of_date_after_some_time_or_if_the_next_call_is_later() {
        let (failing, second) = (Failing::default(), Duration::from_secs(1));
        let note = || {
            failing.note(&key("a"), "shut");
            failing.get(&key("a")).unwrap()
        };
        assert!(note().is_outdated(None) && !note().is_reported());
        failing.reported(&key("a"), Some(2 * second));
        tokio::time::advance(2 * second).await;
        assert!(!note().is_outdated(Some(4 * second)) && !note().is_outdated(None));
        assert!(note().is_outdated(Some(11 * second)), "it would be wrong for a long time");
        tokio::time::advance(8 * second).await;
        assert!(note().is_outdated(None));
    }

    #[test]
    fn the_last_error_of_each_key_is_kept_as_long_as_there_is_room() {
        let failing = Failing::default();
        assert_eq!(failing.last_error(&key("a")), None);
        failing.note(&key("a"), "shut");
        failing.note(&key("a"), "shut");
        assert_eq!(failing.last_error(&key("a")), Some(("shut".to_owned(), 2)));
        failing.note(&key("a"), &"é".repeat(LONGEST + 1));
        assert_eq!(failing.last_error(&key("a")), Some(("é".repeat(LONGEST) + "…", 3)));
        failing.note(&key("a"), &"é".repeat(LONGEST));
        assert_eq!(failing.last_error(&key("a")), Some(("é".repeat(LONGEST), 4)));
        for number in 0..5_000 {
            failing.note(&key(&number.to_string()), &"long ".repeat(200));
        }
        let bytes = |failing: &Failing| failing.lock().errors.bytes;
        assert!((ROOM - 700..=ROOM).contains(&bytes(&failing)), "{}", bytes(&failing));
        let some = failing.some_keys(4_500);
        assert_eq!((some.len(), failing.some_keys(9_000).len(), failing.some_keys(3).len()), (4_500, 5_001, 3));
        assert!(failing.last_error(&key("4999")).is_some_and(|(error, calls)| error.contains("the log") && calls == 1));
        failing.note(&key("4999"), "short");
        failing.forget(&key("a"));
        assert_eq!(failing.last_error(&key("a")), None);
        for number in 0..5_000 {
            failing.forget(&key(&number.to_string()));
        }
        assert_eq!((bytes(&failing), failing.some_keys(3).len()), (0, 0));
    }

    #[test]
    fn a_key_gives_up_once() {
        let failing = Failing::default();
        assert!(!failing.gives_up(&key("a"), false), "it does not fail");
        failing.note(&key("a"), "shut");
        let gives_up = |retried| failing.gives_up(&key("a"), retried);
        assert_eq!([true, false, false, true, false].map(gives_up), [false, true, false, false, true]);
    }
}
