//! Kubernetes Events: aggregated, limited, and written in the background.

mod correlate;
mod lasting;
mod limit;
mod wire;
mod write;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kooper_runtime::internal::call::events::EventRecorder;
use kooper_runtime::internal::error::redaction::redact;
use kooper_runtime::metrics::MetricsRecorder;

#[doc(inline)]
pub use kooper_runtime::{FailureEvents, Note};
use kube::Client;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub(crate) use wire::{cut, with_tail};
use write::{Drops, Writer};

/// The most notes that wait to be written. At the start there may be one for
/// each object. A note takes less than a kilobyte.
const WAITING: usize = 16_384;

/// Records Kubernetes Events. It never waits, and can be cloned.
#[derive(Clone, Default)]
pub struct EventSink {
    /// `None` without an API server.
    inner: Option<Arc<Inner>>,
    /// The recorded Events, for tests.
    recorded: Option<RecordedEvents>,
}

/// The recorded Events, in order.
pub(crate) type RecordedEvents = Arc<Mutex<Vec<Note>>>;

struct Inner {
    sender: mpsc::Sender<Message>,
    /// The task that writes, until there is a runtime to start it on.
    task: Mutex<Option<WriterTask>>,
    /// The runtime of that task, if it is not the first caller's.
    runtime: OnceLock<Handle>,
    drops: Arc<Drops>,
}

struct WriterTask {
    receiver: mpsc::Receiver<Message>,
    writer: Writer,
}

/// A message to the task that writes.
enum Message {
    Note(Box<Note>),
    /// About something that lasts.
    Lasting(Box<Note>),
    /// Respond when all notes before this one are written.
    Drain(oneshot::Sender<()>),
}

impl EventSink {
    /// A sink that writes as `program/controller`, from this `instance` of it.
    /// Nothing is started before the first note.
    #[doc(hidden)]
    pub fn start(
        client: Option<Client>,
        program: &str,
        controller: &Arc<str>,
        instance: &str,
        metrics: Arc<dyn MetricsRecorder>,
    ) -> Self {
        let Some(client) = client else { return Self::default() };
        let (sender, receiver) = mpsc::channel(WAITING);
        let drops = Arc::new(Drops::new(controller.clone(), metrics));
        let source = wire::EventSource::new(program, controller, instance);
        let writer = Writer::new(client, source, drops.clone());
        let task = Mutex::new(Some(WriterTask { receiver, writer }));
        let inner = Inner { sender, task, runtime: OnceLock::new(), drops };
        Self { inner: Some(Arc::new(inner)), recorded: None }
    }

    /// A sink that keeps all Events in memory and writes none.
    #[doc(hidden)]
    pub fn recorded(events: RecordedEvents) -> Self {
        Self { inner: None, recorded: Some(events) }
    }

    fn send(&self, mut note: Note, message: fn(Box<Note>) -> Message) {
        note.message = redact(&note.message).into_owned();
        if let Some(events) = &self.recorded {
            events.lock().push(note);
            return;
        }
        let Some(inner) = &self.inner else { return };
        inner.wake();
        if inner.sender.try_send(message(Box::new(note))).is_err() {
            inner.drops.count();
            inner.drops.log_once("full", &|| {
                format!(
                    "more than {WAITING} Kubernetes Events are waiting to be written: further ones are dropped and counted"
                )
            });
        }
    }
}

impl EventRecorder for EventSink {
    fn run_here(&self) {
        if let Some(inner) = &self.inner {
            inner.runtime.get_or_init(Handle::current);
        }
    }

    fn publish(&self, note: Note) {
        self.send(note, Message::Note);
    }

    fn report(&self, note: Note) {
        self.send(note, Message::Lasting);
    }

    fn drain(&self, limit: Duration) -> BoxFuture<'_, ()> {
        let Some(inner) = &self.inner else { return Box::pin(std::future::ready(())) };
        let (done, written) = oneshot::channel();
        let all = async move {
            // A task that was never started has nothing to write.
            if !inner.is_asleep() && inner.sender.send(Message::Drain(done)).await.is_ok() {
                drop(written.await);
            }
        };
        Box::pin(async move {
            if timeout(limit, all).await.is_err() {
                let controller = inner.drops.controller();
                tracing::debug!(controller, "Kubernetes Events were not written within {limit:?}");
            }
        })
    }
}

impl Inner {
    /// Starts the task that writes, if there is a runtime by now.
    fn wake(&self) {
        let mut task = self.task.lock();
        if task.is_some()
            && let Some(runtime) = self.runtime.get().cloned().or_else(|| Handle::try_current().ok())
            && let Some(WriterTask { receiver, writer }) = task.take()
        {
            runtime.spawn(writer.run(receiver));
        }
    }

    fn is_asleep(&self) -> bool {
        self.task.lock().is_some()
    }
}

kooper_runtime::internal::debug_fields! { EventSink {} }

#[cfg(test)]
mod tests;
