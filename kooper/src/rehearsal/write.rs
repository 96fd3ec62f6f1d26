//! Writes: sent with `dryRun=All`, and computed from the writes before.
//!
//! The API server knows nothing of earlier writes of the dry run. What it answers is
//! therefore a difference to the object of the cluster, which is added to those of
//! earlier writes. What it cannot know at all, such as a patch of an object that only
//! the dry run has created, is computed here.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode, request};
use http_body_util::BodyExt;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::answer::{Answer, formed};
use super::client::UnsentError;
use super::entry::{Author, Entry, UNSTORED};
use super::graft::{merge, merge_patch};
use super::request::{Form, Target, dry, parameter, verb};
use super::{Rehearsal, lock};

const MERGE_PATCH: &str = "application/merge-patch+json";

/// How often a write is computed again because the object changes in the cluster.
const TRIES: usize = 3;

/// A write that is ready to be sent.
#[derive(Clone)]
struct Write {
    parts: request::Parts,
    body: Bytes,
    json: Value,
    target: Target,
    form: Form,
    change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Create,
    Put,
    Apply,
    Merge,
    /// A list of operations.
    Operations,
    Strategic,
    Delete,
    Evict,
    /// Anything else, such as a scale: the result is not kept.
    Other,
}

impl Write {
    async fn read(request: Request<Body>, target: Target) -> Result<Self, BoxError> {
        let (mut parts, body) = request.into_parts();
        parts.uri = dry(&parts.uri)?;
        parts.headers.remove(CONTENT_LENGTH);
        let form = Form::accept_json(&mut parts.headers);
        if form == Form::Metadata {
            // The whole object is needed; the client gets its metadata.
            parts.headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
        }
        let mut body = body.collect().await?.to_bytes();
        let json: Option<Value> = if body.is_empty() { Some(Value::Null) } else { serde_json::from_slice(&body).ok() };
        if parts.method == Method::DELETE && !body.is_empty() {
            // The API server ignores the parameters of a deletion with a body.
            let Some(Value::Object(mut options)) = json.clone() else {
                let (method, path) = (parts.method, parts.uri.path().to_owned());
                return Err(UnsentError::Body { method, path }.into());
            };
            options.insert("dryRun".to_owned(), json!(["All"]));
            body = Value::Object(options).to_string().into();
        }
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let change = match (&parts.method, target.subresource.as_deref()) {
            _ if json.is_none() => Change::Other,
            (&Method::POST, None) => Change::Create,
            (&Method::POST, Some("eviction")) => Change::Evict,
            (_, subresource) if subresource.is_some_and(|subresource| subresource != "status") => Change::Other,
            (&Method::PUT, _) => Change::Put,
            (&Method::DELETE, None) => Change::Delete,
            (&Method::PATCH, _) => match content_type.split(';').next().unwrap_or_default() {
                "application/apply-patch+yaml" => Change::Apply,
                MERGE_PATCH => Change::Merge,
                "application/json-patch+json" => Change::Operations,
                "application/strategic-merge-patch+json" => Change::Strategic,
                _ => Change::Other,
            },
            _ => Change::Other,
        };
        Ok(Self { parts, body, json: json.unwrap_or_default(), target, form, change })
    }

    async fn send(&self, client: &Client) -> Result<Answer, BoxError> {
        let request = Request::from_parts(self.parts.clone(), Body::from(self.body.clone()));
        Answer::read(client.send(request).await?).await
    }

    /// The same request with another body.
    fn with(&self, json: Value) -> Self {
        Self { body: json.to_string().into(), json, ..self.clone() }
    }

