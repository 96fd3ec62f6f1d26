//! The writes of controllers, as their client sends them, and what goes wrong with them.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kooper_apiserver::StoredObject;
use kooper_apiserver::faults::Answered;
use kube::client::Body;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::{Layer, ServiceExt};

use super::children::{self, RemainingChild, slot, with_slot};
use super::end::content;
use super::problem::Problem;
use super::trial::{Trial, WriteFault};
use crate::cluster::{KILLED, is_noise, kill_layer};
use crate::{Cluster, Sent};
use kooper_runtime::internal::client::{Next, RequestLayer, ResponseBody, boxed, from_fn};
use kooper_runtime::{BoxError, ObjectKey};

/// Maximum number of writes in one step of a history. More of them are an endless loop.
const MOST: usize = 5000;

/// Maximum number of calls in one step of a history.
const MOST_CALLS: u64 = 50_000;

/// Maximum number of requests that are shown with a problem.
const SHOWN: usize = 30;

/// The writes and calls of all processes of one history.
pub(super) struct HistoryRecorder {
    /// The trial of the history, which defines the faults to inject.
    planned: Trial,
    /// Paths and kinds that the test ignores.
    ignored: Vec<String>,
    /// The controllers whose children are deleted in waves.
    ordered: BTreeSet<String>,
    pub(super) calls: Mutex<Calls>,
    state: Mutex<State>,
}

/// Numbers of handler calls so far, in all steps.
#[derive(Clone, Copy, Default)]
pub(super) struct Calls {
    pub(super) all: u64,
    pub(super) failed: u64,
    pub(super) panicked: u64,
}

#[derive(Default)]
struct State {
    written: Vec<RecordedWrite>,
    /// Number of writes by address, such as `apply secrets default/a`, failed ones included.
    counts: HashMap<String, u64>,
    /// The slots of declared children, by resource and key.
    slots: HashMap<String, String>,
    early: Vec<EarlyDeletion>,
    met: bool,
    /// The calls before the last thing that went wrong.
    calm: u64,
    /// The writes and the calls before the current step, which ends some time.
    before: (usize, u64),
}

/// A deletion of a declared child while those of an earlier wave existed.
struct EarlyDeletion {
    what: String,
    remaining: Vec<RemainingChild>,
    /// The last requests.
    requests: Vec<String>,
}

/// A write, and what the server answered, whether or not the answer arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedWrite {
    /// Such as `apply secrets default/a`, or `apply secrets default/a (slot password)`.
    pub(super) what: String,
    /// Which one of these it is, from 1.
    pub(super) nth: u64,
    pub(super) verb: &'static str,
    /// Its resource with its group.
    pub(super) resource: String,
    pub(super) of_subresource: bool,
    /// The code of the answer; `None` if it was not sent.
    pub(super) status: Option<u16>,
    /// `true` if all owners of the created object were deleted before. It is garbage-collected.
    pub(super) is_garbage: bool,
    /// The kind of the object, if it is known.
    pub(super) kind: Option<String>,
    /// `true` for a deletion of a list without objects.
    pub(super) is_empty: bool,
    /// The object in the answer: its uid and version.
    pub(super) uid: Option<String>,
    pub(super) version: Option<u64>,
    /// The object without the ignored fields, as JSON; `None` if the test ignores nothing, or the
    /// kind of the object.
    pub(super) content: Option<String>,
}

impl RecordedWrite {
    /// Returns whether the write created an object that stays. With a stale cache, an object may be
    /// created for a deleted owner; it is garbage-collected.
    pub(super) fn creates(&self) -> bool {
        self.status == Some(201) && !self.of_subresource && !self.is_garbage
    }

    /// Returns whether the server accepted the write. `false` if there was no response.
    pub(super) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status < 300)
    }

    /// Returns whether the server rejected the write. `false` if there was no response.
    pub(super) fn is_refused(&self) -> bool {
        self.status.is_some_and(|status| status >= 400)
    }
}

