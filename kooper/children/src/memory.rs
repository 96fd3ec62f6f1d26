//! The memory of the slots of a controller's owners, from pass to pass: their states, for the status page and so that
//! transitions can be told from what stays, the changes of their children, so that a loop is broken, and the objects that
//! their external slots stand for, so that a change of one calls its owners.
//!
//! It also remembers what it has read of children and applied to them, so that it is not done again while they stay as
//! they are. A restart forgets all of this, and at worst it is done or said again.
//!
//! Which owners are deleted without their children must not be forgotten before they are gone: the children would be
//! deleted. The first call of the deletion notes it on the owner, so that this memory only bridges the time until then.
//!
//! The children that no cache has yet decide whether a wave of a deletion is over. A restart may forget them, because the
//! new process lists all children before its first call.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};
use std::mem::take;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use kooper_runtime::internal::call::observer::CallObserver;
use kooper_runtime::internal::controller::parts::MapKeys;
use kooper_runtime::internal::held::drop_aside;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::store::Change;
use kooper_runtime::object::Object;
use kooper_runtime::{ControllerContext, Kind, ObjectKey};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::observed::{Child, ChildId};
use crate::plan::SlotState;

mod expectations;
mod external;
mod slot;

use expectations::Expectations;
use external::{ExternalId, Externals};
use slot::{ByAddress, Slot};
pub(crate) use slot::{Inputs, Loop, LoopVerdict};

/// The slots of each owner of a controller, an extension of its context.
#[derive(Debug, Default)]
pub struct SlotMemory {
    memory: Mutex<Memory>,
    /// Apart, as the watches read it.
    externals: Mutex<Externals>,
    /// Apart, as they are needed when the slots of an owner are forgotten: while it is being deleted, and in another term.
    pub(crate) expectations: Expectations,
    /// The uids of the owners whose children outlive them. Apart, as they are noted while another replica leads, too.
    orphaning: Mutex<HashMap<ObjectKey, String>>,
    /// Set when its gauges are registered.
    pub(crate) gauges: OnceLock<()>,
}

#[derive(Debug, Default)]
struct Memory {
    owners: HashMap<ObjectKey, Vec<Slot>>,
    /// The children of each owner as they were last read.
    children: HashMap<ObjectKey, KnownChildren>,
    /// The obsolete children that are kept. Most owners have none.
    kept: HashMap<ObjectKey, BTreeSet<ChildId>>,
    /// The number of owners by slot and state.
    counts: HashMap<(usize, &'static str), usize>,
    /// The owners of which was said that they are not deleted in order.
    unordered: HashSet<ObjectKey>,
}

/// The finalizer of an owner that is deleted with `--cascade=orphan`.
pub(crate) const ORPHAN: &str = "orphan";

/// The records of children, each with its object in the cache.
pub(crate) type KnownChildren = Arc<ByAddress<(Weak<Object>, Child)>>;

pub(crate) fn address(object: &Arc<Object>) -> usize {
    Arc::as_ptr(object) as usize
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

    /// Notes the children that a slot's function has returned, as a digest. `inputs` is what it was called with, and
    /// `version` the version of a child that exists.
    pub(crate) fn returned<'a>(
        &self,
        (owner, slot): (&ObjectKey, usize),
        digest: u64,
        inputs: impl FnOnce() -> Inputs,
        version: impl Fn(&ChildId) -> Option<&'a str>,
        now: Instant,
    ) -> LoopVerdict {
        self.memory.lock().slot(owner, slot).returned(digest, inputs, version, now)
    }

    /// Notes that the children of a slot change for a reason.
    pub(crate) fn explained(&self, (owner, slot): (&ObjectKey, usize), now: Instant) {
        self.memory.lock().slot(owner, slot).loop_history().explained(now);
    }

    /// Notes that the children of a slot change for no reason.
    pub(crate) fn pause(&self, (owner, slot): (&ObjectKey, usize), now: Instant) -> LoopVerdict {
        self.memory.lock().slot(owner, slot).loop_history().pause(Loop::Bodies, now)
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
        settled.retain(|object| object.strong_count() > 0);
        children.map(|child| child.is_some_and(|child| settled.get(address(child)).is_some())).collect()
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
        self.memory.lock().slot(owner, slot).corrected(child, version, now);
    }

    /// Notes the object that an external slot stands for. A change of it calls the owner from now on, and one before is in
    /// the cache.
    pub(crate) fn stands_for(&self, slot: (&ObjectKey, usize), object: ExternalId) {
        self.externals.lock().note(slot, object);
    }

