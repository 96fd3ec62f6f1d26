//! The rules of Deployments, ReplicaSets, StatefulSets and DaemonSets.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::at::At;
use super::{pod, selector, storage};
use crate::cause::Cause;
use crate::form;

pub(super) fn deployment(object: &At<'_>, present: Option<&Value>) {
    let spec = object.field("spec");
    replicated(&spec);
    let strategy = spec.field("strategy");
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "" => {}
        "Recreate" => {
            rolling.forbidden_if_set("may not be specified when strategy `type` is 'Recreate'");
        }
        "RollingUpdate" => rolling_deployment(&rolling),
        other => {
            // The real server shows its own form of the strategy.
            let part = |key: &str| if rolling.value[key].is_null() { json!(0) } else { rolling.value[key].clone() };
            let parts =
                || format!(r#"{{"MaxUnavailable":{},"MaxSurge":{}}}"#, part("maxUnavailable"), part("maxSurge"));
            let parts = if rolling.is_set() { parts() } else { "null".to_owned() };
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":{parts}}}"#);
            strategy.add(Cause::not_supported(strategy.path(), &shown, &["Recreate", "RollingUpdate"]));
        }
    }
    for count in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        spec.field(count).not_negative();
    }
    let deadline = spec.field("progressDeadlineSeconds");
    if deadline.number().is_some_and(|seconds| seconds <= spec.field("minReadySeconds").number().unwrap_or(0)) {
        deadline.invalid("must be greater than minReadySeconds");
    }
    if let Some(present) = present {
        spec.field("selector").immutable(&present["spec"]["selector"]);
    }
}

pub(super) fn replica_set(object: &At<'_>, present: Option<&Value>) {
    let spec = object.field("spec");
    replicated(&spec);
    spec.field("minReadySeconds").not_negative();
    if let Some(present) = present {
        spec.field("selector").immutable(&present["spec"]["selector"]);
    }
}

/// What Deployments and ReplicaSets have in common.
fn replicated(spec: &At<'_>) {
    spec.field("replicas").not_negative();
    let chosen = spec.field("selector");
    selector::not_empty(&chosen, "deployment");
    let template = spec.field("template");
    // The template is judged by a valid selector only.
    if chosen.is_set() && !selector::is_valid(chosen.value) {
        return chosen.invalid_shown(&selector::shown(chosen.value), "invalid label selector");
    }
    selector::matches(chosen.value, &template, true);
    pod::template(&template);
    pod::runs_for_ever(&template, "ReplicaSet");
}

fn rolling_deployment(rolling: &At<'_>) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    count_or_percent(&unavailable);
    count_or_percent(&surge);
    if unavailable.is_set() && amount(&unavailable) == 0 && surge.is_set() && amount(&surge) == 0 {
        unavailable.invalid("may not be 0 when `maxSurge` is 0");
    }
    at_most_all(&unavailable);
}

/// A count that is not negative, or a percentage.
pub(super) fn count_or_percent(at: &At<'_>) {
    let Value::String(text) = at.value else { return at.not_negative() };
    let digits = text.strip_suffix('%').unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        at.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used \
             for validation is '[0-9]+%')",
        );
    }
}

pub(super) fn at_most_all(at: &At<'_>) {
    if at.value.is_string() && amount(at) > 100 {
        at.invalid("must not be greater than 100%");
    }
}

/// The number of a count or a percentage.
fn amount(at: &At<'_>) -> i64 {
    match at.value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        value => value.as_i64().unwrap_or(0),
    }
}

