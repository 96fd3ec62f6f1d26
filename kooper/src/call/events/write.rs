//! The task that writes Events.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kooper_grammar::access::Rule;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout};

use super::Message;
use super::correlate::{Correlator, Due};
use super::wire::EventSource;
use crate::clock;
use crate::error;
use crate::error::refusal::{Needs, Refusal};
use crate::leader;
use crate::metrics::{Counter, MetricsRecorder};

/// The most notes that are aggregated at once.
const BATCH: usize = 100;

/// How often a request is tried, and its timeout.
const TRIES: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes Events, one after the other.
pub(super) struct Writer {
    client: Client,
    source: EventSource,
    correlator: Correlator,
    drops: Arc<Drops>,
}

/// Why an Event was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{}", error::chain(_0))]
    Server(kube::Error),
    #[error("no response within {PATIENCE:?}")]
    Silence,
}

impl Writer {
    pub(super) fn new(client: Client, source: EventSource, drops: Arc<Drops>) -> Self {
        Self { client, source, correlator: Correlator::default(), drops }
    }

    /// Runs until all senders are dropped.
    pub(super) async fn run(mut self, mut receiver: Receiver<Message>) {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, BATCH).await > 0 {
            let mut waiting = Vec::new();
            for message in batch.drain(..) {
                match message {
                    Message::Note(note) => {
                        if !self.correlator.take(*note, Instant::now(), clock::wall()) {
                            self.drops.count();
                            self.drops.log_once("rate", || {
                                "an object has more Kubernetes Events than the 25 at once and one in five minutes that are written: \
                                 further ones are dropped and counted".to_owned()
                            });
                        }
                    }
                    Message::Drain(done) => waiting.push(done),
                }
            }
            // Repetitions that arrived before the first Event was written come after it.
            for _ in 0..2 {
                for due in self.correlator.due(Instant::now()) {
                    self.write(due).await;
                }
            }
            for done in waiting {
                // The receiver may be dropped.
                let _ = done.send(());
            }
        }
    }

    async fn write(&mut self, due: Due) {
        match due {
            Due::New { key, note, first } => {
                let event = self.source.event(&note, first);
                match self.create(&event).await {
                    Ok(()) => self.correlator.written(&key, event.metadata.name.unwrap_or_default()),
                    Err(failure) => self.fail(&key, &event, &failure),
                }
            }
            Due::More { key, note, name, count, last } => {
                let mut event = self.source.event(&note, last);
                event.metadata.name = Some(name);
                match self.repeat(&event, count, last).await {
                    Ok(()) => {}
                    // It has expired or was deleted.
                    Err(WriteError::Server(kube::Error::Api(status))) if status.code == 404 => {
                        self.correlator.forget(&key);
                        self.correlator.take(note, Instant::now(), last);
                    }
                    Err(failure) => self.fail(&key, &event, &failure),
                }
            }
        }
    }

    async fn create(&self, event: &Event) -> Result<(), WriteError> {
        let events = self.events(event);
        let mut tried = 0;
        loop {
            let created = timeout(PATIENCE, events.create(&PostParams::default(), event)).await;
            match created {
                Ok(Ok(_)) => return Ok(()),
                // The response to an earlier try was lost.
                Ok(Err(kube::Error::Api(status))) if tried > 0 && status.code == 409 => return Ok(()),
                Ok(Err(error)) => self.pause(WriteError::Server(error), &mut tried).await?,
                Err(_) => self.pause(WriteError::Silence, &mut tried).await?,
            }
        }
    }

    async fn repeat(&self, event: &Event, count: i32, last: Timestamp) -> Result<(), WriteError> {
        let (events, name) = (self.events(event), event.metadata.name.as_deref().unwrap_or_default());
        let patch = Patch::Merge(json!({"series": {"count": count, "lastObservedTime": MicroTime(last)}}));
        let mut tried = 0;
        loop {
            let patched = timeout(PATIENCE, events.patch(name, &PatchParams::default(), &patch)).await;
            match patched {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => self.pause(WriteError::Server(error), &mut tried).await?,
                Err(_) => self.pause(WriteError::Silence, &mut tried).await?,
            }
        }
    }

    fn events(&self, event: &Event) -> Api<Event> {
        Api::namespaced(self.client.clone(), event.metadata.namespace.as_deref().unwrap_or_default())
    }

    /// Waits before the next try, if one can succeed.
    async fn pause(&self, failure: WriteError, tried: &mut u32) -> Result<(), WriteError> {
        *tried += 1;
        let may_pass = match &failure {
            WriteError::Server(kube::Error::Api(status)) => status.code == 429 || status.code >= 500,
            // Requests that the fence rejects are logged with the leadership.
            WriteError::Server(error) => !leader::is_fenced(error),
            WriteError::Silence => true,
        };
        if !may_pass || *tried >= TRIES {
            return Err(failure);
        }
        sleep(Duration::from_secs(u64::from(*tried))).await;
        Ok(())
    }

    fn fail(&mut self, key: &str, event: &Event, failure: &WriteError) {
        self.correlator.forget(key);
        self.drops.count();
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let (cause, advice) = match failure {
            WriteError::Server(error) if leader::is_fenced(error) => return,
            WriteError::Server(kube::Error::Api(status)) => {
                let rule = Rule::new("events.k8s.io", "events", None, &["create", "patch"]);
                let advice = Refusal::of(status).advice(&Needs { rule: &rule, only: None, namespace: Some(namespace) });
                (format!("{} {}{advice}", status.code, status.reason), advice)
            }
            WriteError::Server(_) | WriteError::Silence => ("no response".to_owned(), String::new()),
        };
        self.drops.log_once(&cause, || {
            let reason = event.reason.as_deref().unwrap_or_default();
            format!(
                "the Kubernetes Event `{reason}` could not be written: {failure}{advice}; it is dropped. Further ones with the same cause are only counted"
            )
        });
    }
}

/// Counts the Events that a controller drops, and logs each cause once.
pub(super) struct Drops {
    controller: Arc<str>,
    metrics: Arc<dyn MetricsRecorder>,
    /// The causes that were logged.
    logged: Mutex<HashSet<String>>,
}

impl Drops {
    /// The most causes that are logged.
    const MOST: usize = 64;

    pub(super) fn new(controller: Arc<str>, metrics: Arc<dyn MetricsRecorder>) -> Self {
        Self { controller, metrics, logged: Mutex::default() }
    }
    pub(super) fn controller(&self) -> &str {
        &self.controller
    }
    pub(super) fn count(&self) {
        self.metrics.count(&self.controller, Counter::EventDropped);
    }

    pub(super) fn log_once(&self, cause: &str, text: impl FnOnce() -> String) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < Self::MOST && logged.insert(cause.to_owned()) {
            tracing::warn!(controller = %self.controller, "{}", text());
        }
    }
}
