//! Usage: what an object counts for in the quotas of its namespace.

use serde_json::Value;

use crate::amounts::Amounts;
use crate::kinds::Kind;
use crate::quantity::Quantity;
use crate::registry;

/// Returns whether quotas count objects of the kind.
pub(crate) fn is_counted(kind: &Kind) -> bool {
    kind.namespaced && registry::of(kind).is_counted()
}

/// The name under which the objects of a kind are counted.
fn count_of(kind: &Kind) -> String {
    let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    format!("count/{}{group}", kind.resource)
}

/// The older name under which the objects of a kind are counted.
fn alias_of(kind: &Kind) -> Option<&str> {
    let known = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
    (kind.custom.is_none() && kind.group.is_empty() && known.contains(&kind.resource.as_str()))
        .then_some(kind.resource.as_str())
}

/// Returns whether objects of a kind count toward a quota resource.
pub(crate) fn counts_for(kind: &Kind, name: &str) -> bool {
    name == count_of(kind) || alias_of(kind) == Some(name) || registry::of(kind).counts_for(name)
}

/// Returns the quota usage of an object.
pub(crate) fn of(kind: &Kind, object: &Value) -> Amounts {
    let mut used = Amounts::default();
    let one = Quantity::whole(1);
    used.set(count_of(kind), one);
    if let Some(alias) = alias_of(kind) {
        used.set(alias, one);
    }
    registry::of(kind).add_usage(object, &mut used);
    used
}

/// Returns whether an object is in all scopes of a quota.
pub(crate) fn is_in_scope(kind: &Kind, object: &Value, quota: &Value) -> bool {
    let spec = &quota["spec"];
    let scopes = spec["scopes"].as_array().into_iter().flatten();
    let mut scopes = scopes.map(|scope| (scope.as_str().unwrap_or_default(), "Exists", &Value::Null));
    let selected = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    let mut selected = selected.map(|expression| {
        let text = |key: &str| expression[key].as_str().unwrap_or_default();
        (text("scopeName"), text("operator"), &expression["values"])
    });
    let strategy = registry::of(kind);
    let within =
        |(scope, operator, values): (&str, &str, &Value)| strategy.is_in_scope(object, scope, operator, values);
    scopes.all(within) && selected.all(within)
}
