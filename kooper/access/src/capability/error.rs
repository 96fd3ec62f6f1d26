//! Errors of capabilities.

use std::time::Duration;

use kooper_grammar::access::Rule;
use kooper_runtime::error::{self, StaleCache};
use kooper_runtime::internal::error::refusal::{ApiStatus, Cause, Needs, is_missing_rule};
use kooper_runtime::object::DecodeError;
use kooper_runtime::{BoxError, ObjectKey};
use kube::core::Status;

use super::owner::OwnerError;

/// An error of a capability's request.
///
/// A handler returns it with `?`. Then the key is retried with back-off, or
/// after the delay that the API server requests. It is not retried if a retry
/// cannot succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// An object of this name exists and is not a child of the owner.
    #[error("{kind} `{object}` exists and is not controlled by {wanted}: {}; it was not changed. Choose another name, delete it, or adopt it if no owner controls it", controlled(owner.as_deref()))]
    NotOurs {
        /// The kind of the object.
        kind: String,
        /// The object.
        object: ObjectKey,
        /// The owner that should control it, as `Kind namespace/name`.
        wanted: String,
        /// The owner that controls it, as `Kind name (uid)`, if any.
        owner: Option<String>,
    },
    /// The API server rejected the request. The source is the reason that it
    /// returned.
    #[error(transparent)]
    Rejected(Box<Rejection>),
    /// The API server did not respond, or what responded is not the API server, such as a
    /// proxy. A write may have been done.
    #[error("cannot {verb} {kind} `{object}`: no response from the API server: {}", error::chain(&**.source))]
    Unanswered {
        /// The verb, such as `delete`.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
        /// The object.
        object: ObjectKey,
        /// The error of the connection.
        #[source]
        source: BoxError,
    },
    /// The object exists, but the cache does not have it yet, so its owner is not
    /// known. A retry finds it in the cache.
    #[error("{kind} `{object}` exists, but the cache does not have it yet: its owner is checked at the next retry")]
    Unseen {
        /// The kind of the object.
        kind: String,
        /// The object.
        object: ObjectKey,
        /// Why the call is repeated at once.
        #[doc(hidden)]
        source: StaleCache,
    },
    /// The owner is being deleted, so its child was not applied. It is not retried: the
    /// owner's deletion ends the calls of its handler.
    #[error(transparent)]
    OwnerTerminating(error::HandlerError),
    /// The child was created several times and deleted each time. It is created
    /// again after a pause, and nothing is written until then.
    #[error(transparent)]
    DeletedAgain(error::HandlerError),
    /// The object is invalid: its name or namespace is missing or invalid, or the
    /// owner cannot own it. It is not retried.
    #[error(transparent)]
    Wrong(error::HandlerError),
    /// The object does not decode as its type, as it is in the cache or in the
    /// response to a write that was done.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// A rejected request. Its text has the API server's reason, with what to do about it,
/// which is the [`source`](std::error::Error::source), too.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {kind} `{object}`: {refusal}")]
#[non_exhaustive]
pub struct Rejection {
    /// The verb, such as `delete`.
    pub verb: &'static str,
    /// The kind of the object.
    pub kind: String,
    /// The object.
    pub object: ObjectKey,
    /// The API server's response.
    pub status: Box<Status>,
    /// The worker finds it in the chain of sources, to decide about the retry.
    #[source]
    refusal: ApiStatus,
}

/// A request to the API server, for messages.
#[derive(Debug, Clone)]
pub(super) struct RequestInfo {
    pub(super) verb: &'static str,
    pub(super) kind: String,
    pub(super) object: ObjectKey,
    /// The rule that it needs.
    pub(super) rule: Rule,
    /// `true` if the rule is limited to the object's name.
    pub(super) named: bool,
    /// The rule for owner references to the controller's own kind.
    pub(super) owner: Rule,
}

impl RequestInfo {
    /// The error of a request whose response is missing, or is not that of the API server.
    pub(super) fn unanswered(self, source: impl Into<BoxError>) -> AccessError {
        let Self { verb, kind, object, .. } = self;
        AccessError::Unanswered { verb, kind, object, source: source.into() }
    }
}

