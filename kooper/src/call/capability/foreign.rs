//! What other field managers have set in an object that this controller
//! applies, and what of it has to go. Pure: requests are made elsewhere.

mod removal;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

pub(super) use removal::{disown, removal};

/// The fields of Kubernetes' own kinds that are maps: their keys are the
/// author's, and not those of a schema.
const MAPS: [&str; 11] = [
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
    "stringData",
];

/// An entry of a list or map, or a field, that others have set and the
/// controller does not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Foreign {
    /// Where it is, as steps from the object's root.
    path: Vec<Step>,
    /// The same, as it is shown: `spec.ports[port=81,protocol=TCP]`.
    pub(super) shown: String,
    /// Who has set it.
    pub(super) manager: String,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Element {
        /// Where the object has it.
        index: usize,
        /// Where it is in the list that is applied.
        applied: Option<usize>,
        /// What it is known by in managed fields, such as `k:{"name":"web"}`.
        key: String,
    },
}

impl Foreign {
    /// Whether the object still has it, wherever it is in its list by now. A
    /// field with another value is a default.
    pub(super) fn is_in(&self, object: &Value) -> bool {
        let found = self.path.iter().try_fold(object, |at, step| match step {
            Step::Field(name) => at.get(name),
            Step::Element { key, .. } => {
                let known = Known::by(key)?;
                at.as_array()?.iter().find(|element| known.matches(element, |_, _| false))
            }
        });
        found.is_some_and(|found| matches!(self.path.last(), Some(Step::Element { .. })) || *found == self.value)
    }
}

/// What an element of a list is known by in managed fields.
enum Known {
    /// The values of its keys.
    Keys(serde_json::Map<String, Value>),
    /// Its own value: the list is a set.
    Value(Value),
}

impl Known {
    fn by(key: &str) -> Option<Self> {
        match key.split_once(':')? {
            ("k", keys) => serde_json::from_str(keys).ok().map(Self::Keys),
            ("v", value) => serde_json::from_str(value).ok().map(Self::Value),
            _ => None,
        }
    }

    /// Whether an element is meant. `default` says whether a key that it has
    /// not set has this value by default.
    fn matches(&self, element: &Value, default: impl Fn(&str, &Value) -> bool) -> bool {
        match self {
            Self::Keys(keys) => {
                keys.iter().all(|(key, value)| element.get(key).map_or_else(|| default(key, value), |own| own == value))
            }
            Self::Value(value) => element == value,
        }
    }
}

impl fmt::Display for Known {
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

/// What the server found wrong with one field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault<'a> {
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
    /// Its path; indexes are of a list that only the server knows.
    pub(super) field: &'a str,
}

/// What somebody else has set in an object, compared with what is applied.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    found: Vec<Found<'a>>,
    /// Whether the kind is one of Kubernetes' own.
    builtin: bool,
}

/// An entry or field with all that is known of it.
#[derive(Debug)]
struct Found<'a> {
    foreign: Foreign,
    /// The path of the list or of the object that it is in, without indexes.
    parent: Vec<String>,
    /// Its own name there; none for an element of a list.
    name: Option<String>,
    /// Whether it is beneath a list or map.
    beneath: bool,
    /// The elements of the list that are applied.
    applied: &'a [Value],
}

