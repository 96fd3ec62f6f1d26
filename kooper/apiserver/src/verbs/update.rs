//! PUT, and what PATCH makes of an object: the next state of one that is there.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, WriteOptions, answer_object, answer_value, body, create, draft, served};
use crate::auth::rbac;
use crate::http::Answer;
use crate::status::{Cause, Refusal};
use crate::store::Object;
use crate::{fields, meta, prepare};

/// Which part of the object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
    /// The object, by an apply.
    Applied,
    /// The status, by an apply.
    AppliedStatus,
}

impl Part {
    fn is_status(self) -> bool {
        matches!(self, Self::Status | Self::AppliedStatus)
    }
}

pub(super) fn replace(call: &Call<'_>) -> Result<Answer, Refusal> {
    let options = WriteOptions::parse(call.request, "UpdateOptions")?;
    let (object, warnings) = body::decode(call, options.validation)?;
    check_names(call, &object)?;
    let answer = write(call, &options, Part::Main, |_| Ok(object.clone()), Some(&object));
    answer.map(|answer| answer.with_warnings(&warnings))
}

pub(super) fn replace_status(call: &Call<'_>) -> Result<Answer, Refusal> {
    let options = WriteOptions::parse(call.request, "UpdateOptions")?;
    let (object, warnings) = body::decode(call, options.validation)?;
    check_names(call, &object)?;
    write(call, &options, Part::Status, |_| Ok(object.clone()), None).map(|answer| answer.with_warnings(&warnings))
}

/// `namespaces/finalize`: the one writer of a namespace's `spec.finalizers`.
pub(super) fn finalize(call: &Call<'_>) -> Result<Answer, Refusal> {
    let options = WriteOptions::parse(call.request, "UpdateOptions")?;
    let (object, _) = body::decode(call, options.validation)?;
    check_names(call, &object)?;
    loop {
        let stored = super::present(call)?;
        let mut next = stored.value();
        check_version(call, &object, &stored)?;
        next["spec"]["finalizers"] = object["spec"]["finalizers"].clone();
        let written = call.kind.table.put(&call.target.key(), Some(stored.version), draft(&call.kind, &next));
        let Ok(written) = written else { continue };
        call.cluster.work.after_write(&call.kind, &next);
        return Ok(answer_object(call, StatusCode::OK, &written));
    }
}

/// The name of the body is that of the path.
pub(super) fn check_names(call: &Call<'_>, object: &Value) -> Result<(), Refusal> {
    let wanted = call.target.name.as_deref().unwrap_or_default();
    let found = meta::text(object, "name");
    if found.is_empty() {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if found != wanted {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({wanted})"
        )));
    }
    create::check_namespace(call, object)
}

/// Writes the next state of an object, made by `next` from the present one, and retries while others write.
///
/// `absent` is what to create where the kind allows that.
pub(super) fn write(
    call: &Call<'_>,
    options: &WriteOptions,
    part: Part,
    next: impl Fn(&Value) -> Result<Value, Refusal>,
    absent: Option<&Value>,
) -> Result<Answer, Refusal> {
    // An apply has found the owners itself.
    let track = part != Part::Applied && part != Part::AppliedStatus;
    let kind = &call.kind;
    let name = call.target.name.as_deref().unwrap_or_default();
    let key = call.target.key();
    loop {
        let Some(stored) = kind.table.get(&key) else {
            let Some(object) = absent.filter(|_| kind.strategy.upsert || !track) else {
                return Err(Refusal::not_found(kind, name));
            };
            if !meta::text(object, "resourceVersion").is_empty() || !meta::text(object, "uid").is_empty() {
                return Err(Refusal::not_found(kind, name));
            }
            return create::create_object(call, object.clone(), options, track);
        };
        let present = served(kind, &stored);
        let wanted = next(&present)?;
        check_version(call, &wanted, &stored)?;
        let object = next_state(call, part, wanted, &present, options)?;
        if options.dry_run {
            return Ok(answer_value(call, StatusCode::OK, &object));
        }
        if object == present && !stale(call, &stored) {
            return Ok(answer_object(call, StatusCode::OK, &stored));
        }
        if meta::is_deleting(&object) && may_go(call, &object) {
            if kind.table.remove(&key, &stored).is_err() {
                continue;
            }
            call.cluster.work.after_delete(kind, &present);
            return Ok(answer_value(call, StatusCode::OK, &object));
        }
        if let Ok(written) = kind.table.put(&key, Some(stored.version), draft(kind, &object)) {
            let answer = answer_object(call, StatusCode::OK, &written);
            call.cluster.work.after_write(kind, &object);
            return Ok(answer);
        }
    }
}

/// A custom object is written again when its schema has newer defaults.
fn stale(call: &Call<'_>, stored: &Object) -> bool {
    call.kind.custom.as_ref().is_some_and(|definition| definition.fills_defaults_of(stored.version))
}

/// Nothing holds an object back that is marked for deletion.
fn may_go(call: &Call<'_>, object: &Value) -> bool {
    let held = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    let content =
        call.kind.is_namespace() && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    meta::finalizers(object).is_empty() && !held && !content
}

