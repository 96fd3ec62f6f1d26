//! Kubernetes objects as the API server sent them: raw protobuf or JSON that is
//! decoded on demand.

pub(crate) mod as_object;
mod dictionary;
pub(crate) mod key;
pub(crate) mod kind;
pub(crate) mod metadata;
mod mismatch;
pub(crate) mod named;
pub(crate) mod partial;
mod protobuf;
pub(crate) mod scan;
pub(crate) mod sections;
pub(crate) mod segment;
mod text;
pub(crate) mod version;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::object::key::ObjectKey;
use crate::object::kind::short_type_name;
pub use metadata::Metadata;
pub(crate) use sections::differs;
pub(crate) use version::older;

pub(crate) use dictionary::Dictionaries;
use dictionary::Owners;
use mismatch::Mismatch;
use scan::ObjectRanges;
use text::Text;

/// One version of a Kubernetes object: its protobuf or its JSON, as the API server
/// sent it, without `metadata.managedFields`.
///
/// The key, uid and resource version are read at once; everything else is
/// decoded on demand. The store keeps objects in this form, compressed, because
/// the struct of a pod takes ten times the memory of its protobuf.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kooper::object::Object;
///
/// let json = br#"{"metadata": {"name": "settings", "namespace": "shop"}, "data": {"size": "3"}}"#;
/// let object = Object::parse(json)?;
/// assert_eq!(object.key().to_string(), "shop/settings");
///
/// let config: ConfigMap = object.decode()?;
/// assert_eq!(config.data.unwrap()["size"], "3");
/// # Ok::<_, kooper::BoxError>(())
/// ```
pub struct Object {
    key: ObjectKey,
    /// The uid, followed by the version.
    identity: Box<str>,
    uid_length: u32,
    /// `true` if `metadata.deletionTimestamp` is set.
    terminating: bool,
    /// The kind of an object whose text is protobuf; `None` for JSON.
    protobuf: Option<kooper_protobuf::Kind>,
    text: Text,
    /// A digest of the last apply that did not change this version.
    settled: AtomicU64,
}

/// Bytes that are not a Kubernetes object: invalid JSON, or an object without a name.
///
/// It holds only the length and the first character, because the bytes may be a
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Kubernetes object: {why}; it has {bytes} bytes and begins with {head:?}")]
pub struct MalformedObject {
    why: Cow<'static, str>,
    bytes: usize,
    head: char,
}

/// An object whose JSON does not match the requested type. It does not hold
/// values of the object, because they may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "object {key} is not a valid {kind}: {path}{}{problem}{}",
    if path.is_empty() { "" } else { ": " },
    if *line > 0 { format!(" (line {line}, column {column})") } else { String::new() },
)]
#[non_exhaustive]
pub struct DecodeError {
    /// The key of the object.
    pub key: ObjectKey,
    /// The name of the requested Rust type.
    pub kind: &'static str,
    /// The path of the field that does not match, such as `spec.ports[0].name`;
    /// empty for the object as a whole.
    pub path: String,
    /// The expected and the actual type.
    pub problem: String,
    /// The line in the object's JSON, counted from 1; 0 if the object was not
    /// decoded.
    pub line: usize,
    /// The column in that line.
    pub column: usize,
}

impl Object {
    /// Parses the JSON of an object, without `metadata.managedFields`.
    ///
    /// # Errors
    /// If the bytes are not a JSON object, or `metadata.name` is missing. Whether
    /// they match a type is checked by [`decode`](Self::decode).
    pub fn parse(json: &[u8]) -> Result<Self, MalformedObject> {
        let ranges = ObjectRanges::scan(json, 0).map_err(|broken| MalformedObject::new(broken.0, json))?;
        Self::from_ranges(json, &ranges)
    }

    /// Creates an object from its ranges in a longer text.
    pub(crate) fn from_ranges(text: &[u8], ranges: &ObjectRanges) -> Result<Self, MalformedObject> {
        let whole = text.get(ranges.whole.clone()).unwrap_or_default();
        let malformed = |why: &'static str| MalformedObject::new(why, whole);
        let name =
            ranges.name.as_ref().and_then(|range| word(text, range)).ok_or_else(|| malformed("it has no name"))?;
        let namespace = ranges.namespace.as_ref().and_then(|range| word(text, range));
        let json = match &ranges.managed {
            Some(managed) => {
                let (before, after) =
                    (text.get(ranges.whole.start..managed.start), text.get(managed.end..ranges.whole.end));
                [before.unwrap_or_default(), after.unwrap_or_default()].concat().into_boxed_slice()
            }
            None => Box::from(whole),
        };
        let owners = ranges.owners.as_ref().and_then(|range| text.get(range.clone())).map(Owners::of);
        let uid = ranges.uid.as_ref().and_then(|range| word(text, range)).unwrap_or_default();
        let version = ranges.version.as_ref().and_then(|range| word(text, range)).unwrap_or_default();
        let text = Text::Plain { bytes: json, owners };
        let object = new_object(namespace, name, uid, version, text).ok_or_else(|| malformed("its uid is too long"))?;
        Ok(Self { terminating: ranges.terminating, ..object })
    }

    /// The same object, its text compressed for a store that may know it in another
    /// version. Without dictionaries it shares nothing with other objects.
    pub(crate) fn packed(mut self, dictionaries: Option<&Dictionaries>, known: bool) -> Self {
        self.text = self.text.packed(|text, owners| Some(dictionaries?.choose(text, owners, known)));
        self
    }

