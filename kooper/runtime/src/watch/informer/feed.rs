//! The way of a watch's changes to the functions of one controller.

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::shared::Fan;
use super::{Seen, Signal, Sink, Watched};
use crate::error::panic_text;
use crate::executor::{Executor, Task};
use crate::object::Object;
use crate::watch::blocking::off_the_runtime;
use crate::watch::store::Change;

/// The maximum number of changes that may wait for a function. At this limit the watch
/// waits too, and so do the other controllers that share it.
const MOST: usize = 4096;

/// What a watch has observed.
enum Waiting {
    /// The old and the new state of an object.
    Changed(Option<Arc<Object>>, Option<Arc<Object>>, Seen),
    /// An object left the selection of the cache.
    Left(Arc<Object>),
}

/// Passes the changes of a watch to sinks that call functions of the user, on the threads
/// of these functions and in order.
pub(crate) struct Feed {
    watched: Arc<Watched>,
    sinks: Arc<Fan>,
    waiting: Sender<Waiting>,
    replays: Mutex<Vec<Task<()>>>,
}

impl Feed {
    /// Begins to take changes, for as long as the task is kept.
    pub(crate) fn start(watched: &Arc<Watched>, executor: &Executor) -> (Arc<Self>, Task<()>) {
        let (waiting, receiver) = channel(MOST);
        let sinks = Arc::<Fan>::default();
        let task = executor.spawn(pass(receiver, sinks.clone()));
        let feed = Arc::new(Self { watched: watched.clone(), sinks, waiting, replays: Mutex::default() });
        let sink: Arc<dyn Sink> = feed.clone();
        watched.join(&sink);
        (feed, task)
    }

    /// Returns `true` if the feed passes the changes of this watch.
    pub(crate) fn is_of(&self, watched: &Arc<Watched>) -> bool {
        Arc::ptr_eq(&self.watched, watched)
    }

    /// Informs `sink` of every change from now on, and of the known objects as of a first
    /// list, for which it does not wait.
    pub(crate) fn subscribe(&self, sink: &Arc<dyn Sink>, executor: &Executor) {
        self.sinks.join(sink);
        let (watched, sink) = (self.watched.clone(), sink.clone());
        let replay = executor.spawn(async move { watched.replay(&sink).await });
        self.replays.lock().push(replay);
    }

    fn send(&self, waiting: Waiting) {
        match self.waiting.try_send(waiting) {
            // Without a receiver the controller has ended.
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(waiting)) => off_the_runtime(|| drop(self.waiting.blocking_send(waiting))),
        }
    }
}

async fn pass(mut waiting: Receiver<Waiting>, sinks: Arc<Fan>) {
    while let Some(waiting) = waiting.recv().await {
        let (change, seen) = match waiting {
            Waiting::Changed(old, new, seen) => (Change::new(old, new), seen),
            Waiting::Left(object) => {
                sinks.left(&object);
                continue;
            }
        };
        let passing = || sinks.changed(&change, seen);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(passing)) {
            let object = change.key().map(ToString::to_string).unwrap_or_default();
            tracing::error!(object, "a change is not handled, as a function panicked: {}", panic_text(&*panic));
        }
    }
}

impl Sink for Feed {
    fn changed(&self, change: &Change, seen: Seen) {
        self.send(Waiting::Changed(change.old.clone(), change.new.clone(), seen));
    }

    fn left(&self, object: &Arc<Object>) {
        self.send(Waiting::Left(object.clone()));
    }

    fn signal(&self, signal: Signal<'_>) {
        self.sinks.signal(signal);
    }
}