    /// Maps an object of the kind `T` to the owners whose external slots stand for it.
    pub(crate) fn owners_by_external<T: Kind>(controller: &Arc<ControllerContext>) -> MapKeys {
        let (memory, resource) = (controller.extensions.get::<Self>(), Arc::from(KindInfo::of::<T>().resource()));
        Arc::new(move |object| {
            let id = (Arc::clone(&resource), object.key().clone());
            Ok(memory.externals.lock().owners(&id))
        })
    }

    /// Notes the states of an owner's slots. Returns the slots that have another one than before, with `false` if only
    /// its reason is another one.
    pub(crate) fn states(&self, owner: &ObjectKey, states: &[SlotState]) -> Vec<(usize, bool)> {
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
            let has_new_name = before.as_ref().map(SlotState::name) != Some(state.name());
            if has_new_name {
                decrement(counts, slot, before.as_ref());
                *counts.entry((slot, state.name())).or_default() += 1;
            }
            changed.push((slot, has_new_name));
        }
        changed
    }

    /// Notes the obsolete children that are kept, each with its slot. Returns those that are new. While a slot is not
    /// ready, none is known to be obsolete, so that one stays known for as long as it exists and no slot wants it again.
    pub(crate) fn kept<'a>(
        &self,
        owner: &ObjectKey,
        kept: &'a [(Arc<str>, ChildId)],
        is_unwanted: impl Fn(&ChildId) -> bool,
    ) -> Vec<&'a (Arc<str>, ChildId)> {
        let all = &mut self.memory.lock().kept;
        let mut known = all.remove(owner).unwrap_or_default();
        known.retain(is_unwanted);
        let new: Vec<_> = kept.iter().filter(|(_, child)| known.insert(child.clone())).collect();
        if !known.is_empty() {
            all.insert(owner.clone(), known);
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

    /// Notes that the children of the owner with this uid outlive it.
    pub(crate) fn orphans(&self, owner: &ObjectKey, uid: &str) {
        self.orphaning.lock().insert(owner.clone(), uid.to_owned());
    }

    /// Returns whether the children of the owner with this uid outlive it.
    pub(crate) fn is_orphaning(&self, owner: &ObjectKey, uid: &str) -> bool {
        self.orphaning.lock().get(owner).is_some_and(|known| known == uid)
    }

    /// Forgets the slots of an owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.externals.lock().forget(owner);
        let mut memory = self.memory.lock();
        memory.children.remove(owner);
        memory.kept.remove(owner);
        let slots = memory.owners.remove(owner).unwrap_or_default();
        slots.iter().enumerate().for_each(|(slot, of)| decrement(&mut memory.counts, slot, of.state.as_ref()));
    }

    fn leave(&self, owner: &ObjectKey) {
        self.forget(owner);
        self.memory.lock().unordered.remove(owner);
        self.orphaning.lock().remove(owner);
    }
}

impl CallObserver for SlotMemory {
    fn gone(&self, owner: &ObjectKey, _: Option<Duration>) {
        self.leave(owner);
        self.expectations.forget(owner, |_| true);
    }

    fn ignored(&self, owner: &ObjectKey) {
        self.leave(owner);
    }

    /// The garbage collector removes the finalizer `orphan` soon, maybe while the last call for the owner still runs.
    fn deletion(&self, change: &Change) {
        match (&change.new, change.new_metadata()) {
            (Some(owner), Some(Ok(metadata))) if metadata.has_finalizer(ORPHAN) => {
                self.orphans(owner.key(), owner.uid());
            }
            (None, _) => {
                if let Some(owner) = &change.old {
                    self.orphaning.lock().remove(owner.key());
                }
            }
            _ => {}
        }
    }

    fn term_begins(&self, exists: &dyn Fn(&ObjectKey) -> bool) {
        self.expectations.retain(exists);
        self.orphaning.lock().retain(|owner, _| exists(owner));
    }