    /// The size of its text in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.text.size()
    }

    /// Returns `true` if the apply with this digest is known to change nothing.
    #[doc(hidden)]
    pub fn is_settled(&self, digest: u64) -> bool {
        self.settled.load(Ordering::Relaxed) == digest
    }

    /// Records that applying this changed nothing.
    #[doc(hidden)]
    pub fn settle(&self, digest: u64) {
        self.settled.store(digest, Ordering::Relaxed);
    }

    /// Serializes a typed object.
    ///
    /// # Errors
    /// If it cannot be serialized as JSON, or has no name.
    pub fn from_typed<K: Serialize>(object: &K) -> Result<Self, MalformedObject> {
        let json =
            serde_json::to_vec(object).map_err(|_| MalformedObject::new("it cannot be serialized as JSON", b""))?;
        Self::parse(&json)
    }

    /// The namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The uid; empty if the object has none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.identity.get(..self.uid_length as usize).unwrap_or_default()
    }

    /// The resource version; empty if the object has none.
    #[must_use]
    pub fn version(&self) -> &str {
        self.identity.get(self.uid_length as usize..).unwrap_or_default()
    }

    /// Returns `true` if the object is being deleted: it has a deletion timestamp.
    #[doc(hidden)]
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// The JSON. It is written now if the object was sent in protobuf.
    #[must_use]
    pub fn json(&self) -> Cow<'_, [u8]> {
        match self.protobuf {
            None => self.text.plain(),
            Some(kind) => Cow::Owned(self.text.read(|raw| json_of(kind, raw))),
        }
    }

    /// Decodes the object.
    ///
    /// # Errors
    /// If the object does not match the type; the error names the object.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, DecodeError> {
        self.text.read(|bytes| self.decode_text(bytes))
    }

    fn decode_text<K: DeserializeOwned>(&self, bytes: &[u8]) -> Result<K, DecodeError> {
        match self.protobuf {
            None => self.decode_json(bytes),
            // Only the error for JSON has the path of the field.
            Some(kind) => kind.deserialize(bytes).or_else(|_| self.decode_json(&json_of(kind, bytes))),
        }
    }

    fn decode_json<K: DeserializeOwned>(&self, json: &[u8]) -> Result<K, DecodeError> {
        let kind = short_type_name::<K>();
        // Checking the whole text takes less time than checking each of its strings. Bytes that are no text could
        // be read as well, by code that every type would then be compiled a second time for.
        let text = std::str::from_utf8(json)
            .map_err(|error| DecodeError::not_text(self.key.clone(), kind, json, error.valid_up_to()))?;
        serde_json::from_str(text).map_err(|error| DecodeError::new(self.key.clone(), kind, json, &error))
    }

    /// Returns `true` if both are the same version of the same object.
    pub(crate) fn same_version(&self, other: &Self) -> bool {
        let versioned = !self.version().is_empty() && self.version() == other.version() && self.uid() == other.uid();
        // Objects without versions, as in tests, are compared by content.
        versioned || (self.version().is_empty() && other.version().is_empty() && self.json() == other.json())
    }
}

/// An object of JSON that is not being deleted. Returns `None` if its uid is too long.
fn new_object(namespace: Option<&str>, name: &str, uid: &str, version: &str, text: Text) -> Option<Object> {
    Some(Object {
        key: ObjectKey::new(namespace, name),
        identity: [uid, version].concat().into_boxed_str(),
        uid_length: u32::try_from(uid.len()).ok()?,
        terminating: false,
        protobuf: None,
        text,
        settled: AtomicU64::new(0),
    })
}

/// The JSON of protobuf that was found to be canonical, which therefore has one.
fn json_of(kind: kooper_protobuf::Kind, raw: &[u8]) -> Vec<u8> {
    kind.decode_json(raw).unwrap_or_default()
}

impl fmt::Debug for Object {
    /// Only the identity, because an object may hold secrets.
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
    pub(crate) fn new(why: impl Into<Cow<'static, str>>, bytes: &[u8]) -> Self {
        Self { why: why.into(), bytes: bytes.len(), head: head(bytes) }
    }
}

impl DecodeError {
    fn new(key: ObjectKey, kind: &'static str, json: &[u8], error: &serde_json::Error) -> Self {
        let Mismatch { path, problem } = Mismatch::of(json, error);
        Self { key, kind, path, problem, line: error.line(), column: error.column() }
    }

    /// An error for an object whose bytes are no UTF-8 from an offset on.
    fn not_text(key: ObjectKey, kind: &'static str, json: &[u8], offset: usize) -> Self {
        let before = json.get(..offset).unwrap_or_default();
        let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        Self {
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            column: 1 + line.len(),
            ..Self::unread(key, kind, "its JSON is not UTF-8")
        }
    }

    /// An error for an object that cannot be read for another reason than its JSON.
    pub(crate) fn unread(key: ObjectKey, kind: &'static str, problem: &str) -> Self {
        Self { key, kind, path: String::new(), problem: problem.to_owned(), line: 0, column: 0 }
    }
}

/// The first character of a text: enough to distinguish JSON from an error page,
/// too little to reveal a secret.
pub(crate) fn head(text: &[u8]) -> char {
    text.iter().copied().find(|byte| !byte.is_ascii_whitespace()).map_or(' ', char::from)
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
