//! Queries in PromQL over the metrics of the table, so that a metric that is renamed
//! is renamed in every query.

use kooper_grammar::name::kebab;

use crate::metrics::table;
use crate::metrics::table::{Metric, MetricKind};

/// The labels that a scrape adds, and that separate installations of a program.
const TARGET: [&str; 2] = ["namespace", "job"];

/// The series of one program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    /// Matchers of labels that a scrape adds, such as `namespace="shop"`.
    pub(crate) target: Vec<String>,
    /// The matcher of the label `controller`.
    pub(crate) controllers: Option<String>,
    /// The matcher of the label `name` of leader election, which is that of the Lease.
    pub(crate) leases: Option<String>,
    /// The matcher of the label `webhook`, which is the path.
    pub(crate) webhooks: Option<String>,
    /// The matcher of the label `installation`.
    pub(crate) installations: Option<String>,
}

impl Scope {
    /// A selector of the metric's series; of its buckets, if it is a histogram.
    pub(crate) fn of(&self, metric: &Metric) -> String {
        let own = match metric {
            _ if metric.name == table::LEADER.name => &self.leases,
            _ if metric.labels.contains(&"controller") => &self.controllers,
            _ if metric.labels.contains(&"webhook") => &self.webhooks,
            _ if metric.labels.contains(&"installation") => &self.installations,
            _ => &None,
        };
        let matchers: Vec<_> = self.target.iter().chain(own).map(String::as_str).collect();
        let buckets = if metric.kind == MetricKind::Histogram { "_bucket" } else { "" };
        match &matchers[..] {
            [] => format!("{}{buckets}", metric.name),
            some => format!("{}{buckets}{{{}}}", metric.name, some.join(", ")),
        }
    }

    /// The sum of a gauge.
    pub(crate) fn sum(&self, metric: &Metric, by: &[&str]) -> String {
        format!("sum by ({}) ({})", grouped(metric, by), self.of(metric))
    }

    /// The maximum of a gauge.
    pub(crate) fn max(&self, metric: &Metric, by: &[&str]) -> String {
        format!("max by ({}) ({})", grouped(metric, by), self.of(metric))
    }

    /// The minimum of a gauge.
    pub(crate) fn min(&self, metric: &Metric, by: &[&str]) -> String {
        format!("min by ({}) ({})", grouped(metric, by), self.of(metric))
    }

    /// The minimum of a gauge in those processes that did not start in the last so many seconds. The start of a process
    /// that does not report it is taken to be earlier.
    pub(crate) fn min_of_settled(&self, metric: &Metric, seconds: u64, by: &[&str]) -> String {
        let (target, of) = (TARGET.join(", "), self.of(metric));
        let young = format!("time() - {} < {seconds}", self.of(&table::PROCESS_START));
        format!("min by ({}) ({of} unless on ({target}, instance) {young})", grouped(metric, by))
    }

    /// The sum of a counter's increases a second.
    pub(crate) fn rate(&self, metric: &Metric, window: &str, by: &[&str]) -> String {
        format!("sum by ({}) (rate({}[{window}]))", grouped(metric, by), self.of(metric))
    }

    /// The sum of a counter's increases.
    pub(crate) fn increase(&self, metric: &Metric, window: &str, by: &[&str]) -> String {
        format!("sum by ({}) (increase({}[{window}]))", grouped(metric, by), self.of(metric))
    }

    /// The sum of a counter in those series that did not exist a while ago, if it is more than zero.
    pub(crate) fn first(&self, metric: &Metric, window: &str, by: &[&str]) -> String {
        let of = self.of(metric);
        format!("sum by ({}) ({of} > 0 unless last_over_time({of}[1h] offset {window}))", grouped(metric, by))
    }

    /// A quantile of a histogram.
    pub(crate) fn quantile(&self, quantile: &str, metric: &Metric, window: &str, by: &[&str]) -> String {
        let by = [by, &["le"]].concat();
        format!("histogram_quantile({quantile}, sum by ({}) (rate({}[{window}])))", by.join(", "), self.of(metric))
    }
}

/// The labels to group by, with those of the scrape. A label that the metric does not
/// have would group nothing.
fn grouped(metric: &Metric, by: &[&str]) -> String {
    debug_assert!(by.iter().all(|label| metric.labels.contains(label)), "{} has no label of {by:?}", metric.name);
    TARGET.iter().chain(by).copied().collect::<Vec<_>>().join(", ")
}

/// A regular expression for one of several names, in a string of PromQL.
pub(crate) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| name.replace('.', "[.]")).collect::<Vec<_>>().join("|")
}

/// The names of the controllers that watch what webhooks with these paths read. A webhook that reads nothing has none.
pub(crate) fn watchers(paths: &[String]) -> Vec<String> {
    let name = |path: &String| format!("webhook-{}", kebab(path.rsplit('/').next().unwrap_or_default()));
    paths.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            target: vec![r#"job="shop""#.to_owned()],
            controllers: Some(r#"controller=~"a|b""#.to_owned()),
            leases: Some(r#"name="shop-a""#.to_owned()),
            webhooks: Some(r#"webhook="/a""#.to_owned()),
            installations: Some(r#"installation="shop""#.to_owned()),
        }
    }

    #[test]
    fn a_selector_has_the_matchers_of_labels_that_the_metric_has() {
        let scope = scope();
        assert_eq!(scope.of(&table::STUCK_CALLS), r#"kooper_stuck_calls{job="shop", controller=~"a|b"}"#);
        assert_eq!(scope.of(&table::LEADER), r#"leader_election_master_status{job="shop", name="shop-a"}"#);
        assert_eq!(scope.of(&table::REQUESTS), r#"rest_client_requests_total{job="shop"}"#);
        assert_eq!(scope.of(&table::WEBHOOK_DENIED), r#"kooper_webhook_denied_total{job="shop", webhook="/a"}"#);
        let probed = r#"kooper_webhook_last_probe_timestamp_seconds{job="shop", installation="shop"}"#;
        assert_eq!(scope.of(&table::WEBHOOK_PROBED), probed);
        assert_eq!(Scope::default().of(&table::DEPTH), "workqueue_depth");
    }

    #[test]
    fn functions_are_applied_to_the_series_of_a_kind() {
        let scope = Scope::default();
        assert_eq!(
            scope.rate(&table::RECONCILES, "5m", &["controller", "result"]),
            "sum by (namespace, job, controller, result) (rate(controller_runtime_reconcile_total[5m]))"
        );
        assert_eq!(
            scope.quantile("0.99", &table::IN_QUEUE, "5m", &["controller"]),
            "histogram_quantile(0.99, sum by (controller, le) \
             (rate(kooper_controller_event_in_queue_duration_seconds_bucket[5m])))"
        );
        assert_eq!(
            scope.min_of_settled(&table::SHARDS_UNOWNED_TIME, 120, &["controller"]),
            "min by (namespace, job, controller) (kooper_shards_unowned_seconds unless on (namespace, job, instance) \
             time() - process_start_time_seconds < 120)"
        );
        assert_eq!(one_of(["shop-a.blue", "shop-b"]), "shop-a[.]blue|shop-b");
        assert_eq!(watchers(&["/validate-example-com-v1-shop/check-price".to_owned()]), ["webhook-check-price"]);
    }
}
