//! The commands `dashboard` and `alerts`.

use std::process::ExitCode;

use super::args::{AlertFormat, Settings};
use super::controllers::controllers_quietly;
use super::print::{place, print, yaml};
use crate::error::BoxError;
use crate::program::manifests::{installed_alerts, workload_name};
use crate::program::{Program, alerts, dashboard};

/// Prints a dashboard of the controllers.
pub(crate) fn dashboard(
    program: &str,
    definitions: &[fn(&mut Program)],
    settings: &Settings,
) -> Result<ExitCode, BoxError> {
    let controllers = controllers_quietly(definitions, settings)?;
    let program = settings.installation(program).program;
    print(&(serde_json::to_string_pretty(&dashboard::dashboard(&program, &controllers))? + "\n"))
}

/// Prints alerts for the controllers.
pub(crate) fn alerts(
    program: &str,
    definitions: &[fn(&mut Program)],
    settings: &Settings,
) -> Result<ExitCode, BoxError> {
    let controllers = controllers_quietly(definitions, settings)?;
    let place = place(program, settings);
    let document = match settings.alerts {
        AlertFormat::Rules => alerts::rules(&place.account().into(), &alerts::of_program(&controllers, &place)),
        AlertFormat::PrometheusRule => {
            let name = workload_name(&place);
            let rules = installed_alerts(&controllers, &place.namespace, &name, &place.account().into());
            alerts::prometheus_rule(&place.metadata(Some(&place.namespace), &name), &rules)
        }
    };
    print(&yaml([document])?)
}
