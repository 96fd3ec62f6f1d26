//! Checks the JSON of an object like Go's decoder: reports the first value of a wrong type, and
//! unknown and duplicate fields, in document order.

mod convert;
mod expected;
mod literal;

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

pub(crate) use self::convert::convert;
use self::expected::{Expected, ExpectedType, properties};
use crate::schema::published;

/// Maximum number of unknown and duplicate fields that are reported.
const MOST: usize = 100;

/// Errors found while decoding an object.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Why it cannot be an object of the kind at all.
    pub(crate) error: Option<String>,
    /// Fields that a strict client does not send: `unknown field "spec.a"`.
    pub(crate) strict: Vec<String>,
}

/// Reads an object of a built-in kind by the name of its definition, or any JSON, of which only duplicates are found.
pub(crate) fn check<'de, D: Deserializer<'de>>(object: D, definition: Option<&'static str>) -> Findings {
    let go = definition.map(published::go_name).unwrap_or_default();
    read(object, definition.map_or(Expected::Free, |name| Expected::Typed { of: ExpectedType::Struct(name), go }))
}

/// Reads the operations of a JSON patch.
pub(crate) fn check_operations(patch: &[u8]) -> Findings {
    read(&mut serde_json::Deserializer::from_slice(patch), Expected::operations())
}

fn read<'de, D: Deserializer<'de>>(json: D, expected: Expected) -> Findings {
    let mut state = State::default();
    // Syntax errors are found before.
    drop(Reader { state: &mut state, expected }.deserialize(json));
    Findings { error: state.fatal.or(state.error), strict: state.strict }
}

/// A step from the root to a value.
enum Step {
    Field(&'static str),
    Key(String),
    Index(usize),
}

#[derive(Default)]
struct State {
    /// Where the value is.
    path: Vec<Step>,
    /// The same as errors name it: without indices and keys, with the structs that are embedded.
    fields: Vec<&'static str>,
    /// The struct that the last field is in.
    within: &'static str,
    error: Option<String>,
    /// The error of a type that decodes itself, which ends the decoding.
    fatal: Option<String>,
    strict: Vec<String>,
}

impl State {
    fn strict(&mut self, what: &str, field: &str) {
        let mut path = String::new();
        for step in &self.path {
            let (dot, name) = match step {
                Step::Index(index) => {
                    path = format!("{path}[{index}]");
                    continue;
                }
                Step::Field(name) => (".", *name),
                Step::Key(name) => (".", name.as_str()),
            };
            path = if path.is_empty() { name.to_owned() } else { format!("{path}{dot}{name}") };
        }
        let path = if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
        let found = format!("{what} field {path:?}");
        if self.fatal.is_none() && self.strict.len() < MOST && !self.strict.contains(&found) {
            self.strict.push(found);
        }
    }

    /// The message about a value that a type cannot hold.
    fn mismatch(&self, found: &str, go: &str) -> String {
        let place = if self.fields.is_empty() {
            "value".to_owned()
        } else {
            format!("struct field {}.{}", self.within, self.fields.join("."))
        };
        format!("json: cannot unmarshal {found} into Go {place} of type {go}")
    }

    fn fail(&mut self, error: String) {
        if self.fatal.is_none() && self.error.is_none() {
            self.error = Some(error);
        }
    }

    fn abort(&mut self, error: String) {
        self.fatal.get_or_insert(error);
    }
}

/// Reads one value.
struct Reader<'a> {
    state: &'a mut State,
    expected: Expected,
}

impl Reader<'_> {
    fn scalar(self, found: &Scalar<'_>) {
        let Expected::Typed { of, go } = self.expected else { return };
        let state = self.state;
        match (of, found) {
            (ExpectedType::Text, Scalar::Text(_))
            | (ExpectedType::Bool, Scalar::Bool)
            | (ExpectedType::Float, Scalar::Number(_)) => {}
            (ExpectedType::IntOrString, Scalar::Text(_)) => {}
            (ExpectedType::Int32, Scalar::Number(number)) | (ExpectedType::IntOrString, Scalar::Number(number)) => {
                if number.parse::<i32>().is_err() {
                    let error = state.mismatch(&format!("number {number}"), &go);
                    if matches!(of, ExpectedType::IntOrString) { state.abort(error) } else { state.fail(error) }
                }
            }
            (ExpectedType::Int64, Scalar::Number(number)) => {
                if number.parse::<i64>().is_err() {
                    state.fail(state.mismatch(&format!("number {number}"), &go));
                }
            }
            (ExpectedType::Bytes, Scalar::Text(text)) => {
                if let Some(at) = literal::not_base64(text) {
                    state.fail(format!("illegal base64 data at input byte {at}"));
                }
            }
            (ExpectedType::Time { micros }, Scalar::Text(text)) => {
                if let Some(error) = literal::not_a_time(text, micros) {
                    state.abort(error);
                }
            }
            (ExpectedType::Quantity, Scalar::Text(text)) => {
                if let Some(error) = literal::not_a_quantity(text) {
                    state.abort(error.to_owned());
                }
            }
            (ExpectedType::Quantity, Scalar::Number(number)) => {
                if let Some(error) = literal::not_a_quantity(number) {
                    state.abort(error.to_owned());
                }
            }
            (ExpectedType::Quantity, Scalar::Bool) => state.abort(literal::WRONG_QUANTITY.to_owned()),
            _ => wrong(state, of, found.name(), &go),
        }
    }
}

