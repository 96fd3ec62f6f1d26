//! The memory of a slot of one owner, and the changes of its children that are a loop.

use std::collections::BTreeMap;
use std::mem::replace;
use std::sync::Weak;
use std::time::Duration;

use kooper_runtime::object::Object;
use tokio::time::Instant;

use crate::observed::ChildId;
use crate::plan::SlotState;

/// The number of changes of a body within [`WINDOW`] that is a loop.
const CHANGES: usize = 5;

/// The number of corrections of a child within [`WINDOW`] that is a loop.
const CORRECTIONS: usize = 3;

/// The number of times within [`WINDOW`] that changes can be explained.
const EXPLAINED: usize = 20;

/// The time in which changes are counted, and the pause after a loop.
const WINDOW: Duration = Duration::from_secs(600);

/// Entries for objects in the cache, sorted by the addresses of these. The addresses stay theirs, because the entries
/// keep references. Most lists have one entry, or a few, so that a map for each slot of each owner would be larger.
#[derive(Debug)]
pub(crate) struct ByAddress<T>(Vec<(usize, T)>);

impl<T> ByAddress<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, address: usize) -> Option<&T> {
        let at = self.0.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        Some(&self.0[at].1)
    }

    pub(super) fn insert(&mut self, address: usize, entry: T) {
        match self.0.binary_search_by_key(&address, |(address, _)| *address) {
            Ok(at) => self.0[at].1 = entry,
            Err(at) => self.0.insert(at, (address, entry)),
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|(_, entry)| keep(entry));
    }
}

impl<T> Default for ByAddress<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<(usize, T)> for ByAddress<T> {
    fn from_iter<I: IntoIterator<Item = (usize, T)>>(entries: I) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable_by_key(|(address, _)| *address);
        Self(entries)
    }
}

/// A slot of one owner.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Its state after the last pass.
    pub(super) state: Option<SlotState>,
    /// A digest of the children that its function has returned.
    digest: Option<u64>,
    /// The arguments of its last call that was looked at.
    inputs: Inputs,
    /// `true` if these are other children than before: their first writes correct nothing.
    is_new: bool,
    /// The children that are known to be as they were returned.
    pub(super) settled: ByAddress<Weak<Object>>,
    /// Most slots have none of it.
    pub(super) loop_history: Option<Box<LoopHistory>>,
}

#[derive(Debug, Default)]
pub(super) struct LoopHistory {
    /// When the function returned other children than before.
    changes: Vec<Instant>,
    /// `true` if something else than the known inputs may explain these changes.
    is_explained: bool,
    /// When changes were explained: a function that returns the time in seconds returns the same at once.
    explained: Vec<Instant>,
    /// When a child was corrected, and the version that it got last.
    corrections: BTreeMap<ChildId, (Vec<Instant>, String)>,
    paused: Option<(Instant, Loop)>,
}

/// The arguments of a child function, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Inputs {
    /// A digest of the owner's uid.
    pub(crate) owner: u64,
    /// A digest of the owner and of the children that it takes.
    pub(crate) digest: u64,
    /// A digest of the status of the owner, and of external objects. It may follow from the children, and differ each time
    /// because they do.
    pub(crate) status: u64,
    /// `true` if the function also reads what is not in the digests.
    pub(crate) reads_more: bool,
}

/// A loop, by what keeps changing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    /// The children that the function returns, although its inputs stay the same.
    Bodies,
    /// The children, which someone else changes after each correction.
    Children,
}

/// The consequence for the children that a function has returned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoopVerdict {
    Apply,
    /// They keep changing, maybe for a reason that the function has read. It is called again: if it returns the same,
    /// they are [`explained`](super::SlotMemory::explained), and otherwise it is [`paused`](super::SlotMemory::pause).
    Ask,
    /// They keep changing: they are applied after this time. The first of such verdicts is `true`.
    Pause(Duration, Loop, bool),
}

impl Slot {
    pub(super) fn loop_history(&mut self) -> &mut LoopHistory {
        self.loop_history.get_or_insert_default()
    }