impl HistoryRecorder {
    /// A recorder with something that goes wrong.
    pub(super) fn new(trial: &Trial, ignored: &[String], ordered: &BTreeSet<String>) -> Self {
        Self {
            planned: trial.clone(),
            ignored: ignored.to_vec(),
            ordered: ordered.clone(),
            calls: Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// Begins another step, whose writes and calls are counted anew.
    pub(super) fn begin_step(&self) {
        let mut state = self.state.lock();
        state.before = (state.written.len(), self.calls().all);
    }

    pub(super) fn calls(&self) -> Calls {
        *self.calls.lock()
    }

    /// Returns the number of calls before the last injected fault.
    pub(super) fn calm(&self) -> u64 {
        self.state.lock().calm
    }

    /// The writes so far.
    pub(super) fn written(&self) -> Vec<RecordedWrite> {
        self.state.lock().written.clone()
    }

    /// The number of writes so far.
    pub(super) fn len(&self) -> usize {
        self.state.lock().written.len()
    }

    /// Returns whether the current step has reached the maximum number of writes.
    pub(super) fn has_endless_writes(&self) -> bool {
        let state = self.state.lock();
        state.written.len() - state.before.0 >= MOST
    }

    /// Returns whether the current step has reached the maximum number of calls.
    pub(super) fn has_endless_calls(&self) -> bool {
        self.calls().all - self.state.lock().before.1 >= MOST_CALLS
    }

    /// Returns whether the processes have shards, which are handed over.
    pub(super) fn has_shards(&self) -> bool {
        matches!(self.planned, Trial::Write { mishap: WriteFault::HandedOver, .. })
    }

    /// Returns whether the planned fault was injected.
    pub(super) fn met(&self) -> bool {
        self.state.lock().met
    }

    /// The last requests to the server, with the slots of declared children.
    pub(super) fn requests(&self, cluster: &Cluster) -> Vec<String> {
        let (requests, state) = (cluster.requests(), self.state.lock());
        let shown = |request: &Answered| {
            let resource = request.resource().split('/').next().unwrap_or_default();
            match state.slots.get(&format!("{resource} {}", request.object())) {
                Some(slot) => request.to_string().replacen(" by ", &format!(" (slot {slot}) by "), 1),
                None => request.to_string(),
            }
        };
        requests[requests.len().saturating_sub(SHOWN)..].iter().map(shown).collect()
    }

    /// Returns the problem with the order in which children were deleted, if any, with the requests that led to it.
    pub(super) fn out_of_order(&self, objects: &[StoredObject]) -> Option<(Problem, Vec<String>)> {
        self.state.lock().early.iter().find_map(|early| {
            // One that still exists was kept.
            let is_gone = |remaining: &&RemainingChild| objects.iter().all(|object| object.uid() != remaining.uid);
            let before = early.remaining.iter().find(is_gone)?.shown.clone();
            Some((Problem::OutOfOrder { what: early.what.clone(), before }, early.requests.clone()))
        })
    }

    /// Notes a deletion of a child that comes before its turn.
    fn check_order(&self, index: usize, sent: &Sent, cluster: &Cluster) {
        let remaining = children::remaining(sent, cluster, &self.ordered);
        if remaining.is_empty() {
            return;
        }
        let mut requests = self.requests(cluster);
        let mut state = self.state.lock();
        let what = state.written.get(index).map(|written| written.what.clone()).unwrap_or_default();
        requests.push(what.clone());
        state.early.push(EarlyDeletion { what, remaining, requests });
    }

    /// Counts a write that is about to be sent.
    fn begin(&self, sent: &Sent, cluster: &Cluster) -> (usize, Option<WriteFault>) {
        let Address { what, kind, slot } = Address::of(sent, cluster);
        let mut state = self.state.lock();
        let count = state.counts.entry(what.clone()).or_default();
        *count += 1;
        let nth = *count;
        let mishap = match &self.planned {
            Trial::Write { of, nth: at, mishap } if *of == what && *at == nth => Some(*mishap),
            Trial::Prefix { writes, mishap } if state.written.len() < *writes => Some(*mishap),
            _ => None,
        };
        if mishap.is_some() {
            (state.met, state.calm) = (true, self.calls().all);
        }
        let resource = sent.qualified();
        if let Some(slot) = slot {
            state.slots.insert(format!("{resource} {}", sent.key), slot);
        }
        state.written.push(RecordedWrite {
            what,
            nth,
            verb: sent.verb,
            resource,
            of_subresource: sent.subresource.is_some(),
            kind,
            ..RecordedWrite::default()
        });
        (state.written.len() - 1, mishap)
    }

    /// Notes the server's answer.
    fn end(&self, index: usize, status: u16, answer: &[u8], cluster: &Cluster) {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &answer["metadata"];
        if let Some(written) = self.state.lock().written.get_mut(index) {
            written.status = Some(status);
            written.is_garbage = status == 201 && is_garbage(&answer, cluster);
            written.is_empty = answer["items"].as_array().is_some_and(Vec::is_empty);
            if status == 201 {
                written.kind = text(&answer["kind"]);
            }
            // A deletion is answered with a Status that names the object.
            written.uid = text(&metadata["uid"]).or_else(|| text(&answer["details"]["uid"]));
            written.version = metadata["resourceVersion"].as_str().and_then(|version| version.parse().ok());
            if !self.ignored.is_empty() {
                written.content = content(answer, &self.ignored).map(|content| content.to_string());
            }
        }
    }
}

/// The writes with the same address are counted together.
struct Address {
    /// Such as `apply secrets default/a`, with the slot of a declared child. Generated names differ between histories,
    /// so they are replaced by their prefix.
    what: String,
    /// The kind of the object, if it exists.
    kind: Option<String>,
    slot: Option<String>,
}

impl Address {
    fn of(sent: &Sent, cluster: &Cluster) -> Self {
        let key = sent.key.to_string();
        let object = cluster.object(&sent.group, &sent.resource, &key);
        let object = object.as_ref().map(StoredObject::json).unwrap_or_default();
        let prefix = object["metadata"]["generateName"].as_str().filter(|prefix| sent.key.name().starts_with(prefix));
        let what = match prefix {
            Some(prefix) => {
                Sent { key: ObjectKey::new(sent.key.namespace(), &format!("{prefix}…")), ..sent.clone() }.to_string()
            }
            None => sent.to_string(),
        };
        let slot = slot(&sent.body).or_else(|| slot(&object));
        Self {
            what: with_slot(what, slot),
            kind: object["kind"].as_str().map(str::to_owned),
            slot: slot.map(str::to_owned),
        }
    }
}

/// Returns whether the object has owners and none of them exists.
fn is_garbage(object: &Value, cluster: &Cluster) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let uids: Vec<_> = owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str()).collect();
    !uids.is_empty() && !cluster.objects().iter().any(|object| uids.contains(&object.uid()))
}

