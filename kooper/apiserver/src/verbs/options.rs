//! The options that every write takes.

use serde_json::{Value, json};

use crate::http::Request;
use crate::patch::format::is_printable;
use crate::patch::user_agent::manager_name;
use crate::status::{Cause, StatusError};

/// Treatment of fields that are not in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Strict,
    Warn,
    Ignore,
}

/// Options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    /// Who comes to own what is written.
    pub(crate) manager: String,
    pub(crate) force: bool,
}

impl WriteOptions {
    /// The options as admission sees them; `kind` is what they are called.
    pub(crate) fn review(request: &Request, kind: &str) -> Value {
        let query = &request.query;
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        for key in ["fieldManager", "fieldValidation"] {
            if let Some(value) = query.get(key).filter(|value| !value.is_empty()) {
                options[key] = json!(value);
            }
        }
        let dry_run: Vec<_> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
        if !dry_run.is_empty() {
            options["dryRun"] = json!(dry_run);
        }
        options
    }

    /// Reads the query; `kind` is what the options are called in a refusal.
    pub(crate) fn parse(request: &Request, kind: &str) -> Result<Self, StatusError> {
        let query = &request.query;
        let mut causes = Vec::new();
        let manager = query.get("fieldManager");
        let applying = kind == "PatchOptions" && request.content_type().starts_with("application/apply-patch");
        if applying && manager.is_none() {
            causes.push(Cause::required("fieldManager", "is required for apply patch"));
        } else if kind == "PatchOptions" && !applying && query.has("force") {
            causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
        }
        let manager = manager.unwrap_or_default();
        if manager.len() > 128 {
            let message = "Too long: may not be more than 128 bytes";
            causes.push(Cause::other("FieldValueTooLong", "fieldManager", message));
        }
        for (at, char) in manager.char_indices().filter(|(_, char)| !is_printable(*char)) {
            let why = format!("invalid character U+{:04X} (at position {at})", u32::from(char));
            causes.push(Cause::invalid("fieldManager", &json!(manager), why));
        }
        let dry_run: Vec<_> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
        if dry_run.iter().any(|value| *value != "All") {
            causes.push(Cause::not_supported("dryRun", &json!(dry_run).to_string(), &["All"]));
        }
        let validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                causes.push(Cause::not_supported("fieldValidation", &format!("{other:?}"), &supported));
                FieldValidation::Warn
            }
        };
        if !causes.is_empty() {
            return Err(StatusError::invalid("meta.k8s.io", kind, "", &causes));
        }
        let agent = request.header(http::header::USER_AGENT).unwrap_or_default();
        let manager = manager_name(manager, agent);
        Ok(Self { dry_run: !dry_run.is_empty(), validation, manager, force: query.flag("force") })
    }
}
