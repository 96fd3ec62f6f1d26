//! What a controller remembers of the slots of its owners from pass to pass: their states, for the status page and so that
//! transitions can be told from what stays, and the changes of their children, so that a loop is broken.
//!
//! It also remembers which owners are deleted without their children, and what it has read of children and applied to
//! them, so that it is not done again while they stay as they are. It decides nothing else: a restart forgets it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::call::observer::CallObserver;
use kooper_runtime::object::Object;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::observed::{Child, ChildId};
use crate::plan::SlotState;

/// The number of changes of a body within [`WINDOW`] that is a loop.
const CHANGES: usize = 5;

/// The number of corrections of a child within [`WINDOW`] that is a loop.
const CORRECTIONS: usize = 3;

/// The time in which changes are counted, and the pause after a loop.
const WINDOW: Duration = Duration::from_secs(600);

/// The slots of each owner of a controller, an extension of its context.
#[derive(Debug, Default)]
pub struct SlotMemory {
    memory: Mutex<Memory>,
    /// Set when its gauges are registered.
    pub(crate) gauges: OnceLock<()>,
}

#[derive(Debug, Default)]
struct Memory {
    owners: HashMap<ObjectKey, Vec<Slot>>,
    /// The children of each owner as they were last read.
    children: HashMap<ObjectKey, KnownChildren>,
    /// The number of owners by slot and state.
    counts: HashMap<(usize, &'static str), usize>,
    /// The owners of which was said that they are not deleted in order.
    unordered: HashSet<ObjectKey>,
    /// The uids of the owners whose children outlive them.
    orphaning: HashMap<ObjectKey, String>,
}

/// Objects in the cache. The addresses stay theirs, because the references keep them.
pub(crate) type ByAddress<T> = HashMap<usize, T>;

/// The records of children, each with its object in the cache.
pub(crate) type KnownChildren = Arc<ByAddress<(Weak<Object>, Child)>>;

pub(crate) fn address(object: &Arc<Object>) -> usize {
    Arc::as_ptr(object) as usize
}

/// A slot of one owner.
#[derive(Debug, Default)]
struct Slot {
    /// Its state after the last pass.
    state: Option<SlotState>,
    /// A digest of the children that its function has returned.
    digest: Option<u64>,
    /// A digest of what the function was called with.
    inputs: u64,
    /// `true` if these are other children than before: their first writes correct nothing.
    is_new: bool,
    /// The children that are known to be as they were returned.
    settled: ByAddress<Weak<Object>>,
    /// Most slots have none of it.
    trouble: Option<Box<Trouble>>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// The obsolete children that are kept.
    kept: BTreeSet<ChildId>,
    /// When the function returned other children than before.
    changes: Vec<Instant>,
    /// When a child was corrected, and the version that it got last.
    corrections: BTreeMap<ChildId, (Vec<Instant>, String)>,
    paused: Option<(Instant, Loop)>,
}

/// A loop, by what keeps changing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    /// What the function returns, although its inputs do not.
    Bodies,
    /// The children, which someone else changes after each correction.
    Children,
}

/// What is to be done with the children that a function has returned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Apply,
    /// They keep changing: they are applied after this time. The first of such verdicts is `true`.
    Pause(Duration, Loop, bool),
}

impl SlotMemory {
    /// The state of each slot of an owner, in the order of their declaration. `None` before the first pass over it, and
    /// while it is being deleted.
    #[must_use]
    pub fn of(&self, owner: &ObjectKey, slots: usize) -> Option<Vec<SlotState>> {
        let memory = self.memory.lock();
        let known = memory.owners.get(owner)?;
        (0..slots).map(|slot| known.get(slot)?.state.clone()).collect()
    }

