//! The task that writes Events.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kooper_grammar::access::Rule;
use kooper_runtime::internal::error::refusal::{ApiStatus, Cause, Needs, is_conflict, is_not_found};
use kooper_runtime::internal::{clock, leader};
use kooper_runtime::metrics::{Counter, MetricsRecorder};
use kooper_runtime::{Note, ObjectKey, error};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout};

use super::Message;
use super::correlate::{Correlator, EventWrite};
use super::lasting::{LastingEvents, LastingWrite};
use super::wire::EventSource;

/// The most notes that are aggregated at once.
const BATCH: usize = 100;

/// Maximum number of attempts of a request, and the timeout of each.
const TRIES: u32 = 3;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes Events, one after the other.
pub(super) struct Writer {
    client: Client,
    source: EventSource,
    correlator: Correlator,
    lasting: LastingEvents,
    drops: Arc<Drops>,
}

/// Why an Event was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{}", ApiStatus::behind(_0).map_or_else(|| error::chain(_0).to_string(), |refusal| refusal.to_string()))]
    Server(kube::Error),
    #[error("no response within {TIMEOUT:?}")]
    Silence,
    #[error("another client deletes it after each write")]
    Expired,
}

impl WriteError {
    /// Returns `true` if the Event has expired or was deleted.
    fn is_missing(&self) -> bool {
        matches!(self, Self::Server(kube::Error::Api(status)) if is_not_found(status))
    }

    /// Returns `true` if the Event exists already.
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Server(kube::Error::Api(status)) if is_conflict(status))
    }

    /// Returns `true` if the object is deleted with its namespace: its Events cannot be written.
    fn is_of_deleted_namespace(&self) -> bool {
        let Self::Server(kube::Error::Api(status)) = self else { return false };
        matches!(ApiStatus::of(status).cause, Cause::NamespaceTerminating | Cause::NoNamespace)
    }
}

impl Writer {
    pub(super) fn new(client: Client, source: EventSource, drops: Arc<Drops>) -> Self {
        Self { client, source, correlator: Correlator::default(), lasting: LastingEvents::new(Instant::now()), drops }
    }

