//! The `scale` subresource: the replicas of an object, whatever its kind.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::patch::Patch;
use super::update::{self, Part};
use super::{Call, WriteOptions, body, served};
use crate::http::Answer;
use crate::meta;
use crate::status::{Cause, Refusal};

pub(super) fn get(call: &Call<'_>) -> Result<Answer, Refusal> {
    let stored = super::present(call)?;
    let object = served(&call.kind, &stored);
    Ok(Answer::json(StatusCode::OK, &of(call, &object)))
}

pub(super) fn replace(call: &Call<'_>) -> Result<Answer, Refusal> {
    let scale = body::parse(call, "Scale")?;
    let wanted = call.target.name.as_deref().unwrap_or_default();
    let found = meta::text(&scale, "name");
    if found != wanted {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({wanted})"
        )));
    }
    write(call, |_| Ok(scale.clone()))
}

pub(super) fn patch(call: &Call<'_>) -> Result<Answer, Refusal> {
    let patch = Patch::parse(call)?;
    if matches!(patch, Patch::Apply(_)) {
        return Err(Refusal::not_implemented("apply on the scale subresource"));
    }
    write(call, |scale| patch.apply(&call.kind, scale))
}

fn write(call: &Call<'_>, next: impl Fn(&Value) -> Result<Value, Refusal>) -> Result<Answer, Refusal> {
    let options = WriteOptions::parse(call.request, "UpdateOptions")?;
    update::write(
        call,
        &options,
        Part::Main,
        |present| {
            let scale = next(&of(call, present))?;
            let name = call.target.name.as_deref().unwrap_or_default();
            let replicas = match &scale["spec"]["replicas"] {
                Value::Null => 0,
                value => {
                    value.as_i64().ok_or_else(|| Refusal::bad_request("spec.replicas of a Scale is a whole number"))?
                }
            };
            if replicas < 0 {
                let why = "must be greater than or equal to 0";
                let cause = Cause::invalid("spec.replicas", &json!(replicas), why);
                return Err(Refusal::invalid("autoscaling", "Scale", name, &[cause]));
            }
            let mut object = present.clone();
            set(&mut object, &specified(call), json!(replicas));
            let metadata = meta::of(&mut object);
            for key in ["resourceVersion", "uid"] {
                match scale["metadata"].get(key) {
                    Some(value) => drop(metadata.insert(key.into(), value.clone())),
                    None if key == "resourceVersion" && call.kind.custom.is_none() => drop(metadata.remove(key)),
                    None => {}
                }
            }
            Ok(object)
        },
        None,
    )?;
    let object = call.kind.table.get(&call.target.key());
    let object = object.map(|object| served(&call.kind, &object)).unwrap_or_default();
    Ok(Answer::json(StatusCode::OK, &of(call, &object)))
}

/// Where the kind has its wanted replicas.
fn specified(call: &Call<'_>) -> Vec<String> {
    let path = call
        .kind
        .custom
        .as_ref()
        .and_then(|definition| definition.scale.as_ref())
        .map(|scale| scale.specified.as_str());
    path_of(path.unwrap_or(".spec.replicas"))
}

fn path_of(path: &str) -> Vec<String> {
    path.split('.').filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect()
}

fn set(object: &mut Value, path: &[String], value: Value) {
    match path {
        [] => *object = value,
        [first, rest @ ..] => {
            if !object.is_object() {
                *object = json!({});
            }
            set(&mut object[first], rest, value);
        }
    }
}

/// The scale of an object.
fn of(call: &Call<'_>, object: &Value) -> Value {
    let at = |path: &str| path_of(path).iter().try_fold(object, |value, key| value.get(key));
    let definition = call.kind.custom.as_ref().map(Arc::clone);
    let paths = definition.as_ref().and_then(|definition| definition.scale.as_ref());
    let (specified, current) = paths
        .map_or((".spec.replicas", ".status.replicas"), |paths| (paths.specified.as_str(), paths.current.as_str()));
    let selector = match paths {
        Some(paths) => paths.selector.as_deref().and_then(at).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None => {
            let selector = &object["spec"]["selector"];
            // A ReplicationController selects by labels alone.
            let by_labels = call.kind.kind == "ReplicationController";
            crate::print::selector_text(&if by_labels { json!({"matchLabels": selector}) } else { selector.clone() })
        }
    };
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = at(specified).and_then(Value::as_i64).filter(|replicas| *replicas != 0) {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({"replicas": at(current).and_then(Value::as_i64).unwrap_or(0)});
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}
