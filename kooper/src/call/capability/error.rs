//! What the API server refuses, and what to do about it.

use kooper_grammar::access::Rule;
use kube::core::Status;

use super::owner::OwnerError;
use crate::error::BoxError;
use crate::error::refusal::{Cause, Needs, Refusal, is_missing_rule};
use crate::object::DecodeError;
use crate::object::key::ObjectKey;

/// Why a capability could not do what it was asked to. A handler returns it
/// with `?`; the key is then tried again with back-off, or after the time that
/// the server asks for, or not at all where no retry helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// An object of this name exists, and is not the owner's child.
    #[error("{kind} `{object}` exists and is not controlled by {wanted}: {}; it is left as it is. Choose another name, delete it, or adopt it where nobody controls it", controlled(owner.as_deref()))]
    NotOurs {
        /// The kind of the object.
        kind: String,
        /// The object.
        object: ObjectKey,
        /// Who should control it, as `Kind namespace/name`.
        wanted: String,
        /// Who controls it, as `Kind name (uid)`; `None` where nobody does.
        owner: Option<String>,
    },
    /// The server refused.
    #[error(transparent)]
    Rejected(Box<Rejection>),
    /// There was no answer. A write may have been done or not.
    #[error("cannot {verb} {kind} `{object}`: no answer from the API server")]
    Unanswered {
        /// What was asked for, such as `delete`.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
        /// The object.
        object: ObjectKey,
        /// What happened instead.
        #[source]
        source: BoxError,
    },
    /// The server has an object that the cache has not: it is not known yet
    /// whose it is. The retry finds it in the cache.
    #[error("{kind} `{object}` exists and the cache has not seen it yet: the retry will know whose it is")]
    Unseen {
        /// The kind of the object.
        kind: String,
        /// The object.
        object: ObjectKey,
    },
    /// The object has no name, no namespace, or one too many, or the owner
    /// cannot own it. No retry helps.
    #[error("{0}")]
    Wrong(#[source] crate::error::HandlerError),
    /// The object does not fit its type: as it is in the cache, or as the
    /// server sent it back after it had done what it was asked to.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// What the server refused, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {kind} `{object}`: {refusal}{advice}")]
#[non_exhaustive]
pub struct Rejection {
    /// What was asked for, such as `delete`.
    pub verb: &'static str,
    /// The kind of the object.
    pub kind: String,
    /// The object.
    pub object: ObjectKey,
    /// The server's answer.
    pub status: Box<Status>,
    /// What to do; empty where the server's words say it all.
    pub advice: String,
    /// How it reads: the worker finds it.
    #[source]
    refusal: Refusal,
}

/// What was asked of the server.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) verb: &'static str,
    pub(super) kind: String,
    pub(super) object: ObjectKey,
    /// What it takes.
    pub(super) rule: Rule,
    /// The resource of the controller's own kind, as an owner.
    pub(super) owner: Rule,
}

impl AccessError {
    /// The server's refusal in full.
    pub fn status(&self) -> Option<&Status> {
        if let Self::Rejected(rejection) = self { Some(&rejection.status) } else { None }
    }

    /// The HTTP status code of the server's refusal.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the object has changed, was replaced by another of its name,
    /// or exists already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409) || self.is_another() || matches!(self, Self::Unseen { .. })
    }

    /// Whether the server forbids the request (403). There are many reasons:
    /// a missing rule ([`is_missing_rule`](Self::is_missing_rule)), a quota, an
    /// admission plugin, a namespace that is being deleted
    /// ([`is_namespace_terminating`](Self::is_namespace_terminating)).
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether the authorizer refused the request: no rule grants it.
    pub fn is_missing_rule(&self) -> bool {
        is_missing_rule(self)
    }

    /// Whether the request was refused because the namespace is being deleted:
    /// nothing can be created in it. A `cleanup` that creates something has to
    /// do without it then, as the namespace waits for the finalizer.
    pub fn is_namespace_terminating(&self) -> bool {
        self.cause() == Some(&Cause::NamespaceTerminating)
    }

    /// Whether the object itself does not exist, though its kind does.
    pub(super) fn is_gone(&self) -> bool {
        self.cause() == Some(&Cause::Gone)
    }

    /// Whether the object that was meant, by its uid, does not exist.
    pub(super) fn is_another(&self) -> bool {
        self.cause() == Some(&Cause::AnotherObject)
    }

    fn cause(&self) -> Option<&Cause> {
        if let Self::Rejected(rejection) = self { Some(&rejection.refusal.cause) } else { None }
    }

    pub(super) fn wrong(problem: impl Into<BoxError>) -> Self {
        Self::Wrong(crate::error::HandlerError::permanent(problem))
    }

    /// What a failed request amounts to.
    pub(super) fn of(asked: Asked, error: kube::Error) -> Self {
        let Asked { verb, kind, object, rule, owner } = asked;
        match error {
            kube::Error::Api(status) => {
                let refusal = Refusal::of(&status);
                let rule = if refusal.cause == Cause::MissingOwnerRule { &owner } else { &rule };
                let advice = refusal.advice(&Needs { rule, only: None, namespace: object.namespace() });
                Self::Rejected(Box::new(Rejection { verb, kind, object, status, advice, refusal }))
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

fn controlled(owner: Option<&str>) -> String {
    owner.map_or_else(|| "nobody controls it".to_owned(), |owner| format!("{owner} controls it"))
}

#[cfg(test)]
mod tests;
