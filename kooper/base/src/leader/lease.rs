//! The Lease object in the API server: reads, compare-and-swap writes, and a
//! watch. The fields of other clients are preserved.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt;
use futures_util::stream::{BoxStream, StreamExt};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::coordination::v1::Lease as Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kooper_grammar::access::Rule;
use kube::client::Body;
use kube::core::WatchEvent;
use kube::core::params::{GetParams, PostParams, WatchParams};
use kube::core::response::Status;
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::lease_state::{LeaseWrite, Record};
use super::scope::WatchedNamespaces;
use crate::error::refusal::{self, ApiStatus, Needs};

/// The annotation with the program and controller of a Lease.
pub const MARK: &str = "kooper.rs/controller";

/// The annotation with the namespaces that the holder watches.
pub const SCOPE: &str = "kooper.rs/namespaces";

/// The server ends a watch after this time, and it is re-established.
const WATCH_SECONDS: u32 = 290;

/// Why the Lease could not be read, written or watched.
#[expect(missing_docs, reason = "only its messages are used")]
#[derive(Debug, Clone, thiserror::Error)]
pub enum LeaseError {
    #[error("cannot {verb} the Lease {namespace}/{name}: {message}{advice}")]
    Forbidden { verb: &'static str, namespace: Arc<str>, name: Arc<str>, message: String, advice: String },
    #[error("the Lease {namespace}/{name} cannot be created: does the namespace `{namespace}` exist? ({message})")]
    NoPlace { namespace: Arc<str>, name: Arc<str>, message: String },
    #[error("another client changed the Lease; it is read again")]
    Conflict,
    #[error("the API server rejected the request to {verb} the Lease {namespace}/{name} with {code}: {message}")]
    Refused { verb: &'static str, namespace: Arc<str>, name: Arc<str>, code: u16, message: String },
    #[error("the API server failed to {verb} the Lease {namespace}/{name}: {message}; it is retried")]
    Server { verb: &'static str, namespace: Arc<str>, name: Arc<str>, message: String },
    #[error("the API server did not respond within {0:?}; it is retried")]
    Silent(Duration),
    #[error("the Lease {namespace}/{name} is invalid: {problem}; delete it if no other program uses it")]
    Malformed { namespace: Arc<str>, name: Arc<str>, problem: String },
}

impl LeaseError {
    /// Returns `true` if a retry may succeed without a change of the configuration.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Conflict | Self::Server { .. } | Self::Silent(_))
    }
}

/// One Lease.
#[expect(missing_debug_implementations, reason = "it has a client")]
pub struct Lease {
    client: Client,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    /// The mark in our records.
    mark: Arc<str>,
    scope: WatchedNamespaces,
    /// `true` for the Lease of a previous name, which is only read.
    previous: bool,
    /// The object that was last read or watched; the next write is based on it.
    last: Option<Value>,
    /// The uid of the last object, also when it is deleted.
    uid: Option<String>,
}

impl Lease {
    pub(super) fn new(client: Client, namespace: &str, name: &str, mark: Arc<str>, scope: WatchedNamespaces) -> Self {
        let (namespace, name) = (namespace.into(), name.into());
        Self { client, namespace, name, mark, scope, previous: false, last: None, uid: None }
    }

    /// A Lease of a controller that watches these namespaces; none for all.
    #[must_use]
    pub fn of(client: Client, namespace: &str, name: &str, mark: Arc<str>, namespaces: &[String]) -> Self {
        Self::new(client, namespace, name, mark, WatchedNamespaces::of(namespaces))
    }

    /// An annotation of the object that was last read or written.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.last.as_ref()?["metadata"]["annotations"][name].as_str()
    }

    /// The Lease of a previous name.
    pub(super) fn previous(self) -> Self {
        Self { previous: true, ..self }
    }

    /// Reads the record; `None` if the Lease does not exist.
    ///
    /// # Errors
    /// If the request failed, or the Lease is invalid.
    pub async fn read(&mut self) -> Result<Option<Record>, LeaseError> {
        let request = self.path().get(&self.name, &GetParams::default());
        let (code, body) = self.send("get", request).await?;
        match code {
            StatusCode::NOT_FOUND if refusal::is_missing(&serde_json::from_slice(&body).unwrap_or_default()) => {
                self.keep(None)
            }
            code if code.is_success() => self.keep(Some(self.object(&body)?)),
            code => Err(self.error("get", code, &body)),
        }
    }

    /// Replaces the base version of the write, or creates the Lease.
    pub(super) async fn write(&mut self, write: &LeaseWrite) -> Result<Record, LeaseError> {
        self.write_with(write, &[]).await
    }

    /// The same, with annotations. Those without a value are removed.
    ///
    /// # Errors
    /// If the request failed, or another version is stored.
    pub async fn write_with(
        &mut self,
        write: &LeaseWrite,
        annotations: &[(&str, Option<String>)],
    ) -> Result<Record, LeaseError> {
        let mut object = self.made(write)?;
        for (name, value) in annotations {
            match (value, &mut object["metadata"]["annotations"]) {
                (Some(value), all) => all[*name] = json!(value),
                (None, Value::Object(all)) => drop(all.remove(*name)),
                (None, _) => {}
            }
        }
        let body = serde_json::to_vec(&object).map_err(|problem| self.malformed(&problem))?;
        let params = PostParams { field_manager: Some(self.mark.to_string()), ..PostParams::default() };
        let creates = write.base.is_none();
        let verb = if creates { "create" } else { "update" };
        let (mut code, mut answer) =
            self.send("update", self.path().replace(&self.name, &params, body.clone())).await?;
        if creates && code == StatusCode::NOT_FOUND && !is_denied(&answer) {
            // The server does not create objects by PUT.
            (code, answer) = self.send("create", self.path().create(&params, body)).await?;
        }
        match code {
            code if code.is_success() => {
                let stored = self.keep(Some(self.object(&answer)?))?;
                stored.ok_or_else(|| self.malformed(&"the response has no record"))
            }
            code if is_denied(&answer) => Err(self.error(verb, code, &answer)),
            // Deleted, or created already: responses to a version that is not the stored one.
            StatusCode::CONFLICT => Err(LeaseError::Conflict),
            StatusCode::NOT_FOUND if !creates => Err(LeaseError::Conflict),
            StatusCode::UNPROCESSABLE_ENTITY if creates && is_about_version(&answer) => Err(LeaseError::Conflict),
            code => Err(self.error(verb, code, &answer)),
        }
    }

    /// The object and its later versions; `None` when it is deleted.
    #[must_use]
    pub fn watch(&self) -> BoxStream<'static, Result<Option<Value>, LeaseError>> {
        let params = WatchParams {
            field_selector: Some(format!("metadata.name={}", self.name)),
            timeout: Some(WATCH_SECONDS),
            bookmarks: false,
            ..WatchParams::default()
        };
        let request = self.path().watch(&params, "");
        let client = self.client.clone();
        let (namespace, name) = (Arc::clone(&self.namespace), Arc::clone(&self.name));
        let failed = move |error: kube::Error| {
            let (verb, namespace, name) = ("watch", Arc::clone(&namespace), Arc::clone(&name));
            match error {
                kube::Error::Api(status) if status.code == 403 => forbidden(verb, namespace, name, false, &status),
                error => LeaseError::Server { verb, namespace, name, message: crate::error::chain(&error) },
            }
        };
        let open = async move {
            let request = request.map_err(kube::Error::BuildRequest)?;
            Ok::<_, kube::Error>(client.request_events::<Value>(request).await?.boxed())
        };
        let events = open.try_flatten_stream().filter_map(move |event| {
            let event = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Some(Ok(Some(object))),
                Ok(WatchEvent::Deleted(_)) => Some(Ok(None)),
                Ok(WatchEvent::Bookmark(_)) => None,
                Ok(WatchEvent::Error(status)) => Some(Err(failed(kube::Error::Api(status)))),
                Err(error) => Some(Err(failed(error))),
            };
            std::future::ready(event)
        });
        events.boxed()
    }

    /// Keeps an object for the next write.
    ///
    /// # Errors
    /// If the Lease is invalid.
    pub fn keep(&mut self, object: Option<Value>) -> Result<Option<Record>, LeaseError> {
        let record = object.as_ref().map(|object| self.record(object)).transpose()?;
        if let Some(uid) = object.as_ref().and_then(|object| object["metadata"]["uid"].as_str()) {
            self.uid = Some(uid.to_owned());
        }
        self.last = object;
        Ok(record)
    }

    /// The uid of the object, as far as it is known.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    pub(super) fn record(&self, object: &Value) -> Result<Record, LeaseError> {
        let (meta, spec) = (&object["metadata"], &object["spec"]);
        let version = meta["resourceVersion"].as_str().ok_or_else(|| self.malformed(&"it has no resourceVersion"))?;
        let time = |field: &str| spec[field].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        let seconds = spec["leaseDurationSeconds"].as_u64();
        Ok(Record {
            version: version.into(),
            holder: spec["holderIdentity"].as_str().unwrap_or_default().into(),
            lease: seconds.map(Duration::from_secs),
            acquired: time("acquireTime").map(Timestamp::as_microsecond),
            renewed: time("renewTime").map(Timestamp::as_microsecond),
            transitions: spec["leaseTransitions"].as_i64().and_then(|count| count.try_into().ok()).unwrap_or_default(),
            mark: meta["annotations"][MARK].as_str().map(Arc::from),
            scope: meta["annotations"][SCOPE].as_str().map(WatchedNamespaces::stated),
        })
    }

    /// The last known object with the written record in it.
    fn made(&self, write: &LeaseWrite) -> Result<Value, LeaseError> {
        let mut object = match (&write.base, &self.last) {
            (None, _) => json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": { "name": &*self.name, "namespace": &*self.namespace },
            }),
            (Some(base), Some(last)) if last["metadata"]["resourceVersion"] == **base => last.clone(),
            _ => return Err(LeaseError::Conflict),
        };
        let meta = &mut object["metadata"];
        if !meta["annotations"].is_object() {
            meta["annotations"] = json!({});
        }
        meta["annotations"][MARK] = json!(&*self.mark);
        meta["annotations"][SCOPE] = json!(self.scope.as_str());
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        let spec = &mut object["spec"];
        spec["holderIdentity"] = json!(&*write.holder);
        spec["leaseDurationSeconds"] = json!(write.seconds);
        spec["leaseTransitions"] = json!(write.transitions);
        spec["acquireTime"] = self.time(write.acquired)?;
        spec["renewTime"] = self.time(write.renewed)?;
        Ok(object)
    }

    fn time(&self, micros: i64) -> Result<Value, LeaseError> {
        let time = Timestamp::from_microsecond(micros).map_err(|problem| self.malformed(&problem))?;
        serde_json::to_value(MicroTime(time)).map_err(|problem| self.malformed(&problem))
    }

    fn path(&self) -> kube::core::Request {
        kube::core::Request::new(Kind::url_path(&(), Some(&self.namespace)))
    }

    fn object(&self, body: &[u8]) -> Result<Value, LeaseError> {
        serde_json::from_slice(body).map_err(|problem| self.malformed(&problem))
    }

    async fn send(
        &self,
        verb: &'static str,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<(StatusCode, Vec<u8>), LeaseError> {
        let failed = |error: &(dyn std::error::Error + 'static)| LeaseError::Server {
            verb,
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            message: crate::error::chain(error),
        };
        let request = request.map_err(|problem| self.malformed(&problem))?;
        let answer = self.client.send(request.map(Body::from)).await.map_err(|error| failed(&error))?;
        let code = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| failed(&error))?;
        Ok((code, body.to_bytes().into()))
    }

    /// The error for a response that is not a success.
    fn error(&self, verb: &'static str, code: StatusCode, body: &[u8]) -> LeaseError {
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        let (namespace, name) = (Arc::clone(&self.namespace), Arc::clone(&self.name));
        if code == StatusCode::FORBIDDEN {
            return forbidden(verb, namespace, name, self.previous, &Status { code: code.as_u16(), ..status });
        }
        let message = if status.message.is_empty() { format!("HTTP {code}") } else { status.message };
        match code {
            // It does not name the Lease, which therefore may exist.
            StatusCode::NOT_FOUND if verb == "get" => LeaseError::Server { verb, namespace, name, message },
            StatusCode::NOT_FOUND if !is_denied(body) => LeaseError::NoPlace { namespace, name, message },
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                LeaseError::Server { verb, namespace, name, message }
            }
            code if code.is_client_error() => {
                LeaseError::Refused { verb, namespace, name, code: code.as_u16(), message }
            }
            _ => LeaseError::Server { verb, namespace, name, message },
        }
    }

    fn malformed(&self, problem: &dyn std::fmt::Display) -> LeaseError {
        let (namespace, name) = (Arc::clone(&self.namespace), Arc::clone(&self.name));
        LeaseError::Malformed { namespace, name, problem: problem.to_string() }
    }
}

fn forbidden(verb: &'static str, namespace: Arc<str>, name: Arc<str>, previous: bool, status: &Status) -> LeaseError {
    let verbs: &[_] = if previous { &["get"] } else { &["create", "get", "update", "watch"] };
    let rule = Rule::new("coordination.k8s.io", "leases", None, verbs);
    let refusal = ApiStatus::of(status);
    let advice = refusal.advice(&Needs { rule: &rule, only: Some(&name), namespace: Some(&namespace) });
    LeaseError::Forbidden { verb, namespace, name, message: refusal.to_string(), advice }
}

/// Returns `true` if an admission webhook or policy has rejected a request, which it does with any code.
fn is_denied(body: &[u8]) -> bool {
    refusal::is_denied(&serde_json::from_slice(body).unwrap_or_default())
}

/// Returns `true` if a request is invalid because of its resource version: a PUT without one,
/// for an object that exists.
fn is_about_version(body: &[u8]) -> bool {
    let status: Status = serde_json::from_slice(body).unwrap_or_default();
    let in_causes =
        status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.field.contains("resourceVersion"));
    in_causes || status.message.contains("resourceVersion")
}