    fn term_ended(&self) {
        // The Lease is released next, so that freeing the memory of a million owners must not delay it.
        let memory = take(&mut *self.memory.lock());
        let externals = take(&mut *self.externals.lock());
        drop_aside((memory, externals));
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

fn decrement(counts: &mut HashMap<(usize, &'static str), usize>, slot: usize, state: Option<&SlotState>) {
    if let Some(count) = state.and_then(|state| counts.get_mut(&(slot, state.name()))) {
        *count = count.saturating_sub(1);
    }
}

/// Hashes all bytes at once: they are written in many small parts.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
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

    #[tokio::test]
    async fn a_child_is_settled_until_it_changes_or_other_children_are_returned() {
        let (memory, owner) = (SlotMemory::default(), owner());
        let object =
            || Arc::new(Object::parse(br#"{"metadata":{"name":"a","uid":"1","resourceVersion":"5"}}"#).unwrap());
        let (child, other) = (object(), object());
        let returned = |digest| memory.returned((&owner, 0), digest, Inputs::default, |_| None, Instant::now());
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
        assert_eq!(memory.states(&a, &[SlotState::Ready]), [(0, true)]);
        assert_eq!(memory.states(&b, &[SlotState::Ready]), [(0, true)]);
        assert!(memory.states(&a, &[SlotState::Ready]).is_empty(), "it is the same");
        assert_eq!(memory.states(&b, slice::from_ref(&held)), [(0, true)]);
        assert_eq!(memory.states(&b, &[SlotState::Held("another reason".to_owned())]), [(0, false)]);
        let counts = || ["ready", "held"].map(|state| memory.count(0, state));
        assert_eq!(counts(), [1, 1]);
        memory.gone(&b, None);
        assert_eq!(counts(), [1, 0]);
        memory.term_ended();
        assert_eq!(counts(), [0, 0], "another replica counts them now");
    }

    #[test]
    fn the_states_of_an_owner_are_known_from_its_first_pass_to_its_deletion() {
        let memory = SlotMemory::default();
        let states = [SlotState::Ready, SlotState::Held("waits for config".to_owned())];
        memory.returned((&owner(), 1), 1, Inputs::default, |_| None, Instant::now());
        assert_eq!(memory.of(&owner(), 2), None, "the pass is not over");
        memory.states(&owner(), &states);
        assert_eq!(memory.of(&owner(), 2), Some(states.to_vec()));
        memory.gone(&owner(), None);
        assert_eq!(memory.of(&owner(), 2), None);
        memory.states(&owner(), &states);
        memory.term_ended();
        assert_eq!(memory.of(&owner(), 2), None);
    }

    #[test]
    fn a_child_is_new_among_the_kept_ones_once() {
        let (memory, kept) = (SlotMemory::default(), [(Arc::from("config"), child())]);
        let new = |kept: &[(Arc<str>, ChildId)], is_unwanted| memory.kept(&owner(), kept, |_| is_unwanted).len();
        assert_eq!([new(&kept, true), new(&kept, true)], [1, 0]);
        assert_eq!([new(&[], true), new(&kept, true)], [0, 0], "a slot was not ready meanwhile");
        assert_eq!([new(&[], false), new(&kept, true)], [0, 1], "it was gone, or wanted again");
        memory.gone(&owner(), None);
        assert_eq!(new(&kept, true), 1, "it is another object of this name");
    }

    #[test]
    fn unseen_children_are_known_in_the_next_term_if_their_owner_still_exists() {
        let (memory, [a, b]) = (SlotMemory::default(), ["a", "b"].map(ObjectKey::cluster_scoped));
        assert_eq!([&a, &b].map(|owner| memory.expectations.expect(owner, &child())), [true, true]);
        let expectations = || [&a, &b].map(|owner| memory.expectations.of(owner).len());
        memory.term_ended();
        assert_eq!(expectations(), [1, 1]);
        memory.term_begins(&|owner| *owner == a);
        assert_eq!(expectations(), [1, 0]);
    }

    #[test]
    fn it_is_said_once_that_an_owner_is_not_deleted_in_order() {
        let memory = SlotMemory::default();
        assert!(memory.unordered(&owner()) && !memory.unordered(&owner()));
        memory.gone(&owner(), None);
        assert!(memory.unordered(&owner()), "it is another object of this name");
    }

    #[test]
    fn the_children_of_an_owner_outlive_it_also_if_a_later_call_or_term_is_not_told_so() {
        let memory = SlotMemory::default();
        memory.orphans(&owner(), "1");
        assert!(!memory.is_orphaning(&owner(), "2"), "it is another object of this name");
        memory.term_ended();
        memory.term_begins(&|_| true);
        assert!(memory.is_orphaning(&owner(), "1"));
        memory.term_begins(&|_| false);
        assert!(!memory.is_orphaning(&owner(), "1"));
        memory.orphans(&owner(), "1");
        memory.gone(&owner(), None);
        assert!(!memory.is_orphaning(&owner(), "1"));
    }
}