    /// The same request as a merge patch.
    fn as_merge_patch(&self, patch: Value) -> Self {
        let mut write = self.with(patch);
        write.parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(MERGE_PATCH));
        write
    }

    /// A request that creates the object of the target.
    fn as_creation(&self, object: &Value) -> Result<Self, BoxError> {
        let mut write = self.with(unstored(object));
        write.parts.method = Method::POST;
        write.parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let manager = parameter(&self.parts.uri, "fieldManager");
        let manager = manager.map_or(String::new(), |manager| format!("&fieldManager={}", encoded(&manager)));
        write.parts.uri = format!("{}?dryRun=All{manager}", self.target.path_of(None)).parse()?;
        Ok(write)
    }

    fn author(&self) -> Option<Author> {
        let manager = parameter(&self.parts.uri, "fieldManager").unwrap_or_default();
        (self.change == Change::Apply).then_some((manager, self.target.is_status()))
    }

    /// The object in a response with a whole object.
    fn object(&self, answer: &Answer) -> Option<Value> {
        answer.json().filter(|object| object["kind"] != "Status" && object["metadata"]["name"].is_string())
    }

    /// A successful response with an object.
    fn answered(&self, code: StatusCode, object: &Value) -> Answer {
        Answer::own(code, &formed(object, self.form))
    }

    /// Why this object is not the one that the request is for.
    fn conflict(&self, now: &Value) -> Option<Answer> {
        let (wanted, is) = match self.change {
            Change::Delete => (&self.json["preconditions"], &now["metadata"]),
            _ => (&self.json["metadata"], &now["metadata"]),
        };
        let differs =
            |field: &str| wanted[field].as_str().is_some_and(|wanted| !wanted.is_empty() && is[field] != wanted);
        let field = ["uid", "resourceVersion"].into_iter().find(|field| differs(field))?;
        let id = self.target.id(self.target.name.as_deref().unwrap_or_default());
        Some(Answer::conflict(&id, &format!("the {field} of the request is not that of the object")))
    }
}

impl Rehearsal {
    /// Sends a write as a dry run and keeps its result.
    pub(super) async fn write(
        &self,
        client: &Client,
        request: Request<Body>,
        target: Target,
    ) -> Result<Response<Body>, BoxError> {
        let write = Write::read(request, target).await?;
        if write.target.is_event() {
            return self.record_event(client, &write).await.map(Answer::into_response);
        }
        if write.target.is_opaque() || write.change == Change::Other {
            return self.forward(client, &write).await.map(Answer::into_response);
        }
        let stated = write.json["metadata"]["name"].as_str().filter(|name| !name.is_empty());
        let named = write.target.name.as_deref().or(stated).map(str::to_owned);
        let answer = match (write.change, named) {
            (Change::Create, Some(name)) => self.write_one(client, &write, &name).await?,
            (Change::Create, None) => self.create_unnamed(client, &write).await?,
            (Change::Delete, _) if write.target.name.is_none() => self.delete_all(client, &write).await?,
            (_, Some(name)) => self.write_one(client, &write, &name).await?,
            (_, None) => self.forward(client, &write).await?,
        };
        Ok(answer.into_response())
    }

    /// A write whose result is not kept.
    async fn forward(&self, client: &Client, write: &Write) -> Result<Answer, BoxError> {
        let answer = write.send(client).await?;
        // A review stores nothing.
        let is_review = write.target.group.starts_with("auth");
        if answer.is_success() && !is_review {
            lock(&self.other).named.insert(format!("{:<9} {}", verb(&write.parts.method), write.target));
        }
        Ok(answer)
    }

    /// Kubernetes Events are only counted. Those that only exist here can be patched.
    async fn record_event(&self, client: &Client, write: &Write) -> Result<Answer, BoxError> {
        let name = write.target.name.as_deref().or(write.json["metadata"]["name"].as_str()).unwrap_or_default();
        let event = (write.target.namespace.clone(), name.to_owned());
        if write.change != Change::Create && lock(&self.other).events.contains(&event) {
            return Ok(write.answered(StatusCode::OK, &write.json));
        }
        let answer = write.send(client).await?;
        if answer.is_success() {
            lock(&self.other).events.insert(event);
        }
        Ok(answer)
    }

    /// Creates an object whose name the API server generates.
    async fn create_unnamed(&self, client: &Client, write: &Write) -> Result<Answer, BoxError> {
        let answer = write.send(client).await?;
        let Some(object) = write.object(&answer).filter(|_| answer.is_success()) else { return Ok(answer) };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(self.created(write, &name, object))
    }

    fn created(&self, write: &Write, name: &str, object: Value) -> Answer {
        let mut entry = Entry::new(&write.target.version, None);
        entry.add(None, json!({}), object);
        let answer = write.answered(StatusCode::CREATED, entry.now().unwrap_or(&Value::Null));
        self.commit(write.target.id(name), entry);
        answer
    }

