//! Writes: sent with `dryRun=All`, and computed from the writes before.
//!
//! The API server does not know the earlier writes of the dry run. Each response is therefore
//! compared with the object of the cluster, and the difference is added to those of earlier writes.
//! Writes that the API server cannot process, such as a patch of an object that only the dry run
//! has created, are computed here.

mod later;
mod prepared;
mod strategic;

use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use k8s_openapi::jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt};

use super::DryRun;
use super::answer::{Answer, formed};
use super::entry::{Entry, UNSTORED};
use super::request::{Id, Target, parameter, selects, verb};
use kooper_runtime::internal::client::{Next, ResponseBody};
use later::{again, here, with_identity};
use prepared::{Change, Write};

const MERGE_PATCH: &str = "application/merge-patch+json";

/// Maximum number of attempts at a write while the object changes in the cluster.
const TRIES: usize = 3;

impl DryRun {
    /// Sends a write as a dry run and keeps its result.
    pub(super) async fn write(
        &self,
        next: &Next,
        request: Request<Body>,
        target: Target,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let write = Write::read(request, target).await?;
        if write.target.is_event() {
            return self.record_event(next, &write).await.map(Answer::into_response);
        }
        if write.target.is_opaque() || write.change == Change::Other {
            return self.forward(next, &write).await.map(Answer::into_response);
        }
        let stated = write.json["metadata"]["name"].as_str().filter(|name| !name.is_empty());
        let named = write.target.name.as_deref().or(stated).map(str::to_owned);
        let answer = match (write.change, named) {
            (Change::Create, Some(name)) => self.write_one(next, &write, &name).await?,
            (Change::Create, None) => self.create_unnamed(next, &write).await?,
            (Change::Delete, _) if write.target.name.is_none() => self.delete_all(next, &write).await?,
            (_, Some(name)) => self.write_one(next, &write, &name).await?,
            (_, None) => self.forward(next, &write).await?,
        };
        Ok(answer.into_response())
    }

    /// A write whose result is not kept.
    async fn forward(&self, next: &Next, write: &Write) -> Result<Answer, BoxError> {
        let answer = write.send(next).await?;
        if answer.is_success() && !write.target.is_review() {
            self.other.lock().named.insert(format!("{:<9} {}", verb(&write.parts.method), write.target));
        }
        Ok(answer)
    }

    /// Kubernetes Events are only counted. Those that only exist here can be patched.
    async fn record_event(&self, next: &Next, write: &Write) -> Result<Answer, BoxError> {
        let name = write.target.name.as_deref().or(write.json["metadata"]["name"].as_str()).unwrap_or_default();
        let event = (write.target.namespace.clone(), name.to_owned());
        if write.change != Change::Create && self.other.lock().events.contains(&event) {
            return Ok(write.answered(StatusCode::OK, &write.json));
        }
        let answer = write.send(next).await?;
        if answer.is_success() {
            self.other.lock().events.insert(event);
        }
        Ok(answer)
    }

    /// Creates an object whose name the API server generates.
    async fn create_unnamed(&self, next: &Next, write: &Write) -> Result<Answer, BoxError> {
        if self.is_namespace_new(&write.target) {
            let prefix = write.json["metadata"]["generateName"].as_str().unwrap_or_default();
            let mut names = (0_u32..).map(|number| format!("{prefix}{number:05}"));
            let name = names.find(|name| self.entry(&write.target.id(name)).is_none()).unwrap_or_default();
            return Ok(self.created_in_new_namespace(write, &name));
        }
        let answer = write.send(next).await?;
        let Some(object) = write.object(&answer) else { return Ok(answer) };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(self.created(write, &name, object))
    }

    /// Returns `true` if the namespace of an object exists only in the dry run.
    fn is_namespace_new(&self, target: &Target) -> bool {
        let Some(name) = target.namespace.clone() else { return false };
        let id = Id { group: String::new(), plural: "namespaces".to_owned(), namespace: None, name };
        self.entry(&id).is_some_and(|entry| entry.now().is_some() && !entry.is_stored())
    }

    /// The API server does not say what would become of the object: it is as the client states it.
    fn created_in_new_namespace(&self, write: &Write, name: &str) -> Answer {
        let target = Target { name: Some(name.to_owned()), ..write.target.clone() };
        self.created(write, name, with_identity(&write.json, &target))
    }

    fn created(&self, write: &Write, name: &str, object: Value) -> Answer {
        let mut entry = Entry::new(&write.target.version, None);
        entry.add(None, json!({}), object);
        let answer = write.answered(StatusCode::CREATED, entry.now().unwrap_or(&Value::Null));
        self.commit(write.target.id(name), entry);
        answer
    }

