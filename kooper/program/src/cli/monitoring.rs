//! The commands `dashboard` and `alerts`.

use std::process::ExitCode;

use super::args::AlertFormat;
use super::invocation::Invocation;
use super::print::{place, yaml};
use super::stdout::print;
use super::webhooks;
use crate::manifests::{installed_alerts, workload_name};
use crate::{alerts, dashboard};
use kooper_runtime::BoxError;

/// Prints a dashboard of the controllers.
pub(crate) fn dashboard(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let controllers = invocation.controllers_quietly()?;
    let paths = webhooks::paths(invocation)?;
    let program = invocation.installation().program;
    print(&(serde_json::to_string_pretty(&dashboard::dashboard(&program, &controllers, &paths))? + "\n"))
}

/// Prints alerts for the controllers.
pub(crate) fn alerts(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let controllers = invocation.controllers_quietly()?;
    let place = place(invocation);
    let paths = webhooks::paths(invocation)?;
    let document = match invocation.settings.alerts {
        AlertFormat::Rules => alerts::rules(&place.account().into(), &alerts::of_program(&controllers, &paths, &place)),
        AlertFormat::PrometheusRule => {
            let name = workload_name(&place);
            let rules =
                installed_alerts(&controllers, !paths.is_empty(), &place.namespace, &name, &place.account().into());
            alerts::prometheus_rule(&place.metadata(Some(&place.namespace), &name), &rules)
        }
    };
    print(&yaml([document])?)
}