    /// Notes the children that a slot's function has returned, and what it was called with, as digests. `version` is the
    /// version of a child that exists.
    pub(crate) fn returned<'a>(
        &self,
        (owner, slot): (&ObjectKey, usize),
        (digest, inputs): (u64, u64),
        version: impl Fn(&ChildId) -> Option<&'a str>,
        now: Instant,
    ) -> Verdict {
        self.memory.lock().slot(owner, slot).returned(digest, inputs, version, now)
    }

    /// Returns of each child whether it is known to be as the slot's function has returned it.
    pub(crate) fn settled<'a>(
        &self,
        (owner, slot): (&ObjectKey, usize),
        children: impl Iterator<Item = Option<&'a Arc<Object>>>,
    ) -> Vec<bool> {
        let mut memory = self.memory.lock();
        let settled = &mut memory.slot(owner, slot).settled;
        // The cache has another version of it, or none.
        settled.retain(|_, object| object.strong_count() > 0);
        children.map(|child| child.is_some_and(|child| settled.contains_key(&address(child)))).collect()
    }

    /// Notes that a child is as the slot's function has returned it.
    pub(crate) fn settle(&self, (owner, slot): (&ObjectKey, usize), child: &Arc<Object>) {
        self.memory.lock().slot(owner, slot).settled.insert(address(child), Arc::downgrade(child));
    }

    /// The records of the children of an owner.
    pub(crate) fn children(&self, owner: &ObjectKey) -> KnownChildren {
        self.memory.lock().children.get(owner).cloned().unwrap_or_default()
    }

    /// Notes what was read of the children of an owner.
    pub(crate) fn read(&self, owner: &ObjectKey, children: KnownChildren) {
        self.memory.lock().children.insert(owner.clone(), children);
    }

    /// Notes that a write gave a child this version, because it was not what the slot's function returns.
    pub(crate) fn corrected(&self, (owner, slot): (&ObjectKey, usize), child: &ChildId, version: &str, now: Instant) {
        let mut memory = self.memory.lock();
        let slot = memory.slot(owner, slot);
        if slot.is_new {
            return;
        }
        let corrections = &mut slot.trouble().corrections;
        let (times, last) = corrections.entry(child.clone()).or_default();
        version.clone_into(last);
        times.push(now);
    }

    /// Notes the states of an owner's slots. Returns the slots that have another one than before.
    pub(crate) fn states(&self, owner: &ObjectKey, states: &[SlotState]) -> Vec<usize> {
        let mut memory = self.memory.lock();
        let Memory { owners, counts, .. } = &mut *memory;
        let slots = owners.entry(owner.clone()).or_default();
        slots.resize_with(states.len(), Slot::default);
        let mut changed = Vec::new();
        for (slot, (known, state)) in slots.iter_mut().zip(states).enumerate() {
            if known.state.as_ref() == Some(state) {
                continue;
            }
            let before = known.state.replace(state.clone());
            if before.as_ref().map(SlotState::name) != Some(state.name()) {
                uncount(counts, slot, before.as_ref());
                *counts.entry((slot, state.name())).or_default() += 1;
                changed.push(slot);
            }
        }
        changed
    }

    /// Notes the obsolete children that are kept, each with its slot. Returns those that are new.
    pub(crate) fn kept(&self, owner: &ObjectKey, kept: &[(usize, ChildId)]) -> Vec<(usize, ChildId)> {
        let mut memory = self.memory.lock();
        let mut new = Vec::new();
        for (slot, known) in memory.owners.get_mut(owner).into_iter().flatten().enumerate() {
            let now: BTreeSet<_> = kept.iter().filter(|(of, _)| *of == slot).map(|(_, child)| child.clone()).collect();
            if !now.is_empty() || known.trouble.is_some() {
                let before = std::mem::replace(&mut known.trouble().kept, now.clone());
                new.extend(now.difference(&before).map(|child| (slot, child.clone())));
            }
        }
        new
    }

    /// The number of owners whose slot has this state.
    pub(crate) fn count(&self, slot: usize, state: &'static str) -> usize {
        self.memory.lock().counts.get(&(slot, state)).copied().unwrap_or_default()
    }

    /// Notes that an owner is not deleted in order. Returns `true` the first time.
    pub(crate) fn unordered(&self, owner: &ObjectKey) -> bool {
        self.memory.lock().unordered.insert(owner.clone())
    }

    /// Returns whether the children of the owner with this uid outlive it: this pass or an earlier one saw the
    /// finalizer `orphan`.
    pub(crate) fn is_orphaning(&self, owner: &ObjectKey, uid: &str, is_said: bool) -> bool {
        let mut memory = self.memory.lock();
        if is_said {
            memory.orphaning.insert(owner.clone(), uid.to_owned());
        }
        memory.orphaning.get(owner).is_some_and(|known| known == uid)
    }

    /// Forgets the slots of an owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        let mut memory = self.memory.lock();
        memory.children.remove(owner);
        let slots = memory.owners.remove(owner).unwrap_or_default();
        slots.iter().enumerate().for_each(|(slot, of)| uncount(&mut memory.counts, slot, of.state.as_ref()));
    }

    fn leave(&self, owner: &ObjectKey) {
        self.forget(owner);
        let mut memory = self.memory.lock();
        memory.unordered.remove(owner);
        memory.orphaning.remove(owner);
    }
}

impl CallObserver for SlotMemory {
    fn gone(&self, owner: &ObjectKey, _: Duration) {
        self.leave(owner);
    }

    fn ignored(&self, owner: &ObjectKey) {
        self.leave(owner);
    }

    fn term_ended(&self) {
        *self.memory.lock() = Memory::default();
    }
}

impl Memory {
    fn slot(&mut self, owner: &ObjectKey, slot: usize) -> &mut Slot {
        let slots = self.owners.entry(owner.clone()).or_default();
        if slots.len() <= slot {
            slots.resize_with(slot + 1, Slot::default);
        }
        &mut slots[slot]
    }
}

