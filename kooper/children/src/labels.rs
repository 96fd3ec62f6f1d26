//! The labels by which children are found again. They are set when a child is created, so that no crash comes between.

use std::collections::BTreeMap;

use crate::observed::SlotLabel;

/// The controller that applies the child.
const CONTROLLER: &str = "kooper.rs/controller";
/// The slot.
pub const SLOT: &str = "kooper.rs/slot";
/// The depth of the slot.
const DEPTH: &str = "kooper.rs/depth";
/// An annotation that keeps a child from being pruned.
pub(crate) const KEEP: &str = "kooper.rs/keep";

/// The longest value of a label.
const LONGEST: usize = 63;

/// The labels of a child.
pub(crate) fn labels(controller: &str, label: &SlotLabel) -> [(String, String); 3] {
    let values = [(CONTROLLER, value(controller)), (SLOT, value(&label.slot)), (DEPTH, label.depth.to_string())];
    values.map(|(key, value)| (key.to_owned(), value))
}

/// The slot of a child, if it is one of this controller. `slots` are the names of the known slots.
pub(crate) fn read<'a>(
    labels: Option<&BTreeMap<String, String>>,
    controller: &str,
    mut slots: impl Iterator<Item = &'a str>,
) -> Option<SlotLabel> {
    let get = |key| labels?.get(key);
    if *get(CONTROLLER)? != value(controller) {
        return None;
    }
    let slot = get(SLOT)?;
    // The name of a known slot may be too long for a label.
    let name = slots.find(|name| value(name) == *slot).map_or_else(|| slot.clone(), str::to_owned);
    Some(SlotLabel { slot: name, depth: get(DEPTH)?.parse().ok()? })
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

/// A hash that is the same in every version of the program.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_of_a_child_is_read_from_its_labels() {
        let long = "s".repeat(100);
        for slot in ["web", "_web", &long] {
            let label = SlotLabel { slot: slot.to_owned(), depth: 2 };
            let set: BTreeMap<_, _> = labels("shops", &label).into();
            assert!(set.values().all(|value| value.len() <= LONGEST && value.as_bytes()[0].is_ascii_alphanumeric()));
            assert_eq!(read(Some(&set), "shops", [slot].into_iter()), Some(label));
            assert_eq!(read(Some(&set), "others", [slot].into_iter()), None);
        }
        assert_eq!(read(None, "shops", std::iter::empty()), None);
    }

    #[test]
    fn a_slot_that_the_program_no_longer_has_keeps_its_name() {
        let label = SlotLabel { slot: "former".to_owned(), depth: 0 };
        let set: BTreeMap<_, _> = labels("shops", &label).into();
        assert_eq!(read(Some(&set), "shops", ["web"].into_iter()), Some(label));
    }

    #[test]
    fn names_that_begin_alike_have_different_labels() {
        let names = ["a", "b"].map(|end| format!("{}{end}", "s".repeat(100)));
        assert_ne!(value(&names[0]), value(&names[1]));
    }
}
