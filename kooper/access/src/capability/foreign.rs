//! Finds the fields that other field managers have set in an object that this
//! controller applies, and those that have to be removed. It sends no requests.

mod removal;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

pub(super) use removal::{disown, removal};

/// The fields of Kubernetes' own kinds that are maps: their keys are chosen by
/// the author, and not defined by a schema.
const MAPS: [&str; 10] = [
    "annotations",
    "binaryData",
    "data",
    "hard",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "parameters",
    "requests",
];

/// An entry of a list or map, or a field, that another field manager has set and
/// the controller does not set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Foreign {
    /// The steps to it from the object's root.
    path: Vec<PathStep>,
    /// The path in messages: `spec.ports[port=81,protocol=TCP]`.
    pub(super) shown: String,
    /// The field manager that has set it; empty for a default of the server.
    pub(super) manager: String,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PathStep {
    Field(String),
    Element {
        /// Its index in the object's list.
        index: usize,
        /// Its index in the list that is applied.
        applied: Option<usize>,
        /// Its key in managed fields, such as `k:{"name":"web"}`.
        key: String,
    },
}

impl Foreign {
    /// Returns whether the object still has the entry, at any index of its list. A field with
    /// another value does not count: it is a default.
    pub(super) fn is_in(&self, object: &Value) -> bool {
        let found = self.path.iter().try_fold(object, |at, step| match step {
            PathStep::Field(name) => at.get(name),
            PathStep::Element { key, .. } => {
                let known = ElementKey::by(key)?;
                at.as_array()?.iter().find(|element| known.matches(element, |_, _| false))
            }
        });
        found.is_some_and(|found| matches!(self.path.last(), Some(PathStep::Element { .. })) || *found == self.value)
    }
}

/// The identity of a list element in managed fields.
enum ElementKey {
    /// The values of its keys.
    Keys(serde_json::Map<String, Value>),
    /// Its own value: the list is a set.
    Value(Value),
}

impl ElementKey {
    fn by(key: &str) -> Option<Self> {
        match key.split_once(':')? {
            ("k", keys) => serde_json::from_str(keys).ok().map(Self::Keys),
            ("v", value) => serde_json::from_str(value).ok().map(Self::Value),
            _ => None,
        }
    }

    /// Returns whether this identifies the element. `default` returns whether an unset key has this
    /// value by default.
    fn matches(&self, element: &Value, default: impl Fn(&str, &Value) -> bool) -> bool {
        match self {
            Self::Keys(keys) => {
                keys.iter().all(|(key, value)| element.get(key).map_or_else(|| default(key, value), |own| own == value))
            }
            Self::Value(value) => element == value,
        }
    }
}

impl fmt::Display for ElementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = match self {
            Self::Keys(keys) => keys,
            Self::Value(value) => return write!(f, "{value}"),
        };
        for (index, (key, value)) in keys.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match value.as_str() {
                Some(text) => write!(f, "{comma}{key}={text}")?,
                None => write!(f, "{comma}{key}={value}")?,
            }
        }
        Ok(())
    }
}

/// The API server's error for one field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault<'a> {
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
    /// Its path; the indexes are those of a list that only the server has.
    pub(super) field: &'a str,
}

impl Fault<'_> {
    /// Returns whether it is about two fields that exclude each other.
    fn excludes(&self) -> bool {
        let words = [
            "may not specify more than 1",
            "may not be specified when",
            "must not be specified when",
            "only allowed for",
        ];
        words.iter().any(|words| self.message.contains(words))
    }
}

/// The fields that other field managers have set in an object, compared with
/// those that are applied.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    applied: &'a Value,
    live: &'a Value,
    found: Vec<Candidate<'a>>,
    /// `true` if the kind is built into Kubernetes.
    builtin: bool,
}

/// A foreign entry or field, with what decides whether it causes an error.
#[derive(Debug)]
struct Candidate<'a> {
    foreign: Foreign,
    /// The path of the list or object that contains it, without indexes.
    parent: Vec<String>,
    /// Its name in that object; `None` for an element of a list.
    name: Option<String>,
    /// `true` if the entry is beneath a list or map.
    beneath: bool,
    /// The elements of the list that are applied.
    applied: &'a [Value],
    /// The part of its manager of an element that the controller has applied before, and no longer applies.
    left: Option<Value>,
}