/// Reports a value of a wrong type.
fn wrong(state: &mut State, of: ExpectedType, found: &str, go: &str) {
    match of {
        ExpectedType::Quantity => state.abort(literal::WRONG_QUANTITY.to_owned()),
        ExpectedType::Time { .. } | ExpectedType::IntOrString => state.abort(state.mismatch(found, go)),
        _ => state.fail(state.mismatch(found, go)),
    }
}

enum Scalar<'a> {
    Bool,
    /// As it is written.
    Number(String),
    Text(&'a str),
}

impl Scalar<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.expected {
            Expected::Raw => deserializer.deserialize_ignored_any(IgnoredAny).map(drop),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.scalar(&Scalar::Bool);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.scalar(&Scalar::Number(number.to_string()));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.scalar(&Scalar::Number(number.to_string()));
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.scalar(&Scalar::Number(Value::from(number).to_string()));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.scalar(&Scalar::Text(text));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let expected = match &self.expected {
            Expected::Typed { of: ExpectedType::List(item), go } => {
                let go = go.strip_prefix("[]").map(ToOwned::to_owned);
                Expected::of(item, go)
            }
            Expected::Typed { of, go } => {
                wrong(self.state, *of, "array", go);
                Expected::Raw
            }
            other => other.clone(),
        };
        let mut index = 0;
        loop {
            self.state.path.push(Step::Index(index));
            let next = items.next_element_seed(Reader { state: &mut *self.state, expected: expected.clone() })?;
            self.state.path.pop();
            if next.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<(), A::Error> {
        match &self.expected {
            Expected::Typed { of: ExpectedType::Struct(name), .. } => members(self.state, name, entries),
            Expected::Typed { of: ExpectedType::Map(item), go } => {
                let go = go.strip_prefix("map[string]").map(ToOwned::to_owned);
                keys(self.state, &Expected::of(item, go), entries)
            }
            Expected::Typed { of, go } => {
                wrong(self.state, *of, "object", go);
                keys(self.state, &Expected::Raw, entries)
            }
            other => keys(self.state, &other.clone(), entries),
        }
    }
}

/// The members of a struct.
fn members<'de, A: MapAccess<'de>>(state: &mut State, of: &'static str, mut entries: A) -> Result<(), A::Error> {
    let Some(properties) = properties(of) else {
        return keys(state, &Expected::Raw, entries);
    };
    let mut seen: Vec<&'static str> = Vec::new();
    let (within, depth) = (state.within, state.fields.len());
    while let Some(key) = entries.next_key_seed(Member(properties))? {
        let (name, schema) = match key {
            Ok(known) => known,
            Err(unknown) => {
                state.strict("unknown", &unknown);
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
        };
        if seen.contains(&name) {
            state.strict("duplicate", name);
        }
        seen.push(name);
        let (embedded, go) = published::go_member(of, name);
        state.fields.extend(embedded);
        state.fields.push(name);
        state.within = of.rsplit('.').next().unwrap_or_default();
        state.path.push(Step::Field(name));
        let expected = Expected::of(schema, go.map(ToOwned::to_owned));
        entries.next_value_seed(Reader { state: &mut *state, expected })?;
        state.path.pop();
        state.fields.truncate(depth);
        state.within = within;
    }
    Ok(())
}

/// The entries of a map, or of an object of which nothing is known.
fn keys<'de, A: MapAccess<'de>>(state: &mut State, expected: &Expected, mut entries: A) -> Result<(), A::Error> {
    let looks = !matches!(expected, Expected::Raw);
    let mut seen = HashSet::new();
    while let Some(key) = entries.next_key::<String>()? {
        if looks && !seen.insert(key.clone()) {
            state.strict("duplicate", &key);
        }
        state.path.push(Step::Key(key));
        entries.next_value_seed(Reader { state: &mut *state, expected: expected.clone() })?;
        state.path.pop();
    }
    Ok(())
}

/// Finds a member by its name.
struct Member(&'static Map<String, Value>);

impl<'de> DeserializeSeed<'de> for Member {
    type Value = Result<(&'static str, &'static Value), String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Member {
    type Value = Result<(&'static str, &'static Value), String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let known = self.0.get_key_value(key).map(|(name, schema)| (name.as_str(), schema));
        Ok(known.ok_or_else(|| key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn unknown_and_duplicate_fields_are_named_in_the_order_of_the_document() {
        let json = r#"{"z": 1, "metadata": {"labels": {"a": "", "a": ""}, "name": "b", "name": "c"},
            "spec": {"containers": [{}, {"bogus": {"any": 1, "any": 2}}]}, "a": 1, "z": 2}"#;
        let expected = [
            r#"unknown field "z""#,
            r#"duplicate field "metadata.labels.a""#,
            r#"duplicate field "metadata.name""#,
            r#"unknown field "spec.containers[1].bogus""#,
            r#"unknown field "a""#,
        ];
        let findings = check(&mut serde_json::Deserializer::from_str(json), Some("io.k8s.api.core.v1.Pod"));
        assert_eq!(findings.strict, expected);
        let json = r#"{"kind": "A", "spec": {"a": [{"b": 1, "b": 2}]}, "kind": "B"}"#;
        let findings = check(&mut serde_json::Deserializer::from_str(json), None);
        assert_eq!(findings.strict, [r#"duplicate field "spec.a[0].b""#, r#"duplicate field "kind""#]);
    }
}