    /// Runs until all senders are dropped.
    pub(super) async fn run(mut self, mut receiver: Receiver<Message>) {
        let mut batch = Vec::new();
        loop {
            let receiving = receiver.recv_many(&mut batch, BATCH);
            let received = match self.lasting.wait(Instant::now()) {
                Some(wait) => timeout(wait, receiving).await.ok(),
                None => Some(receiving.await),
            };
            if received == Some(0) {
                return;
            }
            let mut waiting = Vec::new();
            for message in batch.drain(..) {
                match message {
                    Message::Note(note) => {
                        if let Err(object) = self.correlator.take(*note, Instant::now(), clock::wall()) {
                            self.drops.count();
                            self.drops.log_once("rate", &|| too_many(&object));
                        }
                    }
                    Message::Lasting(note) => {
                        if !self.lasting.take(*note, clock::wall()) {
                            self.drops.count();
                            self.drops.log_once("lasting", &|| {
                                "too many objects fail at once: the Kubernetes Events of some are dropped and counted".to_owned()
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
            while let Some(due) = self.lasting.due(Instant::now()) {
                self.write_lasting(due).await;
            }
            for done in waiting {
                // The receiver may be dropped.
                let _ = done.send(());
            }
        }
    }

    async fn write(&mut self, due: EventWrite) {
        match due {
            EventWrite::New { key, note, first } => {
                let event = self.source.event(&note, first);
                match self.create(&event).await {
                    Ok(()) => self.correlator.written(&key, event.metadata.name.unwrap_or_default()),
                    Err(failure) => self.fail(&key, &note, &failure),
                }
            }
            EventWrite::More { key, note, name, count, last } => {
                let mut event = self.source.event(&note, last);
                event.metadata.name = Some(name);
                match self.repeat(&event, count, last).await {
                    Ok(()) => {}
                    Err(failure) if failure.is_missing() => {
                        self.correlator.forget(&key);
                        let _ = self.correlator.take(note, Instant::now(), last);
                    }
                    Err(failure) => self.fail(&key, &note, &failure),
                }
            }
        }
    }

    /// Writes an Event about something that lasts. One that exists is continued, also if
    /// another replica has created it.
    async fn write_lasting(&mut self, LastingWrite { note, at, before }: LastingWrite) {
        match self.continue_lasting(&note, at, before).await {
            Ok(count) => self.lasting.written(&note, count, Instant::now()),
            Err(failure) => {
                self.lasting.forget(&note);
                self.drop_note("", &note, &failure);
            }
        }
    }

    /// Returns how often it has been written by now.
    async fn continue_lasting(&self, note: &Note, at: Timestamp, before: Option<i32>) -> Result<i32, WriteError> {
        let event = self.source.lasting(note, at);
        let observed = |count: Option<i32>| {
            let mut series = json!({"lastObservedTime": MicroTime(at)});
            if let Some(count) = count {
                series["count"] = count.into();
            }
            json!({"message": event.message, "reportingInstance": event.reporting_instance, "series": series})
        };
        let mut before = before;
        // An Event that exists may expire meanwhile.
        for _ in 0..2 {
            let count = match before {
                Some(count) => count,
                None => match self.send(creation(&event)).await {
                    Ok(_) => return Ok(1),
                    Err(failure) if failure.is_conflict() => {
                        // Its count is unknown: the response to this patch has it.
                        match self.send(change(&event, observed(None))).await {
                            Ok(known) => {
                                let count = known["series"]["count"].as_i64();
                                count.and_then(|count| i32::try_from(count).ok()).unwrap_or(1).max(1)
                            }
                            Err(failure) if failure.is_missing() => continue,
                            Err(failure) => return Err(failure),
                        }
                    }
                    Err(failure) => return Err(failure),
                },
            };
            let count = count.saturating_add(1);
            match self.send(change(&event, observed(Some(count)))).await {
                Ok(_) => return Ok(count),
                Err(failure) if failure.is_missing() => before = None,
                Err(failure) => return Err(failure),
            }
        }
        Err(WriteError::Expired)
    }

    /// Sends a request until it is answered, if another try can succeed. With `Api<K>`, the decoding of both types of
    /// Events would be compiled into each program, to read a count.
    async fn send(&self, request: kube::Result<http::Request<Vec<u8>>>) -> Result<Value, WriteError> {
        let request = request.map_err(WriteError::Server)?;
        let mut tried = 0;
        loop {
            match timeout(TIMEOUT, self.client.request(request.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => self.pause(WriteError::Server(error), &mut tried).await?,
                Err(_) => self.pause(WriteError::Silence, &mut tried).await?,
            }
        }
    }

    async fn create(&self, event: &Event) -> Result<(), WriteError> {
        let request = creation(event).map_err(WriteError::Server)?;
        let mut tried = 0;
        loop {
            match timeout(TIMEOUT, self.client.request::<Value>(request.clone())).await {
                Ok(Ok(_)) => return Ok(()),
                // The response to an earlier try was lost.
                Ok(Err(kube::Error::Api(status))) if tried > 0 && is_conflict(&status) => return Ok(()),
                Ok(Err(error)) => self.pause(WriteError::Server(error), &mut tried).await?,
                Err(_) => self.pause(WriteError::Silence, &mut tried).await?,
            }
        }
    }

    async fn repeat(&self, event: &Event, count: i32, last: Timestamp) -> Result<(), WriteError> {
        let patch = json!({"series": {"count": count, "lastObservedTime": MicroTime(last)}});
        self.send(change(event, patch)).await.map(drop)
    }

    /// Waits before the next try, if one can succeed.
    async fn pause(&self, failure: WriteError, tried: &mut u32) -> Result<(), WriteError> {
        *tried += 1;
        let may_pass = match &failure {
            WriteError::Server(kube::Error::Api(status)) => status.code == 429 || status.code >= 500,
            // Requests that the fence rejects are logged with the leadership.
            WriteError::Server(error) => !leader::is_fenced(error),
            WriteError::Silence => true,
            WriteError::Expired => false,
        };
        if !may_pass || *tried >= TRIES {
            return Err(failure);
        }
        sleep(Duration::from_secs(u64::from(*tried))).await;
        Ok(())
    }

    fn fail(&mut self, key: &str, note: &Note, failure: &WriteError) {
        self.correlator.forget(key);
        self.drop_note("events.k8s.io", note, failure);
    }

    /// Counts an Event that could not be written in a group of the API, unless it would be deleted with its namespace.
    fn drop_note(&self, group: &str, note: &Note, failure: &WriteError) {
        let namespace = note.regarding.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or("default");
        if failure.is_of_deleted_namespace() {
            let controller = self.drops.controller();
            tracing::debug!(controller, namespace, reason = note.reason, "a Kubernetes Event is dropped: {failure}");
            return;
        }
        self.drops.count();
        let (cause, advice) = match failure {
            WriteError::Server(error) if leader::is_fenced(error) => return,
            WriteError::Server(kube::Error::Api(status)) => {
                let rule = Rule::new(group, "events", None, &["create", "patch"]);
                let advice =
                    ApiStatus::of(status).advice(&Needs { rule: &rule, only: None, namespace: Some(namespace) });
                (format!("{} {}{advice}", status.code, status.reason), advice)
            }
            WriteError::Server(_) | WriteError::Silence | WriteError::Expired => {
                ("no response".to_owned(), String::new())
            }
        };
        self.drops.log_once(&cause, &|| {
            let reason = &note.reason;
            format!(
                "the Kubernetes Event `{reason}` could not be written: {failure}{advice}; it is dropped. Further ones with the same cause are only counted"
            )
        });
    }
}

fn creation<K>(event: &K) -> kube::Result<http::Request<Vec<u8>>>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
    events(event).create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)
}

fn change<K: Resource<DynamicType = ()>>(event: &K, patch: Value) -> kube::Result<http::Request<Vec<u8>>> {
    let patched = events(event).patch(&event.name_any(), &PatchParams::default(), &Patch::Merge(patch));
    patched.map_err(kube::Error::BuildRequest)
}

/// The Events in the namespace of an Event.
fn events<K: Resource<DynamicType = ()>>(event: &K) -> Request {
    Request::new(K::url_path(&(), Some(event.meta().namespace.as_deref().unwrap_or_default())))
}

/// The message about the first object that has too many Events.
pub(super) fn too_many(ObjectReference { kind, namespace, name, .. }: &ObjectReference) -> String {
    let key = ObjectKey::new(namespace.as_deref(), name.as_deref().unwrap_or_default());
    let kind = kind.as_deref().unwrap_or("object");
    format!(
        "too many Kubernetes Events on the {kind} `{key}`: at most 25 at once and then one every five minutes are written \
         for each object; further ones are dropped and counted"
    )
}

/// Counts the Events that a controller drops, and logs each cause once.
pub(super) struct Drops {
    controller: Arc<str>,
    metrics: Arc<dyn MetricsRecorder>,
    /// The causes that were logged.
    pub(super) logged: Mutex<HashSet<String>>,
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

    pub(super) fn log_once(&self, cause: &str, text: &dyn Fn() -> String) {
        let mut logged = self.logged.lock();
        if logged.len() < Self::MOST && logged.insert(cause.to_owned()) {
            tracing::warn!(controller = %self.controller, "{}", text());
        }
    }
}
