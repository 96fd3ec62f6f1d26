//! Why the API server rejected a request, and what to do about it.
//!
//! The server explains it in a `Status`: a code, a reason, causes, and a message.
//! Only the beginning of the message shows which part of the server rejected the
//! request.

mod cause;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::fmt;

use kooper_grammar::access::Rule;
use kube::core::Status;

use super::sources;

pub use cause::Cause;
pub(crate) use cause::LONGEST_PAUSE;

/// Returns `true` if an admission webhook or policy has rejected a request, which it does with any code.
#[must_use]
pub fn is_denied(status: &Status) -> bool {
    matches!(Cause::of(status), Cause::Rejected(_))
}

/// Returns `true` if the object, its namespace or its kind does not exist.
#[must_use]
pub fn is_not_found(status: &Status) -> bool {
    status.code == 404 && !is_denied(status)
}

/// Returns `true` if the object does not exist. A 404 without its name is that of a proxy, or of a replica of the API server
/// that does not serve the kind yet. That of an admission webhook is about something else.
#[must_use]
pub fn is_missing(status: &Status) -> bool {
    let is_named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    is_named && is_not_found(status)
}

/// The response to a request for an object; `None` if it is [missing](is_missing).
///
/// # Errors
/// Those of the request, but for this one.
pub fn unless_missing<T>(response: kube::Result<T>) -> kube::Result<Option<T>> {
    match response {
        Err(kube::Error::Api(status)) if is_missing(&status) => Ok(None),
        response => response.map(Some),
    }
}

/// Returns `true` if another client was first: the object has changed, or exists already.
#[must_use]
pub fn is_conflict(status: &Status) -> bool {
    status.code == 409 && !is_denied(status)
}

/// A rejected request. As the source of an error it determines when the worker
/// retries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}{advice}")]
pub struct ApiStatus {
    /// Why the server rejected it.
    pub cause: Cause,
    /// The server's message.
    words: String,
    /// The end of the message: what to do.
    advice: String,
}

/// A rule that a request needs.
#[derive(Debug, Clone)]
pub struct Needs<'a> {
    /// The rule that allows the request.
    pub rule: &'a Rule,
    /// The name of the only object that the rule must cover.
    pub only: Option<&'a str>,
    /// `None` for the whole cluster.
    pub namespace: Option<&'a str>,
}

impl ApiStatus {
    /// Reads a response.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        let words = if status.message.is_empty() { &status.reason } else { &status.message };
        Self { cause: Cause::of(status), words: words.clone(), advice: String::new() }
    }

    /// Adds the advice to the message.
    #[must_use]
    pub fn with_advice(mut self, needs: &Needs<'_>) -> Self {
        self.advice = self.advice(needs);
        self
    }

    /// Adds a clause to the message.
    pub fn add_advice(&mut self, advice: &str) {
        self.advice.push_str("; ");
        self.advice.push_str(advice);
    }

    /// The first refusal in the chain of an error. It may come from a client that
    /// the handler created itself.
    pub fn behind(error: &(dyn StdError + 'static)) -> Option<Self> {
        sources(error).find_map(|error| {
            if let Some(refusal) = error.downcast_ref::<Self>() {
                return Some(refusal.clone());
            }
            if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() {
                return Some(Self::of(status));
            }
            error.downcast_ref::<Status>().map(Self::of)
        })
    }

    /// Returns `true` if the request was refused because this namespace is being deleted.
    #[must_use]
    pub fn is_about(&self, namespace: &str) -> bool {
        self.words.contains(&format!(" in namespace {namespace} because it is being terminated"))
    }

    /// For a request that RBAC forbids: the user, the verb, the kind and the
    /// namespace. It is the same string for all objects.
    #[must_use]
    pub fn permission(&self) -> &str {
        self.words.find(" is forbidden: ").and_then(|at| self.words.get(at..)).unwrap_or(&self.words)
    }

    /// The advice, as the end of a message; empty where the server's message is
    /// enough.
    #[must_use]
    pub fn advice(&self, needs: &Needs<'_>) -> String {
        let advice = self.cause.advice(needs);
        if advice.is_empty() { advice } else { format!("; {advice}") }
    }
}

/// Returns `true` if the error was caused by a request that was forbidden because
/// an RBAC rule is missing.
pub fn is_missing_rule(error: &(dyn StdError + 'static)) -> bool {
    ApiStatus::behind(error).is_some_and(|refusal| refusal.cause == Cause::MissingRule)
}

impl fmt::Display for Needs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grant the rule \"{}\"", self.rule)?;
        if let Some(only) = self.only {
            write!(f, " with resourceNames `{only}`")?;
        }
        match self.namespace {
            Some(namespace) => write!(f, " in namespace `{namespace}`"),
            None => f.write_str(" for the whole cluster"),
        }
    }
}
