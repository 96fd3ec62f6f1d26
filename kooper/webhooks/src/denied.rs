//! The error that denies a request.

use std::error::Error as StdError;
use std::fmt;

use kooper_runtime::internal::error::sources;
use kooper_runtime::internal::object::kind::KindInfo;
use serde_json::{Value, json};

/// The error that denies a request. It can list several invalid fields of the object.
///
/// It is found in the [`source`](StdError::source) chain of the error that the function
/// returns, also in `anyhow` contexts and with `#[from]` of `thiserror`. Any other error is a
/// failure of the webhook, and its failure policy decides.
///
/// ```
/// use kooper_webhooks::Denied;
///
/// fn check(size: i32, flavour: &str) -> Result<(), Denied> {
///     let mut denied = Denied::default();
///     if size < 1 {
///         denied = denied.field("spec.size", "must be at least 1");
///     }
///     if flavour.is_empty() {
///         denied = denied.field("spec.flavour", "must be set");
///     }
///     denied.into_result()
/// }
/// assert!(check(1, "vanilla").is_ok());
/// let denied = check(0, "").unwrap_err();
/// assert_eq!(denied.to_string(), "spec.size: must be at least 1, spec.flavour: must be set");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denied {
    causes: Vec<Cause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cause {
    /// Empty for the object as a whole.
    field: String,
    message: String,
}

impl Denied {
    /// Creates a denial for a reason that does not concern a single field.
    pub fn new(message: impl Into<String>) -> Self {
        Self::default().field("", message)
    }

    /// Adds an invalid field, by its path, such as `spec.ports[0].name`.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, message: impl Into<String>) -> Self {
        self.causes.push(Cause { field: field.into(), message: message.into() });
        self
    }

    /// Returns `Ok` if no field and no reason was added.
    ///
    /// # Errors
    /// Otherwise, `self`.
    pub fn into_result(self) -> Result<(), Self> {
        if self.causes.is_empty() { Ok(()) } else { Err(self) }
    }

    /// The first one in the chain of an error.
    pub(crate) fn in_chain<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        sources(error).find_map(|error| error.downcast_ref())
    }

    /// The `Status` by which kubectl lists every cause.
    pub(crate) fn status(&self, kind: &KindInfo, name: &str) -> Value {
        let cause = |cause: &Cause| {
            let mut json = json!({"reason": "FieldValueInvalid", "message": cause.message});
            if !cause.field.is_empty() {
                json["field"] = cause.field.as_str().into();
            }
            json
        };
        let causes: Vec<_> = self.causes.iter().map(cause).collect();
        json!({
            "status": "Failure", "code": 422, "reason": "Invalid", "message": self.to_string(),
            "details": {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes},
        })
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Cause { field, message }) in self.causes.iter().enumerate() {
            let (comma, colon) = (if at == 0 { "" } else { ", " }, if field.is_empty() { "" } else { ": " });
            write!(f, "{comma}{field}{colon}{message}")?;
        }
        if self.causes.is_empty() { f.write_str("the request is denied") } else { Ok(()) }
    }
}

impl StdError for Denied {}

#[cfg(test)]
mod tests {
    use kooper_runtime::HandlerError;

    use super::*;

    #[test]
    fn it_is_found_in_an_error_of_a_handler() {
        let denied = || Denied::new("it is too small");
        for error in [HandlerError::public(denied()), HandlerError::permanent(denied())] {
            assert!(Denied::in_chain(&error).is_some_and(|denied| denied.to_string() == "it is too small"));
        }
    }
}
