//! The `scale` subresource: the replicas of an object, whatever its kind.

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::patch::Patch;
use super::update::{self, Owners};
use super::{Call, WriteOptions, body, served, warned};
use crate::cause::Cause;
use crate::fields::{self, ScaleWrite};
use crate::http::Answer;
use crate::schema::ScalePaths;
use crate::status::StatusError;
use crate::{meta, registry};

/// The type of a Scale.
const SCALE: (&str, &str, &str) = ("autoscaling", "v1", "Scale");

/// Placeholder for absent replicas of a custom object while a patch is applied.
const UNSET: i64 = i32::MIN as i64;

pub(super) fn get(call: &Call<'_>) -> Result<Answer, StatusError> {
    let stored = super::present(call)?;
    let object = served(&call.kind, &stored);
    if lacks_replicas(call, &object) {
        let why = format!("the spec replicas field {:?} does not exist", specified(call));
        return Err(StatusError::internal_error(&why));
    }
    Ok(Answer::json(StatusCode::OK, &of(call, &object)))
}

pub(super) async fn replace(call: &Call<'_>) -> Result<Answer, StatusError> {
    let options = WriteOptions::parse(call.request, "UpdateOptions")?;
    let (scale, warnings) = body::posted(call, SCALE, options.validation).map_err(|refusal| {
        let decoded = refusal.message().starts_with("the namespace of");
        if call.kind.custom.is_none() || refusal.code != StatusCode::BAD_REQUEST || decoded {
            return refusal;
        }
        // The real server looks for the type among the custom kinds to say what is wrong.
        StatusError::bad_request(format!("no kind is registered for the type v1.Scale in scheme {:?}", body::SCHEME))
    })?;
    let next = |present: &Value| {
        let write = ScaleWrite::Replaced(&scale);
        fields::scaled(call.cluster, &call.kind, present, &of(call, present), write, &options.manager)
    };
    let answer = match update::check_names(call, &scale) {
        Ok(()) => write(call, &options, next).await,
        Err(refusal) => Err(refusal),
    };
    Ok(warned(answer, &warnings))
}

pub(super) async fn patch(call: &Call<'_>) -> Result<Answer, StatusError> {
    Patch::check_language(call)?;
    let options = WriteOptions::parse(call.request, "PatchOptions")?;
    // An absent object is reported before errors in the patch.
    super::present(call)?;
    let patch = Patch::parse(call, options.validation)?;
    write(call, &options, |present| {
        let mut scale = of(call, present);
        if lacks_replicas(call, present) {
            scale["spec"]["replicas"] = json!(UNSET);
        }
        if let Patch::Apply(config) = &patch {
            let write = ScaleWrite::Applied { config, force: options.force };
            return fields::scaled(call.cluster, &call.kind, present, &scale, write, &options.manager);
        }
        let next = patch.apply(&call.kind, &fields::scale(call.cluster, &call.kind, present, &scale)?)?;
        if let Some(why) = body::misfit(call, &next, SCALE) {
            let cause = Cause::invalid("patch", &next.to_string().into(), why);
            return Err(StatusError::invalid("", "", "", &[cause]));
        }
        update::check_names(call, &next)?;
        fields::scaled(call.cluster, &call.kind, present, &scale, ScaleWrite::Replaced(&next), &options.manager)
    })
    .await
}

/// Writes the replicas of the Scale that `next` makes, and the owners of the object's fields.
async fn write(
    call: &Call<'_>,
    options: &WriteOptions,
    next: impl Fn(&Value) -> Result<(Value, Vec<Value>), StatusError>,
) -> Result<Answer, StatusError> {
    let scaled = Mutex::new(Value::Null);
    let next = |present: &Value| {
        let (scale, owners) = next(present)?;
        let mut object = present.clone();
        set(&mut object, &path_of(specified(call)), json!(replicas(call, &scale)?));
        let metadata = meta::of(&mut object);
        metadata.insert("managedFields".into(), json!(owners));
        for key in ["resourceVersion", "uid"] {
            match scale["metadata"].get(key) {
                Some(value) => drop(metadata.insert(key.into(), value.clone())),
                None if key == "resourceVersion" && call.kind.custom.is_none() => drop(metadata.remove(key)),
                None => {}
            }
        }
        let mut shown = object.clone();
        shown["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
        *scaled.lock() = shown;
        Ok(object)
    };
    update::write(call, options, Owners::Applied, next, None).await?;
    let stored = call.kind.table.get(&call.target.key()).filter(|_| !options.dry_run);
    let object = stored.map_or_else(|| scaled.lock().take(), |object| served(&call.kind, &object));
    Ok(Answer::json(StatusCode::OK, &of(call, &object)))
}

/// The wanted replicas of a Scale.
fn replicas(call: &Call<'_>, scale: &Value) -> Result<i64, StatusError> {
    let replicas = match &scale["spec"]["replicas"] {
        Value::Null => 0,
        value => {
            value.as_i64().ok_or_else(|| StatusError::bad_request("spec.replicas of a Scale is a whole number"))?
        }
    };
    if replicas == UNSET && call.kind.custom.is_some() {
        let why = format!("the spec replicas field {:?} cannot be empty", specified(call));
        return Err(StatusError::bad_request(why));
    }
    // The schema of a custom kind may allow it.
    if replicas < 0 && call.kind.custom.is_none() {
        let why = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", &json!(replicas), why);
        let name = call.target.name.as_deref().unwrap_or_default();
        return Err(StatusError::invalid("autoscaling", "Scale", name, &[cause]));
    }
    Ok(replicas)
}

/// Where the kind has its wanted replicas.
fn specified<'a>(call: &'a Call<'_>) -> &'a str {
    scale_of(call).map_or(".spec.replicas", |scale| &scale.specified)
}

/// Where a custom kind has its replicas and their selector.
fn scale_of<'a>(call: &'a Call<'_>) -> Option<&'a ScalePaths> {
    call.kind.custom.as_ref()?.scale.as_ref()
}

/// Returns whether a custom object has no desired replicas, not even by default.
fn lacks_replicas(call: &Call<'_>, object: &Value) -> bool {
    call.kind.custom.is_some() && at(object, specified(call)).is_none()
}

/// The value at a path, such as `.spec.replicas`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path_of(path).iter().try_fold(object, |value, key| value.get(key))
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
    let current = scale_of(call).map_or(".status.replicas", |scale| &scale.current);
    let count = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let selector = match scale_of(call) {
        Some(scale) => {
            let selector = scale.selector.as_deref().and_then(|path| at(object, path));
            selector.and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        None => {
            let selector = &object["spec"]["selector"];
            // A ReplicationController selects by labels alone.
            let by_labels = registry::of(&call.kind).selects_by_labels();
            registry::selector_text(&if by_labels { json!({"matchLabels": selector}) } else { selector.clone() })
        }
    };
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let mut spec = json!({});
    let wanted = count(specified(call));
    if wanted != 0 {
        spec["replicas"] = json!(wanted);
    }
    let mut status = json!({"replicas": count(current)});
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}