    /// Deletes the objects of a collection that the API server names.
    async fn delete_all(&self, client: &Client, write: &Write) -> Result<Answer, BoxError> {
        let answer = write.send(client).await?;
        let listed = answer.json().filter(|_| answer.is_success());
        for item in listed.iter().flat_map(|list| list["items"].as_array().into_iter().flatten()) {
            let mut target = write.target.clone();
            target.namespace = item["metadata"]["namespace"].as_str().map(str::to_owned);
            let id = target.id(item["metadata"]["name"].as_str().unwrap_or_default());
            let turn = self.turn_of(&id);
            let _turn = turn.lock().await;
            let known = self.entry(&id).map(|entry| (*entry).clone());
            let mut entry = known.unwrap_or_else(|| Entry::new(&target.version, Some(item.clone())));
            entry.delete(&now(), grace(item));
            self.commit(id, entry);
        }
        Ok(answer)
    }

    async fn write_one(&self, client: &Client, write: &Write, name: &str) -> Result<Answer, BoxError> {
        let id = write.target.id(name);
        let turn = self.turn_of(&id);
        let _turn = turn.lock().await;
        let known = self.entry(&id).map(|entry| (*entry).clone());
        let mut entry = match known {
            Some(entry) if entry.version() != write.target.version => {
                let problem = "this dry run has written the object in another version of its API";
                return Ok(Answer::conflict(&id, problem));
            }
            Some(entry) => entry,
            // If it exists, the API server rejects the request.
            None if write.change == Change::Create => {
                let answer = write.send(client).await?;
                return Ok(match write.object(&answer).filter(|_| answer.is_success()) {
                    Some(object) => self.created(write, name, object),
                    None => answer,
                });
            }
            None => self.stored(client, write, name).await?,
        };
        let answer = if entry.is_as_stored() {
            self.first(client, write, name, &mut entry).await?
        } else if entry.is_stored() {
            again(client, write, &mut entry).await?
        } else {
            here(client, write, &mut entry).await?
        };
        if answer.is_success() {
            self.commit(id, entry);
        }
        Ok(answer)
    }

    /// The object in the cluster.
    async fn stored(&self, client: &Client, write: &Write, name: &str) -> Result<Entry, BoxError> {
        let version = &write.target.version;
        let path = write.target.path_of(Some(name));
        let get = Request::get(&path).header(http::header::ACCEPT, "application/json").body(Body::empty())?;
        let answer = Answer::read(client.send(get).await?).await?;
        let answer = if answer.status() == StatusCode::FORBIDDEN {
            // A patch without changes returns the object to whoever may patch it.
            let patch = Request::patch(format!("{path}?dryRun=All"))
                .header(http::header::ACCEPT, "application/json")
                .header(CONTENT_TYPE, MERGE_PATCH)
                .body(Body::from(b"{}".to_vec()))?;
            Answer::read(client.send(patch).await?).await?
        } else {
            answer
        };
        Ok(match answer.json().filter(|_| answer.is_success()) {
            Some(object) => Entry::new(version, Some(object)),
            None if answer.status() == StatusCode::NOT_FOUND => Entry::new(version, None),
            None => Entry::new(version, None).blind(),
        })
    }

    /// The first write of an object: the API server knows everything.
    async fn first(&self, client: &Client, write: &Write, name: &str, entry: &mut Entry) -> Result<Answer, BoxError> {
        for _ in 0..TRIES {
            let answer = write.send(client).await?;
            if !answer.is_success() {
                return Ok(answer);
            }
            let object = write.object(&answer);
            if entry.is_blind() && entry.base().is_none() {
                // What it changes is unknown; what it results in is not.
                let base = object.clone().unwrap_or_else(|| json!({"metadata": {"name": name}}));
                entry.rebase(Some(base));
                *entry = entry.clone().blind();
            }
            match (write.change, object) {
                (Change::Delete | Change::Evict, object) => {
                    let known = object.or_else(|| entry.now().cloned()).unwrap_or_default();
                    let waits = write.change == Change::Evict || !known["metadata"]["deletionTimestamp"].is_null();
                    let seconds = if waits { grace(&known) } else { 0 };
                    entry.delete(&now(), seconds);
                    return Ok(answer);
                }
                (_, None) => return Ok(answer),
                (_, Some(object)) => {
                    let base = entry.base().cloned();
                    if base.as_ref().is_some_and(|base| is_other_version(base, &object)) {
                        // It has changed since it was read.
                        *entry = self.stored(client, write, name).await?;
                        continue;
                    }
                    entry.add(write.author(), base.unwrap_or_else(|| json!({})), object.clone());
                    let shown = entry.now().cloned().unwrap_or(object);
                    return Ok(answer.with(&formed(&shown, write.form)));
                }
            }
        }
        let problem = "the object changes in the cluster faster than the dry run can compare it";
        Ok(Answer::conflict(&write.target.id(name), problem))
    }
}

