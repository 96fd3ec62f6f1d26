//! The way of a watch's changes to the functions of one controller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::shared::Sinks;
use super::{ChangeSource, Signal, Sink, Watched};
use crate::error::panic_text;
use crate::executor::{Executor, Task};
use crate::object::Object;
use crate::watch::blocking::off_the_runtime;
use crate::watch::store::Change;

/// The maximum number of changes that may wait for a function. At this limit the watch
/// waits too, and so do the other controllers that share it.
const MOST: usize = 4096;

/// A change for the sinks.
enum Notification {
    /// The old and the new state of an object.
    Changed(Option<Arc<Object>>, Option<Arc<Object>>, ChangeSource),
    /// An object left the selection of the cache.
    Left(Arc<Object>),
}

/// Passes the changes of a watch to sinks that call functions of the user, on the threads
/// of these functions and in order.
pub(crate) struct Feed {
    /// It has the feed among its sinks, and would otherwise keep itself.
    watched: Weak<Watched>,
    sinks: Arc<Sinks>,
    notifications: Sender<Notification>,
    replays: Mutex<Vec<Task<()>>>,
}

impl Feed {
    /// Begins to take changes, for as long as the task is kept.
    pub(crate) fn start(watched: &Arc<Watched>, executor: &Executor) -> (Arc<Self>, Task<()>) {
        let (notifications, receiver) = channel(MOST);
        let sinks = Arc::<Sinks>::default();
        let task = executor.spawn(pass(receiver, sinks.clone()));
        let feed = Arc::new(Self { watched: Arc::downgrade(watched), sinks, notifications, replays: Mutex::default() });
        let sink: Arc<dyn Sink> = feed.clone();
        watched.join(&sink);
        (feed, task)
    }

    /// Returns `true` if the feed passes the changes of this watch.
    pub(crate) fn is_of(&self, watched: &Arc<Watched>) -> bool {
        std::ptr::eq(self.watched.as_ptr(), Arc::as_ptr(watched))
    }

    /// Informs `sink` of every change from now on, and of the known objects as of a first
    /// list, for which it does not wait.
    pub(crate) fn subscribe(&self, sink: &Arc<dyn Sink>, executor: &Executor) {
        self.sinks.join(sink);
        let (watched, sink) = (self.watched.upgrade(), sink.clone());
        let replay = executor.spawn(async move {
            if let Some(watched) = watched {
                watched.replay(&sink).await;
            }
        });
        self.replays.lock().push(replay);
    }

    fn send(&self, notification: Notification) {
        match self.notifications.try_send(notification) {
            // Without a receiver the controller has ended.
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(refused)) => off_the_runtime(|| drop(self.notifications.blocking_send(refused))),
        }
    }
}

async fn pass(mut notifications: Receiver<Notification>, sinks: Arc<Sinks>) {
    while let Some(notification) = notifications.recv().await {
        match notification {
            Notification::Changed(old, new, seen) => {
                let change = Change::new(old, new);
                contain(change.last(), || sinks.changed(&change, seen));
            }
            Notification::Left(object) => contain(Some(&object), || sinks.left(&object)),
        }
    }
}

/// Informs sinks of one change. If that panics, they are informed of the next ones nevertheless.
fn contain(object: Option<&Arc<Object>>, passing: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(passing)) {
        let object = object.map(|object| object.key().to_string()).unwrap_or_default();
        tracing::error!(object, "a change is not handled, as a function panicked: {}", panic_text(&*panic));
    }
}

impl Sink for Feed {
    fn changed(&self, change: &Change, seen: ChangeSource) {
        self.send(Notification::Changed(change.old.clone(), change.new.clone(), seen));
    }

    fn left(&self, object: &Arc<Object>) {
        self.send(Notification::Left(object.clone()));
    }

    fn signal(&self, signal: Signal<'_>) {
        self.sinks.signal(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::super::WatchStatus;
    use super::*;

    /// Records each change, and panics.
    #[derive(Default)]
    struct PanickingSink(Mutex<Vec<&'static str>>);

    impl Sink for PanickingSink {
        fn changed(&self, _: &Change, _: ChangeSource) {
            self.0.lock().push("changed");
            panic!("changed");
        }

        fn left(&self, _: &Arc<Object>) {
            self.0.lock().push("left");
            panic!("left");
        }
    }

    #[tokio::test]
    async fn a_watch_and_its_objects_are_freed_although_a_feed_has_passed_its_changes() {
        let status = WatchStatus::new("test", "things", None, false, true);
        let watched = Arc::new(Watched::new(status, false));
        let freed = Arc::downgrade(&watched);
        let (feed, task) = Feed::start(&watched, &Executor::default());
        assert!(feed.is_of(&watched));
        drop((feed, task, watched));
        assert!(freed.upgrade().is_none());
    }

    #[tokio::test]
    async fn a_panic_for_an_object_that_leaves_or_changes_does_not_end_the_changes_that_follow() {
        let object = Arc::new(Object::parse(br#"{"metadata":{"name":"a"}}"#).unwrap());
        let (sinks, sink) = (Arc::<Sinks>::default(), Arc::<PanickingSink>::default());
        sinks.join(&(sink.clone() as Arc<dyn Sink>));
        let (sender, receiver) = channel(MOST);
        let changed = || Notification::Changed(None, Some(object.clone()), ChangeSource::Watched);
        let left = || Notification::Left(object.clone());
        for notification in [left(), changed(), left(), changed()] {
            assert!(sender.try_send(notification).is_ok());
        }
        drop(sender);
        pass(receiver, sinks).await;
        assert_eq!(*sink.0.lock(), ["left", "changed", "left", "changed"]);
    }
}