impl<'a> Comparison<'a> {
    /// Compares `applied`, which `manager` applies, with the object as the
    /// server has it. Metadata and status are left out: others have their part
    /// in them.
    pub(super) fn new(applied: &'a Value, live: &'a Value, manager: &str) -> Self {
        // The groups of Kubernetes' own kinds with lists of ports have no dot.
        let builtin = !applied["apiVersion"].as_str().is_some_and(|version| version.contains('.'));
        let mut this = Self { found: Vec::new(), builtin };
        let entries = || live["metadata"]["managedFields"].as_array().into_iter().flatten();
        let is_apply = |entry: &&Value| {
            entry["manager"] == manager && entry["operation"] == "Apply" && entry["subresource"].is_null()
        };
        let ours = entries().find(is_apply).map_or(&Value::Null, |entry| &entry["fieldsV1"]);
        for entry in entries() {
            let who = entry["manager"].as_str().unwrap_or_default();
            let of_status = entry["subresource"].as_str().is_some_and(|subresource| !subresource.is_empty());
            if who != manager && !of_status {
                let place = Place { path: Vec::new(), shown: String::new(), schema: Vec::new(), beneath: false };
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

    /// What causes these faults, as far as it can be known: an object that is
    /// wrong by itself accuses nobody.
    pub(super) fn accused(&self, faults: &[Fault<'_>]) -> Vec<Foreign> {
        self.select(|found| faults.iter().any(|fault| self.is_accused(found, fault)))
    }

    fn select(&self, wanted: impl Fn(&Found<'a>) -> bool) -> Vec<Foreign> {
        self.found.iter().filter(|found| wanted(found)).map(|found| found.foreign.clone()).collect()
    }

    fn is_accused(&self, found: &Found<'_>, fault: &Fault<'_>) -> bool {
        let faulty = schema_of(fault.field);
        if found.name.is_some() {
            // Of fields that exclude each other the server names one: the foreign one, or ours.
            let excludes = ["may not specify more than 1", "may not be specified when", "must not be specified when"];
            let named = |found: &Found<'_>| {
                found.name.as_ref().is_some_and(|name| {
                    faulty.split_last().is_some_and(|(last, parent)| last == name && parent == found.parent)
                })
            };
            let beside = faulty.split_last().is_some_and(|(_, parent)| parent == found.parent);
            return excludes.iter().any(|words| fault.message.contains(words))
                && (named(found) || (beside && !self.found.iter().any(named)));
        }
        // An element: which value of it, if any, is the faulty one?
        let Some(within) = faulty.strip_prefix(found.parent.as_slice()).filter(|rest| !rest.is_empty()) else {
            return false;
        };
        let own = pick(&found.foreign.value, within);
        let mut theirs = found.applied.iter().map(|element| pick(element, within));
        let taken = fault.reason == "FieldValueDuplicate" || fault.message.contains("already allocated");
        // A name that one element may do without and several may not, such as that of a port.
        let crowded = fault.reason == "FieldValueRequired" && within == ["name"] && found.applied.len() == 1;
        (taken && own.is_some() && theirs.any(|value| value == own))
            || (crowded && found.applied.iter().all(|element| pick(element, within).is_none()))
    }

    /// Compares an object; `fields` are those that the manager owns of it, and
    /// those that the controller does.
    fn object(&mut self, place: &Place, manager: &str, fields: [&Value; 2], applied: &'a Value, live: &'a Value) {
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
                // Beside what is applied: not the root, of which others have fields of their own.
                None if !at_root => self.found.push(Found {
                    foreign: inner.foreign(manager, value),
                    parent: place.schema.clone(),
                    name: Some(name.to_owned()),
                    beneath: place.beneath || place.is_map(),
                    applied: &[],
                }),
                None => {}
            }
        }
    }

    fn list(&mut self, place: &Place, manager: &str, fields: [&Value; 2], applied: &'a [Value], live: &'a Value) {
        let elements = live.as_array().map(Vec::as_slice).unwrap_or_default();
        for (key, theirs) in fields[0].as_object().into_iter().flatten() {
            let Some(known) = Known::by(key) else { continue };
            let mut all = elements.iter().enumerate();
            let Some((index, element)) = all.find(|(_, element)| known.matches(element, |_, _| false)) else {
                continue;
            };
            // A key that is left out has its default: known of Kubernetes' own kinds, and else seen in what the
            // controller owns.
            let default = |name: &str, value: &Value| match name {
                "protocol" if self.builtin => value == "TCP",
                _ => fields[1].get(key).is_some(),
            };
            let own = applied.iter().position(|element| known.matches(element, default));
            let inner = place.element(Step::Element { index, applied: own, key: key.clone() }, &known);
            match own.and_then(|own| applied.get(own)) {
                Some(own) => self.object(&inner, manager, [theirs, &fields[1][key]], own, element),
                None => self.found.push(Found {
                    foreign: inner.foreign(manager, element),
                    parent: place.schema.clone(),
                    name: None,
                    beneath: true,
                    applied,
                }),
            }
        }
    }
}

/// Where a comparison is.
struct Place {
    path: Vec<Step>,
    shown: String,
    schema: Vec<String>,
    beneath: bool,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        let mut shown = self.shown.clone();
        if !shown.is_empty() {
            shown.push('.');
        }
        shown.push_str(name);
        let path = [&*self.path, &[Step::Field(name.to_owned())]].concat();
        Self {
            path,
            shown,
            schema: [&*self.schema, &[name.to_owned()]].concat(),
            beneath: self.beneath || self.is_map(),
        }
    }

    fn element(&self, step: Step, known: &Known) -> Self {
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

/// The value at a path beneath an element; none where it is not set.
fn pick<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.get(name)).filter(|value| !value.is_null())
}
