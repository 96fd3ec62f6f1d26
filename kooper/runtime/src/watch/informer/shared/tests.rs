use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;

use super::*;
use crate::object::Object;
use crate::watch::store::ListSnapshot;

#[derive(Default)]
struct RecordingSink {
    keys: Mutex<Vec<String>>,
    /// A sink that subscribes at the first change.
    late: Mutex<Option<(Weak<Watched>, Arc<RecordingSink>)>>,
}

impl RecordingSink {
    fn keys(&self) -> Vec<String> {
        let mut keys = self.keys.lock().clone();
        keys.sort();
        keys.dedup();
        keys
    }
}

impl Sink for RecordingSink {
    fn changed(&self, change: &Change, _: ChangeSource) {
        self.keys.lock().extend(change.key().map(ToString::to_string));
        let late = self.late.lock().take();
        if let Some((watched, late)) = late
            && let Some(watched) = watched.upgrade()
        {
            subscribe(&watched, &late);
        }
    }
}

fn watched() -> Arc<Watched> {
    Arc::new(Watched::new(WatchStatus::new("test", "things", None, false, true), false))
}

/// Subscribes a sink. There are so few objects that reporting them does not yield.
fn subscribe(watched: &Watched, sink: &Arc<RecordingSink>) {
    watched.subscribe(&(sink.clone() as Arc<dyn Sink>)).now_or_never().expect("no pause");
}

/// A first list, as an informer reports it.
fn list(watched: &Watched, names: &[&str]) {
    let mut listed = ListSnapshot::default();
    for name in names {
        let json = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        listed.add(Object::parse(json.as_bytes()).unwrap(), &watched.store);
    }
    for change in watched.store.replace(listed).flatten() {
        watched.sinks.changed(&change, ChangeSource::First);
    }
    watched.status.record_sync(names.len());
}

#[test]
fn a_sink_that_subscribes_during_the_first_list_receives_all_of_it() {
    let watched = watched();
    let (first, late) = (Arc::<RecordingSink>::default(), Arc::<RecordingSink>::default());
    *first.late.lock() = Some((Arc::downgrade(&watched), late.clone()));
    subscribe(&watched, &first);
    list(&watched, &["a", "b", "c"]);
    assert_eq!(first.keys(), ["a", "b", "c"]);
    assert_eq!(late.keys(), ["a", "b", "c"]);
}

#[test]
fn a_sink_that_subscribes_after_the_first_list_receives_all_known_objects() {
    let watched = watched();
    list(&watched, &["a", "b"]);
    let late = Arc::<RecordingSink>::default();
    subscribe(&watched, &late);
    assert_eq!(late.keys(), ["a", "b"]);
}

#[tokio::test]
async fn other_tasks_run_while_a_late_subscriber_receives_many_objects() {
    let watched = watched();
    let names: Vec<String> = (0..10_000).map(|name| name.to_string()).collect();
    list(&watched, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let turns = Arc::new(AtomicUsize::new(0));
    let counting = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            counting.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let late = Arc::<RecordingSink>::default();
    watched.subscribe(&(late.clone() as Arc<dyn Sink>)).await;
    other.abort();
    assert_eq!(late.keys().len(), names.len());
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= 50, "{turns} turns");
}
