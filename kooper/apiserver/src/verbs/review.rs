//! Reviews: questions about users and their rights, answered and never stored.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, WriteOptions, body, warned};
use crate::auth::rbac::{self, Attributes};
use crate::auth::user_of_token;
use crate::cause::Cause;
use crate::http::Answer;
use crate::identity::{AUDIENCE, User};
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::{meta, time};

/// Returns whether objects of the kind are answered but never stored.
pub(super) fn is_review(kind: &Kind) -> bool {
    kind.custom.is_none() && matches!(kind.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
}

pub(super) fn review(call: &Call<'_>) -> Result<Answer, StatusError> {
    let options = WriteOptions::parse(call.request, "CreateOptions")?;
    let kind = &call.kind;
    let (review, warnings) = body::posted(call, (&kind.group, &kind.version, &kind.kind), options.validation)?;
    Ok(warned(reviewed(call, review), &warnings))
}

fn reviewed(call: &Call<'_>, mut review: Value) -> Result<Answer, StatusError> {
    let kind = &call.kind;
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    if !review["spec"].is_object() && kind.kind != "SelfSubjectReview" {
        review["spec"] = json!({});
    }
    let spec = review["spec"].clone();
    match kind.kind.as_str() {
        "SelfSubjectAccessReview" => {
            check_access(call, &review)?;
            review["status"] = access(call, call.user, &spec);
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            check_access(call, &review)?;
            let groups: Vec<_> = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let user = User::new(spec["user"].as_str().unwrap_or_default(), &groups);
            review["status"] = access(call, &user, &spec);
        }
        "SelfSubjectRulesReview" => {
            let namespace = spec["namespace"].as_str().unwrap_or_default();
            if namespace.is_empty() {
                return Err(StatusError::bad_request("no namespace on request"));
            }
            review["spec"] = json!({});
            review["status"] = own_rules(call, namespace);
        }
        "SelfSubjectReview" => {
            meta::of(&mut review).insert("creationTimestamp".into(), json!(time::now()));
            review["status"] = json!({"userInfo": call.user.info()});
        }
        "TokenReview" => review["status"] = token(call, &spec)?,
        other => return Err(StatusError::not_implemented(other)),
    }
    Ok(Answer::json(StatusCode::CREATED, &review))
}

/// Whom a token stands for.
fn token(call: &Call<'_>, spec: &Value) -> Result<Value, StatusError> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(StatusError::bad_request("token is required for TokenReview in authentication"));
    }
    let wanted = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut wanted: Vec<String> = wanted.map(ToOwned::to_owned).collect();
    if wanted.is_empty() {
        wanted.push(AUDIENCE.to_owned());
    }
    Ok(match user_of_token(call.cluster, token, &wanted) {
        Ok((user, audiences)) => json!({"authenticated": true, "user": user.info(), "audiences": audiences}),
        Err(why) => json!({"user": {}, "error": why}),
    })
}

/// The rules that a question about access violates.
fn check_access(call: &Call<'_>, review: &Value) -> Result<(), StatusError> {
    let spec = &review["spec"];
    let kind = call.kind.kind.as_str();
    let mut causes = Vec::new();
    let given = |key: &str| spec[key].is_object();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attributes = &spec["nonResourceAttributes"];
    // The real server shows its own form of them.
    let shown = json!({"Path": text(&attributes["path"]), "Verb": text(&attributes["verb"])});
    match (given("resourceAttributes"), given("nonResourceAttributes")) {
        (true, true) => {
            let why = "cannot be specified in combination with resourceAttributes";
            causes.push(Cause::invalid("spec.nonResourceAttributes", &shown, why));
        }
        (false, false) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            causes.push(Cause::invalid("spec.resourceAttributes", &Value::Null, why));
        }
        _ => {}
    }
    let asks_for_other = kind != "SelfSubjectAccessReview";
    if asks_for_other && text(&spec["user"]).is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty) {
        let why = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &json!(""), why));
    }
    let namespace = meta::text(review, "namespace");
    if kind == "LocalSubjectAccessReview" {
        let of = text(&spec["resourceAttributes"]["namespace"]);
        if given("resourceAttributes") && of != namespace {
            let field = "spec.resourceAttributes.namespace";
            causes.push(Cause::invalid(field, &json!(of), "must match metadata.namespace"));
        }
        if given("nonResourceAttributes") {
            let why = "disallowed on this kind of request";
            causes.push(Cause::invalid("spec.nonResourceAttributes", &shown, why));
        }
    }
    // The real server names no kind here.
    if causes.is_empty() { Ok(()) } else { Err(StatusError::invalid(&call.kind.group, "", "", &causes)) }
}

fn access(call: &Call<'_>, user: &User, spec: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let decision = if let Some(resource) = spec.get("resourceAttributes").filter(|value| value.is_object()) {
        let asked = Attributes {
            verb: text(&resource["verb"]),
            group: text(&resource["group"]),
            resource: text(&resource["resource"]),
            subresource: text(&resource["subresource"]),
            namespace: text(&resource["namespace"]),
            name: text(&resource["name"]),
        };
        rbac::decide(call.cluster, user, &asked)
    } else {
        let path = &spec["nonResourceAttributes"];
        rbac::decide_path(call.cluster, user, &text(&path["verb"]), &text(&path["path"]))
    };
    match decision {
        None => json!({"allowed": false}),
        Some(reason) if reason.is_empty() => json!({"allowed": true}),
        Some(reason) => json!({"allowed": true, "reason": reason}),
    }
}

fn own_rules(call: &Call<'_>, namespace: &str) -> Value {
    let rules = rbac::rules(call.cluster, call.user, namespace);
    let (paths, resources): (Vec<_>, Vec<_>) =
        rules.into_iter().partition(|rule| rule.get("nonResourceURLs").is_some());
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}
