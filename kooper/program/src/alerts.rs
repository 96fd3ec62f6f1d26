//! The alerts for a program: a table of conditions of its metrics, and what to do.

use serde_json::{Value, json};

use super::query::{Scope, one_of, watchers};
use super::rbac::Place;
use crate::metrics::table;
use kooper_access::Controller;
use kooper_sharding::Shards;

#[cfg(test)]
mod tests;
mod webhooks;

/// An alert.
pub(crate) struct Alert {
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
    /// The time that the condition has to hold before the alert fires.
    pub(crate) hold: &'static str,
    /// A query that has a value at any time, unless the program is down.
    pub(crate) value: String,
    pub(crate) condition: Condition,
    pub(crate) summary: &'static str,
    /// The likely cause, and the remedy.
    pub(crate) description: &'static str,
    /// A label that distinguishes rules of the same name.
    controller: Option<String>,
}

/// When a value is a reason for an alert.
pub(crate) enum Condition {
    /// A comparison that follows the value.
    Is(String),
    /// There is no value.
    Absent,
    /// There is none at all, or no more for one of the installations that had one in the last hour. The series have this label.
    AbsentFromAny(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Objects are not handled.
    Critical,
    /// Some objects are not handled, or will not be.
    Warning,
    /// Nothing is lost but information.
    Info,
}

impl Condition {
    /// There is no value. The series have this label.
    fn absent(scope: &Scope, label: &'static str) -> Self {
        if scope.target.is_empty() { Self::AbsentFromAny(label) } else { Self::Absent }
    }
}

impl Severity {
    fn label(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

const CONTROLLER: &[&str] = &["controller"];

/// The controllers that work for the webhooks of one target: those that watch what webhooks read, and the one that
/// registers them, whose name all programs share.
const WEBHOOKS: [&str; 2] = ["webhook-[a-z0-9-]+", "kooper-webhooks"];

/// The alerts for all installations of a program whose metrics are collected. Its webhooks are known by their paths.
pub(crate) fn of_program(controllers: &[Controller], webhooks: &[String], place: &Place) -> Vec<Alert> {
    let leases = controllers.iter().filter_map(|one| one.leases(&place.installation, &place.lease_namespace));
    let leases: Vec<_> = leases.map(|leases| leases.name).collect();
    let scope = Scope {
        leases: (!leases.is_empty()).then(|| format!("name=~\"{}\"", one_of(leases.iter().map(String::as_str)))),
        webhooks: Some(format!("webhook=~\"{}\"", one_of(webhooks.iter().map(String::as_str)))),
        installations: Some(format!("installation=\"{}\"", place.account())),
        ..Scope::default()
    };
    alerts(&scope, controllers, !leases.is_empty(), &watchers(webhooks))
}

/// The alerts for the metrics of one target, such as `namespace="shop"`.
pub(crate) fn of_target(controllers: &[Controller], has_webhooks: bool, target: Vec<String>) -> Vec<Alert> {
    let watchers = if has_webhooks { WEBHOOKS.map(str::to_owned).to_vec() } else { Vec::new() };
    // Leader election may depend on settings. Without it, its series do not exist.
    alerts(&Scope { target, ..Scope::default() }, controllers, true, &watchers)
}

/// The alerts of controllers, and of webhooks for which these controllers work.
fn alerts(scope: &Scope, controllers: &[Controller], elected: bool, webhooks: &[String]) -> Vec<Alert> {
    let absent = |controller: &Controller| {
        let own = Scope { controllers: Some(format!("controller=\"{}\"", controller.name())), ..scope.clone() };
        Alert {
            name: "KooperAbsent",
            severity: Severity::Critical,
            hold: "10m",
            value: own.of(&table::MAX_WORKERS),
            condition: Condition::absent(scope, "controller"),
            summary: "The controller {{ $labels.controller }} has no metrics",
            description: "The program does not run, or its metrics are not collected. See the state and the log of \
                          its pods, and the targets page of Prometheus.",
            controller: Some(controller.name().to_owned()),
        }
    };
    let mut alerts: Vec<_> = controllers.iter().map(absent).collect();
    let of = |with_daemons: bool| {
        let own = controllers.iter().filter(|one| with_daemons || !one.is_daemon()).map(Controller::name);
        let names = one_of(own.chain(webhooks.iter().map(String::as_str)));
        Scope { controllers: Some(format!("controller=~\"{names}\"")), ..scope.clone() }
    };
    // The calls of daemons that end are mostly failures.
    let calls = of(false);
    let scope = of(true);
    let mut add = |name, severity, hold, value, condition: &str, [summary, description]: [&'static str; 2]| {
        let condition = Condition::Is(condition.to_owned());
        alerts.push(Alert { name, severity, hold, value, condition, summary, description, controller: None });
    };
    add(
        "KooperWatchSilent",
        Severity::Critical,
        "2m",
        scope.max(&table::WATCH_AGE, &["controller", "watch"]),
        "> 200",
        [
            "The controller {{ $labels.controller }} has received nothing about {{ $labels.watch }} for {{ $value | \
             humanizeDuration }}",
            "The API server does not respond, or does not serve watches. An idle watch does not fire this alert. The \
             page /readyz of the program has the reason.",
        ],
    );
    add(
        "KooperWatchFailing",
        Severity::Warning,
        "10m",
        scope.rate(&table::WATCH_ERRORS, "5m", &["controller", "reason"]),
        "> 0",
        [
            "Lists or watches of the controller {{ $labels.controller }} fail: {{ $labels.reason }}",
            "With the reason forbidden, a permission is missing: the command check of the program names it. With \
             not_found, the cluster does not have the kind. The page /readyz has the last error of each watch.",
        ],
    );
    add(
        "KooperQueueGrowing",
        Severity::Warning,
        "15m",
        format!("deriv({}[15m])", scope.of(&table::DEPTH)),
        &format!("> 0 and min_over_time({}[15m]) > 0", scope.of(&table::DEPTH)),
        [
            "The queue of the controller {{ $labels.controller }} is never empty and grows",
            "There is more work than the workers can do: set more of them with --workers, or find out why calls take \
             longer than before.",
        ],
    );
    add(
        "KooperKeysFailing",
        Severity::Warning,
        "30m",
        scope.sum(&table::FAILING_KEYS, CONTROLLER),
        "> 0",
        [
            "Objects of the controller {{ $labels.controller }} keep failing: {{ $value }}",
            "The Events of these objects and the log of the program have the error.",
        ],
    );
    add(
        "KooperErrorRatio",
        Severity::Warning,
        "15m",
        format!(
            "{} / {}",
            calls.rate(&table::RECONCILE_ERRORS, "10m", CONTROLLER),
            calls.rate(&table::RECONCILES, "10m", CONTROLLER)
        ),
        "> 0.5",
        [
            "{{ $value | humanizePercentage }} of the calls of the controller {{ $labels.controller }} fail",
            "The log of the program has the errors.",
        ],
    );
    add(
        "KooperPanics",
        Severity::Warning,
        "0m",
        scope.increase(&table::PANICS, "15m", CONTROLLER),
        "> 0",
        [
            "The handler of the controller {{ $labels.controller }} panics",
            "A panic is a bug in the handler. The log of the program has its message and location.",
        ],
    );
    add(
        "KooperCallsStuck",
        Severity::Critical,
        "1m",
        scope.sum(&table::STUCK_CALLS, CONTROLLER),
        "> 0",
        [
            "Calls of the controller {{ $labels.controller }} do not end: {{ $value }}",
            "The handler blocks its thread, so neither the timeout nor a shutdown ends it: use \
             tokio::task::spawn_blocking. The log of the program names the objects. A restart frees the workers.",
        ],
    );
    if elected {
        add(
            "KooperNoLeader",
            Severity::Critical,
            "2m",
            scope.max(&table::LEADER, &["name"]),
            "== 0",
            [
                "No replica has the Lease {{ $labels.name }}",
                "No object is handled. The log of each replica has the reason: most often the Lease is forbidden, or \
                 another program holds it. The alert also fires if Prometheus cannot scrape the leader: see its \
                 targets page.",
            ],
        );
        add(
            "KooperLeaderChanges",
            Severity::Warning,
            "0m",
            scope.increase(&table::LEADER_TRANSITIONS, "1h", CONTROLLER),
            "> 5",
            [
                "The leader of the controller {{ $labels.controller }} has changed {{ $value | humanize }} times in an hour",
                "Renewals of the Lease take too long, or the pods restart: compare with \
                 kooper_lease_renew_duration_seconds, and with the restarts of the pods.",
            ],
        );
    }
    if let Some(lease) = controllers.iter().filter_map(Controller::shards).map(Shards::lease_seconds).max() {
        // Shards may have no owner for that long, such as after their map was deleted.
        let longest = lease.max(60);
        add(
            "KooperShardsUnowned",
            Severity::Critical,
            "1m",
            // A replica that has just started learns after a lease which sessions have ended, and counts from then on.
            scope.min_of_settled(&table::SHARDS_UNOWNED_TIME, 2 * longest, CONTROLLER),
            &format!("> {longest}"),
            [
                "Shards of the controller {{ $labels.controller }} have had no owner for {{ $value | humanizeDuration }}",
                "Their objects are not handled. The page /readyz and the log of each replica have the reason: most \
                 often a Lease is forbidden, or the API server does not respond.",
            ],
        );
    }
    add(
        "KooperObjectsUndecodable",
        Severity::Warning,
        "0m",
        scope.increase(&table::DECODE_ERRORS, "15m", CONTROLLER),
        // Of a program that has just started, the first value may already be more than zero.
        &format!("> 0 or {}", scope.first(&table::DECODE_ERRORS, "15m", CONTROLLER)),
        [
            "Objects do not decode as the types of the controller {{ $labels.controller }}",
            "They are not handled. The page /readyz and the log name them, with the field.",
        ],
    );
    add(
        "KooperObjectsAbandoned",
        Severity::Warning,
        "0m",
        scope.increase(&table::ABANDONED, "1h", CONTROLLER),
        "> 0",
        [
            "Objects with the finalizer of the controller {{ $labels.controller }} no longer match its selector",
            "They are neither handled nor cleaned up until they match again or are deleted: a label may be wrong. \
             Each of them has an Event with the selector.",
        ],
    );
    add(
        "KooperEventsDropped",
        Severity::Info,
        "0m",
        scope.increase(&table::EVENTS_DROPPED, "1h", CONTROLLER),
        "> 0",
        [
            "The controller {{ $labels.controller }} cannot write all of its Kubernetes Events",
            "They are forbidden, or there are too many. The log of the program has the reason.",
        ],
    );
    if !webhooks.is_empty() {
        webhooks::add(&scope, &mut alerts);
    }
    alerts
}

impl Alert {
    /// The expression of the rule.
    pub(crate) fn expression(&self) -> String {
        match &self.condition {
            Condition::Is(comparison) => format!("{} {comparison}", self.value),
            Condition::Absent => format!("absent({})", self.value),
            Condition::AbsentFromAny(label) => {
                let each = format!("group by (namespace, job, {label})");
                let value = &self.value;
                format!(
                    "absent({value}) or on ({label}) ({each} (last_over_time({value}[1h])) unless {each} ({value}))"
                )
            }
        }
    }

    fn rule(&self) -> Value {
        let mut labels = json!({"severity": self.severity.label()});
        if let Some(controller) = &self.controller {
            labels["controller"] = controller.as_str().into();
        }
        json!({
            "alert": self.name,
            "expr": self.expression(),
            "for": self.hold,
            "labels": labels,
            "annotations": {"summary": self.summary, "description": self.description},
        })
    }
}

/// The rules as a file of Prometheus.
pub(crate) fn rules(group: &Value, alerts: &[Alert]) -> Value {
    json!({"groups": [{"name": group, "rules": alerts.iter().map(Alert::rule).collect::<Vec<_>>()}]})
}

/// The rules as an object for the operator of Prometheus.
pub(crate) fn prometheus_rule(metadata: &Value, rules: &Value) -> Value {
    json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": metadata, "spec": rules})
}