    pub(super) fn returned<'a>(
        &mut self,
        digest: u64,
        inputs: impl FnOnce() -> Inputs,
        version: impl Fn(&ChildId) -> Option<&'a str>,
        now: Instant,
    ) -> LoopVerdict {
        let last = self.digest.replace(digest);
        self.is_new = last != Some(digest);
        if self.is_new {
            self.settled = ByAddress::default();
        } else if self.loop_history.is_none() {
            return LoopVerdict::Apply;
        }
        let is_changed = last.is_some() && self.is_new;
        let inputs = inputs();
        let before = replace(&mut self.inputs, inputs);
        if inputs.owner != before.owner {
            // It is another object of the name.
            self.loop_history = None;
            return LoopVerdict::Apply;
        }
        let has_new_inputs = inputs.digest != before.digest;
        if self.loop_history.is_none() && (!is_changed || has_new_inputs) {
            return LoopVerdict::Apply;
        }
        let loop_history = self.loop_history();
        if has_new_inputs {
            loop_history.forget_changes();
            // Another client goes on, whatever the inputs are.
            loop_history.paused.take_if(|(_, what)| *what == Loop::Bodies || is_changed);
        }
        // They are corrections of other children.
        if is_changed {
            loop_history.corrections.clear();
        }
        match loop_history.paused {
            Some((until, what)) if until > now => return LoopVerdict::Pause(until - now, what, false),
            _ => loop_history.paused = None,
        }
        if is_changed && !has_new_inputs {
            loop_history.changes.retain(|change| now - *change < WINDOW);
            loop_history.changes.push(now);
            loop_history.is_explained |= inputs.reads_more || inputs.status != before.status;
        }
        let is_fought = |(child, (times, last)): (&ChildId, &mut (Vec<Instant>, String))| {
            times.retain(|time| now - *time < WINDOW);
            // One that still has the version that it got is left alone.
            times.len() >= CORRECTIONS && version(child).is_some_and(|version| version != last.as_str())
        };
        if loop_history.changes.len() >= CHANGES {
            loop_history.explained.retain(|asked| now - *asked < WINDOW);
            let may_ask = loop_history.is_explained && loop_history.explained.len() < EXPLAINED;
            if may_ask { LoopVerdict::Ask } else { loop_history.pause(Loop::Bodies, now) }
        } else if loop_history.corrections.iter_mut().any(is_fought) {
            loop_history.pause(Loop::Children, now)
        } else {
            LoopVerdict::Apply
        }
    }

    pub(super) fn corrected(&mut self, child: &ChildId, version: &str, now: Instant) {
        if !self.is_new {
            let (times, last) = self.loop_history().corrections.entry(child.clone()).or_default();
            version.clone_into(last);
            times.push(now);
        }
    }
}

impl LoopHistory {
    /// The changes until now are no loop.
    pub(super) fn explained(&mut self, now: Instant) {
        self.forget_changes();
        self.explained.push(now);
    }

    fn forget_changes(&mut self) {
        (self.changes, self.is_explained) = (Vec::new(), false);
    }

