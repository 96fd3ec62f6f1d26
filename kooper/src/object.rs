//! An object as the API server sent it: raw bytes, read only as far as needed.

mod metadata;
pub(crate) mod scan;
mod sections;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::ObjectKey;
pub use metadata::Metadata;
pub use sections::Changed;
pub(crate) use sections::differs;

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
#[error("not a Kubernetes object: {why}; it begins with `{head}`")]
pub struct MalformedObject {
    why: &'static str,
    head: String,
}

/// An object whose JSON does not fit the type that it was asked for.
#[derive(Debug, thiserror::Error)]
#[error("object {key} is no {kind}: {}", without_value(cause))]
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
        let kind = std::any::type_name::<K>().rsplit("::").next().unwrap_or_default();
        serde_json::from_slice(&self.json()).map_err(|cause| DecodeError { key: self.key.clone(), kind, cause })
    }

    /// Whether both are the same version of the same object.
    pub(crate) fn same_version(&self, other: &Self) -> bool {
        let told = !self.version().is_empty() && self.version() == other.version() && self.uid() == other.uid();
        // A source without versions, as in a test, leaves the contents.
        told || (self.version().is_empty() && other.version().is_empty() && self.json() == other.json())
    }
}

impl DecodeError {
    /// The same error once more.
    pub(crate) fn again(&self) -> Self {
        let cause = serde::de::Error::custom(&self.cause);
        Self { key: self.key.clone(), kind: self.kind, cause }
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
        // Enough to recognise kind and name, too little for a secret's data.
        let head = json.get(..json.len().min(60)).unwrap_or_default();
        Self { why: broken.0, head: String::from_utf8_lossy(head).into_owned() }
    }
}

/// serde's words without the text that it found: that may be a secret.
fn without_value(cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    for (before, after) in [("string \"", "\", expected"), ("variant `", "`, expected")] {
        if let (Some(start), Some(end)) = (text.find(before), text.rfind(after))
            && start + before.len() <= end
        {
            let kept = [text.get(..start + before.len()), Some("…"), text.get(end..)];
            return kept.into_iter().flatten().collect();
        }
    }
    text
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