impl AccessError {
    /// The API server's `Status`, if it rejected the request.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        if let Self::Rejected(rejection) = self { Some(&rejection.status) } else { None }
    }

    /// The HTTP status code, if the API server rejected the request.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Returns whether the object, its namespace or its kind does not exist (404). The same code
    /// of an admission webhook is about something else.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404) && !self.is_denied()
    }

    /// Returns whether the object has changed, was replaced by another one with the
    /// same name, or already exists. A conflict of a ResourceQuota, whose usage another write
    /// has changed at the same time, is not about the object, and neither is the code 409 of an
    /// admission webhook.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        let is_of_object = !self.is_of_quota() && !self.is_denied();
        (self.code() == Some(409) && is_of_object) || self.is_another() || matches!(self, Self::Unseen { .. })
    }

    /// Returns whether the request was forbidden (403). Possible reasons are a missing
    /// rule ([`is_missing_rule`](Self::is_missing_rule)), a quota, an admission plugin,
    /// or a namespace that is being deleted
    /// ([`is_namespace_terminating`](Self::is_namespace_terminating)).
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Returns whether the request was forbidden because no rule allows it.
    #[must_use]
    pub fn is_missing_rule(&self) -> bool {
        is_missing_rule(self)
    }

    /// Returns whether the request was forbidden because the namespace is being
    /// deleted. Nothing can be created in it. The namespace waits for the finalizer, so
    /// a `cleanup` must not depend on creating an object then.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.cause() == Some(&Cause::NamespaceTerminating)
    }

    /// Returns whether the object has changed, or was replaced by another one, since the version in the request.
    #[doc(hidden)]
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.is_stale() || self.is_another()
    }

    /// Returns whether the object has changed since the version in the request.
    pub(super) fn is_stale(&self) -> bool {
        self.has_stale_version() && !self.is_of_quota()
    }

    /// Returns whether the usage of a ResourceQuota has changed while the request was checked against it. Nothing was
    /// written, and the same request can succeed.
    pub(super) fn is_of_quota(&self) -> bool {
        let Self::Rejected(rejection) = self else { return false };
        let details = rejection.status.details.as_ref();
        let is_quota = details.is_some_and(|details| details.kind == "resourcequotas");
        is_quota && rejection.kind != "ResourceQuota" && self.has_stale_version()
    }

    /// Returns whether the server has compared the version of an object.
    fn has_stale_version(&self) -> bool {
        self.cause() == Some(&Cause::Conflict) && self.status().is_some_and(|status| status.reason == "Conflict")
    }

    /// Returns whether the server says that a field cannot be changed.
    pub(super) fn is_immutable(&self) -> bool {
        matches!(self.cause(), Some(Cause::Immutable(_)))
    }

    /// Returns whether an object with this name already exists.
    pub(super) fn exists(&self) -> bool {
        self.cause() == Some(&Cause::Conflict) && self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Returns whether an admission webhook or policy has rejected the request, with any code.
    fn is_denied(&self) -> bool {
        matches!(self.cause(), Some(Cause::Rejected(_)))
    }

    /// The same error, and what is known about it.
    pub(super) fn advised(mut self, advice: &str) -> Self {
        if let Self::Rejected(rejection) = &mut self {
            rejection.refusal.add_advice(advice);
        }
        self
    }

    /// Returns whether the object does not exist, although its kind does.
    pub(super) fn is_gone(&self) -> bool {
        self.cause() == Some(&Cause::Gone)
    }

    /// Returns whether no object with the requested uid exists.
    pub(super) fn is_another(&self) -> bool {
        self.cause() == Some(&Cause::AnotherObject)
    }

    fn cause(&self) -> Option<&Cause> {
        if let Self::Rejected(rejection) = self { Some(&rejection.refusal.cause) } else { None }
    }

    pub(super) fn wrong(problem: impl Into<BoxError>) -> Self {
        Self::Wrong(error::HandlerError::permanent(problem))
    }

    pub(super) fn owner_terminating(kind: &str, object: &ObjectKey, owner: &str) -> Self {
        let problem = format!("{kind} `{object}` was not applied: its owner, {owner}, is being deleted");
        Self::OwnerTerminating(error::HandlerError::permanent(problem))
    }

    pub(super) fn deleted_again(kind: &str, object: &ObjectKey, owner: &str, pause: Duration) -> Self {
        let problem = format!(
            "{kind} `{object}` was created several times and deleted each time: another client deletes it, or {owner} \
             was deleted and the cache is not up to date yet"
        );
        Self::DeletedAgain(error::HandlerError::retry_after(pause, problem))
    }

    /// The error of a failed request.
    pub(super) fn of(info: RequestInfo, error: kube::Error) -> Self {
        let RequestInfo { verb, kind, object, rule, named, owner } = info;
        match error {
            kube::Error::Api(status) => {
                let mut refusal = ApiStatus::of(&status);
                // An object without a namespace cannot lack it: it is the Namespace itself.
                if refusal.cause == Cause::NoNamespace && object.namespace().is_none() {
                    refusal.cause = Cause::Gone;
                }
                let rule = match refusal.cause {
                    Cause::MissingOwnerRule => owner,
                    Cause::MissingDeleteRule => Rule { verbs: vec!["delete".to_owned()], ..rule },
                    _ => rule,
                };
                let only = named.then(|| object.name());
                let refusal = refusal.with_advice(&Needs { rule: &rule, only, namespace: object.namespace() });
                Self::Rejected(Box::new(Rejection { verb, kind, object, status, refusal }))
            }
            other => Self::Unanswered { verb, kind, object, source: other.into() },
        }
    }
}

impl From<OwnerError> for AccessError {
    fn from(error: OwnerError) -> Self {
        Self::wrong(error)
    }
}

/// Who controls an object, for messages.
pub(super) fn controlled(owner: Option<&str>) -> String {
    owner.map_or_else(|| "no owner controls it".to_owned(), |owner| format!("{owner} controls it"))
}

#[cfg(test)]
mod tests;
