//! Single fields of an object, found by their paths without decoding it.

use std::collections::BTreeMap;
use std::ops::Range;

use kooper_grammar::field_path::names;
use kooper_protobuf::{Kind, RawField, RawFields};

use crate::object::protobuf::extend;
use crate::object::scan::Cursor;

/// Values by the names of their fields.
pub(super) type Members<'a> = BTreeMap<&'a [u8], &'a [u8]>;

/// The value at a path; empty if there is none. `null` is none.
pub(super) fn in_json<'a>(json: &'a [u8], path: &str) -> &'a [u8] {
    names(path).try_fold(json, member).filter(|value| *value != b"null").unwrap_or_default()
}

/// The last member of an object with a name.
fn member<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    each_member(json, |member, value| {
        if member == name.as_bytes() {
            found = Some(value);
        }
    });
    found
}

/// The members of an object, as they are written; none of another value.
pub(super) fn members(json: &[u8]) -> Members<'_> {
    let mut members = Members::new();
    each_member(json, |name, value| {
        members.insert(name, value);
    });
    members
}

fn each_member<'a>(json: &'a [u8], mut each: impl FnMut(&'a [u8], &'a [u8])) {
    let mut cursor = Cursor::new(json);
    cursor.space();
    // An object in the store was scanned before, so it is complete.
    let _ = cursor.members(|cursor, name| {
        let value = cursor.value()?;
        each(name, json.get(value).unwrap_or_default());
        Ok(())
    });
}

/// Returns `true` if the fields at a path of two canonical objects differ. `None` if that depends on what only JSON
/// names: the keys of a map, and messages whose fields JSON writes into the surrounding object.
pub(super) fn differs_in_protobuf(kind: Kind, old: &[u8], new: &[u8], path: &str) -> Option<bool> {
    let (mut before, mut after) = (kind.fields(old), kind.fields(new));
    let mut names = names(path).peekable();
    while let Some(name) = names.next() {
        let is_known = before.has(name);
        match (occurrences(before, name), occurrences(after, name)) {
            (None, None) => return is_known.then_some(false),
            (Some((one, _)), Some((other, _))) if old.get(one.clone()) == new.get(other.clone()) => return Some(false),
            _ if names.peek().is_none() => return Some(true),
            (Some((_, one)), Some((_, other))) => (before, after) = (one.fields(), other.fields()),
            // The rest of the path may lead to nothing in the other one, too.
            _ => return None,
        }
    }
    None
}

/// Where all occurrences of a field are, and one of them.
fn occurrences<'a>(fields: RawFields<'a>, name: &str) -> Option<(Range<usize>, RawField<'a>)> {
    let mut all = fields.filter(|field| field.name() == name);
    let first = all.next()?;
    let mut range = first.range();
    all.for_each(|field| extend(&mut range, &field));
    Some((range, first))
}