pub(super) fn daemon_set(object: &At<'_>, present: Option<&Value>) {
    let spec = object.field("spec");
    let chosen = spec.field("selector");
    selector::validate(&chosen);
    let template = spec.field("template");
    if chosen.is_set() {
        selector::matches(chosen.value, &template, false);
        if chosen.field("matchLabels").is_empty() && chosen.field("matchExpressions").is_empty() {
            chosen.invalid("empty selector is invalid for daemonset");
        }
    } else {
        template.field("metadata.labels").invalid("`selector` does not match template `labels`");
    }
    pod::template(&template);
    pod::runs_for_ever(&template, "DaemonSet");
    spec.field("minReadySeconds").not_negative();
    spec.field("revisionHistoryLimit").not_negative();
    let rolling = spec.field("updateStrategy.rollingUpdate");
    if spec.field("updateStrategy.type").text() == "RollingUpdate" && rolling.is_set() {
        let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
        for at in [&unavailable, &surge] {
            count_or_percent(at);
            at_most_all(at);
        }
        match (amount(&unavailable) != 0, amount(&surge) != 0) {
            (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero"),
            (false, false) if unavailable.is_set() && surge.is_set() => {
                unavailable.require("cannot be 0 when maxSurge is 0");
            }
            _ => {}
        }
    }
    if let Some(present) = present {
        spec.field("selector").immutable(&present["spec"]["selector"]);
    }
}

/// What an update of a StatefulSet may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

pub(super) fn stateful_set(object: &At<'_>, present: Option<&Value>) {
    let spec = object.field("spec");
    let management = spec.field("podManagementPolicy");
    if !matches!(management.text(), "" | "OrderedReady" | "Parallel") {
        management.invalid("must be 'OrderedReady' or 'Parallel'");
    }
    let strategy = spec.field("updateStrategy");
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "OnDelete" if rolling.is_set() => {
            let partition = rolling.field("partition").number().unwrap_or(0);
            let shown = format!(r#"{{"Partition":{partition},"MaxUnavailable":null}}"#);
            rolling.invalid_shown(&shown, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "RollingUpdate" => rolling.field("partition").not_negative(),
        "" | "OnDelete" => {}
        other => {
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":null}}"#);
            strategy.invalid_shown(&shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    for key in ["whenDeleted", "whenScaled"] {
        spec.field("persistentVolumeClaimRetentionPolicy").field(key).one_of(&["Retain", "Delete"]);
    }
    for count in ["replicas", "minReadySeconds", "ordinals.start"] {
        spec.field(count).not_negative();
    }
    if present.is_none() {
        spec.field("serviceName").form(form::dns_label);
    }
    let chosen = spec.field("selector");
    selector::not_empty(&chosen, "statefulset");
    let template = spec.field("template");
    if chosen.is_set() && !selector::is_valid(chosen.value) {
        let message = format!("Invalid value: {}", selector::shown(chosen.value));
        chosen.add(Cause::other("FieldValueInvalid", chosen.path(), message));
    } else {
        selector::matches(chosen.value, &template, true);
        stateful_template(&spec, &template);
        // The real server reports these twice.
        pod::template_metadata(&template);
    }
    pod::runs_for_ever(&template, "StatefulSet");
    if let Some(present) = present {
        let frozen = |spec: &Value| {
            let mut spec = spec.as_object().cloned().unwrap_or_default();
            spec.retain(|key, _| !MUTABLE.contains(&key.as_str()));
            spec
        };
        if frozen(spec.value) != frozen(&present["spec"]) {
            spec.forbidden(
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            );
        }
    } else {
        let mut names = HashSet::new();
        for claim in spec.field("volumeClaimTemplates").items() {
            let name = claim.field("metadata.name");
            if !name.is_empty() && !names.insert(name.text()) {
                name.duplicate();
            }
            storage::claim_spec(&claim.field("spec"));
        }
    }
}

/// The template with the volumes of the claims.
fn stateful_template(spec: &At<'_>, template: &At<'_>) {
    let claims: Vec<&str> =
        spec.field("volumeClaimTemplates").items().iter().map(|claim| claim.field("metadata.name").text()).collect();
    if claims.is_empty() {
        return pod::template(template);
    }
    let mut whole = template.value.clone();
    let volumes = whole["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let own = claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let others = volumes.into_iter().filter(|volume| !claims.iter().any(|name| volume["name"] == *name));
    whole["spec"]["volumes"] = own.chain(others).collect();
    template.nested(&whole, pod::template);
}