/// Refuses a state that was made from another version or another object.
fn check_version(call: &Call<'_>, wanted: &Value, stored: &Arc<Object>) -> Result<(), Refusal> {
    let kind = &call.kind;
    let name = call.target.name.as_deref().unwrap_or_default();
    let version = meta::text(wanted, "resourceVersion");
    let uid = meta::text(wanted, "uid");
    let found = stored.traits().uid.as_ref();
    if !uid.is_empty() && uid != found {
        // A patch has found the object by itself: its uid is a change.
        if call.request.method == http::Method::PATCH {
            let cause = Cause::invalid("metadata.uid", &json!(uid), "field is immutable");
            return Err(Refusal::invalid_object(kind, name, &[cause]));
        }
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {uid}, UID in object meta: {found}",
            storage_path(call)
        );
        return Err(Refusal::conflict(kind, name, why));
    }
    if version.is_empty() || version == "0" {
        if kind.custom.is_some() || kind.strategy.strict {
            let message = "Invalid value: 0: must be specified for an update";
            let cause = Cause::other("FieldValueInvalid", "metadata.resourceVersion", message);
            return Err(Refusal::invalid(&kind.group, &kind.resource, name, &[cause]));
        }
        return Ok(());
    }
    match version.parse::<u64>() {
        Ok(version) if version == stored.version => Ok(()),
        Ok(_) => Err(Refusal::modified(kind, name)),
        Err(_) => Err(Refusal::invalid_object(
            kind,
            name,
            &[Cause::invalid(
                "metadata.resourceVersion",
                &json!(version),
                format!("strconv.ParseUint: parsing {version:?}: invalid syntax"),
            )],
        )),
    }
}

/// Where the real server's storage would have the object.
fn storage_path(call: &Call<'_>) -> String {
    let kind = &call.kind;
    let resource = match (kind.custom.is_some(), kind.group.as_str(), kind.resource.as_str()) {
        (true, group, resource) => format!("{group}/{resource}"),
        (_, "networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (_, "", "services") => "services/specs".to_owned(),
        (_, "", "nodes") => "minions".to_owned(),
        (_, _, resource) => resource.to_owned(),
    };
    format!("{resource}/{}", call.target.key())
}

/// The state that an update leads to: what the client may set, and what it may not.
fn next_state(
    call: &Call<'_>,
    part: Part,
    wanted: Value,
    present: &Value,
    options: &WriteOptions,
) -> Result<Value, Refusal> {
    let kind = &call.kind;
    let name = call.target.name.as_deref().unwrap_or_default();
    let mut object = match part {
        Part::Main | Part::Applied => {
            let mut object = wanted;
            if keeps_status(call) {
                match present.get("status") {
                    Some(status) => object["status"] = status.clone(),
                    None => drop(object.as_object_mut().and_then(|entries| entries.remove("status"))),
                }
            }
            object
        }
        Part::Status | Part::AppliedStatus => {
            let mut object = present.clone();
            match wanted.get("status") {
                Some(status) => object["status"] = status.clone(),
                None => drop(object.as_object_mut().and_then(|entries| entries.remove("status"))),
            }
            // The status of a custom object brings no metadata; that of a built-in one does.
            if kind.custom.is_none() {
                object["metadata"] = wanted["metadata"].clone();
            } else if let Some(owners) = wanted["metadata"].get("managedFields") {
                meta::of(&mut object).insert("managedFields".into(), owners.clone());
            }
            object
        }
    };
    let mut causes = Vec::from_iter(meta::validate_system(&object, present));
    meta::prepare_update(&mut object, present);
    let version = present["metadata"]["resourceVersion"].clone();
    meta::of(&mut object).insert("resourceVersion".into(), version);
    prepare::update(kind, &mut object, present, part.is_status())?;
    let counted = kind.custom.is_some() || kind.strategy.generation;
    if counted && !part.is_status() && !same_desire(call, &object, present) {
        let generation = present["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        meta::of(&mut object).insert("generation".into(), json!(generation));
    }
    rbac::check_escalation(
        call.cluster,
        call.user,
        kind,
        call.target.namespace.as_deref().unwrap_or_default(),
        name,
        &object,
    )?;
    if part == Part::Main || part == Part::Status {
        let subresource = call.target.subresource.as_deref().unwrap_or_default();
        object = fields::updated(call.cluster, kind, subresource, present, object, &options.manager);
    } else {
        fields::settle(&mut object, present);
    }
    causes.extend(meta::validate_update(&object, present));
    causes.extend(prepare::validate(kind, &object, Some(present)));
    if causes.is_empty() { Ok(object) } else { Err(Refusal::invalid_object(kind, name, &causes)) }
}

fn keeps_status(call: &Call<'_>) -> bool {
    match &call.kind.custom {
        Some(definition) => definition.has_status,
        None => call.kind.strategy.status,
    }
}

/// Whether everything that the generation counts is the same.
fn same_desire(call: &Call<'_>, object: &Value, present: &Value) -> bool {
    // The annotations of a Deployment are copied to its ReplicaSets.
    if call.kind.custom.is_none()
        && call.kind.kind == "Deployment"
        && object["metadata"]["annotations"] != present["metadata"]["annotations"]
    {
        return false;
    }
    let with_status = call.kind.custom.as_ref().is_some_and(|definition| !definition.has_status);
    let counted = |value: &Value| {
        let mut entries = value.as_object().cloned().unwrap_or_default();
        let metadata = entries.remove("metadata").unwrap_or_default();
        // The labels of a slice are about its endpoints.
        if call.kind.kind == "EndpointSlice" {
            entries.insert("labels".into(), metadata["labels"].clone());
            entries.insert("annotations".into(), metadata["annotations"].clone());
        }
        if !with_status {
            entries.remove("status");
        }
        entries
    };
    counted(object) == counted(present)
}
