//! `pods/binding` and `bindings`: assigns a pod to a node.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Call, WriteOptions, body, draft, update, warned};
use crate::cause::Cause;
use crate::http::Answer;
use crate::status::{self, StatusError};
use crate::{conditions, meta};

/// `call` names the pod.
pub(super) fn bind(call: &Call<'_>) -> Result<Answer, StatusError> {
    let options = WriteOptions::parse(call.request, "CreateOptions")?;
    let (binding, warnings) = body::posted(call, ("", "v1", "Binding"), options.validation)?;
    Ok(warned(bound(call, &options, &binding), &warnings))
}

fn bound(call: &Call<'_>, options: &WriteOptions, binding: &Value) -> Result<Answer, StatusError> {
    if meta::text(binding, "name") != call.target.name.as_deref().unwrap_or_default() {
        return Err(StatusError::bad_request("name in URL does not match name in Binding object"));
    }
    validate(&binding["target"])?;
    assign(call, binding, options.dry_run)?;
    Ok(Answer::json(StatusCode::CREATED, &status::created()))
}

/// `POST bindings`: the pod is named by the body.
pub(super) fn bind_named(call: &Call<'_>) -> Result<Answer, StatusError> {
    let Some(pods) = call.cluster.kind("", "v1", "pods") else { return Err(StatusError::unknown_resource()) };
    let body = body::parse(call, "v1", "Binding")?;
    let mut target = call.target.clone();
    "pods".clone_into(&mut target.resource);
    target.name = Some(meta::text(&body, "name").to_owned());
    bind(&Call { cluster: call.cluster, request: call.request, user: call.user, kind: pods, target, media: call.media })
}

fn validate(target: &Value) -> Result<(), StatusError> {
    let text = |key: &str| target[key].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        causes.push(Cause::not_supported("target.kind", &target["kind"].to_string(), &["Node", "<empty>"]));
    }
    if text("name").is_empty() {
        causes.push(Cause::required("target.name", ""));
    }
    if causes.is_empty() {
        return Ok(());
    }
    // The real server has no Status for these.
    Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", Cause::list(&causes)))
}

/// Writes the node's name into the pod.
fn assign(call: &Call<'_>, binding: &Value, dry_run: bool) -> Result<(), StatusError> {
    let name = call.target.name.as_deref().unwrap_or_default();
    let refused = |why: String| Err(StatusError::conflict_named("", "pods/binding", name, why));
    loop {
        let stored = super::present(call)?;
        update::check_version(call, binding, &stored, dry_run)?;
        let mut pod = stored.value();
        if meta::is_deleting(&pod) {
            return refused(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            return refused(format!("pod {name} is already assigned to node {node:?}"));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            return refused(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        if let Some(status) = pod["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
        for key in ["annotations", "labels"] {
            for (name, value) in binding["metadata"][key].as_object().into_iter().flatten() {
                pod["metadata"][key][name] = value.clone();
            }
        }
        conditions::set_of_pod(&mut pod, json!({"type": "PodScheduled", "status": "True"}));
        if dry_run {
            return Ok(());
        }
        if call.kind.table.put(&call.target.key(), Some(stored.version), draft(&call.kind, &pod)).is_ok() {
            call.cluster.work.after_write(&call.kind, &pod, Some(&stored.value()));
            return Ok(());
        }
    }
}
