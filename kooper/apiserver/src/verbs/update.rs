//! PUT, and what PATCH makes of an object: the next state of one that is there.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::written_part::WrittenPart;
use super::{Call, WriteOptions, answer_object, answer_value, body, create, draft, served, warned};
use crate::admission::{Attributes, Operation};
use crate::auth::rbac;
use crate::cause::Cause;
use crate::http::Answer;
use crate::kinds::Kind;
use crate::registry::{self, Update};
use crate::status::StatusError;
use crate::store::Object;
use crate::{admission, fields, meta, prepare, validate};

/// Replaces the part of an object that the path names.
pub(super) async fn replace(call: &Call<'_>) -> Result<Answer, StatusError> {
    let options = WriteOptions::parse(call.request, "UpdateOptions")?;
    let (mut object, mut warnings) = body::decode(call, options.validation)?;
    let answer = match check_names(call, &object) {
        Ok(()) => {
            warnings.extend(meta::dedup_owners(&mut object, false));
            let absent = WrittenPart::of(call).creates(call).then_some(&object);
            write(call, &options, Owners::Found, |_| Ok(object.clone()), absent).await
        }
        Err(refusal) => Err(refusal),
    };
    Ok(warned(answer, &warnings))
}

/// Source of the owners of the written fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owners {
    /// From what the write changes.
    Found,
    /// An apply has set them.
    Applied,
}

/// The name of the body is that of the path.
pub(super) fn check_names(call: &Call<'_>, object: &Value) -> Result<(), StatusError> {
    body::check_namespace(call, object)?;
    let wanted = call.target.name.as_deref().unwrap_or_default();
    let found = meta::text(object, "name");
    if found.is_empty() {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if found != wanted {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({wanted})"
        )));
    }
    Ok(())
}

/// Writes the next state of an object, made by `next` from the present one, and retries while others write.
///
/// `absent` is what to create where the kind allows that.
pub(super) async fn write(
    call: &Call<'_>,
    options: &WriteOptions,
    owners: Owners,
    next: impl Fn(&Value) -> Result<Value, StatusError>,
    absent: Option<&Value>,
) -> Result<Answer, StatusError> {
    let track = owners == Owners::Found;
    let kind = &call.kind;
    let name = call.target.name.as_deref().unwrap_or_default();
    let key = call.key()?;
    loop {
        let Some(stored) = kind.table.get(&key) else {
            let Some(object) = absent.filter(|_| kind.flags.upsert || !track) else {
                return Err(StatusError::not_found(kind, name));
            };
            if !meta::text(object, "uid").is_empty() {
                return Err(other_object(call, meta::text(object, "uid"), "", options.dry_run));
            }
            let mut object = object.clone();
            meta::of(&mut object).remove("resourceVersion");
            return create::create_object(call, object, options, track).await;
        };
        let present = prepare::with_hidden_value(kind, served(kind, &stored), stored.traits());
        let wanted = next(&present)?;
        check_version(call, &wanted, &stored, options.dry_run)?;
        let sent = WriteOptions::review(call.request, "UpdateOptions");
        let request = call.attributes(Operation::Update, &present, options.dry_run, sent);
        let mut warnings = Vec::new();
        let object = match next_state(call, &request, owners, wanted, &present, options, &mut warnings).await {
            Ok(object) => object,
            Err(refusal) => return Err(refusal.with_warnings(warnings)),
        };
        // A write of a part warns of nothing.
        if call.target.subresource.is_none() {
            warnings.extend(prepare::warnings(kind, &object, Some(&present)));
        }
        let counts = matches!(WrittenPart::of(call), WrittenPart::Whole | WrittenPart::Resize) && object != present;
        if let Err(refusal) = admission::judge(&request, &object, Some(&present), counts, &mut warnings).await {
            return Err(refusal.with_warnings(warnings));
        }
        if options.dry_run {
            return Ok(answer_value(call, StatusCode::OK, &prepare::shown(kind, &object)).with_warnings(&warnings));
        }
        if object == present && !stale(call, &stored) {
            return Ok(answer_object(call, StatusCode::OK, &stored).with_warnings(&warnings));
        }
        if is_removable(kind, &object) {
            if kind.table.remove(&key, &stored).is_err() {
                continue;
            }
            call.cluster.work.after_delete(kind, &present);
            return Ok(answer_value(call, StatusCode::OK, &prepare::shown(kind, &object)).with_warnings(&warnings));
        }
        if let Ok(written) = kind.table.put(&key, Some(stored.version), draft(kind, &object)) {
            let answer = answer_object(call, StatusCode::OK, &written);
            call.cluster.work.after_write(kind, &object, Some(&present));
            return Ok(answer.with_warnings(&warnings));
        }
        call.cluster.work.after_refusal(kind, &object);
    }
}

