//! The rules of resource requirements.

use serde_json::json;

use super::field_value::FieldValue;
use crate::form;

/// A container may have the resource, which has no prefix.
pub(crate) fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

/// A quota limits the amount of such a resource by this name.
pub(crate) fn is_measured(name: &str) -> bool {
    is_standard(name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name))
}

pub(crate) fn of_container(resources: &FieldValue<'_>) {
    requirements(resources, |name, at| {
        let before = at.count();
        for why in form::qualified(name) {
            at.invalid_as(&json!(name), why);
        }
        if at.count() > before {
            return;
        }
        if !name.contains('/') {
            if !is_standard(name) && !name.starts_with("hugepages-") {
                at.invalid_as(&json!(name), "must be a standard resource type or fully qualified");
                at.invalid_as(&json!(name), "must be a standard resource for containers");
            }
        } else if !is_native(name) && !is_extended(name) {
            at.invalid_as(&json!(name), "doesn't follow extended resource name standard");
        }
    });
}

/// Names that belong to Kubernetes.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && form::qualified(&format!("requests.{name}")).is_empty()
}

/// Resources that may be requested below their limit.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

/// The rules of `limits` and `requests`; `check` is for the name of a resource.
pub(crate) fn requirements(resources: &FieldValue<'_>, check: impl Fn(&str, &FieldValue<'_>)) {
    let limits = resources.field("limits");
    for (name, limit) in limits.entries() {
        check(name, &limit);
        quantity(name, &limit);
    }
    let requests = resources.field("requests");
    for (name, request) in requests.entries() {
        check(name, &request);
        quantity(name, &request);
        let limit = limits.entries().into_iter().find(|(other, _)| *other == name);
        match limit.and_then(|(_, limit)| limit.quantity()).zip(request.quantity()) {
            Some((limit, request)) if !request.equals(limit) && !may_overcommit(name) => {
                let why = format!("must be equal to {name} limit of {limit}");
                requests.invalid_as(&json!(request.to_string()), why);
            }
            Some((limit, request)) if request.exceeds(limit) => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                requests.invalid_as(&json!(request.to_string()), why);
            }
            Some(_) => {}
            None if !may_overcommit(name) => limits.require("Limit must be set for non overcommitable resources"),
            None => {}
        }
    }
}

/// The rules of the amount of a resource.
pub(crate) fn quantity(name: &str, at: &FieldValue<'_>) {
    let Some(quantity) = at.quantity() else { return };
    not_negative(at);
    if is_extended(name) && !quantity.is_whole() {
        at.invalid_as(&json!(quantity.to_string()), "must be an integer");
    }
}

pub(crate) fn not_negative(at: &FieldValue<'_>) {
    if let Some(quantity) = at.quantity().filter(|quantity| quantity.is_negative()) {
        at.invalid_as(&json!(quantity.to_string()), "must be greater than or equal to 0");
    }
}
