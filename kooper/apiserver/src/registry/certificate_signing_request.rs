//! CertificateSigningRequests.

use serde_json::{Value, json};

use super::row::{Row, or_none};
use super::strategy::Strategy;
use crate::time::duration;

pub(super) struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
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
