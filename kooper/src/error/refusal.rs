//! How a refusal of the API server reads, and what to do about it.
//!
//! The server explains a refusal in a `Status`: a code, a reason, causes, and
//! a message whose beginning is the only sign of which part of it refused.

mod cause;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::fmt;

use kooper_grammar::access::Rule;
use kube::core::Status;

pub(crate) use cause::Cause;

/// A refused request. As a source of an error it lets the worker know when to
/// retry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Refusal {
    /// What it is about.
    pub(crate) cause: Cause,
    /// The server's message.
    words: String,
}

/// A rule that a request needs.
#[derive(Debug, Clone)]
pub(crate) struct Needs<'a> {
    pub(crate) rule: &'a Rule,
    /// The only object that the rule has to be for.
    pub(crate) only: Option<&'a str>,
    /// `None` for the whole cluster.
    pub(crate) namespace: Option<&'a str>,
}

impl Refusal {
    pub(crate) fn of(status: &Status) -> Self {
        let words = if status.message.is_empty() { &status.reason } else { &status.message };
        Self { cause: Cause::of(status), words: words.clone() }
    }

    /// The first refusal in the chain of an error, also one that a handler got
    /// from a client of its own.
    pub(crate) fn behind(error: &(dyn StdError + 'static)) -> Option<Self> {
        std::iter::successors(Some(error), |error: &&(dyn StdError + 'static)| (*error).source()).find_map(|error| {
            if let Some(refusal) = error.downcast_ref::<Self>() {
                return Some(refusal.clone());
            }
            if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() {
                return Some(Self::of(status));
            }
            error.downcast_ref::<Status>().map(Self::of)
        })
    }

    /// Who may not do what to which kind in which namespace, where the
    /// authorizer refused: the same words for all objects.
    pub(crate) fn permission(&self) -> &str {
        self.words.find(" is forbidden: ").and_then(|at| self.words.get(at..)).unwrap_or(&self.words)
    }

    /// What to do, as the end of a message: empty where the server's words say
    /// it all.
    pub(crate) fn advice(&self, needs: &Needs<'_>) -> String {
        let advice = self.cause.advice(needs);
        if advice.is_empty() { advice } else { format!("; {advice}") }
    }
}

/// Whether the authorizer refused a request for want of a rule, anywhere in
/// the chain of the error.
pub(crate) fn is_missing_rule(error: &(dyn StdError + 'static)) -> bool {
    Refusal::behind(error).is_some_and(|refusal| refusal.cause == Cause::MissingRule)
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