/// A write of an object of the cluster that the dry run has changed before.
async fn again(client: &Client, write: &Write, entry: &mut Entry) -> Result<Answer, BoxError> {
    let (Some(base), Some(now)) = (entry.base().cloned(), entry.now().cloned()) else {
        return Ok(Answer::not_found(&write.target));
    };
    match write.change {
        Change::Apply => {
            let answer = write.send(client).await?;
            let Some(object) = write.object(&answer).filter(|_| answer.is_success()) else { return Ok(answer) };
            entry.add(write.author(), base, object);
            Ok(shown(answer, write, entry))
        }
        Change::Merge | Change::Operations | Change::Strategic => {
            if let Some(conflict) = write.conflict(&now) {
                return Ok(conflict);
            }
            let wanted = match patched(write, &now) {
                Ok(wanted) => wanted,
                Err(refusal) => return Ok(*refusal),
            };
            // All that was written and this, as one patch.
            let (from, to) = if write.target.is_status() {
                (json!({"status": base["status"]}), json!({"status": wanted["status"]}))
            } else {
                (without_status(&base), without_status(&wanted))
            };
            let answer = write.as_merge_patch(merge_patch(&from, &to)).send(client).await?;
            let Some(object) = write.object(&answer).filter(|_| answer.is_success()) else { return Ok(answer) };
            entry.add(None, now, joined(write, &wanted, &object));
            Ok(shown(answer, write, entry))
        }
        Change::Put => {
            let answer = write.send(client).await?;
            let Some(object) = write.object(&answer).filter(|_| answer.is_success()) else { return Ok(answer) };
            let result = joined(write, &now, &object);
            entry.add(None, now, result);
            Ok(shown(answer, write, entry))
        }
        Change::Delete | Change::Evict => {
            let answer = write.send(client).await?;
            if answer.is_success() {
                let marked =
                    write.object(&answer).is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null());
                let waits = marked || write.change == Change::Evict;
                entry.delete(&self::now(), if waits { grace(&now) } else { 0 });
            }
            Ok(answer)
        }
        // It exists.
        Change::Create | Change::Other => write.send(client).await,
    }
}

/// A write of an object that only the dry run has created, or has deleted.
async fn here(client: &Client, write: &Write, entry: &mut Entry) -> Result<Answer, BoxError> {
    let Some(now) = entry.now().cloned() else {
        // It was deleted: only a new one can be written.
        let creates = write.change == Change::Create || (write.change == Change::Apply && !write.target.is_status());
        if !creates {
            return Ok(Answer::not_found(&write.target));
        }
        if write.json["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()) {
            return Ok(write.conflict(&Value::Null).unwrap_or_else(|| Answer::not_found(&write.target)));
        }
        entry.add(write.author(), json!({}), with_identity(&write.json));
        return Ok(write.answered(StatusCode::CREATED, entry.now().unwrap_or(&Value::Null)));
    };
    if let Some(conflict) = write.conflict(&now) {
        return Ok(conflict);
    }
    let is_in_cluster = entry.base().is_some();
    match write.change {
        Change::Create => {
            let id = write.target.id(now["metadata"]["name"].as_str().unwrap_or_default());
            let message = format!("{} \"{}\" already exists", id.resource(), id.name);
            return Ok(Answer::refusal(StatusCode::CONFLICT, "AlreadyExists", &id, &message));
        }
        Change::Apply if write.target.is_status() => {
            let status = json!({"status": write.json["status"]});
            entry.add(write.author(), json!({}), status);
        }
        Change::Apply if is_in_cluster => entry.add(write.author(), json!({}), write.json.clone()),
        Change::Apply => {
            let answer = write.with(unstored(&write.json)).send(client).await?;
            let Some(object) = write.object(&answer).filter(|_| answer.is_success()) else { return Ok(answer) };
            entry.add(write.author(), json!({}), object);
        }
        Change::Put | Change::Merge | Change::Operations | Change::Strategic => {
            let wanted = match patched(write, &now) {
                Ok(wanted) => wanted,
                Err(refusal) => return Ok(*refusal),
            };
            if !write.target.is_status() && !is_in_cluster {
                // Whether the API server would accept it, only a creation can show.
                let answer = write.as_creation(&wanted)?.send(client).await?;
                if !answer.is_success() && answer.status() != StatusCode::FORBIDDEN {
                    return Ok(answer);
                }
            }
            entry.add(None, now.clone(), wanted);
        }
        Change::Delete | Change::Evict => {
            let seconds = if write.target.plural == "pods" { grace(&now) } else { 0 };
            // A pod without a node ends at once.
            let runs = !now["spec"]["nodeName"].is_null();
            entry.delete(&self::now(), if runs { seconds } else { 0 });
            return Ok(entry.now().map_or_else(Answer::success, |now| write.answered(StatusCode::OK, now)));
        }
        Change::Other => return write.send(client).await,
    }
    // Without its last finalizer it is gone; the answer is what it was.
    Ok(write.answered(StatusCode::OK, entry.now().unwrap_or(&now)))
}

