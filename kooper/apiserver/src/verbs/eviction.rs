//! `pods/eviction`: deletes a pod if its disruption budget allows that.

use http::StatusCode;
use serde_json::{Value, json};

use super::delete::{DeleteOptions, check_preconditions, remove_object};
use super::{Call, WriteOptions, body, draft, warned};
use crate::http::Answer;
use crate::kinds::Kind;
use crate::select::LabelSelector;
use crate::status::{self, StatusError};
use crate::{conditions, fields, meta, time};

/// The seconds after which a client may try again while the budget's status is out of date.
const STALE_RETRY: u32 = 10;
/// The evictions that the disruption controller may still have to see.
const MOST_DISRUPTED: usize = 2000;

pub(super) fn evict(call: &Call<'_>) -> Result<Answer, StatusError> {
    let options = WriteOptions::parse(call.request, "CreateOptions")?;
    let (eviction, warnings) = body::posted(call, ("policy", "v1", "Eviction"), options.validation)?;
    Ok(warned(evicted(call, &options, &eviction), &warnings))
}

fn evicted(call: &Call<'_>, options: &WriteOptions, eviction: &Value) -> Result<Answer, StatusError> {
    let name = call.target.name.as_deref().unwrap_or_default();
    if meta::text(eviction, "name") != name {
        return Err(StatusError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut deletion = match eviction.get("deleteOptions") {
        Some(options) => DeleteOptions::of_body(options)?,
        None => DeleteOptions::default(),
    };
    if options.dry_run {
        deletion.dry_run.push("All".to_owned());
    }
    loop {
        let stored = super::present(call)?;
        let pod = stored.value();
        let version = stored.version.to_string();
        let any_version = deletion.version.is_none();
        let checked = if ignores_budgets(&pod) {
            // A pod that has not started must not become ready in between.
            if is_pending(&pod) { Checked::Unguarded } else { Checked::Free }
        } else {
            check_budget(call, &pod, deletion.is_dry_run())?
        };
        let mut deletion = deletion.clone();
        if any_version && checked == Checked::Unguarded {
            deletion.version = Some(version);
        }
        match delete(call, &deletion) {
            Ok(()) => return Ok(Answer::json(StatusCode::CREATED, &status::created())),
            // The pod has changed since it was judged.
            Err(refusal)
                if refusal.code == StatusCode::CONFLICT
                    && any_version
                    && checked == Checked::Unguarded
                    && super::present(call)?.version != stored.version => {}
            Err(refusal) => return Err(refusal),
        }
    }
}

/// Result of checking the budgets of a pod that may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    /// Its deletion is accounted for, or no budget is concerned.
    Free,
    /// It may go in the state in which it was seen only.
    Unguarded,
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

fn is_pending(pod: &Value) -> bool {
    phase(pod) == "Pending" && !meta::is_deleting(pod)
}

/// A pod that does not run disrupts nothing.
fn ignores_budgets(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

/// Finds the budget of a pod and takes one disruption from it.
fn check_budget(call: &Call<'_>, pod: &Value, dry_run: bool) -> Result<Checked, StatusError> {
    let Some(kind) = call.cluster.kind("policy", "v1", "poddisruptionbudgets") else { return Ok(Checked::Free) };
    let snapshot = kind.table.snapshot();
    let entries = snapshot.tree.in_namespace(meta::text(pod, "namespace"));
    let mut keys = entries.filter(|(_, object)| selects(&object.value(), pod)).map(|(key, _)| key.to_string());
    let Some(key) = keys.next() else { return Ok(Checked::Free) };
    if keys.next().is_some() {
        let message =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message));
    }
    loop {
        let Some(stored) = kind.table.get(&key) else { return Ok(Checked::Free) };
        let budget = stored.value();
        if !conditions::has(pod, "Ready", "True") && spares_unready(&budget) {
            return Ok(Checked::Unguarded);
        }
        let next = decrement(&kind, &budget, meta::text(pod, "name"))?;
        if dry_run {
            return Ok(Checked::Free);
        }
        let next = fields::updated(call.cluster, &kind, "status", &budget, next, "kube-apiserver");
        if kind.table.put(&key, Some(stored.version), draft(&kind, &next)).is_ok() {
            return Ok(Checked::Free);
        }
    }
}

fn selects(budget: &Value, pod: &Value) -> bool {
    LabelSelector(&budget["spec"]["selector"]).matches(&pod["metadata"]["labels"])
}

/// Returns whether a budget allows the eviction of pods that are not ready, without
/// counting them.
fn spares_unready(budget: &Value) -> bool {
    let count = |key: &str| budget["status"][key].as_i64().unwrap_or(0);
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy")
}

/// The budget with one disruption less.
fn decrement(kind: &Kind, budget: &Value, pod: &str) -> Result<Value, StatusError> {
    let name = meta::text(budget, "name");
    let status = &budget["status"];
    let count = |key: &str| status[key].as_i64().unwrap_or(0);
    if count("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(&why).with_retry_after(STALE_RETRY));
    }
    let forbidden = |why| Err(StatusError::forbidden_named(&kind.group, "poddisruptionbudget", name, why));
    if count("disruptionsAllowed") < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if count("disruptionsAllowed") == 0 {
        return Err(exhausted(name, status));
    }
    let mut next = budget.clone();
    let left = count("disruptionsAllowed") - 1;
    next["status"]["disruptionsAllowed"] = json!(left);
    next["status"]["disruptedPods"][pod] = json!(time::now());
    if left == 0 {
        let condition = json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": count("observedGeneration"),
            "reason": "InsufficientPods",
            "message": ""
        });
        conditions::set(&mut next, condition);
    }
    Ok(next)
}

fn refused(cause: &str) -> StatusError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let about = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    StatusError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).with_details(about)
}

fn exhausted(name: &str, status: &Value) -> StatusError {
    let count = |key: &str| status[key].as_i64().unwrap_or(0);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    let denied = conditions
        .filter(|condition| condition["type"] == "DisruptionAllowed" && condition["status"] == "False")
        .find(|condition| !text(condition, "message").is_empty());
    let not_allowed = format!("The disruption budget {name} does not allow evicting pods currently");
    refused(&match denied {
        Some(condition) if condition["reason"] == "SyncFailed" => {
            format!("{not_allowed} because it failed sync: {}", text(condition, "message"))
        }
        _ if count("currentHealthy") <= count("desiredHealthy") => format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            count("desiredHealthy"),
            count("currentHealthy")
        ),
        Some(condition) => {
            format!("{not_allowed} ({}): {}", text(condition, "reason"), text(condition, "message"))
        }
        None => not_allowed,
    })
}

/// Records in the pod's status why it is deleted, and deletes it.
fn delete(call: &Call<'_>, options: &DeleteOptions) -> Result<(), StatusError> {
    let kind = &call.kind;
    let key = call.target.key();
    let name = call.target.name.as_deref().unwrap_or_default();
    let mut options = options.clone();
    while !options.is_dry_run() {
        let stored = super::present(call)?;
        check_preconditions(kind, name, &stored, &options)?;
        let present = stored.value();
        let mut next = present.clone();
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting"
        });
        conditions::set_of_pod(&mut next, condition);
        let Ok(written) = kind.table.put(&key, Some(stored.version), draft(kind, &next)) else { continue };
        // The writer of this version is the eviction itself.
        if options.version.is_some() {
            options.version = Some(written.version.to_string());
        }
        break;
    }
    remove_object(call.cluster, kind, &key, &options).map(drop)
}
