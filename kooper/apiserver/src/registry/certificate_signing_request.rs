//! CertificateSigningRequests.

use serde_json::{Value, json};

use super::row::{Row, or_none};
use super::strategy::{Reset, Strategy, keep};
use crate::identity::User;
use crate::time::{self, duration};

pub(super) struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn keeps_spec(&self) -> bool {
        true
    }

    /// Signers and approvers rely on the user, so that a client cannot choose it.
    fn record_user(&self, object: &mut Value, user: &User) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        let info = user.info();
        for key in ["username", "uid", "groups", "extra"] {
            keep(spec, &info, key);
        }
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        match subresource {
            "status" => Some(Reset::Fields(&[&["spec"], &["status", "conditions"]])),
            "approval" => Some(Reset::Fields(&[&["spec"], &["status", "certificate"]])),
            _ => None,
        }
    }

    fn merge_status(&self, object: &mut Value, present: &Value, subresource: &str) {
        if subresource == "status" {
            keep_decisions(object, present);
        }
        date_conditions(object, present);
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let has = |kind: &str| row.items("/status/conditions").iter().any(|condition| condition["type"] == kind);
        let mut status = if has("Denied") {
            "Denied"
        } else if has("Approved") {
            "Approved"
        } else {
            "Pending"
        }
        .to_owned();
        if has("Failed") {
            status.push_str(",Failed");
        }
        if !row.text("/status/certificate").is_empty() {
            status.push_str(",Issued");
        }
        let lasts = row.at("/spec/expirationSeconds").as_u64().map(duration).unwrap_or_default();
        let (signer, user) = (row.text_or("/spec/signerName", "<none>"), json!(row.text("/spec/username")));
        Some(vec![row.name(), row.age(), signer, user, or_none(lasts), json!(status)])
    }
}

/// Approvals and denials are written through their own path only.
fn keep_decisions(object: &mut Value, present: &Value) {
    for decision in ["Approved", "Denied"] {
        let mut old = conditions(present).filter(|condition| condition["type"] == decision);
        let count = conditions(object).filter(|condition| condition["type"] == decision).count();
        if count != old.clone().count() {
            continue;
        }
        for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
            if condition["type"] == decision
                && let Some(old) = old.next()
            {
                *condition = old.clone();
            }
        }
    }
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> + Clone {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

/// Conditions of a certificate request without times get those of the present ones, or now.
fn date_conditions(object: &mut Value, present: &Value) {
    let now = json!(time::now());
    for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if !condition["lastUpdateTime"].is_string() {
            condition["lastUpdateTime"] = now.clone();
        }
        if !condition["lastTransitionTime"].is_string() {
            let same = |old: &&Value| old["type"] == condition["type"] && old["status"] == condition["status"];
            let since = conditions(present).find(same).map(|old| old["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = since.filter(Value::is_string).unwrap_or_else(|| now.clone());
        }
    }
}
