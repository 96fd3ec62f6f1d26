//! CronJobs.

use serde_json::{Value, json};

use super::job;
use super::row::Row;
use super::strategy::Strategy;
use super::warnings;
use crate::time::age;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, cron};

/// The longest name of a CronJob, so that the names of its Jobs fit.
const LONGEST_CRON_JOB: usize = 52;

pub(super) struct CronJob;

impl Strategy for CronJob {
    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
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
        zone.invalid_if(zone.is_set() && zone.is_empty(), "timeZone must be nil or non-empty string");
        spec.field("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"]);
        let job = spec.field("jobTemplate.spec");
        job::validate_spec(&job);
        job.field("selector").invalid_if(job.field("selector").is_set(), "`selector` will be auto-generated");
        if job.field("manualSelector").is_true() {
            job.field("manualSelector").not_supported(&["nil", "false"]);
        }
        let name = object.field("metadata.name");
        if write.present().is_none() && name.text().len() > LONGEST_CRON_JOB {
            name.invalid(format!("must be no more than {LONGEST_CRON_JOB} characters"));
        }
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        warnings::of_workload("spec.jobTemplate.spec.template", object, present)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let last = row.text("/status/lastScheduleTime");
        let suspended = match row.at("/spec/suspend").as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let mut cells = vec![
            row.name(),
            json!(row.text("/spec/schedule")),
            row.text_or("/spec/timeZone", "<none>"),
            json!(suspended),
            json!(row.count("/status/active")),
            json!(if last.is_empty() { "<none>".to_owned() } else { age(last) }),
            row.age(),
        ];
        cells.extend(row.containers("/spec/jobTemplate/spec/template/spec/containers"));
        cells.push(row.selector("/spec/jobTemplate/spec/selector"));
        Some(cells)
    }
}
