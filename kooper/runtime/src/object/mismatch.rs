//! Where and why an object does not match a type, without quoting its values.
//!
//! serde's errors quote values, and a custom `Deserialize` may return any
//! message. Only words that name a type are kept from them. The path and the
//! actual type are read from the JSON, at the position of the error.

use std::fmt::Write;

use serde::de::IgnoredAny;

use super::scan::Cursor;

/// A value of at least this length must not be part of the words that are kept. A
/// shorter one may be part of words such as `a string` by chance.
const SHORTEST_VALUE: usize = 4;

/// The integers whose values serde checks.
const INTEGERS: [&str; 10] = ["i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize"];

/// A mismatch, and where it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The path of the value, such as `spec.ports[0].name`; empty for the object.
    pub(super) path: String,
    /// `expected a map, found a string`.
    pub(super) problem: String,
}

impl Mismatch {
    pub(super) fn of(json: &[u8], error: &serde_json::Error) -> Self {
        let words = error.to_string();
        let words = words.rsplit_once(" at line ").map_or(&*words, |(words, _)| words);
        // serde_json reports a list that is longer than its type as a syntax error.
        let broken = !error.is_data() && serde_json::from_slice::<IgnoredAny>(json).is_err();
        let place = JsonPlace::at(json, offset(json, error.line(), error.column()));
        let Some(place) = place.filter(|_| !broken) else {
            return Self { path: String::new(), problem: "its JSON is invalid".to_owned() };
        };
        let named = |prefix: &str| words.strip_prefix(prefix)?.strip_suffix('`');
        let within =
            |field: &str| if place.path.is_empty() { field.to_owned() } else { format!("{}.{field}", place.path) };
        if let Some(field) = named("missing field `").filter(|_| place.found == "a map") {
            return Self { path: within(field), problem: "the field is missing".to_owned() };
        }
        if let Some(field) = named("duplicate field `").filter(|_| place.is_key) {
            return Self { path: within(field), problem: "the field is a duplicate".to_owned() };
        }
        if place.is_key {
            return Self { path: place.path, problem: "the type has no such field".to_owned() };
        }
        let expected = place.expected(words).unwrap_or_else(|| "a value that the type accepts".to_owned());
        let beyond = if place.is_integer() && INTEGERS.contains(&&*expected) { " out of its range" } else { "" };
        Self { path: place.path, problem: format!("expected {expected}, found {}{beyond}", place.found) }
    }
}

/// The number of bytes read when the error occurred at this line and column.
fn offset(json: &[u8], line: usize, column: usize) -> usize {
    let before: usize = json.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    before + column
}

/// A value of a JSON text.
#[derive(Debug)]
struct JsonPlace {
    path: String,
    found: &'static str,
    /// The raw value, unless it is a map or a list.
    text: String,
    /// `true` if the value is the key of a field, which `path` already contains.
    is_key: bool,
}

/// A map or list that contains a value.
enum Container {
    Map { key: String, is_value: bool },
    List(usize),
}