impl<'a> Comparison<'a> {
    /// Compares `applied`, which `manager` applies, with the object on the
    /// server. Metadata and status are ignored: other clients own fields of them.
    pub(super) fn new(applied: &'a Value, live: &'a Value, manager: &str) -> Self {
        // The groups of Kubernetes' own kinds with lists of ports have no dot.
        let builtin = !applied["apiVersion"].as_str().is_some_and(|version| version.contains('.'));
        let mut this = Self { applied, live, found: Vec::new(), builtin };
        let entries = || live["metadata"]["managedFields"].as_array().into_iter().flatten();
        let is_apply = |entry: &&Value| {
            entry["manager"] == manager && entry["operation"] == "Apply" && entry["subresource"].is_null()
        };
        let ours = entries().find(is_apply).map_or(&Value::Null, |entry| &entry["fieldsV1"]);
        for entry in entries() {
            let who = entry["manager"].as_str().unwrap_or_default();
            let of_status = entry["subresource"].as_str().is_some_and(|subresource| !subresource.is_empty());
            if who != manager && !of_status {
                let place = Position { path: Vec::new(), shown: String::new(), schema: Vec::new(), beneath: false };
                this.object(&place, who, [&entry["fieldsV1"], ours], applied, live);
            }
        }
        this.found.sort_by(|one, other| one.foreign.path.cmp(&other.foreign.path));
        this.found.dedup_by(|one, other| one.foreign.path == other.foreign.path);
        this
    }

    /// Everything beneath the lists and maps that are applied.
    pub(super) fn beneath(&self) -> Vec<Foreign> {
        self.select(|found| found.beneath)
    }

