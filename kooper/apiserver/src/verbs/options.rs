//! The options that every write takes.

use crate::http::Query;
use crate::status::{Cause, Refusal};

/// What becomes of fields that the schema does not know.
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
}

impl WriteOptions {
    /// Reads the query; `kind` is what the options are called in a refusal.
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self, Refusal> {
        let mut causes = Vec::new();
        let dry_run: Vec<_> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
        if dry_run.iter().any(|value| *value != "All") {
            causes.push(Cause::not_supported("dryRun", &format!("{dry_run:?}"), &["All"]));
        }
        let manager = query.get("fieldManager");
        if manager.is_some_and(|manager| manager.len() > 128) {
            let message = "Too long: may not be more than 128 bytes";
            causes.push(Cause::other("FieldValueTooLong", "fieldManager", message));
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
            return Err(Refusal::invalid("meta.k8s.io", kind, "", &causes));
        }
        Ok(Self { dry_run: !dry_run.is_empty(), validation })
    }
}
