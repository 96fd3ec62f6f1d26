//! The rules of slots, and of several slots together.

use kooper_grammar::suggest::nearest;
use proc_macro2::Ident;

use super::{FLAGS, Slot};
use crate::controller::value::Value;
use crate::support::errors::message;
use crate::support::place::Place;
use crate::support::suggest;

/// Notes all mistakes.
pub(super) fn slots(value: &Value<'_>, slots: &[Slot]) {
    for (index, slot) in slots.iter().enumerate() {
        check_name(value, slot, slots.get(..index).unwrap_or_default());
        check_flags(value, slot);
        check_names(value, slot, slots);
    }
    check_order(value, slots);
}

fn check_name(value: &Value<'_>, slot: &Slot, before: &[Slot]) {
    let name = &slot.name;
    if FLAGS.find(&name.to_string()).is_some() {
        value.note(name.span(), message!("`{name}` is the name of a flag: rename the function"));
    } else if before.iter().any(|other| other.name == *name) {
        let text = message!("two slots have the name `{name}`: list each function once, and give each another name");
        value.note(Place::of(&slot.path), text);
    }
}

/// Checks that no flag contradicts another one.
fn check_flags(value: &Value<'_>, slot: &Slot) {
    for (one, other) in [("once", "recreate"), ("keep", "prune"), ("keep", "recreate")] {
        if let (Some(_), Some(flag)) = (slot.flag(one), slot.flag(other)) {
            value.note(flag.key, message!("a slot cannot have both `{one}` and `{other}`: remove one of them"));
        }
    }
    if slot.flag("external").is_none() {
        return;
    }
    for name in ["once", "keep", "prune", "recreate", "adopt"] {
        if let Some(flag) = slot.flag(name) {
            value.note(flag.key, message!("an object with `external` is never written: remove `{name}` or `external`"));
        }
    }
}

/// Checks that each name is that of a slot.
fn check_names(value: &Value<'_>, slot: &Slot, slots: &[Slot]) {
    let is_known = |name: &&Ident| slots.iter().any(|slot| slot.name == **name);
    let known: Vec<_> = slots.iter().map(|other| other.name.to_string()).filter(|name| slot.name != name).collect();
    let flags: Vec<_> = FLAGS.keys.iter().map(|key| key.name).collect();
    let nearest = |word: &str| nearest(word, known.iter().map(String::as_str));
    for name in slot.inputs.iter().filter(|name| !is_known(name)) {
        let word = name.to_string();
        let text = match nearest(&word).or_else(|| suggest::meant(&word, &flags, FLAGS.others)) {
            Some(meant) => message!("unknown slot or flag `{word}`: write `{meant}`"),
            None => {
                let flags = flags.join("`, `");
                message!(
                    "unknown slot or flag `{word}`: add the function `{word}` to the list, or write one of the flags `{flags}`"
                )
            }
        };
        value.note(name.span(), text);
    }
    for name in slot.after.iter().filter(|name| !is_known(name)) {
        let text = match nearest(&name.to_string()) {
            Some(meant) => message!("unknown slot `{name}`: write `{meant}`"),
            None => message!("unknown slot `{name}`: add the function `{name}` to the list"),
        };
        value.note(name.span(), text);
    }
}

/// Checks that no slots wait for each other. The first dependency of each circle is reported.
fn check_order(value: &Value<'_>, slots: &[Slot]) {
    let mut reported: Vec<&Ident> = Vec::new();
    for slot in slots {
        for other in slot.waits_for() {
            if slot.name == *other {
                value.note(other.span(), message!("`{other}` cannot wait for itself: remove it"));
                break;
            }
            let Some(way) = way(other, &slot.name, slots) else { continue };
            if !reported.contains(&&slot.name) {
                let names: Vec<_> = way.iter().map(|name| format!("`{name}`")).collect();
                let names = names.join(", ");
                let text = message!("the slots {names} wait for each other: remove one of these dependencies");
                value.note(other.span(), text);
            }
            reported.extend(way);
            break;
        }
    }
}

/// The slots on a way of dependencies from one to another, with both. The last one is the first of the list.
fn way<'a>(from: &Ident, to: &Ident, slots: &'a [Slot]) -> Option<Vec<&'a Ident>> {
    let mut ways: Vec<Vec<&Slot>> = vec![slots.iter().filter(|slot| slot.name == *from).take(1).collect()];
    let mut seen: Vec<&Ident> = Vec::new();
    while let Some(way) = ways.pop() {
        let Some(last) = way.last() else { continue };
        if last.name == *to {
            let mut names: Vec<_> = way.iter().map(|slot| &slot.name).collect();
            names.rotate_right(1);
            return Some(names);
        }
        if seen.contains(&&last.name) {
            continue;
        }
        seen.push(&last.name);
        for next in last.waits_for().filter_map(|next| slots.iter().find(|slot| slot.name == *next)) {
            ways.push(way.iter().copied().chain([next]).collect());
        }
    }
    None
}
