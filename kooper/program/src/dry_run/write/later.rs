//! Writes of objects that the dry run has written before.

use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use kooper_runtime::Result;
use serde_json::{Value, json};

use super::super::answer::{Answer, formed};
use super::super::entry::{Entry, UNSTORED};
use super::super::request::Target;
use super::prepared::{Change, Write, unstored};
use super::strategic::strategic_merge;
use super::{grace, now};
use kooper_access::internal::three_way_merge::{merge, merge_patch};
use kooper_runtime::internal::client::Next;

/// A write of an object of the cluster that the dry run has changed before.
pub(super) async fn again(next: &Next, write: &Write, entry: &mut Entry) -> Result<Answer> {
    let (Some(base), Some(now)) = (entry.base().cloned(), entry.now().cloned()) else {
        return Ok(Answer::not_found(&write.target));
    };
    match write.change {
        Change::Apply => {
            // Fields that others have applied here are not in the cluster. They are sent, too, or
            // the API server would remove them with the fields that are given up.
            let kept = entry.stated_by_others(write.author().as_ref()).filter(|_| write.gives_up());
            let write = &kept.map_or_else(|| write.clone(), |kept| write.stating(&kept));
            let answer = write.send(next).await?;
            let Some(object) = write.object(&answer) else { return Ok(answer) };
            entry.add_applied(write.author(), base, object, write.stated());
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
            let answer = write.as_merge_patch(merge_patch(&from, &to)).send(next).await?;
            let Some(object) = write.object(&answer) else { return Ok(answer) };
            let result = marked_as(&now, joined(write, &wanted, &object));
            entry.add(None, now, result);
            Ok(shown(answer, write, entry))
        }
        Change::Put => {
            let answer = write.send(next).await?;
            let Some(object) = write.object(&answer) else { return Ok(answer) };
            let result = marked_as(&now, joined(write, &now, &object));
            entry.add(None, now, result);
            Ok(shown(answer, write, entry))
        }
        Change::Delete | Change::Evict => {
            let answer = write.send(next).await?;
            if answer.is_success() {
                let marked =
                    write.object(&answer).is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null());
                let waits = marked || write.change == Change::Evict;
                entry.delete(&super::now(), if waits { grace(&now) } else { 0 });
            }
            Ok(answer)
        }
        // It exists.
        Change::Create | Change::Other => write.send(next).await,
    }
}

/// A write of an object that only the dry run has created, or has deleted.
pub(super) async fn here(next: &Next, write: &Write, entry: &mut Entry, is_namespace_new: bool) -> Result<Answer> {
    let Some(now) = entry.now().cloned() else {
        // It was deleted: only a new one can be written.
        let creates = write.change == Change::Create || (write.change == Change::Apply && !write.target.is_status());
        if !creates {
            return Ok(Answer::not_found(&write.target));
        }
        if write.json["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()) {
            return Ok(write.conflict(&Value::Null).unwrap_or_else(|| Answer::not_found(&write.target)));
        }
        return Ok(match unnamed(next, write, entry).await? {
            Ok(object) => {
                entry.add(write.author(), json!({}), object);
                write.answered(StatusCode::CREATED, entry.now().unwrap_or(&Value::Null))
            }
            Err(refusal) => refusal,
        });
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
        Change::Apply if is_namespace_new => {
            entry.add(write.author(), json!({}), with_identity(&write.json, &write.target));
        }
        Change::Apply if is_in_cluster => match unnamed(next, write, entry).await? {
            Ok(object) => entry.add(write.author(), json!({}), object),
            Err(refusal) => return Ok(refusal),
        },
        Change::Apply => {
            let answer = write.with(unstored(&write.json)).send(next).await?;
            let Some(object) = write.object(&answer) else { return Ok(answer) };
            entry.add(write.author(), json!({}), object);
        }
        Change::Put | Change::Merge | Change::Operations | Change::Strategic => {
            let wanted = match patched(write, &now) {
                Ok(wanted) => wanted,
                Err(refusal) => return Ok(*refusal),
            };
            if !write.target.is_status() && !is_in_cluster && !is_namespace_new {
                // Only a creation shows if the API server would accept the object.
                let answer = write.as_creation(&wanted)?.send(next).await?;
                let is_unknown = answer.status() == StatusCode::FORBIDDEN && !answer.is_denied();
                if !answer.is_success() && !is_unknown {
                    return Ok(answer);
                }
            }
            entry.add(None, now.clone(), wanted);
        }
        Change::Delete | Change::Evict => {
            let seconds = if write.target.plural == "pods" { grace(&now) } else { 0 };
            // A pod without a node ends at once.
            let runs = !now["spec"]["nodeName"].is_null();
            entry.delete(&super::now(), if runs { seconds } else { 0 });
            return Ok(entry.now().map_or_else(Answer::success, |now| write.answered(StatusCode::OK, now)));
        }
        Change::Other => return write.send(next).await,
    }
    // Without its last finalizer, the object no longer exists. The response then has its last
    // state.
    Ok(write.answered(StatusCode::OK, entry.now().unwrap_or(&now)))
}

/// Creates an object although the cluster still has another one of its name. Returns the object, or
/// the refusal of the API server.
async fn unnamed(next: &Next, write: &Write, entry: &Entry) -> Result<Result<Value, Answer>> {
    let name = entry.name().unwrap_or_default();
    let answer = write.as_unnamed_creation(&name)?.send(next).await?;
    let Some(mut object) = write.object(&answer) else { return Ok(Err(answer)) };
    named(&mut object, &write.json, &name);
    Ok(Ok(with_identity(&object, &write.target)))
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
        Change::Strategic => strategic_merge(&mut wanted, &write.json),
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
        with_status(now.clone(), Some(&wanted["status"]))
    } else {
        with_status(wanted, now.get("status"))
    })
}

/// An object after a write of one half of it: the object, or its status.
fn joined(write: &Write, wanted: &Value, answered: &Value) -> Value {
    if write.target.is_status() {
        with_status(wanted.clone(), answered.get("status"))
    } else {
        with_status(answered.clone(), wanted.get("status"))
    }
}

fn with_status(mut object: Value, status: Option<&Value>) -> Value {
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
            // A client cannot set it; that the object was deleted here is known here.
            for field in MARK {
                metadata.remove(field);
            }
        }
    }
    object
}

/// The fields that mark an object for deletion.
const MARK: [&str; 2] = ["deletionTimestamp", "deletionGracePeriodSeconds"];

/// A state of the object, marked for deletion if it is.
fn marked_as(now: &Value, mut object: Value) -> Value {
    for field in MARK {
        if let Some(mark) = now["metadata"].get(field) {
            object["metadata"][field] = mark.clone();
        }
    }
    object
}

/// Gives an object the name that was generated for it only here, or that of the object that it replaces.
fn named(object: &mut Value, stated: &Value, name: &str) {
    object["metadata"]["name"] = name.into();
    match stated["metadata"].get("generateName") {
        Some(prefix) => object["metadata"]["generateName"] = prefix.clone(),
        None => drop(object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("generateName"))),
    }
}

/// An object as if it had been stored.
pub(super) fn with_identity(object: &Value, target: &Target) -> Value {
    let mut object = unstored(object);
    if let Some(namespace) = &target.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    if let Some(name) = &target.name {
        object["metadata"]["name"] = name.as_str().into();
    }
    object["metadata"]["uid"] = format!("dry-run-{}", Timestamp::now().as_nanosecond()).into();
    object["metadata"]["creationTimestamp"] = now().into();
    object["metadata"]["resourceVersion"] = UNSTORED.into();
    object
}
