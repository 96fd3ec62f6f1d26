//! The panels: which metrics they show, and how.

use crate::metrics::table;
use crate::metrics::table::{Metric, Unit};
use crate::query::Scope;

/// The time over which rates are computed, as Grafana chooses it.
const WINDOW: &str = "$__rate_interval";

const CONTROLLER: &[&str] = &["controller"];
const WEBHOOK: &[&str] = &["webhook"];

/// A panel with lines over time.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) description: String,
    /// As Grafana names it.
    pub(super) unit: &'static str,
    /// Queries, each with the name of its lines.
    pub(super) queries: Vec<(String, String)>,
}

/// All panels, in rows with a heading.
pub(super) fn rows(scope: &Scope, elected: bool, shared: bool, has_webhooks: bool) -> Vec<(&'static str, Vec<Panel>)> {
    let panels = Panels(scope);
    let mut rows = vec![
        (
            "Calls",
            vec![
                panels.rate("Calls per second", &table::RECONCILES, &["controller", "result"]),
                panels.gauge("Objects that keep failing", &table::FAILING_KEYS, CONTROLLER),
                panels.quantiles("Duration of calls", &table::RECONCILE_TIME),
                panels
                    .gauge("Running calls", &table::ACTIVE_WORKERS, CONTROLLER)
                    // A replica that is not the leader has workers, too.
                    .with(scope.max(&table::MAX_WORKERS, CONTROLLER), "{{controller}}, maximum of one replica")
                    .with(scope.sum(&table::STUCK_CALLS, CONTROLLER), "{{controller}}, stuck")
                    .about(&table::STUCK_CALLS),
                panels
                    .rate("Panics, timeouts and errors that are not retried", &table::PANICS, CONTROLLER)
                    .named("{{controller}} panics")
                    .with(scope.rate(&table::TIMEOUTS, WINDOW, CONTROLLER), "{{controller}} timeouts")
                    .with(scope.rate(&table::TERMINAL_ERRORS, WINDOW, CONTROLLER), "{{controller}} not retried")
                    .about(&table::TIMEOUTS)
                    .about(&table::TERMINAL_ERRORS),
                panels.highest("The longest running call", &table::LONGEST_RUNNING, CONTROLLER),
            ],
        ),
        (
            "Work queue",
            vec![
                panels.gauge("Keys that wait", &table::DEPTH, CONTROLLER),
                panels.quantiles("Time in the queue", &table::QUEUE_DURATION),
                panels
                    .rate("Keys added and retried per second", &table::ADDS, CONTROLLER)
                    .named("{{controller}} added")
                    .with(scope.rate(&table::RETRIES, WINDOW, CONTROLLER), "{{controller}} retried")
                    .about(&table::RETRIES),
                panels.gauge(
                    "Objects by the states of their declared children",
                    &table::CHILD_STATE,
                    &["controller", "slot", "state"],
                ),
            ],
        ),
        (
            "Watches",
            vec![
                panels.highest("Time since the last event or bookmark", &table::WATCH_AGE, &["controller", "watch"]),
                panels.rate("Failed lists and watches per second", &table::WATCH_ERRORS, &["controller", "reason"]),
                panels
                    .rate("Lists after the first one, per second", &table::RELISTS, CONTROLLER)
                    .with(scope.rate(&table::RESTORES, WINDOW, CONTROLLER), "{{controller}} after a restore")
                    .about(&table::RESTORES),
                panels.highest("Objects in the caches of a replica", &table::STORE_OBJECTS, CONTROLLER),
                panels.highest("Size of the caches of a replica", &table::STORE_BYTES, CONTROLLER),
                panels
                    .rate(
                        "Objects that cannot be handled, and lost Events, per second",
                        &table::DECODE_ERRORS,
                        CONTROLLER,
                    )
                    .named("{{controller}} undecodable")
                    .with(scope.rate(&table::ABANDONED, WINDOW, CONTROLLER), "{{controller}} abandoned")
                    .with(scope.rate(&table::EVENTS_DROPPED, WINDOW, CONTROLLER), "{{controller}} lost Events")
                    .about(&table::ABANDONED)
                    .about(&table::EVENTS_DROPPED),
            ],
        ),
    ];
    if elected {
        rows.push((
            "Leader election",
            vec![
                panels
                    .gauge("Leaders", &table::LEADER, &["name"])
                    .with(scope.increase(&table::LEADER_TRANSITIONS, "1h", CONTROLLER), "{{controller}} changes in 1 h")
                    .about(&table::LEADER_TRANSITIONS),
                panels.quantiles("Duration of renewals", &table::LEASE_RENEWALS),
                panels.highest("Time until leadership expires", &table::LEASE_TIME_LEFT, CONTROLLER),
            ],
        ));
    }
    if shared {
        rows.push((
            "Shards",
            vec![
                panels
                    .gauge("Shards of all replicas", &table::SHARDS_OWNED, CONTROLLER)
                    .with(scope.max(&table::SHARDS_UNOWNED, CONTROLLER), "{{controller}} without an owner")
                    .with(scope.increase(&table::SHARDS_GAINED, "1h", CONTROLLER), "{{controller}} changes in 1 h")
                    .about(&table::SHARDS_UNOWNED)
                    .about(&table::SHARDS_GAINED),
                panels
                    .quantiles("Duration of hand-overs", &table::SHARD_HANDOVERS)
                    .with(scope.max(&table::SHARDS_UNOWNED_TIME, CONTROLLER), "{{controller}} without an owner")
                    .about(&table::SHARDS_UNOWNED_TIME),
                panels.rate(
                    "Objects of other replicas that are received, per second",
                    &table::SHARD_OBJECTS_DROPPED,
                    CONTROLLER,
                ),
                panels.gauge(
                    "Watches by the effect of the shard selector",
                    &table::SHARD_SELECTOR,
                    &["controller", "state"],
                ),
            ],
        ));
    }
    if has_webhooks {
        rows.push(("Webhooks", panels.webhooks()));
    }
    rows.push((
        "Process",
        vec![
            panels.rate("Requests to the API server per second", &table::REQUESTS, &["method", "code"]),
            panels.rate("CPU", &table::PROCESS_CPU, &[]).in_unit("none").named("{{job}} cores"),
            panels.gauge("Memory", &table::PROCESS_MEMORY, &[]).named("{{job}}"),
        ],
    ));
    rows
}