/// The ways in which the life of a process ends.
#[derive(Clone, Default)]
pub(super) struct StopTokens {
    /// A crash cancels it. Then nothing more passes.
    pub(super) dead: CancellationToken,
    /// Cancelled when the process is to be replaced by another one.
    pub(super) replaced: CancellationToken,
}

/// Records the writes of a client.
pub(super) fn layer(cluster: Cluster, ends: StopTokens, recorder: Arc<HistoryRecorder>) -> RequestLayer {
    let kill_layer = kill_layer(ends.dead.clone());
    from_fn(move |request, server| {
        let (cluster, ends, recorder) = (cluster.clone(), ends.clone(), recorder.clone());
        let kill_layer = kill_layer.layer(server.clone());
        async move {
            if request.method() == Method::GET {
                return kill_layer.oneshot(request).await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let sent = Sent::read(&parts, &body);
            let request = Request::from_parts(parts, Body::from(body));
            if is_write(&sent, request.uri().query().unwrap_or_default()) {
                write(server, &ends, (recorder, cluster), &sent, request).await
            } else {
                kill_layer.oneshot(request).await
            }
        }
    })
}

async fn write(
    server: Next,
    StopTokens { dead, replaced }: &StopTokens,
    (recorder, cluster): (Arc<HistoryRecorder>, Cluster),
    sent: &Sent,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, BoxError> {
    if dead.is_cancelled() {
        return Err(KILLED.into());
    }
    let (index, mishap) = recorder.begin(sent, &cluster);
    if recorder.has_endless_writes() || mishap == Some(WriteFault::KilledBefore) {
        dead.cancel();
        return Err(KILLED.into());
    }
    if mishap == Some(WriteFault::Rejected) {
        return rejected();
    }
    recorder.check_order(index, sent, &cluster);
    // In a separate task, so that the write is completed and recorded even if the process is killed
    // before it has the response.
    let served = tokio::spawn(async move {
        let (parts, body) = server.oneshot(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        recorder.end(index, parts.status.as_u16(), &body, &cluster);
        Ok(Response::from_parts(parts, boxed(body.into())))
    });
    match mishap {
        Some(WriteFault::KilledUnanswered) => {
            drop(served.await?);
            dead.cancel();
            Err(KILLED.into())
        }
        Some(WriteFault::Unanswered) => {
            drop(served.await?);
            Err(std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by an injected fault")
                .into())
        }
        Some(WriteFault::KilledAfter) => {
            let served = served.await?;
            // The process still runs until its next `.await`.
            dead.cancel();
            served
        }
        Some(WriteFault::HandedOver) => {
            let served = served.await?;
            replaced.cancel();
            served
        }
        _ => dead.run_until_cancelled(served).await.ok_or(KILLED)??,
    }
}

/// Returns whether a request may change an object. Access and token reviews, dry runs, Leases and
/// Events are excluded.
fn is_write(sent: &Sent, query: &str) -> bool {
    let asks_only = matches!(sent.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io");
    !asks_only && sent.verb != "other" && !is_noise(&sent.group, &sent.resource) && !query.contains("dryRun=")
}

fn rejected() -> Result<Response<ResponseBody>, BoxError> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
        "reason": "InternalError", "message": "Internal error occurred: rejected by an injected fault",
    });
    let response = Response::builder().status(500).header(http::header::CONTENT_TYPE, "application/json");
    Ok(response.body(boxed(status.to_string().into_bytes().into()))?)
}
