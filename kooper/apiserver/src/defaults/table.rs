//! Facts about the members of built-in types, from the tables that `tests/control-plane/tables`
//! writes.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use crate::schema::published;

const SHAPES: &str = include_str!("../kinds/shapes.txt");
const DEFAULTS: &str = include_str!("../kinds/defaults.txt");

/// The lines of the shapes by type.
static SHAPE_LINES: LazyLock<HashMap<&str, Line>> = LazyLock::new(|| {
    let lines = SHAPES.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
        .map(|(name, words)| (name, Line { words, of: OnceLock::new() }))
        .collect()
});

struct Line {
    words: &'static str,
    of: OnceLock<Type>,
}

/// The defaults by type, or by type and member.
static MEMBER_DEFAULTS: LazyLock<HashMap<&str, Vec<MemberDefault>>> = LazyLock::new(|| parse(DEFAULTS));

/// A type of the API.
#[derive(Debug)]
pub(super) struct Type {
    pub(super) name: &'static str,
    pub(super) members: HashMap<&'static str, Member>,
    /// The members that are always written, with what they are when they are not set.
    pub(super) always: Vec<(&'static str, Value)>,
    pub(super) member_defaults: Vec<MemberDefault>,
}

/// A member of a type.
#[derive(Debug)]
pub(super) struct Member {
    /// It is written when it is set, even to nothing in particular.
    kept: bool,
    pub(super) inner: Inner,
    /// The defaults of its type that hold here alone.
    pub(super) member_defaults: Vec<MemberDefault>,
}

/// Type of a member's value.
#[derive(Debug)]
pub(super) enum Inner {
    Object(&'static str),
    Items(Box<Inner>),
    Entries(Box<Inner>),
    Quantity,
    Time {
        micros: bool,
    },
    Text,
    /// A number or a flag.
    Scalar,
    /// Any JSON.
    Any,
}

/// The default of a member; none where the value is absent.
#[derive(Clone, Debug)]
pub(super) struct MemberDefault {
    member: &'static str,
    value: Option<Value>,
    /// Members, one of which must be set, to this value where there is one.
    when: Option<(Vec<&'static str>, Option<Value>)>,
}

impl Member {
    /// Returns whether the encoder writes this value of the member instead of omitting it as empty.
    pub(super) fn is_written(&self, value: &Value) -> bool {
        match (&self.inner, value) {
            (_, Value::Null) => false,
            // The store of the real server does not keep an empty list apart from none.
            (Inner::Items(_), Value::Array(items)) => !items.is_empty(),
            (Inner::Entries(_), Value::Object(entries)) => !entries.is_empty(),
            (Inner::Text, Value::String(text)) => self.kept || !text.is_empty(),
            (Inner::Scalar, Value::Number(number)) => self.kept || number.as_f64() != Some(0.0),
            (Inner::Scalar, Value::Bool(flag)) => self.kept || *flag,
            _ => true,
        }
    }
}

/// A type by its name in OpenAPI.
pub(super) fn of(name: &str) -> Option<&'static Type> {
    let (name, line) = SHAPE_LINES.get_key_value(name)?;
    Some(line.of.get_or_init(|| Type::read(name, line.words)))
}

impl Type {
    fn read(name: &'static str, words: &'static str) -> Self {
        let (mut kept, mut always): (_, Vec<(&str, Value)>) = (Vec::new(), Vec::new());
        for word in words.split(' ') {
            if let Some((member, value)) = word.split_once('=') {
                // The table was written as JSON.
                always.push((member, serde_json::from_str(value).unwrap_or_default()));
            } else if let Some(member) = word.strip_suffix('*') {
                kept.push(member);
            }
        }
        let properties = published::definition(name).and_then(|definition| definition["properties"].as_object());
        let members = properties.into_iter().flatten().map(|(member, schema)| {
            let member = member.as_str();
            let kept =
                kept.contains(&member) || always.iter().any(|(other, value)| *other == member && !value.is_object());
            let member_defaults = MEMBER_DEFAULTS.get(format!("{name}/{member}").as_str()).cloned().unwrap_or_default();
            (member, Member { kept, inner: Inner::read(schema), member_defaults })
        });
        let members = members.collect();
        Self { name, members, always, member_defaults: MEMBER_DEFAULTS.get(name).cloned().unwrap_or_default() }
    }
}

impl Inner {
    fn read(schema: &'static Value) -> Self {
        match (published::reference(schema), schema["type"].as_str()) {
            (Some(name), _) if name.ends_with(".api.resource.Quantity") => Self::Quantity,
            (Some(name), _) if name.ends_with(".meta.v1.Time") => Self::Time { micros: false },
            (Some(name), _) if name.ends_with(".meta.v1.MicroTime") => Self::Time { micros: true },
            (Some(name), _) => {
                // In a schema, a member may be a schema or a value that is no object.
                let name = name.strip_suffix("OrArray").or_else(|| name.strip_suffix("OrBool")).unwrap_or(name);
                SHAPE_LINES.get_key_value(name).map_or(Self::Any, |(name, _)| Self::Object(name))
            }
            (None, Some("array")) => Self::Items(Box::new(Self::read(&schema["items"]))),
            (None, Some("object")) => match schema.get("additionalProperties") {
                Some(entry) => Self::Entries(Box::new(Self::read(entry))),
                None => Self::Any,
            },
            (None, Some("string")) => Self::Text,
            (None, Some("integer" | "number" | "boolean")) => Self::Scalar,
            _ => Self::Any,
        }
    }
}

/// The defaults of members that are not set, all by what was set before.
pub(super) fn defaults<'a>(
    member_defaults: &'a [MemberDefault],
    more: &'a [MemberDefault],
    entries: &Map<String, Value>,
    always: &[(&str, Value)],
) -> Vec<(&'static str, &'a Value)> {
    let is_set = |name: &str| {
        entries.get(name).is_some_and(|value| {
            let unset = always.iter().find(|(other, _)| *other == name);
            unset.is_none_or(|(_, unset)| value != unset)
        })
    };
    let holds = |one: &MemberDefault| match &one.when {
        None => true,
        Some((members, None)) => members.iter().any(|name| is_set(name)),
        Some((members, Some(value))) => members.iter().any(|name| entries.get(*name) == Some(value)),
    };
    let mut chosen: Vec<&MemberDefault> = Vec::new();
    // Conditional defaults take precedence over unconditional ones.
    let all = || more.iter().chain(member_defaults);
    for one in all().filter(|one| one.when.is_some()).chain(all().filter(|one| one.when.is_none())) {
        let known = chosen.iter().any(|other| other.member == one.member);
        if !known && !is_set(one.member) && holds(one) {
            chosen.push(one);
        }
    }
    chosen.into_iter().filter_map(|one| Some((one.member, one.value.as_ref()?))).collect()
}

fn parse(table: &'static str) -> HashMap<&'static str, Vec<MemberDefault>> {
    let mut member_defaults: HashMap<_, Vec<_>> = HashMap::new();
    let mut section = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let Some(one) = line.strip_prefix("  ") else {
            section = line;
            continue;
        };
        let (default, when) = one.split_once(" if ").map_or((one, None), |(default, when)| (default, Some(when)));
        let Some((member, value)) = default.split_once(' ') else { continue };
        let when = when.map(|when| {
            let (members, value) = when.split_once(' ').map_or((when, None), |(names, value)| (names, Some(value)));
            (members.split(',').collect(), value.and_then(|value| serde_json::from_str(value).ok()))
        });
        member_defaults.entry(section).or_default().push(MemberDefault {
            member,
            value: serde_json::from_str(value).ok(),
            when,
        });
    }
    member_defaults
}

#[cfg(test)]
mod tests {
    use super::{MEMBER_DEFAULTS, SHAPE_LINES, of};

    #[test]
    fn the_tables_are_read_whole() {
        assert!(SHAPE_LINES.len() > 300);
        for name in SHAPE_LINES.keys() {
            let of = of(name).expect("it is listed");
            for (member, _) in &of.always {
                assert!(of.members.contains_key(member), "{name} has a {member}");
            }
        }
        for (section, member_defaults) in MEMBER_DEFAULTS.iter() {
            let name = section.split('/').next().expect("there is a first part");
            let member = section.split('/').nth(1);
            let of = of(name).unwrap_or_else(|| panic!("{section} is a type"));
            assert!(member.is_none_or(|member| of.members.contains_key(member)), "{section} is a member");
            assert!(
                member_defaults.iter().all(|one| member.is_some() || of.members.contains_key(one.member)),
                "{section}"
            );
        }
    }
}
