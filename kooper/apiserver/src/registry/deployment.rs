//! Deployments.

use serde_json::{Value, json};

use super::replica_set;
use super::row::{Row, selector_text};
use super::strategy::{Reset, Strategy, Update, keep};
use super::warnings;
use crate::cause::Cause;
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::validate::field_value::FieldValue;
use crate::validate::share::{amount, at_most_all, count_or_percent};
use crate::validate::{Write, replicas};

pub(super) struct Deployment;

impl Strategy for Deployment {
    /// Annotations are copied to the ReplicaSets.
    fn counted_metadata(&self) -> &'static [&'static str] {
        &["annotations"]
    }

    fn counts_replicas(&self) -> bool {
        true
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        (subresource == "status").then_some(Reset::Fields(&[&["spec"], &["metadata", "labels"]]))
    }

    /// A write of the status brings no labels.
    fn prepare_for_update(&self, _: &Kind, object: &mut Value, update: Update<'_>) -> Result<(), StatusError> {
        if update.status {
            keep(&mut object["metadata"], &update.present["metadata"], "labels");
        }
        Ok(())
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let spec = object.field("spec");
        replica_set::validate_spec(&spec);
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
        if let Some(present) = write.present() {
            spec.field("selector").immutable(&present["spec"]["selector"]);
        }
    }

    fn validate_status(&self, object: &FieldValue<'_>, _: &Value) {
        let status = object.field("status");
        replicas::not_negative(
            &status,
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "collisionCount",
            ],
        );
        replicas::at_most_all(&status, &["updatedReplicas", "readyReplicas", "availableReplicas"], "readyReplicas");
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        warnings::of_workload("spec.template", object, present)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let [names, images] = row.containers("/spec/template/spec/containers");
        Some(vec![
            row.name(),
            json!(format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas"))),
            json!(row.number("/status/updatedReplicas")),
            json!(row.number("/status/availableReplicas")),
            row.age(),
            names,
            images,
            json!(selector_text(row.at("/spec/selector"))),
        ])
    }
}

fn rolling_deployment(rolling: &FieldValue<'_>) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    count_or_percent(&unavailable);
    count_or_percent(&surge);
    if unavailable.is_set() && amount(&unavailable) == 0 && surge.is_set() && amount(&surge) == 0 {
        unavailable.invalid("may not be 0 when `maxSurge` is 0");
    }
    at_most_all(&unavailable);
}
