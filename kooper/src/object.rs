//! An object as the API server sent it: raw bytes, read only as far as needed.

mod fault;
pub(crate) mod key;
pub(crate) mod kind;
mod metadata;
pub(crate) mod scan;
pub(crate) mod sections;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::object::key::ObjectKey;
pub use metadata::Metadata;
pub(crate) use sections::differs;

use fault::Fault;
use scan::{Broken, Frame};
pub(crate) use text::Dictionary;
use text::Text;

/// One version of one object: its JSON without `metadata.managedFields`.
///
/// Its key, uid and version are known; everything else is read from the bytes
/// when somebody asks. The typed structs of a pod take some twenty times the
/// room of its JSON, so that the store keeps this, compressed.
pub struct Object {
    key: ObjectKey,
    /// The uid and behind it the version.
    identity: Box<str>,
    uid_length: usize,
    text: Text,
    /// A digest of what was applied to this version and changed nothing.
    settled: AtomicU64,
}

/// Bytes that are no object: the JSON is broken, or it has no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Kubernetes object: {why}; these are {bytes} bytes that begin with {head:?}")]
pub struct MalformedObject {
    why: &'static str,
    bytes: usize,
    head: char,
}

/// An object whose JSON does not fit the type that it was asked for. It holds
/// no value of the object, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "object {key} is no {kind}: {path}{}{problem}{}",
    if path.is_empty() { "" } else { ": " },
    if *line > 0 { format!(" (line {line}, column {column})") } else { String::new() },
)]
#[non_exhaustive]
pub struct DecodeError {
    /// The object.
    pub key: ObjectKey,
    /// The Rust type it was to become.
    pub kind: &'static str,
    /// The field that does not fit, as `spec.ports[0].name`; empty for the
    /// object as a whole.
    pub path: String,
    /// The types that were expected and found.
    pub problem: String,
    /// The line in the object's JSON, beginning with 1; 0 where the object was
    /// not decoded at all.
    pub line: usize,
    /// The column in that line.
    pub column: usize,
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
        let json = match &frame.managed {
            Some(managed) => {
                let (before, after) =
                    (text.get(frame.whole.start..managed.start), text.get(managed.end..frame.whole.end));
                [before.unwrap_or_default(), after.unwrap_or_default()].concat().into_boxed_slice()
            }
            None => Box::from(whole),
        };
        let uid = frame.uid.as_ref().and_then(|range| word(text, range)).unwrap_or_default();
        let version = frame.version.as_ref().and_then(|range| word(text, range)).unwrap_or_default();
        Ok(Self {
            key: ObjectKey::new(namespace, name),
            identity: [uid, version].concat().into_boxed_str(),
            uid_length: uid.len(),
            text: Text::Plain(json),
            settled: AtomicU64::new(0),
        })
    }

    /// The same object, its JSON compressed.
    pub(crate) fn packed(mut self, dictionary: &Dictionary) -> Self {
        self.text = self.text.packed(dictionary);
        self
    }

    /// The bytes that its JSON takes as it is kept.
    pub(crate) fn size(&self) -> usize {
        self.text.size()
    }

    /// Whether it is known that to apply this changes nothing.
    pub(crate) fn is_settled(&self, digest: u64) -> bool {
        self.settled.load(Ordering::Relaxed) == digest
    }

    /// To apply this has changed nothing.
    pub(crate) fn settle(&self, digest: u64) {
        self.settled.store(digest, Ordering::Relaxed);
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
        self.identity.get(..self.uid_length).unwrap_or_default()
    }

    /// The resource version, empty where the source gives none.
    pub fn version(&self) -> &str {
        self.identity.get(self.uid_length..).unwrap_or_default()
    }

    /// The JSON text.
    pub fn json(&self) -> Cow<'_, [u8]> {
        self.text.plain()
    }

    /// The object as a type.
    ///
    /// # Errors
    /// When the JSON does not fit it; the error names the object.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, DecodeError> {
        let json = self.json();
        serde_json::from_slice(&json).map_err(|error| {
            let kind = std::any::type_name::<K>().rsplit("::").next().unwrap_or_default();
            DecodeError::new(self.key.clone(), kind, &json, &error)
        })
    }

    /// Whether both are the same version of the same object.
    pub(crate) fn same_version(&self, other: &Self) -> bool {
        let told = !self.version().is_empty() && self.version() == other.version() && self.uid() == other.uid();
        // A source without versions, as in a test, leaves the contents.
        told || (self.version().is_empty() && other.version().is_empty() && self.json() == other.json())
    }
}

impl fmt::Debug for Object {
    /// The identity only: an object may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("uid", &self.uid())
            .field("version", &self.version())
            .field("bytes", &self.size())
            .finish()
    }
}

impl MalformedObject {
    fn new(broken: Broken, json: &[u8]) -> Self {
        Self { why: broken.0, bytes: json.len(), head: head(json) }
    }
}

impl DecodeError {
    fn new(key: ObjectKey, kind: &'static str, json: &[u8], error: &serde_json::Error) -> Self {
        let Fault { path, problem } = Fault::of(json, error);
        Self { key, kind, path, problem, line: error.line(), column: error.column() }
    }

    /// An object that cannot be read for a reason that is not in its JSON.
    pub(crate) fn unread(key: ObjectKey, kind: &'static str, problem: &str) -> Self {
        Self { key, kind, path: String::new(), problem: problem.to_owned(), line: 0, column: 0 }
    }
}

/// What a text begins with: enough to tell JSON from an error page, too little
/// for a secret.
pub(crate) fn head(text: &[u8]) -> char {
    text.iter().copied().find(|byte| !byte.is_ascii_whitespace()).map_or(' ', char::from)
}

/// Whether a version is before another. Versions are numbers that grow; where
/// a source has others, nothing is said of their order.
pub(crate) fn older(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
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