/// A custom object is written again when its schema has newer defaults, or lacks some of its fields.
fn stale(call: &Call<'_>, stored: &Object) -> bool {
    super::form::is_outdated(&call.kind, stored)
}

/// Returns whether an object is marked for deletion, and nothing holds it back: no finalizer, no time that it still
/// has, nor the content of a namespace.
pub(crate) fn is_removable(kind: &Kind, object: &Value) -> bool {
    let held = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    let content = kind.is_namespace() && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    meta::is_deleting(object) && meta::finalizers(object).is_empty() && !held && !content
}

/// Refuses a state that was made from another version or another object.
pub(super) fn check_version(
    call: &Call<'_>,
    wanted: &Value,
    stored: &Arc<Object>,
    dry_run: bool,
) -> Result<(), StatusError> {
    let kind = &call.kind;
    let name = call.target.name.as_deref().unwrap_or_default();
    let version = meta::text(wanted, "resourceVersion");
    let uid = meta::text(wanted, "uid");
    let found = stored.traits().uid.as_ref();
    let patching = call.request.method == http::Method::PATCH;
    if !uid.is_empty() && uid != found && !patching {
        return Err(other_object(call, uid, found, dry_run));
    }
    if version.is_empty() || version == "0" {
        if kind.custom.is_some() || kind.flags.strict {
            let message = "Invalid value: 0: must be specified for an update";
            let cause = Cause::other("FieldValueInvalid", "metadata.resourceVersion", message);
            return Err(StatusError::invalid(&kind.group, &kind.resource, name, &[cause]));
        }
        return Ok(());
    }
    match version.parse::<u64>() {
        Ok(version) if version == stored.version => Ok(()),
        Ok(_) => Err(StatusError::modified(kind, name)),
        Err(_) if call.target.subresource.as_deref() == Some("scale") => {
            let message = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
            Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
        }
        Err(_) => Err(StatusError::invalid_object(
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

/// The cause to refuse a change of the uid, which only a patch can be: it has found the object by itself. Of a custom
/// object, only a write of the whole object brings metadata.
fn changed_uid(call: &Call<'_>, wanted: &Value, present: &Value) -> Option<Cause> {
    let kind = &call.kind;
    let brings_metadata = match call.target.subresource.as_deref() {
        None => true,
        Some("status") => kind.custom.is_none() && !kind.flags.bare_status,
        Some(_) => kind.custom.is_none(),
    };
    let uid = meta::text(wanted, "uid");
    let changed = brings_metadata && !uid.is_empty() && uid != meta::text(present, "uid");
    changed.then(|| Cause::invalid("metadata.uid", &json!(uid), "field is immutable"))
}

/// The refusal to replace an object by one with another uid.
fn other_object(call: &Call<'_>, uid: &str, found: &str, dry_run: bool) -> StatusError {
    let root = if dry_run { "" } else { "/registry" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {root}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {uid}, UID in object meta: {found}",
        storage_path(call)
    );
    StatusError::conflict(&call.kind, call.target.name.as_deref().unwrap_or_default(), why)
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
async fn next_state(
    call: &Call<'_>,
    request: &Attributes<'_>,
    owners: Owners,
    mut wanted: Value,
    present: &Value,
    options: &WriteOptions,
    warnings: &mut Vec<String>,
) -> Result<Value, StatusError> {
    let kind = &call.kind;
    let name = call.target.name.as_deref().unwrap_or_default();
    let written_part = WrittenPart::of(call);
    let empty = body::drop_empty_data(kind, &mut wanted);
    // A custom object may be of another type; of a part of it, that does not matter.
    let sent = json!({"apiVersion": wanted["apiVersion"], "kind": wanted["kind"]});
    if kind.custom.is_some() && sent["apiVersion"].as_str().is_none_or(str::is_empty) {
        // A patch has removed it.
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(StatusError::internal_error(why));
    }
    let changed = changed_uid(call, &wanted, present);
    // A client owns what it has sent, whatever becomes of it.
    let mut wanted = match owners {
        Owners::Found => {
            let subresource = call.target.subresource.as_deref().unwrap_or_default();
            fields::tracked(call.cluster, kind, subresource, present, wanted, &options.manager)
        }
        Owners::Applied => wanted,
    };
    if let Some(namespace) = &call.target.namespace {
        meta::of(&mut wanted).insert("namespace".into(), json!(namespace));
    }
    admission::mutate(request, &mut wanted, present, |_| Ok(()), warnings).await?;
    warnings.extend(meta::dedup_owners(&mut wanted, true));
    let namespace = call.target.namespace.as_deref().unwrap_or_default();
    rbac::check_escalation(call.cluster, call.user, kind, namespace, name, &wanted, Some(present))?;
    let mut object = written_part.merge(call, &wanted, present);
    if let Some(definition) = &kind.custom {
        // An object that was sent as another type has not been pruned and defaulted yet.
        if object["kind"] != sent["kind"] || object["apiVersion"] != sent["apiVersion"] {
            drop(definition.prune(&mut object));
            definition.fill_defaults(&mut object);
        }
    }
    let mut causes = Vec::from_iter(changed);
    causes.extend(meta::validate_system(&object, present));
    causes.extend(validate::data::frozen_empty(present, empty));
    if written_part == WrittenPart::Whole {
        admission::update(call.cluster, kind, &mut object, present)?;
    }
    meta::prepare_update(&mut object, present);
    let version = present["metadata"]["resourceVersion"].clone();
    meta::of(&mut object).insert("resourceVersion".into(), version);
    let update = Update { present, status: written_part.is_status(), dry_run: options.dry_run };
    prepare::update(kind, &mut object, update)?;
    if kind.custom.is_none() {
        prepare::canonicalize(kind, &mut object);
    }
    let counted = kind.custom.is_some() || kind.flags.generation;
    if counted && written_part.is_counted() && !same_desire(call, &object, present) {
        let generation = present["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        meta::of(&mut object).insert("generation".into(), json!(generation));
    }
    // An apply of a custom object has settled its times itself, unless it was about the scale.
    let is_scale = call.target.subresource.as_deref() == Some("scale");
    if owners == Owners::Found || kind.custom.is_none() || is_scale {
        fields::settle(&mut object, present);
    } else {
        fields::drop_empty(&mut object);
    }
    let added = meta::validate_update(&object, present);
    causes.extend(added.clone());
    prepare::check_type(kind, &object, Some(present), &causes)?;
    // The real server checks it twice, and reports it twice.
    causes.extend(added);
    causes.extend(registry::validate(kind, &object, written_part.judged(present), warnings));
    if !causes.is_empty() {
        return Err(prepare::invalid(kind, &sent, name, &causes));
    }
    prepare::complete(kind, &mut object);
    if written_part == WrittenPart::Resize && object["spec"] != present["spec"] {
        admission::resize(call.cluster, kind, &object)?;
    }
    if kind.custom.is_some() {
        prepare::canonicalize(kind, &mut object);
    }
    Ok(object)
}

/// Returns whether everything that `metadata.generation` counts is unchanged.
fn same_desire(call: &Call<'_>, object: &Value, present: &Value) -> bool {
    let with_status = call.kind.custom.as_ref().is_some_and(|definition| !definition.has_status);
    let counted = |value: &Value| {
        let mut entries = value.as_object().cloned().unwrap_or_default();
        let metadata = entries.remove("metadata").unwrap_or_default();
        for key in registry::of(&call.kind).counted_metadata() {
            entries.insert((*key).into(), metadata[*key].clone());
        }
        if !with_status {
            entries.remove("status");
        }
        entries
    };
    counted(object) == counted(present)
}
