//! Random graphs of slots, and what happens to the children of an owner.

use proptest::prelude::*;

use crate::graph::{Flags, Graph, PreviousKind, Recreate, Returns, SlotSpec};

/// Something that happens.
#[derive(Debug, Clone)]
pub(super) enum HistoryEvent {
    /// The owner changes, and the function returns children of other names.
    Wants(usize, u8),
    Fails(usize, bool),
    Waits(usize, bool),
    /// The writes of a slot are refused, or no longer.
    Refuses(usize, bool),
    /// The children of a slot become ready, or are not ready any more.
    Ready(usize, bool),
    /// Another client deletes a child.
    Deleted(usize),
    /// Another client creates an object, and the owner changes and wants it.
    Created(usize, u8),
    /// Another client edits a child.
    Edited(usize, Edit),
    /// A kind is installed, or another client removes it with all of its objects.
    Installed(&'static str, bool),
    /// The objects that are being deleted are removed.
    Collected,
    /// A pass, which ends with a crash after so many steps.
    Pass(Option<u8>),
}

/// An edit of a child by another client.
#[derive(Debug, Clone, Copy)]
pub(super) enum Edit {
    /// The annotation `kooper.rs/keep` is set or removed.
    Protected(bool),
    /// The labels are removed, or the child is one from before there were labels.
    Unlabelled,
    /// The labels are those of another version of the program, where the slot had another depth.
    Depth(u32),
    /// The same, where the slot also had another name, or which had a slot that was removed.
    Renamed(u32),
    /// The labels are those of another version of the program, where a slot had this kind.
    OfOtherKind(usize),
    /// The labels become those of another controller.
    Taken,
    /// The child no longer decodes, or decodes again.
    Unreadable(bool),
    /// The label `kooper.rs/adopted` is removed, so that the child is pruned like those that its slot has created.
    Unadopted,
    /// The content refers to something else than what was applied.
    Content,
}

/// The name that an edited content refers to.
pub(super) const EDITED: &str = "edited";

/// The kind whose children are kept by default.
pub(super) const KEPT: &str = "persistentvolumeclaims";

/// The kind whose children have no owner reference, because it is cluster-scoped.
pub(super) const APART: &str = "clusterroles";

fn kinds() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("configmaps"), 1 => Just(KEPT), 1 => Just(APART)]
}

/// Graphs of up to five slots. Children of removed slots are pruned if they are of some of the kinds, or of all or none.
pub(super) fn graphs() -> impl Strategy<Value = Graph> {
    let slot = (any::<u8>(), any::<u8>(), 0..3u8, 0..10u8, kinds());
    let previous = prop::sample::subsequence(vec!["configmaps", KEPT, APART], 0..=3);
    (prop::collection::vec(slot, 1..6), previous).prop_map(|(slots, previous)| {
        let specs = slots.into_iter().enumerate().map(|(index, (inputs, after, returns, flags, kind))| {
            let earlier = |bits: u8| (0..index).filter(|other| bits >> other & 1 == 1).map(name).collect();
            let mut flags = match flags {
                1 => Flags { once: true, ..Flags::default() },
                2 => Flags { keep: true, ..Flags::default() },
                3 => Flags { recreate: Some(Recreate::Foreground), ..Flags::default() },
                4 => Flags { not_ready: true, ..Flags::default() },
                5 | 6 => Flags { adopt: true, ..Flags::default() },
                7 => Flags { optional: true, ..Flags::default() },
                _ => Flags::default(),
            };
            let returns = match returns {
                1 if !flags.once => Returns::Maybe,
                2 => Returns::Many,
                _ => Returns::One,
            };
            flags.prune = returns == Returns::Many && !flags.keep;
            SlotSpec {
                name: name(index),
                kind: kind.to_owned(),
                resource: kind.into(),
                inputs: earlier(inputs),
                after: earlier(after),
                returns,
                flags,
            }
        });
        let previous = previous.into_iter().map(|kind| PreviousKind { kind: kind.to_owned(), resource: kind.into() });
        Graph::new(specs.collect()).unwrap().with_previous(previous.collect())
    })
}

pub(super) fn events() -> impl Strategy<Value = Vec<HistoryEvent>> {
    let slot = 0..6usize;
    let event = prop_oneof![
        3 => (slot.clone(), any::<u8>()).prop_map(|(slot, wants)| HistoryEvent::Wants(slot, wants)),
        1 => (slot.clone(), any::<bool>()).prop_map(|(slot, fails)| HistoryEvent::Fails(slot, fails)),
        1 => (slot.clone(), any::<bool>()).prop_map(|(slot, waits)| HistoryEvent::Waits(slot, waits)),
        1 => (slot.clone(), any::<bool>()).prop_map(|(slot, refuses)| HistoryEvent::Refuses(slot, refuses)),
        3 => (slot.clone(), any::<bool>()).prop_map(|(slot, ready)| HistoryEvent::Ready(slot, ready)),
        1 => (0..20usize).prop_map(HistoryEvent::Deleted),
        2 => (slot, 0..3u8).prop_map(|(slot, number)| HistoryEvent::Created(slot, number)),
        3 => (0..10usize, edits()).prop_map(|(index, edit)| HistoryEvent::Edited(index, edit)),
        1 => (kinds(), any::<bool>()).prop_map(|(kind, is_installed)| HistoryEvent::Installed(kind, is_installed)),
        2 => Just(HistoryEvent::Collected),
        4 => Just(HistoryEvent::Pass(None)),
        1 => (0..6u8).prop_map(|steps| HistoryEvent::Pass(Some(steps))),
    ];
    prop::collection::vec(event, 0..40)
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        2 => any::<bool>().prop_map(Edit::Protected),
        2 => Just(Edit::Unlabelled),
        1 => (0..4u32).prop_map(Edit::Depth),
        1 => (0..4u32).prop_map(Edit::Renamed),
        1 => (0..6usize).prop_map(Edit::OfOtherKind),
        1 => Just(Edit::Taken),
        2 => any::<bool>().prop_map(Edit::Unreadable),
        1 => Just(Edit::Unadopted),
        2 => Just(Edit::Content),
    ]
}

pub(super) fn name(slot: usize) -> String {
    format!("s{slot}")
}
