//! JSON as bytes.

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

    /// What was written so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
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
        if is_plain(text.as_bytes()) {
            self.bytes.reserve(text.len() + 2);
            self.bytes.push(b'"');
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.push(b'"');
        } else {
            // Writing into memory cannot fail.
            drop(serde_json::to_writer(&mut self.bytes, text));
        }
    }
}

/// Whether a string is written as it is.
fn is_plain(text: &[u8]) -> bool {
    // No byte decides alone, so that many are compared at once.
    text.iter().fold(true, |plain, &byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'))
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
        drop(serde_json::to_writer(&mut self.bytes, &value));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_string_is_written_as_serde_json_does(text in prop_oneof![any::<String>(), "[ -~\\n]{0,40}"]) {
            let mut sink = JsonSink::default();
            sink.string(&text);
            prop_assert_eq!(sink.into_bytes(), serde_json::to_vec(&text).unwrap());
        }
    }
}
