//! An object as the API server sent it: raw bytes, read only as far as needed.

pub(crate) mod scan;
mod sections;

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::ObjectKey;
pub use sections::Changed;
pub(crate) use sections::differs;

use scan::{Broken, Frame};

/// One version of one object: its JSON without `metadata.managedFields`.
///
/// Its key, uid and version are known; everything else is read from the bytes
/// when somebody asks. The typed structs of a pod take some twenty times the
/// room of its JSON, so that the store keeps this.
pub struct Object {
    key: ObjectKey,
    uid: Span,
    version: Span,
    json: Box<[u8]>,
}

#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn of(range: &Range<usize>) -> Self {
        // An object is far below 4 GiB: the API server refuses 3 MiB.
        Self { start: range.start as u32, end: range.end as u32 }
    }
}

/// Bytes that are no object: the JSON is broken, or it has no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Kubernetes object: {why}; it begins with `{head}`")]
pub struct MalformedObject {
    why: &'static str,
    head: String,
}

/// An object whose JSON does not fit the type that it was asked for.
#[derive(Debug, thiserror::Error)]
#[error("object {key} is no {kind}: {cause}")]
pub struct DecodeError {
    /// The object.
    pub key: ObjectKey,
    /// The Rust type it was to become.
    pub kind: &'static str,
    /// serde's own words, with line and column in the object's JSON.
    pub cause: serde_json::Error,
}

impl Object {
    /// Takes an object's JSON; `metadata.managedFields` is left out.
    ///
    /// # Errors
    /// When the bytes are no JSON object or hold no `metadata.name`. Whether
    /// they fit a type shows in [`decode`](Self::decode).
    pub fn parse(json: &[u8]) -> Result<Self, MalformedObject> {
        let frame = Frame::scan(json, 0).map_err(|broken| MalformedObject::new(broken, json))?;
        Self::from_frame(json, &frame)
    }

    /// Takes an object that a scan has found in a longer text.
    pub(crate) fn from_frame(text: &[u8], frame: &Frame) -> Result<Self, MalformedObject> {
        let whole = text.get(frame.whole.clone()).unwrap_or_default();
        let malformed = |why| MalformedObject::new(Broken(why), whole);
        let name =
            frame.name.as_ref().and_then(|range| word(text, range)).ok_or_else(|| malformed("it has no name"))?;
        let namespace = frame.namespace.as_ref().and_then(|range| word(text, range));
        let (json, cut) = match &frame.managed {
            Some(managed) => {
                let managed = managed.start - frame.whole.start..managed.end - frame.whole.start;
                let kept = [whole.get(..managed.start), whole.get(managed.end..)];
                (kept.into_iter().flatten().collect::<Vec<_>>().concat().into_boxed_slice(), managed)
            }
            None => (Box::from(whole), whole.len()..whole.len()),
        };
        let moved = |range: &Option<Range<usize>>| {
            range.as_ref().map_or(Span::default(), |range| {
                let before = if range.start - frame.whole.start >= cut.end { cut.len() } else { 0 };
                let offset = frame.whole.start + before;
                Span::of(&(range.start - offset..range.end - offset))
            })
        };
        Ok(Self { key: ObjectKey::new(namespace, name), uid: moved(&frame.uid), version: moved(&frame.version), json })
    }

    /// The raw form of a typed object.
    ///
    /// # Errors
    /// When it cannot be written as JSON, or has no name.
    pub fn from_typed<K: Serialize>(object: &K) -> Result<Self, MalformedObject> {
        let json = serde_json::to_vec(object)
            .map_err(|_| MalformedObject::new(Broken("it cannot be written as JSON"), b""))?;
        Self::parse(&json)
    }

    /// The namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The uid, empty where the source gives none.
    pub fn uid(&self) -> &str {
        self.text(self.uid)
    }

    /// The resource version, empty where the source gives none.
    pub fn version(&self) -> &str {
        self.text(self.version)
    }

    /// The JSON text.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// The object as a type.
    ///
    /// # Errors
    /// When the JSON does not fit it; the error names the object.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, DecodeError> {
        serde_json::from_slice(&self.json).map_err(|cause| DecodeError {
            key: self.key.clone(),
            kind: std::any::type_name::<K>().rsplit("::").next().unwrap_or_default(),
            cause,
        })
    }

    /// Whether both are the same version of the same object.
    pub(crate) fn same_version(&self, other: &Self) -> bool {
        let told = !self.version().is_empty() && self.version() == other.version() && self.uid() == other.uid();
        // A source without versions, as in a test, leaves the contents.
        told || (self.version().is_empty() && self.json == other.json)
    }

    fn text(&self, span: Span) -> &str {
        self.json
            .get(span.start as usize..span.end as usize)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl fmt::Debug for Object {
    /// The identity only: an object may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("uid", &self.uid())
            .field("version", &self.version())
            .field("bytes", &self.json.len())
            .finish()
    }
}

impl MalformedObject {
    fn new(broken: Broken, json: &[u8]) -> Self {
        // Enough to recognise kind and name, too little for a secret's data.
        let head = json.get(..json.len().min(60)).unwrap_or_default();
        Self { why: broken.0, head: String::from_utf8_lossy(head).into_owned() }
    }
}

/// A non-empty string without escapes, as names, uids and versions are.
fn word<'a>(text: &'a [u8], range: &Range<usize>) -> Option<&'a str> {
    let bytes = text.get(range.clone())?;
    if bytes.is_empty() || bytes.contains(&b'\\') || bytes.contains(&b'/') {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