fn uncount(counts: &mut HashMap<(usize, &'static str), usize>, slot: usize, state: Option<&SlotState>) {
    if let Some(count) = state.and_then(|state| counts.get_mut(&(slot, state.name()))) {
        *count = count.saturating_sub(1);
    }
}

impl Slot {
    fn trouble(&mut self) -> &mut Trouble {
        self.trouble.get_or_insert_default()
    }

    fn returned<'a>(
        &mut self,
        digest: u64,
        inputs: u64,
        version: impl Fn(&ChildId) -> Option<&'a str>,
        now: Instant,
    ) -> Verdict {
        let last = self.digest.replace(digest);
        self.is_new = last != Some(digest);
        if self.is_new {
            self.settled.clear();
        }
        let is_changed = last.is_some() && self.is_new;
        let has_new_inputs = std::mem::replace(&mut self.inputs, inputs) != inputs;
        if self.trouble.is_none() && (!is_changed || has_new_inputs) {
            return Verdict::Apply;
        }
        let trouble = self.trouble();
        if has_new_inputs {
            (trouble.changes, trouble.paused) = (Vec::new(), None);
        }
        // They are corrections of other children.
        if is_changed {
            trouble.corrections.clear();
        }
        match trouble.paused {
            Some((until, what)) if until > now => return Verdict::Pause(until - now, what, false),
            _ => trouble.paused = None,
        }
        if is_changed && !has_new_inputs {
            trouble.changes.retain(|change| now - *change < WINDOW);
            trouble.changes.push(now);
        }
        let is_fought = |(child, (times, last)): (&ChildId, &mut (Vec<Instant>, String))| {
            times.retain(|time| now - *time < WINDOW);
            // One that still has the version that it got is left alone.
            times.len() >= CORRECTIONS && version(child).is_some_and(|version| version != last.as_str())
        };
        let what = if trouble.changes.len() >= CHANGES {
            Loop::Bodies
        } else if trouble.corrections.iter_mut().any(is_fought) {
            Loop::Children
        } else {
            return Verdict::Apply;
        };
        (trouble.changes, trouble.corrections) = (Vec::new(), BTreeMap::new());
        trouble.paused = Some((now + WINDOW, what));
        Verdict::Pause(WINDOW, what, true)
    }
}

/// Hashes what is written, all at once: it comes in many small parts.
#[derive(Default)]
pub(crate) struct Digest(Vec<u8>);

