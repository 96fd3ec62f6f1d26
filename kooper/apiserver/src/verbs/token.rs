//! `serviceaccounts/token`: a token with which a program acts as a service account.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, WriteOptions, body, warned};
use crate::cause::Cause;
use crate::http::Answer;
use crate::identity::{AUDIENCE, Bound, Grant};
use crate::status::StatusError;
use crate::{fields, meta, time};

const TOKEN_REQUEST: (&str, &str, &str) = ("authentication.k8s.io", "v1", "TokenRequest");
/// Lifetime of a token for which the request sets none, in seconds.
const DEFAULT_SECONDS: i64 = 3600;
/// The shortest time that may be requested, in seconds.
const LEAST_SECONDS: i64 = 600;
/// The longest one.
const MOST_SECONDS: i64 = 1 << 32;

pub(super) fn request(call: &Call<'_>) -> Result<Answer, StatusError> {
    let options = WriteOptions::parse(call.request, "CreateOptions")?;
    let (request, warnings) = body::posted(call, TOKEN_REQUEST, options.validation)?;
    Ok(warned(granted(call, &options, request), &warnings))
}

fn granted(call: &Call<'_>, options: &WriteOptions, mut request: Value) -> Result<Answer, StatusError> {
    if request["spec"]["expirationSeconds"].is_null() {
        request["spec"]["expirationSeconds"] = json!(DEFAULT_SECONDS);
    }
    // The real server writes these in any case.
    let zero = json!({"spec": {"audiences": null, "boundObjectRef": null}});
    if request["spec"].get("boundObjectRef").is_none() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    let mut request = fields::posted(TOKEN_REQUEST, "token", &zero, request, &options.manager);
    let name = call.target.name.as_deref().unwrap_or_default();
    let namespace = call.target.namespace.as_deref().unwrap_or_default();
    let invalid =
        |name: &str, causes: &[Cause]| Err(StatusError::invalid("authentication.k8s.io", "TokenRequest", name, causes));
    for (key, wanted, why) in [
        ("name", name, "must match the service account name if specified"),
        ("namespace", namespace, "must match the service account namespace if specified"),
    ] {
        let found = meta::text(&request, key);
        if !found.is_empty() && found != wanted {
            return invalid(name, &[Cause::invalid(format!("metadata.{key}"), &json!(found), why)]);
        }
    }
    let account = super::present(call)?;
    let uid = account.traits().uid.to_string();
    let wanted = meta::text(&request, "uid");
    if !wanted.is_empty() && wanted != uid {
        let why =
            format!("the UID in the token request ({wanted}) does not match the UID of the service account ({uid})");
        return Err(StatusError::conflict_named("authentication.k8s.io", "TokenRequest", name, why));
    }
    let spec = &mut request["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([AUDIENCE]);
    }
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or_default();
    let audiences = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let audiences = audiences.map(ToOwned::to_owned).collect();
    let refused = |why: &str| invalid("", &[Cause::invalid("spec.expirationSeconds", &json!(seconds), why)]);
    if seconds < LEAST_SECONDS {
        return refused("may not specify a duration less than 10 minutes");
    }
    if seconds > MOST_SECONDS {
        return refused("may not specify a duration larger than 2^32 seconds");
    }
    let bound = bound(call, &request["spec"]["boundObjectRef"])?;
    let grant = Grant {
        namespace: namespace.to_owned(),
        account: name.to_owned(),
        uid: uid.clone(),
        audiences,
        bound,
        seconds: seconds.unsigned_abs(),
    };
    let token = if options.dry_run { String::new() } else { call.cluster.tokens.grant(grant) };
    let metadata = meta::of(&mut request);
    metadata.insert("name".into(), json!(name));
    metadata.insert("namespace".into(), json!(namespace));
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(time::now()));
    request["status"] = json!({"token": token, "expirationTimestamp": time::after(seconds.unsigned_abs())});
    Ok(Answer::json(StatusCode::CREATED, &request))
}

/// The object whose deletion ends the token.
fn bound(call: &Call<'_>, reference: &Value) -> Result<Option<Bound>, StatusError> {
    if !reference.is_object() {
        return Ok(None);
    }
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let (group, version) = crate::kinds::split_group_version(text("apiVersion"));
    let (resource, namespaced) = match (group.as_str(), text("kind")) {
        ("", "Pod") => ("pods", true),
        ("", "Secret") => ("secrets", true),
        ("", "Node") => ("nodes", false),
        (_, kind) => {
            return Err(StatusError::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    let name = text("name");
    let Some(kind) = call.cluster.kind("", "v1", resource) else { return Err(StatusError::unknown_resource()) };
    let namespace = if namespaced { call.target.namespace.as_deref().unwrap_or_default() } else { "" };
    let key = crate::route::key(namespace, name);
    let Some(found) = kind.table.get(&key) else { return Err(StatusError::not_found(&kind, name)) };
    let account = call.target.name.as_deref().unwrap_or_default();
    let node = if kind.kind == "Pod" {
        let pod = found.value();
        if pod["spec"]["serviceAccountName"].as_str().unwrap_or_default() != account {
            return Err(StatusError::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        pod["spec"]["nodeName"].as_str().map(ToOwned::to_owned)
    } else {
        None
    };
    let uid = found.traits().uid.to_string();
    let wanted = text("uid");
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have \
             been deleted and then recreated"
        );
        return Err(StatusError::conflict_named("", &kind.kind, name, why));
    }
    let node_uid = node.as_ref().and_then(|node| {
        let nodes = call.cluster.kind("", "v1", "nodes")?;
        nodes.table.get(node).map(|node| node.traits().uid.to_string())
    });
    Ok(Some(Bound { resource, key, name: name.to_owned(), uid, node: node.map(|node| (node, node_uid)) }))
}
