//! What other field managers have set in an object that this controller
//! applies, and what of it has to go. Pure: requests are made elsewhere.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Foreign {
    /// Where it is, as steps from the object's root.
    path: Vec<Step>,
    /// The same, as it is shown: `spec.ports[port=81,protocol=TCP]`.
    pub(super) shown: String,
    /// Who has set it.
    pub(super) manager: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Index(usize),
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
    value: &'a Value,
    /// The elements of the list that are applied.
    applied: &'a [Value],
}

impl<'a> Comparison<'a> {
    /// Compares `applied`, which `manager` applies, with the object as the
    /// server has it. Metadata and status are left out: others have their part
    /// in them.
    pub(super) fn new(applied: &'a Value, live: &'a Value, manager: &str) -> Self {
        let mut this = Self { found: Vec::new() };
        for entry in live["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let who = entry["manager"].as_str().unwrap_or_default();
            let of_status = entry["subresource"].as_str().is_some_and(|subresource| !subresource.is_empty());
            if who != manager && !of_status {
                let place = Place { path: Vec::new(), shown: String::new(), schema: Vec::new(), beneath: false };
                this.object(&place, who, &entry["fieldsV1"], applied, live);
            }
        }
        this.found.sort_by(|one, other| one.foreign.cmp(&other.foreign));
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
        let own = pick(found.value, within);
        let mut theirs = found.applied.iter().map(|element| pick(element, within));
        let taken = fault.reason == "FieldValueDuplicate" || fault.message.contains("already allocated");
        // A name that one element may do without and several may not, such as that of a port.
        let crowded = fault.reason == "FieldValueRequired" && within == ["name"] && found.applied.len() == 1;
        (taken && own.is_some() && theirs.any(|value| value == own))
            || (crowded && found.applied.iter().all(|element| pick(element, within).is_none()))
    }

    fn object(&mut self, place: &Place, manager: &str, fields: &Value, applied: &'a Value, live: &'a Value) {
        for (key, fields) in fields.as_object().into_iter().flatten() {
            let Some(name) = key.strip_prefix("f:") else { continue };
            let at_root = place.path.is_empty();
            let Some(value) = live.get(name).filter(|_| !(at_root && ["metadata", "status"].contains(&name))) else {
                continue;
            };
            let inner = place.field(name);
            match applied.get(name).filter(|applied| !applied.is_null()) {
                Some(applied @ Value::Object(_)) => self.object(&inner, manager, fields, applied, value),
                Some(Value::Array(elements)) => self.list(&inner, manager, fields, elements, value),
                Some(_) => {}
                // Beside what is applied: not the root, of which others have fields of their own.
                None if !at_root => self.found.push(Found {
                    foreign: inner.foreign(manager),
                    parent: place.schema.clone(),
                    name: Some(name.to_owned()),
                    beneath: place.beneath || place.is_map(),
                    value,
                    applied: &[],
                }),
                None => {}
            }
        }
    }

