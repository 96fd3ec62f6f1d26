//! The published schemas of the built-in kinds, read one by one as they are needed.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Value, json};

use crate::patch::schema::{Schema, Types};

/// A definition a line: its name and its JSON.
const SCHEMAS: &str = include_str!("../kinds/schemas.txt");

/// The lines of [`SCHEMAS`] by name, decoded when they are needed; all servers of a process share them.
static DEFINITIONS: LazyLock<HashMap<&str, Definition>> = LazyLock::new(|| {
    let lines = SCHEMAS.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, text)| (name, Definition { text, value: OnceLock::new() })).collect()
});

/// The members whose Go types are not what their schemas say, by definition.
static GO_TYPES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = include_str!("../kinds/types.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// The members in the order of their Go types, by definition, where that is not the alphabetical one.
static ORDERS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = include_str!("../kinds/orders.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
});

struct Definition {
    text: &'static str,
    value: OnceLock<Value>,
}

static TYPES: LazyLock<Arc<Types>> = LazyLock::new(|| Types::new(|name| definition(name).cloned()));

/// Compiled schema of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) schema: Schema,
    /// The name of the definition; custom kinds have none.
    pub(crate) name: Option<&'static str>,
    /// The definition, to prune by; `null` where there is none.
    pub(crate) definition: Value,
}

/// The name of the definition that a schema refers to.
pub(crate) fn reference(schema: &Value) -> Option<&str> {
    let reference = schema.get("$ref").or_else(|| schema["allOf"].get(0).and_then(|schema| schema.get("$ref")));
    reference?.as_str()?.rsplit('/').next()
}

/// A definition by the last part of its reference.
pub(crate) fn definition(name: &str) -> Option<&'static Value> {
    let definition = DEFINITIONS.get(name)?;
    Some(definition.value.get_or_init(|| serde_json::from_str(definition.text).unwrap_or_default()))
}

/// The same, with its name.
pub(crate) fn definition_named(name: &str) -> Option<(&'static str, &'static Value)> {
    let (name, _) = DEFINITIONS.get_key_value(name)?;
    definition(name).map(|definition| (*name, definition))
}

/// Returns the Go name of a type, such as `v1.Pod`.
pub(crate) fn go_name(definition: &str) -> String {
    let mut words = definition.rsplit('.');
    let (name, package) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    format!("{package}.{name}")
}

/// Returns facts about a member that the schema does not contain: the embedded Go struct to which
/// it belongs, and the name of its Go type.
pub(crate) fn go_member(definition: &str, member: &str) -> (Option<&'static str>, Option<&'static str>) {
    let words = GO_TYPES.get(definition).copied().unwrap_or_default();
    let found = words.split(' ').find_map(|word| {
        let rest = word.strip_prefix(member)?;
        rest.is_empty().then_some(("", None)).or_else(|| match (rest.strip_prefix('@'), rest.strip_prefix('=')) {
            (Some(rest), _) => Some(rest.split_once('=').map_or((rest, None), |(within, of)| (within, Some(of)))),
            (_, Some(of)) => Some(("", Some(of))),
            _ => None,
        })
    });
    let (within, of) = found.unwrap_or_default();
    ((!within.is_empty()).then_some(within), of)
}

/// Where a member is among those of its Go type. Those that all kinds have are before all others.
pub(crate) fn place_of(definition: &str, member: &str) -> usize {
    let order = ORDERS.get(definition).copied().unwrap_or_default();
    order.split(' ').position(|name| name == member).map_or(0, |at| at + 1)
}

/// All definitions with their names.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static Value)> {
    DEFINITIONS.keys().filter_map(|name| definition_named(name))
}

/// The JSON of a definition, as text.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    DEFINITIONS.get(name).map(|definition| definition.text)
}

/// The name of the definition of a built-in kind.
pub(crate) fn name_of(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    let suffix = format!(".{version}.{kind}");
    // The keys of each definition are sorted.
    let named = format!(r#"{{"group":"{group}","kind":"{kind}","version":"{version}"}}"#);
    let mut found = DEFINITIONS.iter();
    let found = found.find(|(name, definition)| name.ends_with(&suffix) && definition.text.contains(&named));
    found.map(|(name, _)| *name)
}

/// The definition of a type by group, version and kind.
pub(crate) fn typed(group: &str, version: &str, kind: &str) -> Option<&'static Value> {
    definition(name_of(group, version, kind)?)
}

impl Typed {
    /// The schema of a built-in kind; where none is published, nothing is known of its fields.
    pub(crate) fn builtin(group: &str, version: &str, kind: &str) -> Self {
        let name = name_of(group, version, kind);
        let schema = name.and_then(|name| Schema::named(&TYPES, name)).unwrap_or_else(Schema::deduced);
        Self { schema, name, definition: name.and_then(definition).cloned().unwrap_or(Value::Null) }
    }

    /// The schema of a custom kind.
    pub(crate) fn custom(declared: &Value) -> Self {
        let schema = if declared.is_object() { Schema::custom(&TYPES, declared) } else { Schema::deduced() };
        Self { schema, name: None, definition: json!(null) }
    }
}