impl Digest {
    pub(crate) fn finish(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        hasher.finish()
    }
}

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
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

    fn child() -> ChildId {
        ChildId { resource: "configmaps".into(), namespace: None, name: "a".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_change_again_and_again_are_applied_after_a_pause() {
        let memory = SlotMemory::default();
        let note = |slot, digest, inputs| memory.returned((&owner(), slot), (digest, inputs), |_| None, Instant::now());
        for digest in 0..5 {
            assert_eq!(note(0, digest, 1), Verdict::Apply);
        }
        assert_eq!(note(0, 5, 1), Verdict::Pause(WINDOW, Loop::Bodies, true));
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(note(0, 6, 1), Verdict::Pause(WINDOW / 2, Loop::Bodies, false));
        assert_eq!(note(1, 6, 1), Verdict::Apply, "it is another slot");
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(note(0, 7, 1), Verdict::Apply);
    }

    #[tokio::test(start_paused = true)]
    async fn new_inputs_and_slow_changes_are_no_loop() {
        let memory = SlotMemory::default();
        let note = |digest, inputs| memory.returned((&owner(), 0), (digest, inputs), |_| None, Instant::now());
        for digest in 0..20 {
            assert_eq!(note(digest, digest), Verdict::Apply);
        }
        for digest in 0..20 {
            tokio::time::advance(WINDOW / 4).await;
            assert_eq!(note(digest, 7), Verdict::Apply);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_is_changed_after_each_correction_is_left_alone_for_a_while() {
        let (memory, child) = (SlotMemory::default(), child());
        let note = |digest, version| memory.returned((&owner(), 0), (digest, 1), |_| Some(version), Instant::now());
        let correct = |version: &str| memory.corrected((&owner(), 0), &child, version, Instant::now());
        assert_eq!(note(1, "1"), Verdict::Apply);
        correct("2");
        for version in ["2", "4", "6"] {
            assert_eq!(note(1, "3"), Verdict::Apply);
            correct(version);
        }
        assert_eq!(note(1, "6"), Verdict::Apply, "it is as it was left");
        assert_eq!(note(1, "7"), Verdict::Pause(WINDOW, Loop::Children, true));
        assert_eq!(note(1, "7"), Verdict::Pause(WINDOW, Loop::Children, false));
        tokio::time::advance(WINDOW).await;
        assert_eq!(note(1, "7"), Verdict::Apply);

        // Other children are meant from now on, and later corrections are no loop.
        ["8", "10", "12"].into_iter().for_each(correct);
        assert_eq!([note(2, "13"), note(2, "13")], [Verdict::Apply, Verdict::Apply]);
        for version in ["14", "16", "18"] {
            tokio::time::advance(WINDOW / 2).await;
            correct(version);
        }
        assert_eq!(note(2, "19"), Verdict::Apply);
    }

    #[tokio::test]
    async fn a_child_is_settled_until_it_changes_or_other_children_are_returned() {
        let (memory, owner) = (SlotMemory::default(), owner());
        let object =
            || Arc::new(Object::parse(br#"{"metadata":{"name":"a","uid":"1","resourceVersion":"5"}}"#).unwrap());
        let (child, other) = (object(), object());
        let returned = |digest| memory.returned((&owner, 0), (digest, 1), |_| None, Instant::now());
        let settled = |children: [Option<&Arc<Object>>; 2]| memory.settled((&owner, 0), children.into_iter());
        returned(1);
        memory.settle((&owner, 0), &child);
        returned(1);
        assert_eq!(settled([Some(&child), Some(&other)]), [true, false]);
        assert_eq!(settled([None, Some(&child)]), [false, true]);
        memory.settle((&owner, 0), &other);
        drop(other);
        assert_eq!(settled([Some(&child), None]), [true, false]);
        assert_eq!(memory.memory.lock().slot(&owner, 0).settled.len(), 1, "what is gone is forgotten");
        returned(2);
        assert_eq!(settled([Some(&child), None]), [false, false]);
    }

    #[test]
    fn owners_are_counted_by_the_states_of_their_slots() {
        let memory = SlotMemory::default();
        let [a, b] = ["a", "b"].map(ObjectKey::cluster_scoped);
        let held = SlotState::Held("why".to_owned());
        assert_eq!(memory.states(&a, &[SlotState::Ready]), [0]);
        assert_eq!(memory.states(&b, &[SlotState::Ready]), [0]);
        assert!(memory.states(&a, &[SlotState::Ready]).is_empty(), "it is the same");
        assert_eq!(memory.states(&b, slice::from_ref(&held)), [0]);
        assert!(memory.states(&b, &[SlotState::Held("another reason".to_owned())]).is_empty());
        let counts = || ["ready", "held"].map(|state| memory.count(0, state));
        assert_eq!(counts(), [1, 1]);
        memory.gone(&b, Duration::ZERO);
        assert_eq!(counts(), [1, 0]);
        memory.term_ended();
        assert_eq!(counts(), [0, 0], "another replica counts them now");
    }

    #[test]
    fn the_states_of_an_owner_are_known_from_its_first_pass_to_its_deletion() {
        let memory = SlotMemory::default();
        let states = [SlotState::Ready, SlotState::Held("waits for config".to_owned())];
        memory.returned((&owner(), 1), (1, 1), |_| None, Instant::now());
        assert_eq!(memory.of(&owner(), 2), None, "the pass is not over");
        memory.states(&owner(), &states);
        assert_eq!(memory.of(&owner(), 2), Some(states.to_vec()));
        memory.gone(&owner(), Duration::ZERO);
        assert_eq!(memory.of(&owner(), 2), None);
        memory.states(&owner(), &states);
        memory.term_ended();
        assert_eq!(memory.of(&owner(), 2), None);
    }

    #[test]
    fn a_child_is_new_among_the_kept_ones_once() {
        let (memory, kept) = (SlotMemory::default(), [(0, child())]);
        memory.states(&owner(), &[SlotState::Ready]);
        assert_eq!(memory.kept(&owner(), &kept), kept);
        assert_eq!(memory.kept(&owner(), &kept), []);
        assert_eq!(memory.kept(&owner(), &[]), []);
        assert_eq!(memory.kept(&owner(), &kept), kept);
    }

    #[test]
    fn it_is_said_once_that_an_owner_is_not_deleted_in_order() {
        let memory = SlotMemory::default();
        assert!(memory.unordered(&owner()) && !memory.unordered(&owner()));
        memory.gone(&owner(), Duration::ZERO);
        assert!(memory.unordered(&owner()), "it is another object of this name");
    }

    #[test]
    fn the_children_of_an_owner_outlive_it_also_if_a_later_pass_is_not_told_so() {
        let memory = SlotMemory::default();
        assert!(!memory.is_orphaning(&owner(), "1", false));
        assert!(memory.is_orphaning(&owner(), "1", true) && memory.is_orphaning(&owner(), "1", false));
        assert!(!memory.is_orphaning(&owner(), "2", false), "it is another object of this name");
        memory.gone(&owner(), Duration::ZERO);
        assert!(!memory.is_orphaning(&owner(), "1", false));
    }
}
