//! Jobs.

use serde_json::{Value, json};

use super::row::{Row, between};
use super::strategy::{Allocation, Strategy};
use super::warnings;
use crate::kinds::Kind;
use crate::meta;
use crate::status::StatusError;
use crate::time::age;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, pod, replicas, selector};

/// The most indexes of an indexed Job.
const MOST_INDEXES: i64 = 100_000;

pub(super) struct Job;

impl Strategy for Job {
    fn field(&self, object: &Value, path: &str) -> Option<String> {
        let succeeded = || object["status"].get("succeeded").map_or_else(|| "0".to_owned(), ToString::to_string);
        (path == "status.successful").then(succeeded)
    }

    fn deletion_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
             or set propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn prepare_for_create(&self, _: &Kind, object: &mut Value, _: Allocation) -> Result<(), StatusError> {
        select_own_pods(object);
        Ok(())
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let present = write.present();
        let spec = object.field("spec");
        validate_spec(&spec);
        let chosen = spec.field("selector");
        if chosen.is_set() {
            selector::validate(&chosen);
            selector::matches(chosen.value, &spec.field("template"), false);
            if !spec.field("manualSelector").is_true() && present.is_none() {
                let uid = object.field("metadata.uid").text();
                let labels = json!({"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid});
                let own = chosen.value["matchLabels"].as_object().into_iter().flatten();
                if !own.into_iter().any(|(key, value)| labels.get(key) == Some(value)) {
                    chosen.invalid("`selector` not auto-generated");
                }
            }
        }
        let Some(present) = present else { return };
        let old = &present["spec"];
        let indexed = spec.field("completionMode").text() == "Indexed";
        let completions = spec.field("completions");
        if !indexed {
            completions.immutable(&old["completions"]);
        } else if completions.value != &old["completions"] && completions.value != spec.field("parallelism").value {
            completions.invalid("can only be modified in tandem with spec.parallelism");
        }
        for key in
            ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
        {
            spec.field(key).immutable(&old[key]);
        }
        if old["suspend"] != true {
            spec.field("template").immutable(&old["template"]);
        }
    }

    fn validate_status(&self, object: &FieldValue<'_>, _: &Value) {
        let status = object.field("status");
        replicas::not_negative(&status, &["active", "succeeded", "failed", "ready", "terminating"]);
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        warnings::of_workload("spec.template", object, present)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let succeeded = row.number("/status/succeeded");
        let parallelism = row.number("/spec/parallelism");
        let completions = match row.at("/spec/completions").as_i64() {
            Some(wanted) => format!("{succeeded}/{wanted}"),
            None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
            None => format!("{succeeded}/1"),
        };
        let (start, end) = (row.text("/status/startTime"), row.text("/status/completionTime"));
        let lasted = match (start, end) {
            ("", _) => String::new(),
            (_, "") => age(start),
            _ => between(start, end),
        };
        let known = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        let status = if let Some(end) = ["Complete", "Failed"].into_iter().find(|end| row.has_condition(end)) {
            end
        } else if row.is_deleting() {
            "Terminating"
        } else {
            known.into_iter().find(|state| row.has_condition(state)).unwrap_or("Running")
        };
        let mut cells = vec![row.name(), json!(status), json!(completions), json!(lasted), row.age()];
        cells.extend(row.containers("/spec/template/spec/containers"));
        cells.push(row.selector("/spec/selector"));
        Some(cells)
    }
}

/// A new job selects its pods by its own uid, unless it has a selector of its own.
fn select_own_pods(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (meta::text(job, "name").to_owned(), meta::text(job, "uid").to_owned());
    let template = &mut job["spec"]["template"];
    if !template["metadata"].is_object() {
        template["metadata"] = json!({});
    }
    let labels = &mut template["metadata"]["labels"];
    if !labels.is_object() {
        *labels = json!({});
    }
    for (old, new, value) in [
        ("job-name", "batch.kubernetes.io/job-name", &name),
        ("controller-uid", "batch.kubernetes.io/controller-uid", &uid),
    ] {
        // Another job's labels are left for validation to reject.
        let foreign = |key: &str| labels.get(key).is_some_and(|label| label != value.as_str());
        if foreign(old) || foreign(new) {
            return;
        }
        labels[old] = json!(value);
        labels[new] = json!(value);
    }
    let selector = &mut job["spec"]["selector"];
    if !selector.is_object() {
        *selector = json!({});
    }
    if !selector["matchLabels"].is_object() {
        selector["matchLabels"] = json!({});
    }
    let labels = &mut selector["matchLabels"];
    if labels.get("batch.kubernetes.io/controller-uid").is_none() {
        labels["batch.kubernetes.io/controller-uid"] = json!(uid);
    }
}

/// The rules of the specification of a Job.
pub(super) fn validate_spec(spec: &FieldValue<'_>) {
    for count in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.field(count).not_negative();
    }
    let [mode, completions, parallelism, per_index, failed] =
        ["completionMode", "completions", "parallelism", "backoffLimitPerIndex", "maxFailedIndexes"]
            .map(|key| spec.field(key));
    per_index.require_if(failed.is_set() && !per_index.is_set(), "when maxFailedIndexes is specified");
    mode.one_of(&["NonIndexed", "Indexed"]);
    if mode.text() == "Indexed" {
        // Without either, there is one of each.
        completions.require_if(!completions.is_set() && parallelism.is_set(), "when completion mode is Indexed");
        if parallelism.number().is_some_and(|number| number > MOST_INDEXES) {
            let why = format!("must be less than or equal to {MOST_INDEXES} when completion mode is Indexed");
            parallelism.invalid(why);
        }
        if failed.number().zip(completions.number()).is_some_and(|(failed, all)| failed > all) {
            failed.invalid("must be less than or equal to completions");
        }
    } else {
        for at in [&per_index, &failed] {
            at.invalid_if(at.is_set(), "requires indexed completion mode");
        }
    }
    spec.field("podReplacementPolicy").one_of(&["Failed", "TerminatingOrFailed"]);
    let template = spec.field("template");
    pod::template(&template);
    let restart = template.field("spec.restartPolicy");
    match restart.text() {
        "" | "Always" => restart.require("valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.field("podFailurePolicy").is_set() => {
            restart.invalid("only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => restart.not_supported(&["OnFailure", "Never"]),
    }
}
