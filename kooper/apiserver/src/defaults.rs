//! Defaulting of built-in kinds: sets default values and omits empty fields as the Go types do.
//!
//! The real server decodes an object into a Go struct, sets defaults and encodes it again.
//! [`table`] contains facts about the Go types, dumped from Kubernetes itself; [`rules`] contains
//! the defaults that depend on the value of another member.

mod rules;
mod table;

pub(crate) use self::rules::TEMPLATE_GENERATION;

use serde_json::{Map, Value, json};

use self::table::{Inner, MemberDefault, Type};
use crate::kinds::ResourceInfo;
use crate::quantity::Quantity;
use crate::time;

/// Fills in an object of a built-in kind, as it comes out of the real server's store.
pub(crate) fn fill(kind: &ResourceInfo, object: &mut Value) {
    complete(kind, object, Source::Store);
}

/// Fills in an object of a built-in kind, as it comes out of the real server's decoder.
pub(crate) fn decode(kind: &ResourceInfo, object: &mut Value) {
    complete(kind, object, Source::Request);
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// An empty list that its type always writes is not the same as none.
    Request,
    /// The store does not keep an empty list apart from none.
    Store,
}

fn complete(kind: &ResourceInfo, object: &mut Value, source: Source) {
    let (Some(of), Value::Object(entries)) = (kind.typed().name.and_then(table::of), object) else { return };
    let metadata = entries.remove("metadata");
    members(entries, of, &[], source);
    if let Some(metadata) = metadata {
        entries.insert("metadata".to_owned(), metadata);
    }
    rules::of_object(of.name, entries);
}

/// An object without any field, as its type is encoded.
pub(crate) fn zero(name: Option<&str>, api_version: &str, kind: &str) -> Value {
    let mut object = name.and_then(table::of).map_or_else(|| json!({}), empty);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

/// A value of a type with nothing in it: what the type always writes.
fn empty(of: &Type) -> Value {
    let written = of.always.iter().map(|(name, value)| {
        let value = match of.members.get(name).map(|member| &member.inner) {
            Some(Inner::Object(inner)) if value.is_object() => table::of(inner).map_or_else(|| value.clone(), empty),
            _ => value.clone(),
        };
        ((*name).to_owned(), value)
    });
    written.collect()
}

/// Fills in the members of a value of one type. `more` are the defaults of this type where it is.
fn members(entries: &mut Map<String, Value>, of: &Type, more: &[MemberDefault], source: Source) {
    entries.retain(|name, value| {
        let given = source == Source::Request && value.is_array() && of.always.iter().any(|(other, _)| name == other);
        given || of.members.get(name.as_str()).is_none_or(|member| member.is_written(value))
    });
    for (name, value) in &of.always {
        if !entries.contains_key(*name) {
            entries.insert((*name).to_owned(), value.clone());
        }
    }
    rules::before(of.name, entries);
    if rules::is_unknown_strategy(of.name, entries) {
        return;
    }
    let defaults: Vec<_> = table::defaults(&of.member_defaults, more, entries, &of.always);
    for (name, value) in defaults {
        entries.insert(name.to_owned(), value.clone());
    }
    rules::after(of.name, entries);
    for (name, value) in entries.iter_mut() {
        if let Some(member) = of.members.get(name.as_str()) {
            inner(value, &member.inner, &member.member_defaults, source);
        }
    }
}

fn inner(value: &mut Value, inner: &Inner, more: &[MemberDefault], source: Source) {
    match (inner, value) {
        (Inner::Object(name), Value::Object(entries)) => {
            if let Some(of) = table::of(name) {
                members(entries, of, more, source);
            }
        }
        (Inner::Items(item), Value::Array(items)) => {
            for value in items {
                nothing(value, item);
                self::inner(value, item, more, source);
            }
        }
        (Inner::Entries(entry), Value::Object(entries)) => {
            for value in entries.values_mut() {
                nothing(value, entry);
                self::inner(value, entry, more, source);
                // Amounts of resources are kept in thousandths.
                if matches!(**entry, Inner::Quantity)
                    && let Some(quantity) = value.as_str().and_then(Quantity::parse)
                {
                    *value = json!(quantity.to_millis().to_string());
                }
            }
        }
        (Inner::Quantity, value) => {
            let text = match &*value {
                Value::Number(number) => number.to_string(),
                Value::String(text) => text.trim().to_owned(),
                _ => return,
            };
            if let Some(quantity) = Quantity::parse(&text) {
                *value = json!(quantity.to_string());
            }
        }
        (Inner::Time { micros }, Value::String(text)) => {
            if let Some(canonical) = time::canonical(text, *micros) {
                *text = canonical;
            }
        }
        _ => {}
    }
}

/// A `null` in a list or a map is a value with nothing in it.
fn nothing(value: &mut Value, inner: &Inner) {
    if value.is_null() {
        *value = match inner {
            Inner::Object(_) | Inner::Entries(_) => json!({}),
            Inner::Text => json!(""),
            _ => return,
        };
    }
}
