//! Single fields of an object, found by their paths without decoding it.

use std::ops::Range;

use kooper_grammar::field_path::names;
use kooper_protobuf::{Kind, RawField, RawFields};

use crate::object::protobuf::extend;
use crate::object::scan::Cursor;

/// The value at a path; empty if there is none. `null` is none.
pub(super) fn in_json<'a>(json: &'a [u8], path: &str) -> &'a [u8] {
    let value = names(path).try_fold(json, member);
    value.filter(|value| *value != b"null").unwrap_or_default()
}

/// The value of a member, if it is one of an object.
fn member<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (mut cursor, mut found) = (Cursor::new(json), None);
    cursor.space();
    // An object in the store was scanned before, so it is complete.
    let _ = cursor.members(|cursor, key| {
        let start = cursor.at;
        cursor.skip()?;
        if key == name.as_bytes() {
            found = json.get(start..cursor.at);
        }
        Ok(())
    });
    found
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
