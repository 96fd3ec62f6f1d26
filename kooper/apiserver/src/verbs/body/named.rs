//! The type that the path of a request names, which an object must have.

use serde_json::Value;

use super::super::{Call, FieldValidation};
use super::excerpt;
pub(in crate::verbs) use crate::http::syntax::SCHEME;
use crate::kinds::{Kind, split_group_version};
use crate::status::StatusError;

/// The versions in which there were Scales once.
const OLD_SCALES: [&str; 3] = ["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"];

/// The type that the path of a request names.
#[derive(Clone, Copy)]
pub(super) struct Type<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
    pub(super) custom: bool,
    /// `true` if the object is the result of a patch, which may change the version of a custom
    /// object.
    pub(super) patched: bool,
}

impl<'a> Type<'a> {
    pub(super) fn of(kind: &'a Kind) -> Self {
        let custom = kind.custom.is_some();
        Self { group: &kind.group, version: &kind.version, kind: &kind.kind, custom, patched: false }
    }

    pub(super) fn api_version(self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Refuses an object that names another type.
    pub(super) fn check(self, call: &Call<'_>, object: &Value) -> Result<(), StatusError> {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (found, version) = (text("kind"), text("apiVersion"));
        let expected = self.api_version();
        let unrecognized = |why: String| {
            if self.patched {
                return StatusError::bad_request(why);
            }
            let excerpt = excerpt(&call.request.body);
            StatusError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {why} ({excerpt})",
                self.kind
            ))
        };
        if version.matches('/').count() > 1 {
            return Err(unrecognized(format!("unexpected GroupVersion string: {version}")));
        }
        if self.custom {
            if found.is_empty() {
                let body = String::from_utf8_lossy(&call.request.body);
                let body = if self.patched { object.to_string() } else { body.into_owned() };
                return Err(unrecognized(format!("Object 'Kind' is missing in '{body}'")));
            }
        } else if !found.is_empty() || !version.is_empty() {
            let name = if found.is_empty() { self.kind } else { found };
            let given = if version.is_empty() { expected.as_str() } else { version };
            let (group, version) = split_group_version(given);
            let registered = call.cluster.kinds().of(given, name).is_some_and(|kind| kind.custom.is_none())
                || crate::schema::published::typed(&group, &version, name).is_some()
                || name.ends_with("List")
                || name == "Scale" && OLD_SCALES.contains(&given);
            let why = if !registered {
                format!("no kind {name:?} is registered for version {given:?} in scheme {SCHEME:?}")
            } else if name != self.kind {
                let internal =
                    if self.group.is_empty() { "core" } else { self.group.split('.').next().unwrap_or_default() };
                format!("converting ({version}.{name}) to ({internal}.{}): unknown conversion", self.kind)
            } else {
                String::new()
            };
            if !why.is_empty() {
                let message = format!("{name} in version {version:?} cannot be handled as a {}: {why}", self.kind);
                return Err(StatusError::bad_request(message));
            }
        }
        let counts = if self.custom { !self.patched } else { !version.is_empty() };
        if counts && version != expected {
            return Err(StatusError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        Ok(())
    }

    /// Refuses unknown and duplicate fields, or turns them into warnings.
    pub(super) fn report(self, found: Vec<String>, validation: FieldValidation) -> Result<Vec<String>, StatusError> {
        match validation {
            FieldValidation::Strict if !found.is_empty() => {
                let message = format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                    self.kind,
                    self.version,
                    self.kind,
                    found.join(", ")
                );
                Err(StatusError::bad_request(message))
            }
            FieldValidation::Warn => Ok(found),
            _ => Ok(Vec::new()),
        }
    }
}
