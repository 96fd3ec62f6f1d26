//! The rules that several built-in kinds share; those of one kind are in its file of the registry.
//!
//! A rule is a line about a field of the object ([`field_value::FieldValue`]); the messages are those of the real
//! server.

pub(crate) mod container;
pub(crate) mod cron;
pub(crate) mod data;
pub(crate) mod field_value;
pub(crate) mod pod;
pub(crate) mod replicas;
pub(crate) mod resources;
pub(crate) mod selector;
pub(crate) mod share;
mod volume;

use serde_json::{Value, json};

use self::field_value::FieldValue;
use crate::form;

/// A write that is judged, with the present state of the object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Write<'a> {
    Create,
    Update(&'a Value),
    /// A write of the status, or of another part that is not the spec.
    Status(&'a Value),
    EphemeralContainers(&'a Value),
    Resize(&'a Value),
}

impl<'a> Write<'a> {
    pub(crate) fn present(self) -> Option<&'a Value> {
        match self {
            Self::Create => None,
            Self::Update(present)
            | Self::Status(present)
            | Self::EphemeralContainers(present)
            | Self::Resize(present) => Some(present),
        }
    }
}

/// The rules of a map of labels.
pub(crate) fn labels(at: &FieldValue<'_>) {
    for (key, value) in at.entries() {
        for why in form::qualified(key) {
            at.invalid_as(&json!(key), why);
        }
        for why in form::label_value(value.text()) {
            at.invalid_as(&json!(value.text()), why);
        }
    }
}

fn annotations(at: &FieldValue<'_>) {
    for (key, _) in at.entries() {
        for why in form::qualified(&key.to_lowercase()) {
            at.invalid_as(&json!(key), why);
        }
    }
}
