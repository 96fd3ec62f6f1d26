//! The gauges of a controller's workers.

use super::{Runner, watching};
use crate::metrics::Gauge;

impl Runner {
    pub(super) fn worker_gauges(&self) {
        let max = self.controller.config.workers as f64;
        self.gauge(Gauge::MaxWorkers, move || max);
        let busy = || self.busy.clone();
        let (active, unfinished, longest, stuck) = (busy(), busy(), busy(), busy());
        self.gauge(Gauge::ActiveWorkers, move || active.calls());
        self.gauge(Gauge::UnfinishedWork, move || unfinished.unfinished());
        self.gauge(Gauge::LongestRunning, move || longest.longest());
        self.gauge(Gauge::StuckCalls, move || stuck.stuck() as f64);
        let failing = self.failing.clone();
        self.gauge(Gauge::FailingKeys, move || failing.keys() as f64);
    }

    fn gauge(&self, gauge: Gauge, read: impl Fn() -> f64 + Send + Sync + 'static) {
        watching::gauge(&*self.process.metrics, self.controller.name(), gauge, read);
    }
}