/// Makes panels for the series of a scope.
struct Panels<'a>(&'a Scope);

impl Panels<'_> {
    fn webhooks(&self) -> Vec<Panel> {
        let scope = self.0;
        let latency = |quantile| scope.quantile(quantile, &table::WEBHOOK_LATENCY, WINDOW, WEBHOOK);
        let installation = &["installation"];
        // The axis begins at 0: one that has expired would not be shown.
        let expiry = scope.min(&table::WEBHOOK_EXPIRY, &["installation", "certificate"]);
        let expiry = format!("clamp_min({expiry} - time(), 0)");
        let probed = format!("time() - {}", scope.max(&table::WEBHOOK_PROBED, installation));
        vec![
            self.rate("Requests to webhooks per second", &table::WEBHOOK_REQUESTS, &["webhook", "code"]),
            Panel::new(
                "Duration of requests",
                &table::WEBHOOK_LATENCY,
                "s",
                (latency("0.5"), "{{webhook}} median".to_owned()),
            )
            .with(latency("0.99"), "{{webhook}} 99 %"),
            self.gauge("Requests that are being answered", &table::WEBHOOK_IN_FLIGHT, WEBHOOK),
            self.rate("Denied requests and panics per second", &table::WEBHOOK_DENIED, WEBHOOK)
                .named("{{webhook}} denied")
                .with(scope.rate(&table::WEBHOOK_PANICS, WINDOW, &[]), "{{job}} panics")
                .about(&table::WEBHOOK_PANICS),
            Panel::new(
                "Time until certificates expire",
                &table::WEBHOOK_EXPIRY,
                "s",
                (expiry, "{{installation}} {{certificate}}".to_owned()),
            ),
            Panel::new(
                "Time since an API server reached the webhooks",
                &table::WEBHOOK_PROBED,
                "s",
                (probed, legend(installation)),
            ),
        ]
    }

    fn gauge(&self, title: &'static str, metric: &Metric, by: &[&str]) -> Panel {
        Panel::new(title, metric, unit(metric), (self.0.sum(metric, by), legend(by)))
    }

    /// The highest value of several replicas.
    fn highest(&self, title: &'static str, metric: &Metric, by: &[&str]) -> Panel {
        Panel::new(title, metric, unit(metric), (self.0.max(metric, by), legend(by)))
    }

    fn rate(&self, title: &'static str, metric: &Metric, by: &[&str]) -> Panel {
        Panel::new(title, metric, "ops", (self.0.rate(metric, WINDOW, by), legend(by)))
    }

    fn quantiles(&self, title: &'static str, metric: &Metric) -> Panel {
        let quantile = |quantile| self.0.quantile(quantile, metric, WINDOW, CONTROLLER);
        Panel::new(title, metric, "s", (quantile("0.5"), "{{controller}} median".to_owned()))
            .with(quantile("0.99"), "{{controller}} 99 %")
    }
}

impl Panel {
    fn new(title: &'static str, metric: &Metric, unit: &'static str, query: (String, String)) -> Self {
        Self { title, description: metric.help.to_owned(), unit, queries: vec![query] }
    }

    /// Adds a query.
    fn with(mut self, query: String, legend: &str) -> Self {
        self.queries.push((query, legend.to_owned()));
        self
    }

    /// Names the lines of the first query.
    fn named(mut self, legend: &str) -> Self {
        if let Some((_, first)) = self.queries.first_mut() {
            legend.clone_into(first);
        }
        self
    }

    /// Adds a description.
    fn about(mut self, metric: &Metric) -> Self {
        self.description = format!("{} {}", self.description, metric.help);
        self
    }

    fn in_unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }
}

/// The unit as Grafana names it.
fn unit(metric: &Metric) -> &'static str {
    match metric.unit {
        Unit::Number => "short",
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
    }
}

/// The name of a line, from its labels.
fn legend(by: &[&str]) -> String {
    by.iter().map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ")
}
