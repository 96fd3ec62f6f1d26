//! JSON as bytes.

use std::io::Write as _;

use serde_json::Value;

use super::Sink;

/// Writes JSON as bytes, without whitespace.
#[derive(Debug, Default)]
pub struct JsonSink {
    bytes: Vec<u8>,
    /// A value or key that follows needs a comma before it.
    comma: bool,
}

impl JsonSink {
    /// A sink that appends to bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, comma: false }
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn separate(&mut self) {
        if std::mem::replace(&mut self.comma, true) {
            self.bytes.push(b',');
        }
    }

    fn end(&mut self, with: u8) {
        self.bytes.push(with);
        self.comma = true;
    }

    fn quoted(&mut self, text: &str) {
        // Writing into memory cannot fail.
        drop(serde_json::to_writer(&mut self.bytes, text));
    }
}

impl Sink for JsonSink {
    fn begin_object(&mut self) {
        self.separate();
        self.bytes.push(b'{');
        self.comma = false;
    }

    fn key(&mut self, key: &str) {
        self.separate();
        self.quoted(key);
        self.bytes.push(b':');
        self.comma = false;
    }

    fn end_object(&mut self) {
        self.end(b'}');
    }

    fn begin_list(&mut self) {
        self.separate();
        self.bytes.push(b'[');
        self.comma = false;
    }

    fn end_list(&mut self) {
        self.end(b']');
    }

    fn null(&mut self) {
        self.separate();
        self.bytes.extend_from_slice(b"null");
    }

    fn bool(&mut self, value: bool) {
        self.separate();
        self.bytes.extend_from_slice(if value { b"true" } else { b"false" });
    }

    fn int(&mut self, value: i64) {
        self.separate();
        drop(write!(self.bytes, "{value}"));
    }

    fn float(&mut self, value: f64) {
        self.separate();
        drop(serde_json::to_writer(&mut self.bytes, &value));
    }

    fn string(&mut self, value: &str) {
        self.separate();
        self.quoted(value);
    }

    fn json(&mut self, value: &[u8]) -> Result<(), serde_json::Error> {
        // Skipping a string does not find all that is wrong with it, so it is read.
        let value: Value = serde_json::from_slice(value)?;
        self.separate();
        serde_json::to_writer(&mut self.bytes, &value)
    }
}
