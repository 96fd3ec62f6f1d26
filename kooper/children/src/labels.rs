//! The labels by which children are found again. They are set when a child is created, so that no crash comes between.

use std::collections::BTreeMap;
use std::sync::Arc;

use kooper_access::internal::{BUCKET, bucket_of_owner};
use kooper_runtime::internal::watch::retriever::fnv1a;
use serde_json::Value;

use crate::observed::SlotLabel;

/// The program that applies the child, with its instance.
const PROGRAM: &str = "kooper.rs/program";
/// Its controller.
pub const CONTROLLER: &str = "kooper.rs/controller";
/// The slot.
pub const SLOT: &str = "kooper.rs/slot";
/// The depth of the slot.
pub const DEPTH: &str = "kooper.rs/depth";
/// Children of a slot with the flag `keep`, which is needed when the program no longer has the slot.
pub const KEPT: &str = "kooper.rs/kept";
/// An annotation that keeps a child from being deleted.
pub const KEEP: &str = "kooper.rs/keep";

/// An annotation of an owner whose children outlive it, with its uid: one that is restored from a backup has another.
pub(crate) const ORPHANS: &str = "kooper.rs/orphan";

/// An annotation of an owner, with the reason for which its daemon has failed.
pub(crate) const DAEMON_FAILED: &str = "kooper.rs/daemon-failed";
/// The longest value of a label.
const LONGEST: usize = 63;

/// The labels that all children of an owner have in common.
pub(crate) struct Marks {
    program: String,
    controller: String,
    bucket: String,
}

impl Marks {
    /// The labels of the children of the owner with this uid.
    pub(crate) fn new(program: &str, controller: &str, uid: &str) -> Self {
        Self { program: value(program), controller: value(controller), bucket: bucket_of_owner(uid) }
    }

    /// The labels of a child; `None` for one that it must not have.
    pub(crate) fn labels(&self, label: &SlotLabel) -> [(String, Option<String>); 6] {
        let Self { program, controller, bucket } = self;
        let values = [
            (PROGRAM, Some(program.clone())),
            (CONTROLLER, Some(controller.clone())),
            (SLOT, Some(value(&label.slot))),
            (DEPTH, Some(label.depth.to_string())),
            (KEPT, label.keep.then(|| "true".to_owned())),
            (BUCKET, Some(bucket.clone())),
        ];
        values.map(|(key, value)| (key.to_owned(), value))
    }

    /// Returns `true` if the labels are those of a child of another controller.
    pub(crate) fn are_others(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let is_other = |key, own| labels.and_then(|labels| labels.get(key)).is_some_and(|value| value != own);
        is_other(PROGRAM, &self.program) || is_other(CONTROLLER, &self.controller)
    }

    /// The slot of a child, if it is one of this controller. `slots` are the names of the known slots.
    pub(crate) fn read(&self, labels: Option<&BTreeMap<String, String>>, slots: &[Arc<str>]) -> Option<SlotLabel> {
        let get = |key| labels?.get(key);
        if *get(PROGRAM)? != self.program || *get(CONTROLLER)? != self.controller {
            return None;
        }
        let slot = get(SLOT)?;
        // The name of a known slot may be too long for a label.
        let known = slots.iter().find(|name| ***name == **slot || value(name) == **slot);
        let name = known.map_or_else(|| slot.as_str().into(), Arc::clone);
        Some(SlotLabel { slot: name, depth: get(DEPTH)?.parse().ok()?, keep: get(KEPT).is_some() })
    }
}

/// The labels of an object that Kooper has set.
pub(crate) fn of_kooper(labels: &Value) -> Vec<(&String, &Value)> {
    labels.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with("kooper.rs/")).collect()
}

/// A name as the value of a label. One that is too long, or that is no value, is cut off and gets its hash.
fn value(name: &str) -> String {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if bytes.len() <= LONGEST && is_end(bytes.first()) && is_end(bytes.last()) && name.bytes().all(is_inner) {
        return name.to_owned();
    }
    let hash = format!("{:016x}", fnv1a(bytes));
    let kept: String = name.chars().filter(char::is_ascii_alphanumeric).take(LONGEST - hash.len() - 1).collect();
    if kept.is_empty() { hash } else { format!("{kept}-{hash}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(program: &str, controller: &str) -> Marks {
        Marks::new(program, controller, "2c6f0c1e-7d4a-4f8c-9d5c-0a3f9a0f6c11")
    }

    fn set(label: &SlotLabel) -> BTreeMap<String, String> {
        marks("mall", "shops").labels(label).into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    #[test]
    fn the_slot_of_a_child_is_read_from_its_labels() {
        let long = "s".repeat(100);
        for (slot, keep) in [("web", false), ("_web", true), (&long, false)] {
            let label = SlotLabel { slot: slot.into(), depth: 2, keep };
            let set = set(&label);
            assert!(set.values().all(|value| value.len() <= LONGEST && value.as_bytes()[0].is_ascii_alphanumeric()));
            let read = |program, controller| marks(program, controller).read(Some(&set), &[slot.into()]);
            assert_eq!(read("mall", "shops"), Some(label));
            assert_eq!((read("mall", "others"), read("other", "shops")), (None, None));
        }
        assert_eq!(marks("mall", "shops").read(None, &[]), None);
    }

    #[test]
    fn a_slot_that_the_program_no_longer_has_keeps_its_name() {
        let label = SlotLabel { slot: "former".into(), depth: 0, keep: true };
        let set = set(&label);
        assert_eq!(marks("mall", "shops").read(Some(&set), &["web".into()]), Some(label));
    }

    #[test]
    fn names_that_begin_alike_have_different_labels() {
        let names = ["a", "b"].map(|end| format!("{}{end}", "s".repeat(100)));
        assert_ne!(value(&names[0]), value(&names[1]));
    }
}
