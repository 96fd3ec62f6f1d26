//! Objects that are kept as the API server sent them in protobuf.

use std::ops::Range;

use kooper_protobuf::{Kind, RawField};

use super::dictionary::Owners;
use super::text::Text;
use super::{Object, new_object};

/// Where the identity of an object is in its protobuf.
#[derive(Default)]
struct Identity<'a> {
    name: &'a [u8],
    namespace: &'a [u8],
    uid: &'a [u8],
    version: &'a [u8],
    owners: Range<usize>,
    terminating: bool,
}

impl Object {
    /// Creates an object from its protobuf, which is kept without `metadata.managedFields`. `memory` is where that is
    /// written.
    ///
    /// Returns `None` for an object that Kubernetes itself would encode in another way, and for one that is malformed:
    /// both are read as JSON, and what is wrong is reported there.
    pub(crate) fn from_protobuf(kind: Kind, raw: &[u8], memory: &mut Vec<u8>) -> Option<Self> {
        let mut fields = kind.fields(raw).filter(|field| field.name() == "metadata");
        let (metadata, None) = (fields.next()?, fields.next()) else { return None };
        let (mut identity, mut managed) = (Identity::default(), 0..0);
        for field in metadata.fields() {
            match field.name() {
                "name" => identity.name = field.value(),
                "namespace" => identity.namespace = field.value(),
                "uid" => identity.uid = field.value(),
                "resourceVersion" => identity.version = field.value(),
                "ownerReferences" => extend(&mut identity.owners, &field),
                // As in JSON, an empty message is no time.
                "deletionTimestamp" => identity.terminating = !field.value().is_empty(),
                // Something between two of them would be cut out with them.
                "managedFields" if !managed.is_empty() && managed.end != field.range().start => return None,
                "managedFields" => extend(&mut managed, &field),
                _ => {}
            }
        }
        memory.clear();
        without(raw, &metadata, managed, memory)?;
        // The managed fields are half of an object, and nobody reads them.
        if !kind.is_canonical(memory) {
            return None;
        }
        let name = word(identity.name).filter(|name| !name.is_empty())?;
        let owners = raw.get(identity.owners).filter(|owners| !owners.is_empty()).map(Owners::of);
        let text = Text::Plain { bytes: memory.as_slice().into(), owners };
        let (uid, version) = (word(identity.uid)?, word(identity.version)?);
        let namespace = Some(word(identity.namespace)?).filter(|namespace| !namespace.is_empty());
        let mut object = new_object(namespace, name, uid, version, text)?;
        (object.protobuf, object.terminating) = (Some(kind), identity.terminating);
        Some(object)
    }
}

/// Adds one occurrence of a field to those before it. In canonical bytes nothing is between them.
pub(super) fn extend(range: &mut Range<usize>, field: &RawField<'_>) {
    let found = field.range();
    *range = if range.end == 0 { found } else { range.start..found.end };
}

/// Writes an object without a part of its metadata. Returns `None` for metadata that no object of Kubernetes has.
fn without(raw: &[u8], metadata: &RawField<'_>, part: Range<usize>, to: &mut Vec<u8>) -> Option<()> {
    /// The number of the field and that it has a length.
    const METADATA: u8 = 1 << 3 | 2;
    if part.is_empty() {
        to.extend_from_slice(raw);
        return Some(());
    }
    let whole = metadata.range();
    to.extend_from_slice(raw.get(..whole.start)?);
    let tag = *raw.get(whole.start)?;
    if tag != METADATA {
        return None;
    }
    to.push(tag);
    let start = whole.end.checked_sub(metadata.value().len())?;
    let mut length = metadata.value().len().checked_sub(part.len())?;
    while length > 0x7f {
        to.push(length as u8 | 0x80);
        length >>= 7;
    }
    to.push(length as u8);
    to.extend_from_slice(raw.get(start..part.start)?);
    to.extend_from_slice(raw.get(part.end..)?);
    Some(())
}

/// A string that JSON writes without escapes, as names, uids and versions are. Others count as empty, as in JSON, and of
/// those that are not UTF-8 JSON has another form.
fn word(bytes: &[u8]) -> Option<&str> {
    let escaped = |byte: u8| matches!(byte, 0..=0x1f | b'"' | b'\\' | b'/');
    std::str::from_utf8(bytes).ok().map(|text| if text.bytes().any(escaped) { "" } else { text })
}

#[cfg(test)]
mod tests;
