//! What a controller remembers of the slots of its owners from pass to pass: their states, so that transitions can be told
//! from what stays, and the changes of bodies, so that a loop is broken.
//!
//! It decides nothing else: a restart forgets it.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::call::observer::CallObserver;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::observed::ChildId;
use crate::plan::SlotState;

/// The number of changes within [`WINDOW`] that is a loop.
const CHANGES: usize = 5;

/// The time in which changes are counted, and the pause after a loop.
const WINDOW: Duration = Duration::from_secs(600);

/// The slots of each owner, an extension of the context, and whether its gauges are registered.
#[derive(Default)]
pub(crate) struct Memory(Mutex<State>, pub(crate) OnceLock<()>);

#[derive(Default)]
struct State {
    owners: HashMap<ObjectKey, HashMap<usize, Slot>>,
    /// The number of owners by slot and state.
    counts: HashMap<(usize, &'static str), usize>,
}

#[derive(Default)]
struct Slot {
    state: Option<&'static str>,
    /// The obsolete children that are kept.
    kept: BTreeSet<ChildId>,
    body: Body,
}

/// The last bodies of the children.
#[derive(Default)]
struct Body {
    digest: Option<u64>,
    /// The digest of what the function was called with.
    inputs: u64,
    changes: Vec<Instant>,
    paused_until: Option<Instant>,
}

/// What is to be done with new bodies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Apply,
    /// They keep changing: they are applied after this time. The first of such verdicts is `true`.
    Pause(Duration, bool),
}

impl Memory {
    /// Notes the bodies of a slot's children, as a digest, and that of what they were made from.
    pub(crate) fn body(&self, owner: &ObjectKey, slot: usize, digest: u64, inputs: u64, now: Instant) -> Verdict {
        self.slot(owner, slot, |slot| slot.body.note(digest, inputs, now))
    }

    /// Notes the state of a slot. Returns `true` if it is another one than before.
    pub(crate) fn state(&self, owner: &ObjectKey, slot: usize, state: &SlotState) -> bool {
        let name = state.name();
        let before = self.slot(owner, slot, |slot| slot.state.replace(name));
        if before != Some(name) {
            let mut state = self.0.lock();
            state.uncount(slot, before);
            *state.counts.entry((slot, name)).or_default() += 1;
        }
        before != Some(name)
    }

    /// Notes the obsolete children of a slot that are kept. Returns those that are new.
    pub(crate) fn kept(&self, owner: &ObjectKey, slot: usize, kept: BTreeSet<ChildId>) -> Vec<ChildId> {
        self.slot(owner, slot, |slot| {
            let new = kept.difference(&slot.kept).cloned().collect();
            slot.kept = kept;
            new
        })
    }

    /// The number of owners whose slot has this state.
    pub(crate) fn count(&self, slot: usize, state: &'static str) -> usize {
        self.0.lock().counts.get(&(slot, state)).copied().unwrap_or_default()
    }

    /// Forgets an owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        let mut state = self.0.lock();
        let slots = state.owners.remove(owner);
        slots.into_iter().flatten().for_each(|(slot, of)| state.uncount(slot, of.state));
    }

    fn slot<T>(&self, owner: &ObjectKey, slot: usize, change: impl FnOnce(&mut Slot) -> T) -> T {
        let mut state = self.0.lock();
        match state.owners.get_mut(owner) {
            Some(slots) => change(slots.entry(slot).or_default()),
            None => change(state.owners.entry(owner.clone()).or_default().entry(slot).or_default()),
        }
    }
}

impl CallObserver for Memory {
    fn gone(&self, owner: &ObjectKey, _: Duration) {
        self.forget(owner);
    }

    fn ignored(&self, owner: &ObjectKey) {
        self.forget(owner);
    }

    fn term_ended(&self) {
        *self.0.lock() = State::default();
    }
}

impl State {
    fn uncount(&mut self, slot: usize, state: Option<&'static str>) {
        if let Some(count) = state.and_then(|state| self.counts.get_mut(&(slot, state))) {
            *count = count.saturating_sub(1);
        }
    }
}

impl Body {
    fn note(&mut self, digest: u64, inputs: u64, now: Instant) -> Verdict {
        if self.inputs != inputs {
            *self = Self { digest: Some(digest), inputs, ..Self::default() };
            return Verdict::Apply;
        }
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Verdict::Pause(until - now, false);
        }
        self.paused_until = None;
        if self.digest.replace(digest).is_some_and(|last| last != digest) {
            self.changes.retain(|change| now - *change < WINDOW);
            self.changes.push(now);
        }
        if self.changes.len() < CHANGES {
            return Verdict::Apply;
        }
        self.changes.clear();
        self.paused_until = Some(now + WINDOW);
        Verdict::Pause(WINDOW, true)
    }
}

/// Hashes what is written.
#[derive(Default)]
pub(crate) struct Digest(pub(crate) DefaultHasher);

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    fn owner() -> ObjectKey {
        ObjectKey::namespaced("default", "owner")
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_change_again_and_again_are_applied_after_a_pause() {
        let memory = Memory::default();
        let note = |digest, inputs| memory.body(&owner(), 0, digest, inputs, Instant::now());
        for digest in 0..5 {
            assert_eq!(note(digest, 1), Verdict::Apply);
        }
        assert_eq!(note(5, 1), Verdict::Pause(WINDOW, true));
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(note(6, 1), Verdict::Pause(WINDOW / 2, false));
        assert_eq!(memory.body(&owner(), 1, 6, 1, Instant::now()), Verdict::Apply, "it is another slot");
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(note(7, 1), Verdict::Apply);
    }

    #[tokio::test(start_paused = true)]
    async fn new_inputs_and_slow_changes_are_no_loop() {
        let memory = Memory::default();
        for digest in 0..20 {
            assert_eq!(memory.body(&owner(), 0, digest, digest, Instant::now()), Verdict::Apply);
        }
        for digest in 0..20 {
            tokio::time::advance(WINDOW / 4).await;
            assert_eq!(memory.body(&owner(), 0, digest, 7, Instant::now()), Verdict::Apply);
        }
    }

    #[test]
    fn owners_are_counted_by_the_states_of_their_slots() {
        let memory = Memory::default();
        let [a, b] = ["a", "b"].map(ObjectKey::cluster_scoped);
        assert!(memory.state(&a, 0, &SlotState::Ready) && memory.state(&b, 0, &SlotState::Ready));
        assert!(!memory.state(&a, 0, &SlotState::Ready), "it is the same");
        assert!(memory.state(&b, 0, &SlotState::Held("why".to_owned())));
        let counts = || ["ready", "held"].map(|state| memory.count(0, state));
        assert_eq!(counts(), [1, 1]);
        memory.gone(&b, Duration::ZERO);
        assert_eq!(counts(), [1, 0]);
        memory.term_ended();
        assert_eq!(counts(), [0, 0], "another replica counts them now");
    }

    #[test]
    fn a_child_is_new_among_the_kept_ones_once() {
        let memory = Memory::default();
        let child = ChildId { resource: "configmaps".to_owned(), namespace: None, name: "a".to_owned() };
        let kept = || BTreeSet::from([child.clone()]);
        assert_eq!(memory.kept(&owner(), 0, kept()), slice::from_ref(&child));
        assert_eq!(memory.kept(&owner(), 0, kept()), []);
        assert_eq!(memory.kept(&owner(), 0, BTreeSet::new()), []);
        assert_eq!(memory.kept(&owner(), 0, kept()), slice::from_ref(&child));
    }
}
