//! Metrics of a program in its own process.

use kooper::prometheus::proto::MetricFamily;

/// The sum of all series of a gauge or a counter.
#[must_use]
pub fn metric(families: &[MetricFamily], name: &str) -> f64 {
    let family = families.iter().find(|family| family.name() == name);
    family.map_or(0.0, |family| {
        family.get_metric().iter().map(|metric| metric.get_gauge().get_value() + metric.get_counter().get_value()).sum()
    })
}
