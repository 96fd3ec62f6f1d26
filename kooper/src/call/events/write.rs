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
use super::wire::Source;
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
    source: Source,
    correlator: Correlator,
    controller: Arc<str>,
    metrics: Arc<dyn MetricsRecorder>,
    causes: Arc<Causes>,
}

/// Why an Event was not written.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", error::chain(_0))]
    Server(kube::Error),
    #[error("no answer within {PATIENCE:?}")]
    Silence,
}

impl Writer {
    pub(super) fn new(
        client: Client,
        source: Source,
        controller: Arc<str>,
        metrics: Arc<dyn MetricsRecorder>,
        causes: Arc<Causes>,
    ) -> Self {
        Self { client, source, correlator: Correlator::default(), controller, metrics, causes }
    }

    /// Runs until all senders are dropped.
    pub(super) async fn run(mut self, mut receiver: Receiver<Message>) {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, BATCH).await > 0 {
            let mut waiting = Vec::new();
            for message in batch.drain(..) {
                match message {
                    Message::Note(note) => {
                        if !self.correlator.take(*note, Instant::now(), Timestamp::now()) {
                            self.dropped();
                            self.causes.tell("rate", || {
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
                match self.go_on(&event, count, last).await {
                    Ok(()) => {}
                    // It has expired or was deleted.
                    Err(Failure::Server(kube::Error::Api(status))) if status.code == 404 => {
                        self.correlator.forget(&key);
                        self.correlator.take(note, Instant::now(), last);
                    }
                    Err(failure) => self.fail(&key, &event, &failure),
                }
            }
        }
    }

    async fn create(&self, event: &Event) -> Result<(), Failure> {
        let events = self.events(event);
        let mut tried = 0;
        loop {
            let created = timeout(PATIENCE, events.create(&PostParams::default(), event)).await;
            match created {
                Ok(Ok(_)) => return Ok(()),
                // The response to an earlier try was lost.
                Ok(Err(kube::Error::Api(status))) if tried > 0 && status.code == 409 => return Ok(()),
                Ok(Err(error)) => self.pause(Failure::Server(error), &mut tried).await?,
                Err(_) => self.pause(Failure::Silence, &mut tried).await?,
            }
        }
    }

    async fn go_on(&self, event: &Event, count: i32, last: Timestamp) -> Result<(), Failure> {
        let (events, name) = (self.events(event), event.metadata.name.as_deref().unwrap_or_default());
        let patch = Patch::Merge(json!({"series": {"count": count, "lastObservedTime": MicroTime(last)}}));
        let mut tried = 0;
        loop {
            let patched = timeout(PATIENCE, events.patch(name, &PatchParams::default(), &patch)).await;
            match patched {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => self.pause(Failure::Server(error), &mut tried).await?,
                Err(_) => self.pause(Failure::Silence, &mut tried).await?,
            }
        }
    }

    fn events(&self, event: &Event) -> Api<Event> {
        Api::namespaced(self.client.clone(), event.metadata.namespace.as_deref().unwrap_or_default())
    }

    /// Waits before the next try, if one can succeed.
    async fn pause(&self, failure: Failure, tried: &mut u32) -> Result<(), Failure> {
        *tried += 1;
        let may_pass = match &failure {
            Failure::Server(kube::Error::Api(status)) => status.code == 429 || status.code >= 500,
            // Requests that the fence rejects are logged with the leadership.
            Failure::Server(error) => !leader::is_fenced(error),
            Failure::Silence => true,
        };
        if !may_pass || *tried >= TRIES {
            return Err(failure);
        }
        sleep(Duration::from_secs(u64::from(*tried))).await;
        Ok(())
    }

    fn fail(&mut self, key: &str, event: &Event, failure: &Failure) {
        self.correlator.forget(key);
        self.dropped();
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let (cause, advice) = match failure {
            Failure::Server(error) if leader::is_fenced(error) => return,
            Failure::Server(kube::Error::Api(status)) => {
                let rule = Rule::new("events.k8s.io", "events", None, &["create", "patch"]);
                let advice = Refusal::of(status).advice(&Needs { rule: &rule, only: None, namespace: Some(namespace) });
                (format!("{} {}{advice}", status.code, status.reason), advice)
            }
            Failure::Server(_) | Failure::Silence => ("no answer".to_owned(), String::new()),
        };
        self.causes.tell(&cause, || {
            let reason = event.reason.as_deref().unwrap_or_default();
            format!(
                "the Kubernetes Event `{reason}` could not be written: {failure}{advice}; it is dropped, and said once"
            )
        });
    }

    fn dropped(&self) {
        self.metrics.count(&self.controller, Counter::EventDropped);
    }
}

/// The causes that were logged: each is logged once.
#[derive(Debug)]
pub(super) struct Causes {
    controller: Arc<str>,
    told: Mutex<HashSet<String>>,
}

impl Causes {
    /// The most causes that are logged.
    const MOST: usize = 64;

    pub(super) fn new(controller: Arc<str>) -> Self {
        Self { controller, told: Mutex::default() }
    }

    pub(super) fn tell(&self, cause: &str, text: impl FnOnce() -> String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < Self::MOST && told.insert(cause.to_owned()) {
            tracing::warn!(controller = %self.controller, "{}", text());
        }
    }
}
