//! The rules of Jobs and CronJobs.

use serde_json::{Value, json};

use super::at::At;
use super::{cron, pod, selector};

/// The most indexes of an indexed Job.
const MOST_INDEXES: i64 = 100_000;
/// The longest name of a CronJob, so that the names of its Jobs fit.
const LONGEST_CRON_JOB: usize = 52;

pub(super) fn job(object: &At<'_>, present: Option<&Value>) {
    let spec = object.field("spec");
    job_spec(&spec);
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
    for key in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        spec.field(key).immutable(&old[key]);
    }
    if old["suspend"] != true {
        spec.field("template").immutable(&old["template"]);
    }
}

fn job_spec(spec: &At<'_>) {
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
    if failed.is_set() && !per_index.is_set() {
        per_index.require("when maxFailedIndexes is specified");
    }
    mode.one_of(&["NonIndexed", "Indexed"]);
    if mode.text() == "Indexed" {
        // Without either, there is one of each.
        if !completions.is_set() && parallelism.is_set() {
            completions.require("when completion mode is Indexed");
        }
        if parallelism.number().is_some_and(|number| number > MOST_INDEXES) {
            let why = format!("must be less than or equal to {MOST_INDEXES} when completion mode is Indexed");
            parallelism.invalid(why);
        }
        if failed.number().zip(completions.number()).is_some_and(|(failed, all)| failed > all) {
            failed.invalid("must be less than or equal to completions");
        }
    } else {
        for at in [&per_index, &failed] {
            if at.is_set() {
                at.invalid("requires indexed completion mode");
            }
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

pub(super) fn cron_job(object: &At<'_>, present: Option<&Value>) {
    let spec = object.field("spec");
    let schedule = spec.field("schedule");
    if schedule.required("") {
        if let Err(why) = cron::check(schedule.text()) {
            schedule.invalid(why);
        }
        if schedule.text().contains("TZ") {
            schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        }
    }
    for count in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.field(count).not_negative();
    }
    let zone = spec.field("timeZone");
    if zone.is_set() && zone.is_empty() {
        zone.invalid("timeZone must be nil or non-empty string");
    }
    spec.field("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"]);
    let job = spec.field("jobTemplate.spec");
    job_spec(&job);
    if job.field("selector").is_set() {
        job.field("selector").invalid("`selector` will be auto-generated");
    }
    if job.field("manualSelector").is_true() {
        job.field("manualSelector").not_supported(&["nil", "false"]);
    }
    let name = object.field("metadata.name");
    if present.is_none() && name.text().len() > LONGEST_CRON_JOB {
        name.invalid(format!("must be no more than {LONGEST_CRON_JOB} characters"));
    }
}
