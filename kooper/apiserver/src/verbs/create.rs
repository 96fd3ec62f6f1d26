//! POST: an object that was not there.

use http::{Method, StatusCode};
use serde_json::Value;

use super::{Call, WriteOptions, answer_object, answer_value, body, draft, warned};
use crate::admission::Operation;
use crate::auth::{self, rbac};
use crate::http::Answer;
use crate::kinds::Kind;
use crate::registry::Allocation;
use crate::status::StatusError;
use crate::validate::Write;
use crate::{admission, fields, meta, prepare, registry};

/// Maximum number of attempts to find a generated name that is not taken.
const TRIES: usize = 8;

pub(super) async fn create(call: &Call<'_>) -> Result<Answer, StatusError> {
    body::check_media(call)?;
    let options = WriteOptions::parse(call.request, "CreateOptions")?;
    let (object, warnings) = body::decode(call, options.validation)?;
    Ok(warned(create_object(call, object, &options, true).await, &warnings))
}

/// Creates an object that was decoded, as POST does, and PUT and PATCH where they may.
///
/// `track` is whether its fields have no owners yet.
pub(super) async fn create_object(
    call: &Call<'_>,
    object: Value,
    options: &WriteOptions,
    track: bool,
) -> Result<Answer, StatusError> {
    let mut warnings = Vec::new();
    let answer = created(call, object, options, track, &mut warnings).await;
    Ok(warned(answer, &warnings))
}

async fn created(
    call: &Call<'_>,
    mut object: Value,
    options: &WriteOptions,
    track: bool,
    warnings: &mut Vec<String>,
) -> Result<Answer, StatusError> {
    let kind = &call.kind;
    body::drop_empty_data(kind, &mut object);
    body::check_namespace(call, &object)?;
    admission::check_definition(kind, &object)?;
    admission::check_namespace(call.cluster, kind, call.target.namespace.as_deref(), &object)?;
    if let Some(object_name) = object["metadata"]["name"].as_str() {
        let namespace = call.target.namespace.as_deref().unwrap_or_default();
        rbac::check_escalation(call.cluster, call.user, kind, namespace, object_name, &object, None)?;
    }
    if track {
        warnings.extend(meta::dedup_owners(&mut object, false));
    }
    let generated = meta::text(&object, "name").is_empty();
    meta::prepare_create(kind, &mut object, call.target.namespace.as_deref());
    if track {
        let subresource = call.target.subresource.as_deref().unwrap_or_default();
        object = fields::created(call.cluster, kind, subresource, object, &options.manager);
    }
    fields::drop_empty(&mut object);
    // Fields that the server adds from here on have no owner.
    let sent = WriteOptions::review(call.request, "CreateOptions");
    let mut request = call.attributes(Operation::Create, &object, options.dry_run, sent);
    admission::create(&request, &mut object, warnings).await?;
    warnings.extend(meta::dedup_owners(&mut object, true));
    let mut unnamed = object;
    for attempt in 1.. {
        // Each attempt needs a fresh copy, because the fields that a kind adds depend on the name.
        let mut object = if generated { unnamed.clone() } else { std::mem::take(&mut unnamed) };
        meta::generate_name(&mut object);
        let allocation = match call.target.subresource {
            Some(_) => Allocation::None,
            None if options.dry_run => Allocation::Tried,
            None => Allocation::Made,
        };
        registry::of(kind).record_user(&mut object, call.user);
        prepare::create(kind, &mut object, allocation)?;
        let name = meta::text(&object, "name").to_owned();
        request.name.clone_from(&name);
        prepare::check_type(kind, &object, None, &[])?;
        // A new object has no previous violations that could be tolerated with a warning.
        let causes = registry::validate(kind, &object, Write::Create, &mut Vec::new());
        if !causes.is_empty() {
            return Err(StatusError::invalid_object(kind, &name, &causes));
        }
        let own = warnings.len();
        warnings.extend(prepare::warnings(kind, &object, None));
        prepare::canonicalize(kind, &mut object);
        // Of a request that may also change an object, only that was authorized.
        if call.request.method != Method::POST {
            auth::check_resource(call.cluster, call.user, "create", &call.target)?;
        }
        admission::judge(&request, &object, None, true, warnings).await?;
        let key = crate::route::key(call.target.namespace.as_deref().unwrap_or_default(), &name);
        if options.dry_run {
            if kind.table.get(&key).is_some() {
                return Err(taken(kind, &key, &object));
            }
            return Ok(answer_value(call, StatusCode::CREATED, &prepare::shown(kind, &object)));
        }
        if !meta::text(&object, "resourceVersion").is_empty() {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why));
        }
        match kind.table.put(&key, None, draft(kind, &object)) {
            Ok(stored) => {
                let answer = answer_object(call, StatusCode::CREATED, &stored);
                call.cluster.work.after_write(kind, &object, None);
                return Ok(answer);
            }
            Err(_) => {
                call.cluster.work.after_refusal(kind, &object);
                if !generated || attempt >= TRIES {
                    return Err(taken(kind, &key, &object));
                }
                warnings.truncate(own);
            }
        }
    }
    Err(StatusError::internal("no name could be generated"))
}

/// The refusal of a name that another object has already.
fn taken(kind: &Kind, key: &str, object: &Value) -> StatusError {
    let deleting = kind.table.get(key).is_some_and(|object| meta::is_deleting(&object.value()));
    let refusal = StatusError::already_exists(kind, meta::text(object, "name"), deleting);
    // The real server does not ask whether the name was generated.
    if meta::text(object, "generateName").is_empty() { refusal } else { refusal.not_generated() }
}