impl JsonPlace {
    /// The value at which a parser was after it had read `read` bytes: the one that
    /// ends there, or the one that begins there.
    fn at(json: &[u8], read: usize) -> Option<Self> {
        let last = json.get(..read)?.iter().rposition(|byte| !byte.is_ascii_whitespace())?;
        let begins = matches!(json.get(last)?, b':' | b',' | b'[');
        let target = if begins {
            last + 1 + json.get(last + 1..)?.iter().position(|byte| !byte.is_ascii_whitespace())?
        } else {
            last
        };
        let (mut around, mut cursor) = (Vec::new(), Cursor::new(json));
        while let Some(byte) = cursor.peek() {
            let at = cursor.at;
            match byte {
                b'"' | b'n' | b't' | b'f' | b'-' | b'0'..=b'9' => cursor.skip().ok()?,
                _ => cursor.at += 1,
            }
            let end = cursor.at;
            let hit = (at..end).contains(&target);
            let text = || String::from_utf8_lossy(json.get(at..end).unwrap_or_default()).into_owned();
            let place = |around: &[Container], found, text, is_key| Self { path: path(around), found, text, is_key };
            match byte {
                b'{' | b'[' => {
                    let found = if byte == b'{' { "a map" } else { "a list" };
                    if hit {
                        return Some(place(&around, found, String::new(), false));
                    }
                    let inside = Container::Map { key: String::new(), is_value: false };
                    around.push(if byte == b'{' { inside } else { Container::List(0) });
                }
                b'}' | b']' => {
                    around.pop();
                    if hit {
                        let found = if byte == b'}' { "a map" } else { "a list" };
                        return Some(place(&around, found, String::new(), false));
                    }
                }
                b',' => match around.last_mut()? {
                    Container::Map { is_value, .. } => *is_value = false,
                    Container::List(index) => *index += 1,
                },
                b'"' => {
                    let mut is_key = false;
                    if let Some(Container::Map { key, is_value: is_value @ false }) = around.last_mut() {
                        *key = serde_json::from_str(&text()).unwrap_or_default();
                        (*is_value, is_key) = (true, true);
                    }
                    if hit {
                        let text = serde_json::from_str(&text()).unwrap_or_default();
                        return Some(place(&around, "a string", text, is_key));
                    }
                }
                b'n' | b't' | b'f' | b'-' | b'0'..=b'9' if hit => {
                    let found = match byte {
                        b'n' => "null",
                        b't' | b'f' => "a boolean",
                        _ => "a number",
                    };
                    return Some(place(&around, found, text(), false));
                }
                _ => {}
            }
        }
        None
    }

