//! Validation of pod updates.

use serde_json::{Value, json};

use crate::form;
use crate::registry::strategy::keep;
use crate::validate::field_value::FieldValue;
use crate::validate::pod::{self, TOO_MANY_SECONDS};

/// Validates an update of a pod, which can change images, the deadline, tolerations and scheduling
/// gates. In a pod with scheduling gates, it can also restrict the nodes.
pub(super) fn update(object: &FieldValue<'_>, present: &Value) {
    let spec = object.field("spec");
    pod::spec(&spec);
    super::validate_pods(&spec);
    let old = &present["spec"];
    for list in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[list].as_array().map_or(0, Vec::len);
        if count(spec.value) != count(old) {
            spec.field(list).forbidden("pod updates may not add or remove containers");
            return;
        }
    }
    let deadline = spec.field("activeDeadlineSeconds");
    match (deadline.number(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(new), _) if !(0..=TOO_MANY_SECONDS).contains(&new) => {
            deadline.between(0, TOO_MANY_SECONDS);
            return;
        }
        (Some(new), Some(old)) if new > old => {
            deadline.invalid("must be less than or equal to previous value");
            return;
        }
        (None, Some(_)) => deadline.invalid("must not update from a positive integer to nil value"),
        _ => {}
    }
    only_added_tolerations(&spec.field("tolerations"), &old["tolerations"]);
    only_deleted_gates(&spec.field("schedulingGates"), &old["schedulingGates"]);
    let mut munged = spec.value.clone();
    for list in ["containers", "initContainers"] {
        for (index, old) in old[list].as_array().into_iter().flatten().enumerate() {
            munged[list][index]["image"] = old["image"].clone();
        }
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        keep(&mut munged, old, key);
    }
    if old["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        && munged["terminationGracePeriodSeconds"] == 1
    {
        keep(&mut munged, old, "terminationGracePeriodSeconds");
    }
    if old["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        gated(&spec, &mut munged, old);
    }
    if munged != *old {
        spec.forbidden(
            "pod updates may not change fields other than \
             `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
             `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it \
             to be set to 1 if it was previously negative)\n",
        );
    }
}

/// While a pod has gates, an update may narrow down the nodes for it. Such changes, which are allowed, are taken back in
/// what is compared.
fn gated(spec: &FieldValue<'_>, munged: &mut Value, old: &Value) {
    let selector = spec.field("nodeSelector");
    let lost = |(key, value): (&String, &Value)| selector.value.get(key) != Some(value);
    if old["nodeSelector"].as_object().into_iter().flatten().any(lost) {
        selector.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)");
    }
    keep(munged, old, "nodeSelector");
    let before = &old["affinity"]["nodeAffinity"];
    let now = spec.field("affinity.nodeAffinity");
    if now.value == before {
        return;
    }
    only_added_requirements(&now, before);
    let others = ["podAffinity", "podAntiAffinity"].iter().any(|key| !munged["affinity"][key].is_null());
    if old["affinity"].is_null() && !others {
        keep(munged, old, "affinity");
    } else if before.is_null() {
        drop(munged["affinity"].as_object_mut().and_then(|affinity| affinity.remove("nodeAffinity")));
    } else {
        munged["affinity"]["nodeAffinity"] = before.clone();
    }
}

fn only_added_requirements(affinity: &FieldValue<'_>, before: &Value) {
    let path = "requiredDuringSchedulingIgnoredDuringExecution";
    let Some(old) = before[path]["nodeSelectorTerms"].as_array().filter(|terms| !terms.is_empty()) else { return };
    let terms = affinity.field(path).field("nodeSelectorTerms");
    let new = terms.items();
    if new.len() != old.len() {
        let shown: Vec<_> = new.iter().map(|term| shown_term(term.value)).collect();
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        terms.invalid_as(&if shown.is_empty() { Value::Null } else { shown.into() }, why);
        return;
    }
    let list = |term: &Value, key: &str| term[key].as_array().cloned().unwrap_or_default();
    for (term, old) in new.iter().zip(old) {
        let all = ["matchExpressions", "matchFields"];
        // An empty term selects nothing.
        let was_empty = all.iter().all(|key| list(old, key).is_empty());
        let kept = all.iter().all(|key| {
            let now = list(term.value, key);
            now.starts_with(&list(old, key)) && (now.is_empty() || !was_empty)
        });
        if !kept {
            term.invalid_as(&shown_term(term.value), "only additions are allowed (no mutations or deletions)");
        }
    }
}

/// A term as the real server shows it: by the names of its own type.
fn shown_term(term: &Value) -> Value {
    let list = |key: &str| {
        let items = term[key].as_array()?.iter();
        let shown =
            items.map(|item| json!({"Key": item["key"], "Operator": item["operator"], "Values": item["values"]}));
        Some(shown.collect::<Vec<_>>())
    };
    json!({"MatchExpressions": list("matchExpressions"), "MatchFields": list("matchFields")})
}

fn only_deleted_gates(gates: &FieldValue<'_>, present: &Value) {
    let items = gates.items();
    for (index, gate) in items.iter().enumerate() {
        let name = gate.field("name");
        let again = items[index + 1..].iter().any(|later| later.field("name").text() == name.text());
        let known = present.as_array().into_iter().flatten().any(|old| old["name"] == name.text());
        if !again && !known {
            name.forbidden(format!("only deletion is allowed, but found new scheduling gate '{}'", name.text()));
        }
    }
}

/// Validates an update through `pods/ephemeralcontainers`, which can only add containers.
pub(super) fn update_ephemeral(object: &FieldValue<'_>, present: &Value) {
    let spec = object.field("spec");
    pod::spec(&spec);
    let list = spec.field("ephemeralContainers");
    for old in present["spec"]["ephemeralContainers"].as_array().into_iter().flatten() {
        let name = old["name"].as_str().unwrap_or_default();
        match list.items().iter().find(|new| new.field("name").text() == name) {
            None => list.forbidden(format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(new) if new.value != old => {
                list.forbidden(format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}

/// Validates an update through `pods/resize`, which can only change the resources of containers.
pub(super) fn resize(object: &FieldValue<'_>, present: &Value) {
    let spec = object.field("spec");
    pod::spec(&spec);
    let names = |spec: &Value, list: &str| -> Vec<Value> {
        let containers = spec[list].as_array().into_iter().flatten();
        containers.map(|container| container["name"].clone()).collect()
    };
    for list in ["containers", "initContainers"] {
        let (new, old) = (names(spec.value, list), names(&present["spec"], list));
        if new.len() != old.len() {
            spec.field(list).forbidden("containers may not be added or removed on resize");
        } else if new != old {
            spec.field(list).forbidden("containers may not be renamed or reordered on resize");
        }
    }
}

fn only_added_tolerations(tolerations: &FieldValue<'_>, present: &Value) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        drop(toleration.as_object_mut().and_then(|entries| entries.remove("tolerationSeconds")));
        toleration
    };
    let new: Vec<_> = tolerations.items().iter().map(|toleration| without_time(toleration.value)).collect();
    let mut old = present.as_array().into_iter().flatten();
    if old.any(|old| !new.contains(&without_time(old))) {
        tolerations.forbidden("existing toleration can not be modified except its tolerationSeconds");
    }
}

/// Validates a write of the status.
pub(super) fn status(status: &FieldValue<'_>, present: &Value) {
    for condition in status.field("conditions").items() {
        condition.field("observedGeneration").not_negative();
        let kind = condition.field("type");
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            kind.named(format!("{}.Type", condition.path())).form_even_if_empty(form::qualified);
        }
    }
    status.field("qosClass").immutable(&present["qosClass"]);
    for list in ["podIPs", "hostIPs"] {
        for item in status.field(list).items() {
            let ip = item.field("ip");
            let known = present[list].as_array().into_iter().flatten().any(|old| old["ip"] == ip.text());
            if !known && ip.text().parse::<std::net::IpAddr>().is_err() {
                let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                ip.named(item.path().to_owned()).invalid_as(&ip.text().into(), why);
            }
        }
    }
}
