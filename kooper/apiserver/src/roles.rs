//! Roles: who has which rules, decoded from the bindings until one of them changes.

use std::collections::HashMap;

use serde_json::Value;

/// The bindings of a cluster with the rules of their roles.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    /// The versions of the tables that this was read from.
    pub(crate) read_at: [u64; 4],
    pub(crate) cluster: Vec<Binding>,
    pub(crate) namespaces: HashMap<String, Vec<Binding>>,
}

/// A binding, decoded.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) object: Value,
    pub(crate) namespace: String,
    pub(crate) rules: Vec<Value>,
}