    /// The fields that cause these errors, as far as that can be determined. An
    /// object that is invalid without them has none.
    pub(super) fn causes(&self, faults: &[Fault<'_>]) -> Vec<Foreign> {
        let foreign = self.select(|found| faults.iter().any(|fault| self.is_cause(found, fault)));
        if foreign.is_empty() { faults.iter().filter_map(|fault| self.default(fault)).collect() } else { foreign }
    }

    /// The field that an error names, if it is not applied and excludes one that is: the server has set it by default when
    /// the other field had another value, and no manager owns it.
    fn default(&self, fault: &Fault<'_>) -> Option<Foreign> {
        let names = schema_of(fault.field);
        // Other clients have their own fields at the root.
        let (name, parent) = names.split_last().filter(|(_, parent)| !parent.is_empty())?;
        let beside = pick(self.applied, parent).filter(|applied| applied.is_object())?;
        let value = pick(self.live, &names)?;
        let is_default = fault.excludes() && beside.get(name).is_none_or(Value::is_null);
        is_default.then(|| Foreign {
            path: names.iter().cloned().map(PathStep::Field).collect(),
            shown: fault.field.to_owned(),
            manager: String::new(),
            value: value.clone(),
        })
    }

    fn select(&self, wanted: impl Fn(&Candidate<'a>) -> bool) -> Vec<Foreign> {
        self.found.iter().filter(|found| wanted(found)).map(|found| found.foreign.clone()).collect()
    }

    fn is_cause(&self, found: &Candidate<'_>, fault: &Fault<'_>) -> bool {
        let faulty = schema_of(fault.field);
        if found.name.is_some() {
            // The server names one of two fields that exclude each other: the foreign one, or ours.
            let named = |found: &Candidate<'_>| {
                found.name.as_ref().is_some_and(|name| {
                    faulty.split_last().is_some_and(|(last, parent)| last == name && parent == found.parent)
                })
            };
            let beside = faulty.split_last().is_some_and(|(_, parent)| parent == found.parent);
            return fault.excludes() && (named(found) || (beside && !self.found.iter().any(named)));
        }
        // An element: find its value that the error is about, if any.
        let Some(within) = faulty.strip_prefix(found.parent.as_slice()).filter(|rest| !rest.is_empty()) else {
            return false;
        };
        let own = pick(&found.foreign.value, within);
        let mut theirs = found.applied.iter().map(|element| pick(element, within));
        let taken = fault.reason == "FieldValueDuplicate" || fault.message.contains("already allocated");
        let is_missing = fault.reason == "FieldValueRequired";
        // A name that is required only in lists of several elements, such as that of a port.
        let crowded = is_missing && within == ["name"] && found.applied.len() == 1;
        // The server keeps what the other manager owns of an element that is no longer applied, and nothing else.
        let owns =
            |left: &Value| within.iter().try_fold(left, |fields, name| fields.get(format!("f:{name}"))).is_some();
        let incomplete = is_missing && own.is_some() && found.left.as_ref().is_some_and(|left| !owns(left));
        incomplete
            || (taken && own.is_some() && theirs.any(|value| value == own))
            || (crowded && found.applied.iter().all(|element| pick(element, within).is_none()))
    }

    /// Compares an object. `fields` are those of it that the manager owns, and
    /// those that the controller owns.
    fn object(&mut self, place: &Position, manager: &str, fields: [&Value; 2], applied: &'a Value, live: &'a Value) {
        for (key, theirs) in fields[0].as_object().into_iter().flatten() {
            let Some(name) = key.strip_prefix("f:") else { continue };
            let at_root = place.path.is_empty();
            let Some(value) = live.get(name).filter(|_| !(at_root && ["metadata", "status"].contains(&name))) else {
                continue;
            };
            let inner = place.field(name);
            let fields = [theirs, &fields[1][key]];
            match applied.get(name).filter(|applied| !applied.is_null()) {
                Some(applied @ Value::Object(_)) => self.object(&inner, manager, fields, applied, value),
                Some(Value::Array(elements)) => self.list(&inner, manager, fields, elements, value),
                Some(_) => {}
                // In an object that is applied, but not at the root, where other clients have their own fields.
                None if !at_root => self.found.push(Candidate {
                    foreign: inner.foreign(manager, value),
                    parent: place.schema.clone(),
                    name: Some(name.to_owned()),
                    beneath: place.beneath || place.is_map(),
                    applied: &[],
                    left: None,
                }),
                None => {}
            }
        }
    }

    fn list(&mut self, place: &Position, manager: &str, fields: [&Value; 2], applied: &'a [Value], live: &'a Value) {
        let elements = live.as_array().map(Vec::as_slice).unwrap_or_default();
        for (key, theirs) in fields[0].as_object().into_iter().flatten() {
            let Some(known) = ElementKey::by(key) else { continue };
            let mut all = elements.iter().enumerate();
            let Some((index, element)) = all.find(|(_, element)| known.matches(element, |_, _| false)) else {
                continue;
            };
            // A key that is not set has its default: known for built-in kinds, otherwise derived from the fields that
            // the controller owns.
            let default = |name: &str, value: &Value| match name {
                "protocol" if self.builtin => value == "TCP",
                _ => fields[1].get(key).is_some(),
            };
            let own = applied.iter().position(|element| known.matches(element, default));
            let inner = place.element(PathStep::Element { index, applied: own, key: key.clone() }, &known);
            match own.and_then(|own| applied.get(own)) {
                Some(own) => self.object(&inner, manager, [theirs, &fields[1][key]], own, element),
                None => self.found.push(Candidate {
                    foreign: inner.foreign(manager, element),
                    parent: place.schema.clone(),
                    name: None,
                    beneath: true,
                    applied,
                    left: fields[1].get(key).map(|_| theirs.clone()),
                }),
            }
        }
    }
}

/// The position of a comparison within an object.
struct Position {
    path: Vec<PathStep>,
    shown: String,
    schema: Vec<String>,
    beneath: bool,
}

impl Position {
    fn field(&self, name: &str) -> Self {
        let mut shown = self.shown.clone();
        if !shown.is_empty() {
            shown.push('.');
        }
        shown.push_str(name);
        let path = [&*self.path, &[PathStep::Field(name.to_owned())]].concat();
        Self {
            path,
            shown,
            schema: [&*self.schema, &[name.to_owned()]].concat(),
            beneath: self.beneath || self.is_map(),
        }
    }

    fn element(&self, step: PathStep, known: &ElementKey) -> Self {
        Self {
            path: [&*self.path, &[step]].concat(),
            shown: format!("{}[{known}]", self.shown),
            schema: self.schema.clone(),
            beneath: true,
        }
    }

    fn is_map(&self) -> bool {
        self.schema.last().is_some_and(|name| MAPS.contains(&name.as_str()))
    }

    fn foreign(&self, manager: &str, value: &Value) -> Foreign {
        Foreign {
            path: self.path.clone(),
            shown: self.shown.clone(),
            manager: manager.to_owned(),
            value: value.clone(),
        }
    }
}

/// The names in a path such as `spec.ports[1].name`.
fn schema_of(field: &str) -> Vec<String> {
    let mut in_brackets = false;
    let outside = field.chars().filter(|c| {
        let is_inside = in_brackets || *c == '[';
        in_brackets = is_inside && *c != ']';
        !is_inside
    });
    outside.collect::<String>().split('.').map(str::to_owned).collect()
}

/// The value at a path beneath an element; `None` if it is not set.
fn pick<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.get(name)).filter(|value| !value.is_null())
}