    fn list(&mut self, place: &Place, manager: &str, fields: &Value, applied: &'a [Value], live: &'a Value) {
        let elements = live.as_array().map(Vec::as_slice).unwrap_or_default();
        for (key, fields) in fields.as_object().into_iter().flatten() {
            let Some(keys) = key.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Value>(keys).ok()) else {
                continue;
            };
            let Some(keys) = keys.as_object() else { continue };
            let has = |element: &Value, unset: bool| {
                keys.iter().all(|(key, value)| element.get(key).map_or(unset, |own| own == value))
            };
            let Some((index, element)) = elements.iter().enumerate().find(|(_, element)| has(element, false)) else {
                continue;
            };
            let inner = place.element(index, keys);
            // A key that is not set has its default, which only the server knows.
            match applied.iter().find(|element| has(element, true)) {
                Some(applied) => self.object(&inner, manager, fields, applied, element),
                None => self.found.push(Found {
                    foreign: inner.foreign(manager),
                    parent: place.schema.clone(),
                    name: None,
                    beneath: true,
                    value: element,
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

    fn element(&self, index: usize, keys: &serde_json::Map<String, Value>) -> Self {
        let keys: Vec<_> = keys
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect();
        Self {
            path: [&*self.path, &[Step::Index(index)]].concat(),
            shown: format!("{}[{}]", self.shown, keys.join(",")),
            schema: self.schema.clone(),
            beneath: true,
        }
    }

    fn is_map(&self) -> bool {
        self.schema.last().is_some_and(|name| MAPS.contains(&name.as_str()))
    }

    fn foreign(&self, manager: &str) -> Foreign {
        Foreign { path: self.path.clone(), shown: self.shown.clone(), manager: manager.to_owned() }
    }
}

/// A JSON patch that removes the entries from the object as it was read, and
/// from no later version. A list of which nothing would remain is set to what
/// is applied, as a server may refuse an empty one.
pub(super) fn removal(live: &Value, applied: &Value, entries: &[Foreign]) -> Value {
    let mut operations = vec![json!({
        "op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"],
    })];
    let mut sorted: Vec<&Foreign> = entries.iter().collect();
    // From the end: a removal moves what is behind it.
    sorted.sort_by(|one, other| other.path.cmp(&one.path));
    sorted.dedup_by(|one, other| one.path == other.path);
    let mut replaced: Vec<&[Step]> = Vec::new();
    for entry in &sorted {
        let Some((last, list)) = entry.path.split_last() else { continue };
        let of_list = |other: &&&Foreign| other.path.split_last().is_some_and(|(_, parent)| parent == list);
        let all = live.pointer(&pointer(list)).and_then(Value::as_array).map(Vec::len);
        if matches!(last, Step::Index(_)) && all == Some(sorted.iter().filter(of_list).count()) {
            if let Some(elements) = applied_at(applied, live, list).filter(|_| !replaced.contains(&list)) {
                replaced.push(list);
                operations.push(json!({"op": "replace", "path": pointer(list), "value": elements}));
            }
            continue;
        }
        operations.push(json!({"op": "remove", "path": pointer(&entry.path)}));
        if matches!(last, Step::Field(_)) && !replaced.contains(&list) {
            replaced.push(list);
            operations.extend(instead(live, applied, list));
        }
    }
    operations.into()
}

/// Sets what is applied beside a field that is removed: without either of two
/// that exclude each other the server may set a default, such as the removed
/// one.
fn instead(live: &Value, applied: &Value, object: &[Step]) -> Vec<Value> {
    let fields = applied_at(applied, live, object).and_then(Value::as_object);
    let there = live.pointer(&pointer(object)).unwrap_or(&Value::Null);
    let differs = |name: &str, value: &Value| match there.get(name) {
        Some(own) => own != value && !value.is_object() && !value.is_array(),
        None => !value.is_null(),
    };
    let fields = fields.into_iter().flatten().filter(|(name, value)| differs(name, value));
    fields
        .map(|(name, value)| {
            let path = [object, &[Step::Field(name.clone())]].concat();
            json!({"op": "add", "path": pointer(&path), "value": value})
        })
        .collect()
}

/// A JSON patch that takes the entries of `manager` out of the managed fields;
/// `None` where there are none.
pub(super) fn disown(live: &Value, manager: &str) -> Option<Value> {
    let managed = live["metadata"]["managedFields"].as_array()?;
    let owned = managed.iter().enumerate().rev().filter(|(_, entry)| entry["manager"] == manager);
    let removals: Vec<_> =
        owned.map(|(index, _)| json!({"op": "remove", "path": format!("/metadata/managedFields/{index}")})).collect();
    let version = &live["metadata"]["resourceVersion"];
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    (!removals.is_empty()).then(|| [vec![test], removals].concat().into())
}

/// What is applied where the live object has this list: found by the keys of
/// the elements on the way.
fn applied_at<'a>(applied: &'a Value, live: &Value, list: &[Step]) -> Option<&'a Value> {
    let mut at = (applied, live);
    for step in list {
        at = match step {
            Step::Field(name) => (at.0.get(name)?, at.1.get(name)?),
            Step::Index(index) => {
                let there = at.1.get(index)?;
                // The keys of Kubernetes' lists that hold lists.
                let keys = ["name", "type", "key"];
                let same = |element: &&Value| {
                    keys.iter().all(|key| element[*key] == there[*key])
                        && keys.iter().any(|key| there[*key].is_string())
                };
                (at.0.as_array()?.iter().find(same)?, there)
            }
        };
    }
    Some(at.0)
}

fn pointer(path: &[Step]) -> String {
    path.iter().fold(String::new(), |mut text, step| {
        // Writing into a String cannot fail.
        let _ = write!(text, "/{step}");
        text
    })
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(&name.replace('~', "~0").replace('/', "~1")),
            Self::Index(index) => write!(f, "{index}"),
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
