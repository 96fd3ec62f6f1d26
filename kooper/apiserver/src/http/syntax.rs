//! Syntax errors of JSON request bodies, with the real server's messages.

use serde_json::Value;

/// Token that the scanner expects next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    /// A value, or the end of an array.
    FirstItem,
    Key,
    /// A key, or the end of an object.
    FirstKey,
    Colon,
    /// A comma, or the end of what is open.
    Next,
}

/// Container that encloses a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Object,
    Array,
}

/// Maximum nesting depth of values, as on the real server.
const DEEPEST: usize = 10_000;

/// The first syntax error of a body; `None` if it is JSON.
pub(crate) fn error(body: &[u8]) -> Option<String> {
    Scanner { rest: body }.scan().err()
}

/// Where the real server has its kinds.
pub(crate) const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// Go types of any object, and of the part of an object that names its type.
pub(crate) const MAP: &str = "map[string]interface {}";
pub(crate) const HEADER: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The message about JSON that is not of a Go type.
pub(crate) fn not_a(found: &Value, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {wanted}", json_type(found))
}

/// Returns the name of a JSON value's type in Go's messages.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

struct Scanner<'a> {
    rest: &'a [u8],
}

impl Scanner<'_> {
    fn scan(mut self) -> Result<(), String> {
        let mut open: Vec<Open> = Vec::new();
        let mut expected = Expected::Value;
        loop {
            self.skip_space();
            let Some(byte) = self.next() else {
                let done = open.is_empty() && expected == Expected::Next;
                return if done { Ok(()) } else { Err(ended()) };
            };
            expected = match (expected, byte, open.last()) {
                (Expected::FirstItem, b']', _) | (Expected::Next, b']', Some(Open::Array)) => {
                    open.pop();
                    Expected::Next
                }
                (Expected::FirstKey, b'}', _) | (Expected::Next, b'}', Some(Open::Object)) => {
                    open.pop();
                    Expected::Next
                }
                (Expected::Value | Expected::FirstItem, b'{', _) => {
                    open.push(Open::Object);
                    Expected::FirstKey
                }
                (Expected::Value | Expected::FirstItem, b'[', _) => {
                    open.push(Open::Array);
                    Expected::FirstItem
                }
                (Expected::Value | Expected::FirstItem, _, _) => {
                    self.scalar(byte)?;
                    Expected::Next
                }
                (Expected::Key | Expected::FirstKey, b'"', _) => {
                    self.string()?;
                    Expected::Colon
                }
                (Expected::Key | Expected::FirstKey, _, _) => {
                    return Err(invalid(byte, "looking for beginning of object key string"));
                }
                (Expected::Colon, b':', _) => Expected::Value,
                (Expected::Colon, _, _) => return Err(invalid(byte, "after object key")),
                (Expected::Next, b',', Some(Open::Object)) => Expected::Key,
                (Expected::Next, b',', Some(Open::Array)) => Expected::Value,
                (Expected::Next, _, Some(Open::Object)) => return Err(invalid(byte, "after object key:value pair")),
                (Expected::Next, _, Some(Open::Array)) => return Err(invalid(byte, "after array element")),
                (Expected::Next, _, None) => return Err(invalid(byte, "after top-level value")),
            };
            if open.len() > DEEPEST {
                return Err("exceeded max depth".to_owned());
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next byte within a word; the real server reads a space behind the end.
    fn take(&mut self) -> u8 {
        self.next().unwrap_or(b' ')
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.rest.first() {
            self.rest = &self.rest[1..];
        }
    }

    fn scalar(&mut self, first: u8) -> Result<(), String> {
        match first {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(first),
            _ => Err(invalid(first, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for wanted in word.bytes().skip(1) {
            let found = self.take();
            if found != wanted {
                return Err(invalid(found, &format!("in literal {word} (expecting {})", quoted(wanted))));
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next().ok_or_else(ended)? {
                b'"' => return Ok(()),
                b'\\' => match self.take() {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.take();
                            if !digit.is_ascii_hexdigit() {
                                return Err(invalid(digit, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    other => return Err(invalid(other, "in string escape code")),
                },
                control @ 0..0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let first = if first == b'-' { self.digit()? } else { first };
        // A digit behind a leading zero is not part of the number.
        if first != b'0' {
            self.skip_digits();
        }
        if self.rest.first() == Some(&b'.') {
            self.next();
            self.digit_after("after decimal point in numeric literal")?;
            self.skip_digits();
        }
        if let Some(b'e' | b'E') = self.rest.first() {
            self.next();
            if let Some(b'+' | b'-') = self.rest.first() {
                self.next();
            }
            self.digit_after("in exponent of numeric literal")?;
            self.skip_digits();
        }
        Ok(())
    }

    fn digit(&mut self) -> Result<u8, String> {
        self.digit_after("in numeric literal")
    }

    fn digit_after(&mut self, place: &str) -> Result<u8, String> {
        let found = self.take();
        if found.is_ascii_digit() { Ok(found) } else { Err(invalid(found, place)) }
    }

    fn skip_digits(&mut self) {
        while self.rest.first().is_some_and(u8::is_ascii_digit) {
            self.rest = &self.rest[1..];
        }
    }
}

fn ended() -> String {
    "unexpected end of JSON input".to_owned()
}

fn invalid(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted(byte))
}

/// A byte as a quoted character, as Go writes it.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        7 => r"'\a'".to_owned(),
        8 => r"'\b'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        11 => r"'\v'".to_owned(),
        12 => r"'\f'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..0xa0 => format!("'\\u{byte:04x}'"),
        0xa0 => "'\\u00a0'".to_owned(),
        0xad => "'\\u00ad'".to_owned(),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::error;

    #[test]
    fn the_first_error_of_a_body_is_named() {
        for (body, found) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a"#, "unexpected end of JSON input"),
            ("nul", "invalid character ' ' in literal null (expecting 'l')"),
            ("-", "invalid character ' ' in numeric literal"),
            (r#""\"#, "invalid character ' ' in string escape code"),
            ("{]", "invalid character ']' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a": 1 "b"}"#, "invalid character '\"' after object key:value pair"),
            (r#"{"a": 01}"#, "invalid character '1' after object key:value pair"),
            (r#"{"a": 1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("tru3", "invalid character '3' in literal true (expecting 'e')"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u12g""#, "invalid character 'g' in \\u hexadecimal character escape"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("'a'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(error(body.as_bytes()).as_deref(), Some(found), "{body}");
        }
        assert_eq!(error(&b"[".repeat(20_000)).as_deref(), Some("exceeded max depth"));
        for body in [r#"{"a": [1, -0.5e+3, "\u00e9\n", true, null, {}, []]}"#, " 1 ", "\"é\""] {
            assert_eq!(error(body.as_bytes()), None, "{body}");
        }
    }
}