    fn is_integer(&self) -> bool {
        let digits = self.text.strip_prefix('-').unwrap_or(&self.text);
        self.found == "a number" && digits.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The type that serde's words name as the expected one, if the words are
    /// serde's own about this value.
    fn expected(&self, words: &str) -> Option<String> {
        let text = &self.text;
        let found = match self.found {
            "a map" => vec!["map".to_owned()],
            "a list" => vec!["sequence".to_owned()],
            "null" => vec!["null".to_owned(), "unit value".to_owned(), "Option value".to_owned()],
            "a boolean" => vec![format!("boolean `{text}`")],
            "a number" => vec![format!("integer `{text}`"), format!("floating point `{text}`")],
            _ => vec![format!("string {text:?}"), format!("character `{text}`")],
        };
        let kinds = ["invalid type", "invalid value"];
        let mut messages = found.iter().flat_map(|found| kinds.map(|kind| format!("{kind}: {found}, expected ")));
        let rest = messages
            .find_map(|message| words.strip_prefix(message.as_str()))
            .or_else(|| words.strip_prefix(format!("unknown variant `{text}`, expected ").as_str()))
            .or_else(|| {
                let (length, rest) = words.strip_prefix("invalid length ")?.split_once(", expected ")?;
                length.bytes().all(|byte| byte.is_ascii_digit()).then_some(rest)
            })?;
        let quotes = text.len() >= SHORTEST_VALUE && rest.contains(text.as_str());
        (!quotes).then(|| match rest {
            "a sequence" => "a list".to_owned(),
            rest if rest.starts_with("struct ") => "a map".to_owned(),
            rest => rest.to_owned(),
        })
    }
}

fn path(around: &[Container]) -> String {
    let mut path = String::new();
    for step in around {
        match step {
            Container::Map { key, .. } if path.is_empty() => path.push_str(key),
            Container::Map { key, .. } => path.extend([".", key]),
            // Writing to a string cannot fail.
            Container::List(index) => drop(write!(path, "[{index}]")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt;

    use proptest::prelude::*;
    use serde::de::{DeserializeOwned, Error};
    use serde::{Deserialize, Deserializer};
    use serde_json::Value;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only decoded")]
    struct Shop {
        #[serde(default)]
        password: Option<Reference>,
        #[serde(default)]
        ports: Vec<Port>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        #[serde(default)]
        mode: Option<Mode>,
        #[serde(default)]
        pair: Option<(u8, u8)>,
        #[serde(default)]
        odd: Option<Odd>,
        #[serde(default)]
        choice: Option<Choice>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Reference {
        name: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only decoded")]
    struct Port {
        number: u16,
        #[serde(default)]
        open: bool,
    }

    #[derive(Debug, Deserialize)]
    enum Mode {
        Open,
        Shut,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only decoded")]
    enum Choice {
        Number(u8),
        List(Vec<u8>),
    }

    /// A type that quotes the value it rejects, also in serde's own form.
    #[derive(Debug)]
    struct Odd;

    impl<'de> Deserialize<'de> for Odd {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            Err(D::Error::custom(format!("invalid type: string {text:?}, expected anything but {text}")))
        }
    }

    fn mismatch<T: DeserializeOwned + fmt::Debug>(json: &str) -> String {
        let error = serde_json::from_str::<T>(json).expect_err(json);
        let Mismatch { path, problem } = Mismatch::of(json.as_bytes(), &error);
        format!("{path}: {problem}")
    }

    #[test]
    fn the_path_and_the_types_are_named() {
        for (json, expected) in [
            (r#"{"password": "hunter22"}"#, "password: expected a map, found a string"),
            (r#"{"password": {}}"#, "password.name: the field is missing"),
            (r#"{"password": { "name" : 12345 } }"#, "password.name: expected a string, found a number"),
            (r#"{"password": {"name": {"a": 1}}}"#, "password.name: expected a string, found a map"),
            (r#"{"password": {"name": [1]}}"#, "password.name: expected a string, found a list"),
            (r#"{"password": {"name": null}}"#, "password.name: expected a string, found null"),
            (r#"{"ports": {}}"#, "ports: expected a list, found a map"),
            (
                r#"{"ports": [{"number": 1}, {"number": -12345}]}"#,
                "ports[1].number: expected u16, found a number out of its range",
            ),
            (r#"{"ports": [{"number": 123456}]}"#, "ports[0].number: expected u16, found a number out of its range"),
            (r#"{"ports": [{"number": 1.5}]}"#, "ports[0].number: expected u16, found a number"),
            (r#"{"ports": [{"number": 1, "open": "hunter22"}]}"#, "ports[0].open: expected a boolean, found a string"),
            (r#"{"ports": [{"nmuber": 1}]}"#, "ports[0].nmuber: the type has no such field"),
            (r#"{"ports": [7]}"#, "ports[0]: expected a map, found a number"),
            (r#"{"ports": [true]}"#, "ports[0]: expected a map, found a boolean"),
            ("{\n  \"labels\": {\n    \"a.b/c\": 12345\n  }\n}", "labels.a.b/c: expected a string, found a number"),
            (r#"{"mode": "hunter22"}"#, "mode: expected `Open` or `Shut`, found a string"),
            (r#"{"mode": "quo\"te\\d"}"#, "mode: expected `Open` or `Shut`, found a string"),
            (r#"{"pair": [1]}"#, "pair: expected a tuple of size 2, found a list"),
            (r#"{"odd": "hunter22", "mode": null}"#, "odd: expected a value that the type accepts, found a string"),
            // An untagged enum is read before it is decoded, so the field is named.
            (r#"{"choice": "hunter22", "x": 1}"#, "choice: expected a value that the type accepts, found a string"),
            (r#"{"password": "#, ": its JSON is invalid"),
            (r#"{"password": hunter22}"#, ": its JSON is invalid"),
        ] {
            let message = mismatch::<Shop>(json);
            assert_eq!(message, expected, "{json}");
            assert!(!message.contains("hunter22") && !message.contains("12345"), "{message}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (1_000_000i64..).prop_map(Value::from),
            "canary[\"\\\\a-z ,:{}\\[\\]]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("password|name|ports|number|mode|odd|choice|pair|labels", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_value_is_quoted_wherever_it_is(value in any_value(), pretty: bool) {
            let json = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let json = json.map_err(|error| TestCaseError::fail(error.to_string()))?;
            if let Err(error) = serde_json::from_str::<Shop>(&json) {
                let Mismatch { path, problem } = Mismatch::of(json.as_bytes(), &error);
                let message = format!("{path}: {problem}");
                prop_assert!(!message.contains("canary"), "{message} of {json}");
                prop_assert!(!message.contains("JSON"), "{message} of {json}: {error}");
                prop_assert!(problem.bytes().filter(u8::is_ascii_digit).count() < 3, "{message} of {json}");
            }
        }
    }
}
