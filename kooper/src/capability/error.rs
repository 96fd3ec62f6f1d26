//! What the API server refuses, and what to do about it.

use std::time::Duration;

use kooper_grammar::access::Rule;
use kube::core::Status;

use super::owner::OwnerError;
use crate::error::BoxError;
use crate::error::is_terminating;
use crate::key::ObjectKey;
use crate::object::DecodeError;

/// What a namespace that is being deleted means: no retry helps.
const NOTHING_NEW: &str = "nothing can be created in it any more";

/// Why a capability could not do what it was asked to. A handler returns it
/// with `?`; the key is then tried again with back-off, or after the time that
/// the server asks for, or not at all where no retry helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    Refused(Box<Refused>),
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
    Wrong(#[source] crate::error::Error),
    /// The object does not fit its type: as it is in the cache, or as the
    /// server sent it back after it had done what it was asked to.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// What the server refused, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {kind} `{object}`: {}{advice}", words(status))]
#[non_exhaustive]
pub struct Refused {
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
    /// How long the server asks to wait, or that no retry helps: the worker finds it.
    #[source]
    wish: Option<crate::error::Error>,
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

impl Error {
    /// The server's refusal in full.
    pub fn status(&self) -> Option<&Status> {
        if let Self::Refused(refused) = self { Some(&refused.status) } else { None }
    }

    /// The HTTP status code of the server's refusal.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the object has changed, was replaced by another of its name,
    /// or exists already.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409 || is_another(status))
            || matches!(self, Self::Unseen { .. })
    }

    /// Whether a rule is missing, or a namespace is being deleted.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    pub(super) fn wrong(problem: impl Into<BoxError>) -> Self {
        Self::Wrong(crate::error::Error::permanent(problem))
    }

    /// What a failed request amounts to.
    pub(super) fn of(asked: Asked, error: kube::Error) -> Self {
        let told = match &error {
            kube::Error::Api(status) => advice(&asked, status),
            _ => String::new(),
        };
        let Asked { verb, kind, object, .. } = asked;
        match error {
            kube::Error::Api(status) => {
                let wish = if is_terminating(&status) {
                    Some(crate::error::Error::permanent(NOTHING_NEW))
                } else {
                    pause(&status).map(|pause| {
                        crate::error::Error::retry_after(pause, format!("the API server asks for a pause of {pause:?}"))
                    })
                };
                Self::Refused(Box::new(Refused { verb, kind, object, status, advice: told, wish }))
            }
            other => Self::Unanswered { verb, kind, object, source: other.into() },
        }
    }
}

impl From<OwnerError> for Error {
    fn from(error: OwnerError) -> Self {
        Self::wrong(error)
    }
}

/// Whether the status says that the object itself is not there, and not its
/// kind.
pub(super) fn is_gone(status: &Status) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

/// Whether the object that was meant, by its uid, is no more; another may have
/// its name.
pub(super) fn is_another(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        409 => status.message.to_ascii_lowercase().contains("uid"),
        422 => causes.any(|cause| cause.field == "metadata.uid"),
        _ => false,
    }
}

/// How long the server asks to wait.
fn pause(status: &Status) -> Option<Duration> {
    /// Where it does not say: as `kubectl drain` does.
    const USUAL: u32 = 5;
    let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    (status.code == 429).then(|| Duration::from_secs(if asked == 0 { USUAL } else { asked }.into()))
}

fn advice(asked: &Asked, status: &Status) -> String {
    let place = asked.object.namespace().map_or_else(String::new, |namespace| format!(" in namespace `{namespace}`"));
    let about = status.details.as_ref();
    match status.code {
        401 => "; renew the token or certificate of this program".to_owned(),
        403 if is_terminating(status) => {
            format!("; the namespace is being deleted, which is no matter of rules: {NOTHING_NEW}")
        }
        // The server looks up kinds by a list that it makes anew now and then.
        403 if status.message.contains("RESTMapping") => {
            "; the API server learns of a new kind within half a minute, which is no matter of rules".to_owned()
        }
        403 if status.message.contains("blockOwnerDeletion") => {
            format!("; grant the rule \"{}\"{place}: owner references need it", asked.owner)
        }
        403 => format!("; grant the rule \"{}\"{place}", asked.rule),
        404 if about.is_some_and(|about| about.kind == "namespaces") => "; create the namespace first".to_owned(),
        404 if !is_gone(status) => {
            format!("; the cluster serves no `{}`: apply its CRD, or check the API version", asked.rule.resource)
        }
        409 if about.is_some_and(|about| about.causes.iter().any(|cause| cause.reason == "FieldManagerConflict")) => {
            "; somebody else applies these fields: agree on who does".to_owned()
        }
        409 | 422 if is_another(status) => "; it was deleted, and another object may have its name".to_owned(),
        _ => String::new(),
    }
}

/// The server's own words.
fn words(status: &Status) -> &str {
    if status.message.is_empty() { &status.reason } else { &status.message }
}

fn controlled(owner: Option<&str>) -> String {
    owner.map_or_else(|| "nobody controls it".to_owned(), |owner| format!("{owner} controls it"))
}

#[cfg(test)]
mod tests;