    pub(super) fn pause(&mut self, what: Loop, now: Instant) -> LoopVerdict {
        self.forget_changes();
        self.corrections.clear();
        self.paused = Some((now + WINDOW, what));
        LoopVerdict::Pause(WINDOW, what, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(digest: u64) -> Inputs {
        Inputs { digest, ..Inputs::default() }
    }

    /// A pass in which the function has returned the children with this digest.
    fn note(slot: &mut Slot, digest: u64, inputs: Inputs) -> LoopVerdict {
        slot.returned(digest, || inputs, |_| None, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_change_again_and_again_are_applied_after_a_pause() {
        let mut slot = Slot::default();
        for digest in 0..5 {
            assert_eq!(note(&mut slot, digest, inputs(1)), LoopVerdict::Apply);
        }
        assert_eq!(note(&mut slot, 5, inputs(1)), LoopVerdict::Pause(WINDOW, Loop::Bodies, true));
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(note(&mut slot, 6, inputs(1)), LoopVerdict::Pause(WINDOW / 2, Loop::Bodies, false));
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(note(&mut slot, 7, inputs(1)), LoopVerdict::Apply);
    }

    #[tokio::test(start_paused = true)]
    async fn the_children_of_another_owner_of_the_name_are_applied_at_once() {
        let mut slot = Slot::default();
        let of = |owner| Inputs { owner, ..inputs(1) };
        for digest in 0..5 {
            assert_eq!(note(&mut slot, digest, of(1)), LoopVerdict::Apply);
        }
        assert_eq!(note(&mut slot, 5, of(1)), LoopVerdict::Pause(WINDOW, Loop::Bodies, true));
        assert_eq!(note(&mut slot, 5, of(2)), LoopVerdict::Apply);
        slot.loop_history().pause(Loop::Children, Instant::now());
        assert_eq!(note(&mut slot, 5, of(2)), LoopVerdict::Pause(WINDOW, Loop::Children, false));
        assert_eq!(note(&mut slot, 5, of(3)), LoopVerdict::Apply);
    }

    #[tokio::test(start_paused = true)]
    async fn new_inputs_and_slow_changes_are_no_loop() {
        let mut slot = Slot::default();
        for digest in 0..20 {
            assert_eq!(note(&mut slot, digest, inputs(digest)), LoopVerdict::Apply);
        }
        for digest in 0..20 {
            tokio::time::advance(WINDOW / 4).await;
            assert_eq!(note(&mut slot, digest, inputs(7)), LoopVerdict::Apply);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_the_status_or_a_reader_may_explain_are_a_loop_if_the_function_returns_others_once_more() {
        let status = |status| Inputs { status, ..inputs(1) };
        let reading = |_| Inputs { reads_more: true, ..inputs(1) };
        for inputs in [&status as &dyn Fn(u64) -> Inputs, &reading] {
            let mut slot = Slot::default();
            for _ in 0..2 {
                for digest in 0..5 {
                    assert_eq!(note(&mut slot, digest, inputs(digest)), LoopVerdict::Apply);
                }
                assert_eq!(note(&mut slot, 5, inputs(5)), LoopVerdict::Ask);
                slot.loop_history().explained(Instant::now());
                slot.digest = Some(0);
            }
            (0..EXPLAINED).for_each(|_| slot.loop_history().explained(Instant::now()));
            for digest in 0..4 {
                note(&mut slot, 100 + digest, inputs(digest));
            }
            let pause = note(&mut slot, 200, inputs(5));
            assert_eq!(pause, LoopVerdict::Pause(WINDOW, Loop::Bodies, true));
            assert_eq!(note(&mut slot, 6, inputs(6)), LoopVerdict::Pause(WINDOW, Loop::Bodies, false));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_is_changed_after_each_correction_is_left_alone_for_a_while() {
        let child = ChildId { resource: "configmaps".into(), namespace: None, name: "a".into() };
        let mut slot = Slot::default();
        let note =
            |slot: &mut Slot, digest, version| slot.returned(digest, || inputs(1), |_| Some(version), Instant::now());
        let correct = |slot: &mut Slot, version: &str| slot.corrected(&child, version, Instant::now());
        assert_eq!(note(&mut slot, 1, "1"), LoopVerdict::Apply);
        correct(&mut slot, "2");
        for version in ["2", "4", "6"] {
            assert_eq!(note(&mut slot, 1, "3"), LoopVerdict::Apply);
            correct(&mut slot, version);
        }
        assert_eq!(note(&mut slot, 1, "6"), LoopVerdict::Apply, "it is as it was left");
        assert_eq!(note(&mut slot, 1, "7"), LoopVerdict::Pause(WINDOW, Loop::Children, true));
        assert_eq!(note(&mut slot, 1, "7"), LoopVerdict::Pause(WINDOW, Loop::Children, false));
        tokio::time::advance(WINDOW).await;
        assert_eq!(note(&mut slot, 1, "7"), LoopVerdict::Apply);

        // Other children are meant from now on, and later corrections are no loop.
        for version in ["8", "10", "12"] {
            correct(&mut slot, version);
        }
        assert_eq!([note(&mut slot, 2, "13"), note(&mut slot, 2, "13")], [LoopVerdict::Apply, LoopVerdict::Apply]);
        for version in ["14", "16", "18"] {
            tokio::time::advance(WINDOW / 2).await;
            correct(&mut slot, version);
        }
        assert_eq!(note(&mut slot, 2, "19"), LoopVerdict::Apply);
    }
}
