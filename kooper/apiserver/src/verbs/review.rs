//! Reviews: questions about users and their rights, answered and never stored.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, body};
use crate::auth::rbac::{self, Asked};
use crate::http::Answer;
use crate::identity::User;
use crate::kinds::Kind;
use crate::status::Refusal;

/// Whether a kind is only ever asked.
pub(super) fn is_review(kind: &Kind) -> bool {
    kind.custom.is_none() && matches!(kind.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
}

pub(super) fn review(call: &Call<'_>) -> Result<Answer, Refusal> {
    let mut review = body::parse(call, &call.kind.kind)?;
    review["kind"] = json!(call.kind.kind);
    review["apiVersion"] = json!(call.kind.api_version());
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    let spec = review["spec"].clone();
    let status = match call.kind.kind.as_str() {
        "SelfSubjectAccessReview" => access(call, call.user, &spec)?,
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let groups: Vec<_> = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            access(call, &User::new(spec["user"].as_str().unwrap_or_default(), &groups), &spec)?
        }
        "SelfSubjectRulesReview" => own_rules(call, spec["namespace"].as_str().unwrap_or_default()),
        "SelfSubjectReview" => json!({"userInfo": {"username": call.user.name(), "groups": call.user.groups()}}),
        "TokenReview" => match call.cluster.tokens.user(spec["token"].as_str().unwrap_or_default()) {
            Some(user) => json!({
                "authenticated": true,
                "user": {"username": user.name(), "groups": user.groups()},
                "audiences": ["https://kubernetes.default.svc.cluster.local"]
            }),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        },
        other => return Err(Refusal::not_implemented(other)),
    };
    review["status"] = status;
    Ok(Answer::json(StatusCode::CREATED, &review))
}

fn access(call: &Call<'_>, user: &User, spec: &Value) -> Result<Value, Refusal> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let allowed = if let Some(resource) = spec.get("resourceAttributes").filter(|value| value.is_object()) {
        let asked = Asked {
            verb: text(&resource["verb"]),
            group: text(&resource["group"]),
            resource: text(&resource["resource"]),
            subresource: text(&resource["subresource"]),
            namespace: text(&resource["namespace"]),
            name: text(&resource["name"]),
        };
        rbac::allows(call.cluster, user, &asked)
    } else if let Some(path) = spec.get("nonResourceAttributes").filter(|value| value.is_object()) {
        rbac::allows_path(call.cluster, user, &text(&path["verb"]), &text(&path["path"]))
    } else {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let cause = crate::status::Cause::invalid("spec.resourceAttributes", &Value::Null, why);
        return Err(Refusal::invalid_object(&call.kind, "", &[cause]));
    };
    Ok(if allowed { json!({"allowed": true}) } else { json!({"allowed": false}) })
}

fn own_rules(call: &Call<'_>, namespace: &str) -> Value {
    let mut rules = rbac::rules(call.cluster, call.user, namespace);
    if call.user.is_master() {
        rules.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        rules.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    let (paths, resources): (Vec<_>, Vec<_>) =
        rules.into_iter().partition(|rule| rule.get("nonResourceURLs").is_some());
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}