/// The response with the object as it is now; after its removal, as it was before.
fn shown(answer: Answer, write: &Write, entry: &Entry) -> Answer {
    match entry.now() {
        Some(now) => answer.with(&formed(now, write.form)),
        None => answer,
    }
}

/// The object after a patch or an update.
fn patched(write: &Write, now: &Value) -> Result<Value, Box<Answer>> {
    let id = write.target.id(write.target.name.as_deref().unwrap_or_default());
    let invalid =
        |message: String| Box::new(Answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", &id, &message));
    let mut wanted = now.clone();
    match write.change {
        Change::Operations => {
            let operations: json_patch::Patch = serde_json::from_value(write.json.clone()).map_err(|error| {
                Box::new(Answer::refusal(StatusCode::BAD_REQUEST, "BadRequest", &id, &error.to_string()))
            })?;
            json_patch::patch(&mut wanted, &operations).map_err(|error| invalid(error.to_string()))?;
        }
        Change::Strategic => merge(&mut wanted, &write.json, true),
        Change::Put => {
            let metadata = wanted["metadata"].clone();
            wanted.clone_from(&write.json);
            for field in ["uid", "creationTimestamp", "resourceVersion", "deletionTimestamp"] {
                if let Some(value) = metadata.get(field) {
                    wanted["metadata"][field] = value.clone();
                }
            }
        }
        _ => merge(&mut wanted, &write.json, false),
    }
    // The object and its status are written separately.
    Ok(if write.target.is_status() {
        let mut object = now.clone();
        object["status"] = wanted["status"].clone();
        object
    } else {
        let mut object = wanted;
        match now.get("status") {
            Some(status) => object["status"] = status.clone(),
            None => drop(object.as_object_mut().and_then(|object| object.remove("status"))),
        }
        object
    })
}

/// An object after a write of one half of it: the object, or its status.
fn joined(write: &Write, wanted: &Value, answered: &Value) -> Value {
    let (mut object, status) = if write.target.is_status() {
        (wanted.clone(), answered.get("status"))
    } else {
        (answered.clone(), wanted.get("status"))
    };
    match status {
        Some(status) => object["status"] = status.clone(),
        None => drop(object.as_object_mut().and_then(|object| object.remove("status"))),
    }
    object
}

fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    object
}

/// An object without what only the dry run knows of it.
fn unstored(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp", "generation"]
        {
            metadata.remove(field);
        }
        metadata.remove("deletionGracePeriodSeconds");
    }
    object
}

/// An object as if it had been stored.
fn with_identity(object: &Value) -> Value {
    let mut object = unstored(object);
    object["metadata"]["uid"] = format!("dry-run-{}", Timestamp::now().as_nanosecond()).into();
    object["metadata"]["creationTimestamp"] = now().into();
    object["metadata"]["resourceVersion"] = UNSTORED.into();
    object
}

/// Whether a response is about a later version than the one that was read.
fn is_other_version(base: &Value, object: &Value) -> bool {
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let (base, object) = (version(base), version(object));
    !object.is_empty() && object != UNSTORED && base != object
}

/// The seconds that a marked object has to end.
fn grace(object: &Value) -> u64 {
    let metadata = &object["metadata"];
    let marked = metadata["deletionGracePeriodSeconds"].as_u64();
    marked.or(object["spec"]["terminationGracePeriodSeconds"].as_u64()).unwrap_or(0)
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A text in a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
