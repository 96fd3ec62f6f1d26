//! StatefulSets.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::persistent_volume_claim;
use super::row::Row;
use super::strategy::Strategy;
use super::warnings;
use crate::cause::Cause;
use crate::form;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, pod, replicas, selector};

/// Fields that an update of a StatefulSet may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

pub(super) struct StatefulSet;

impl Strategy for StatefulSet {
    fn name_form(&self) -> form::Check {
        form::dns_label
    }

    fn counts_replicas(&self) -> bool {
        true
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let present = write.present();
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
                persistent_volume_claim::validate_spec(&claim.field("spec"));
            }
        }
    }

    fn validate_status(&self, object: &FieldValue<'_>, _: &Value) {
        let status = object.field("status");
        replicas::not_negative(
            &status,
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
        );
        replicas::at_most_all(
            &status,
            &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
            "status.readyReplicas",
        );
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        let mut warnings = warnings::of_template("spec.template", object, present);
        if object["spec"]["revisionHistoryLimit"].as_i64().is_some_and(i64::is_negative) {
            let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {why}"));
        }
        warnings
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let ready = format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas"));
        let [names, images] = row.containers("/spec/template/spec/containers");
        Some(vec![row.name(), json!(ready), row.age(), names, images])
    }
}

/// The template with the volumes of the claims.
fn stateful_template(spec: &FieldValue<'_>, template: &FieldValue<'_>) {
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
