//! One version of one object, encoded once.

use bytes::Bytes;
use serde_json::{Map, Value};

/// One version of one object: the encoded bytes, and what selecting needs.
///
/// The bytes are `{"kind":…,"apiVersion":…,"metadata":{"resourceVersion":"N",…},…}`
/// in this order, so that a list item without the kind, another API version and
/// another resource version are slices of them.
#[derive(Debug)]
pub(crate) struct Object {
    /// The store's version that this state was written with.
    pub(crate) version: u64,
    bytes: Bytes,
    /// Where `"metadata"` begins.
    metadata: usize,
    traits: Traits,
}

/// Properties of an object that are available without decoding it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traits {
    pub(crate) uid: Box<str>,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// The values of the kind's selectable fields, in the kind's order.
    pub(crate) fields: Box<[Box<str>]>,
    /// Value that is stored but not visible to clients: the `internalTrafficPolicy` of a Service of
    /// type `ExternalName`.
    pub(crate) hidden: Option<Box<str>>,
}

/// An object that is encoded but has no version yet.
#[derive(Debug)]
pub(crate) struct Draft {
    /// Everything before the version.
    head: Vec<u8>,
    /// Everything behind the version's closing quote.
    tail: Vec<u8>,
    metadata: usize,
    traits: Traits,
}

impl Draft {
    /// Encodes an object. Its `resourceVersion` is left out.
    pub(crate) fn new(object: &Value, traits: Traits) -> Self {
        let empty = Map::new();
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(b"{\"kind\":");
        write_json(&mut head, &text("kind"));
        head.extend_from_slice(b",\"apiVersion\":");
        write_json(&mut head, &text("apiVersion"));
        head.push(b',');
        let metadata = head.len();
        head.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
        let mut tail = Vec::with_capacity(512);
        tail.push(b'"');
        let entries = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        for (key, value) in entries.iter().filter(|(key, _)| *key != "resourceVersion") {
            tail.push(b',');
            write_json(&mut tail, key);
            tail.push(b':');
            write_json(&mut tail, value);
        }
        tail.push(b'}');
        let rest = object.as_object().unwrap_or(&empty).iter();
        for (key, value) in rest.filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion" | "metadata")) {
            tail.push(b',');
            write_json(&mut tail, key);
            tail.push(b':');
            write_json(&mut tail, value);
        }
        tail.push(b'}');
        Self { head, tail, metadata, traits }
    }

    /// The same object with another uid, and another time than the one it was made at.
    pub(crate) fn renewed(&self, uid: &str, (made, time): (&str, &str)) -> Self {
        let tail = String::from_utf8_lossy(&self.tail);
        let tail = tail.replacen(&*self.traits.uid, uid, 1).replace(made, time).into_bytes();
        let traits = Traits { uid: uid.into(), ..self.traits.clone() };
        Self { head: self.head.clone(), tail, metadata: self.metadata, traits }
    }

    /// The same object with what is stored of an earlier state, but not read.
    pub(crate) fn hiding(mut self, earlier: &Traits) -> Self {
        self.traits.hidden.clone_from(&earlier.hidden);
        self
    }

    pub(crate) fn at(self, version: u64) -> Object {
        let mut bytes = self.head;
        let number = version.to_string();
        bytes.reserve_exact(number.len() + self.tail.len());
        bytes.extend_from_slice(number.as_bytes());
        bytes.extend_from_slice(&self.tail);
        Object { version, bytes: bytes.into(), metadata: self.metadata, traits: self.traits }
    }
}

impl Object {
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn traits(&self) -> &Traits {
        &self.traits
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Everything from `"metadata"` to the end.
    pub(crate) fn without_kind(&self) -> Bytes {
        self.bytes.slice(self.metadata..)
    }

    pub(crate) fn value(&self) -> Value {
        // The store contains only objects encoded by `Draft`.
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// The same state with another version, as a deletion reports it.
    pub(crate) fn with_version(&self, version: u64) -> Self {
        let number_at = self.metadata + "\"metadata\":{\"resourceVersion\":\"".len();
        let digits = self.bytes[number_at..].iter().take_while(|byte| **byte != b'"').count();
        let mut bytes = Vec::with_capacity(self.bytes.len() + 4);
        bytes.extend_from_slice(&self.bytes[..number_at]);
        bytes.extend_from_slice(version.to_string().as_bytes());
        bytes.extend_from_slice(&self.bytes[number_at + digits..]);
        Self { version, bytes: bytes.into(), metadata: self.metadata, traits: self.traits.clone() }
    }
}

fn write_json<T: serde::Serialize + ?Sized>(into: &mut Vec<u8>, value: &T) {
    // Writing JSON values into memory does not fail.
    drop(serde_json::to_writer(into, value));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Draft, Traits};

    #[test]
    fn a_version_is_spliced_into_the_encoded_bytes() {
        let value = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "resourceVersion": "1"}, "data": {"k": "dg=="}});
        let object = Draft::new(&value, Traits::default()).at(42);
        assert_eq!(
            str::from_utf8(object.bytes()),
            Ok(
                r#"{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"42","name":"a"},"data":{"k":"dg=="}}"#
            )
        );
        assert_eq!(
            object.without_kind(),
            &br#""metadata":{"resourceVersion":"42","name":"a"},"data":{"k":"dg=="}}"#[..]
        );
        let later = object.with_version(1007);
        assert_eq!(later.value()["metadata"]["resourceVersion"], "1007");
        assert_eq!(later.value()["data"], value["data"]);
    }
}
