//! JSON as bytes.

use serde_json::Value;

/// Writes JSON as bytes, without whitespace.
///
/// Each value of an object follows its key. The calls are balanced: each object and list that begins ends, unless
/// decoding fails.
#[derive(Debug, Default)]
pub(crate) struct JsonSink {
    bytes: Vec<u8>,
    /// A value or key that follows needs a comma before it.
    comma: bool,
}

impl JsonSink {
    /// A sink that appends to bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, comma: false }
    }

    /// Returns the bytes that were written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn begin_object(&mut self) {
        self.begin(b'{');
    }

    pub(crate) fn key(&mut self, key: &str) {
        self.separate();
        self.quoted(key);
        self.bytes.push(b':');
        self.comma = false;
    }

    pub(crate) fn end_object(&mut self) {
        self.end(b'}');
    }

    pub(crate) fn begin_list(&mut self) {
        self.begin(b'[');
    }

    pub(crate) fn end_list(&mut self) {
        self.end(b']');
    }

    pub(crate) fn null(&mut self) {
        self.separate();
        self.bytes.extend_from_slice(b"null");
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.separate();
        self.bytes.extend_from_slice(if value { b"true" } else { b"false" });
    }

    pub(crate) fn int(&mut self, value: i64) {
        self.separate();
        drop(serde_json::to_writer(&mut self.bytes, &value));
    }

    pub(crate) fn float(&mut self, value: f64) {
        self.separate();
        drop(serde_json::to_writer(&mut self.bytes, &value));
    }

    pub(crate) fn string(&mut self, value: &str) {
        self.separate();
        self.quoted(value);
    }

    /// A value that is JSON already; an error if it is not.
    pub(crate) fn json(&mut self, value: &[u8]) -> Result<(), serde_json::Error> {
        // Skipping a string does not find all that is wrong with it, so it is read.
        let value: Value = serde_json::from_slice(value)?;
        self.separate();
        serde_json::to_writer(&mut self.bytes, &value)
    }

    fn separate(&mut self) {
        if std::mem::replace(&mut self.comma, true) {
            self.bytes.push(b',');
        }
    }

    fn begin(&mut self, with: u8) {
        self.separate();
        self.bytes.push(with);
        self.comma = false;
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

/// Returns `true` if a string needs no escapes.
fn is_plain(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks();
    let is_special = |&byte: &u8| byte < b' ' || byte == b'"' || byte == b'\\';
    !words.iter().any(|word| may_escape(u64::from_le_bytes(*word))) && !rest.iter().any(is_special)
}

/// Returns `true` if one of eight bytes may have to be escaped. All are compared at once.
fn may_escape(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The high bit of a byte that is less than another one.
    let less = |word: u64, than: u8| word.wrapping_sub(ONES * u64::from(than)) & !word & HIGH;
    let equal = |byte: u8| less(word ^ (ONES * u64::from(byte)), 1);
    (less(word, b' ') | equal(b'"') | equal(b'\\')) != 0
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