    /// Deletes the objects of a collection that the API server names.
    async fn delete_all(&self, next: &Next, write: &Write) -> Result<Answer, BoxError> {
        let answer = write.send(next).await?;
        let listed = answer.json().filter(|_| answer.is_success());
        if listed.is_some() {
            self.delete_all_here(write).await;
        }
        for item in listed.iter().flat_map(|list| list["items"].as_array().into_iter().flatten()) {
            let mut target = write.target.clone();
            target.namespace = item["metadata"]["namespace"].as_str().map(str::to_owned);
            let id = target.id(item["metadata"]["name"].as_str().unwrap_or_default());
            let turn = self.turn_of(&id);
            let _turn = turn.lock().await;
            // Objects that the dry run has changed are already deleted, or no longer selected.
            if self.entry(&id).is_some() {
                continue;
            }
            let mut entry = Entry::new(&target.version, Some(item.clone()));
            entry.delete(&now(), grace(item));
            self.commit(id, entry);
        }
        Ok(answer)
    }

    /// Deletes the objects of a collection that the dry run has written.
    async fn delete_all_here(&self, write: &Write) {
        let parameter = |name| parameter(&write.parts.uri, name);
        let (labels, fields) = (parameter("labelSelector"), parameter("fieldSelector"));
        for id in self.written(&write.target) {
            let turn = self.turn_of(&id);
            let _turn = turn.lock().await;
            let Some(mut entry) = self.entry(&id).map(|entry| (*entry).clone()) else { continue };
            let Some(known) = entry.now().filter(|now| selects(labels.as_deref(), fields.as_deref(), now)) else {
                continue;
            };
            let seconds = if known["spec"]["nodeName"].is_null() { 0 } else { grace(known) };
            entry.delete(&now(), seconds);
            self.commit(id, entry);
        }
    }

    async fn write_one(&self, next: &Next, write: &Write, name: &str) -> Result<Answer, BoxError> {
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
                if self.is_namespace_new(&write.target) {
                    return Ok(self.created_in_new_namespace(write, name));
                }
                let answer = write.send(next).await?;
                return Ok(match write.object(&answer) {
                    Some(object) => self.created(write, name, object),
                    None => answer,
                });
            }
            None => match self.stored(next, write, name).await? {
                Ok(entry) => entry,
                Err(answer) => return Ok(answer),
            },
        };
        let answer = if entry.is_as_stored() {
            self.first(next, write, name, &mut entry).await?
        } else if entry.is_stored() {
            again(next, write, &mut entry).await?
        } else {
            here(next, write, &mut entry, self.is_namespace_new(&write.target)).await?
        };
        if answer.is_success() {
            self.commit(id, entry);
        }
        Ok(answer)
    }

    /// The object in the cluster, or why that is not known.
    async fn stored(&self, next: &Next, write: &Write, name: &str) -> Result<Result<Entry, Answer>, BoxError> {
        let version = &write.target.version;
        let path = write.target.path_of(Some(name));
        let get = Request::get(&path).header(http::header::ACCEPT, "application/json").body(Body::empty())?;
        let answer = Answer::read(next.clone().oneshot(get).await?).await?;
        let answer = if answer.status() == StatusCode::FORBIDDEN {
            // A patch without changes returns the object, where it may be patched but not read.
            let patch = Request::patch(format!("{path}?dryRun=All"))
                .header(http::header::ACCEPT, "application/json")
                .header(CONTENT_TYPE, MERGE_PATCH)
                .body(Body::from(b"{}".to_vec()))?;
            Answer::read(next.clone().oneshot(patch).await?).await?
        } else {
            answer
        };
        Ok(match (answer.json().filter(|_| answer.is_success()), answer.status()) {
            (Some(object), _) => Ok(Entry::new(version, Some(object))),
            // A patch is only rejected by a webhook if the object exists.
            (None, StatusCode::NOT_FOUND) if !answer.is_denied() => Ok(Entry::new(version, None)),
            (None, code) if code == StatusCode::FORBIDDEN || answer.is_denied() => {
                Ok(Entry::new(version, None).blind())
            }
            // Such as too many requests: the client tries again.
            (None, _) => Err(answer),
        })
    }

    /// The first write of an object: the API server knows everything.
    async fn first(&self, next: &Next, write: &Write, name: &str, entry: &mut Entry) -> Result<Answer, BoxError> {
        for _ in 0..TRIES {
            if write.change == Change::Apply && self.is_namespace_new(&write.target) {
                entry.add(write.author(), json!({}), with_identity(&write.json, &write.target));
                return Ok(write.answered(StatusCode::CREATED, entry.now().unwrap_or(&Value::Null)));
            }
            let answer = write.send(next).await?;
            if !answer.is_success() {
                return Ok(answer);
            }
            let object = write.object(&answer);
            if entry.is_blind() && entry.base().is_none() {
                // The change is unknown, but its result is not.
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
                        match self.stored(next, write, name).await? {
                            Ok(again) => *entry = again,
                            Err(answer) => return Ok(answer),
                        }
                        continue;
                    }
                    let base = base.unwrap_or_else(|| json!({}));
                    match write.change {
                        Change::Apply => entry.add_applied(write.author(), base, object.clone(), write.stated()),
                        _ => entry.add(None, base, object.clone()),
                    }
                    let shown = entry.now().cloned().unwrap_or(object);
                    return Ok(answer.with(&formed(&shown, write.form)));
                }
            }
        }
        let problem = "the object changes in the cluster faster than the dry run can compare it";
        Ok(Answer::conflict(&write.target.id(name), problem))
    }
}

/// Returns `true` if a response is about a later version than the one that was read.
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
