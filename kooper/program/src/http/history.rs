//! The last ten minutes of each controller, in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kooper_access::internal::CallTotals;
use kooper_runtime::Health;
use kooper_runtime::internal::controller::view::ControllerView;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};

/// The time between two samples.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// The number of samples that are kept: those of ten minutes.
pub(super) const KEPT: usize = 121;

/// A controller at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// The keys that wait for a worker.
    pub(super) queued: usize,
    /// The calls that have ended since the start, and those of them that have failed.
    pub(super) ended: u64,
    pub(super) failed: u64,
    /// The total duration of these calls.
    pub(super) took: Duration,
}

/// The samples of all controllers, by their names.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<BTreeMap<Arc<str>, VecDeque<Sample>>>);

impl Sample {
    fn of(view: &ControllerView) -> Self {
        let (ended, failed, took) = view.extensions().get::<CallTotals>().read();
        Self { queued: view.queue().len(), ended, failed, took }
    }
}

impl History {
    /// Takes samples until it is dropped.
    pub(super) async fn record(&self, health: &Health) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for controller in health.controllers() {
                match Weak::upgrade(&controller.view) {
                    Some(view) => self.add(&controller.name, Sample::of(&view)),
                    None => drop(self.0.lock().remove(&controller.name)),
                }
            }
        }
    }

    fn add(&self, controller: &Arc<str>, sample: Sample) {
        let mut all = self.0.lock();
        let samples = all.entry(controller.clone()).or_default();
        samples.push_back(sample);
        if samples.len() > KEPT {
            samples.pop_front();
        }
    }

    /// The samples of a controller, the newest one last.
    pub(super) fn of(&self, controller: &str) -> Vec<Sample> {
        self.0.lock().get(controller).map(|samples| samples.iter().copied().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kooper_access::retriever::channel;
    use kooper_access::{Controller, Operator};
    use tokio::time::{sleep, timeout};
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn the_samples_of_ten_minutes_are_kept() {
        let (history, name) = (History::default(), "shops".into());
        assert!(history.of("shops").is_empty());
        for queued in 0..500 {
            history.add(&name, Sample { queued, ..Sample::default() });
        }
        let kept = history.of("shops");
        assert_eq!((kept.len(), kept[0].queued, kept[KEPT - 1].queued), (KEPT, 500 - KEPT, 499));
        assert_eq!(EVERY * u32::try_from(KEPT - 1).expect("few"), Duration::from_secs(600));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_of_deleted_counts_by_how_it_ended() {
        let config = |name: &str| {
            let mut config = ConfigMap::default();
            config.metadata.namespace = Some("shop".to_owned());
            config.metadata.name = Some(name.to_owned());
            config.metadata.uid = Some(name.to_owned());
            config
        };
        let (retriever, events) = channel(["good", "bad"].map(config)).expect("objects");
        let deleted = |config: Arc<ConfigMap>| async move {
            if config.metadata.name.as_deref() == Some("bad") { Err("it is needed") } else { Ok(()) }
        };
        let controller = Controller::builder::<ConfigMap>("shops").retriever(retriever).deleted(deleted);
        let controller = controller.handler(async || {}).build().expect("a controller");
        let health = Health::default();
        let operator = Operator::builder().health(health.clone()).controller(controller).build().expect("an operator");
        let stop = CancellationToken::new();
        let running = tokio::spawn(operator.run(stop.clone()));
        let sample = || health.controllers()[0].view.upgrade().map(|view| Sample::of(&view)).unwrap_or_default();
        let ended = async |calls: u64| {
            let wait = async {
                while sample().ended < calls {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(EVERY, wait).await.expect("the calls end");
        };
        ended(2).await;
        for name in ["good", "bad"] {
            events.delete(&config(name)).expect("an object");
        }
        ended(4).await;
        assert_eq!((sample().ended, sample().failed), (4, 1));
        stop.cancel();
        running.await.expect("no panic").expect("it stops");
    }
}
