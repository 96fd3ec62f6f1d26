//! Errors of handlers, and when their calls are retried.
//!
//! A handler may return any error; it is retried with back-off. [`HandlerError`]
//! wraps an error to change that.

mod guarded;
pub(crate) mod refusal;

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::refusal::{Cause, Refusal};

/// Any error, boxed. The errors that handlers return are converted to it.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The result type of handlers: `?` converts every error to a [`BoxError`].
pub type Result<T = (), E = BoxError> = std::result::Result<T, E>;

/// An error with a retry hint: whether, or when, the handler is called again.
///
/// The worker looks for it in the [`source`](StdError::source) chain of the
/// error that the handler returns. The hint therefore survives `anyhow`
/// contexts, `thiserror`'s `#[from]` and boxing. If a chain has several hints,
/// the outermost one counts. Without a hint, the call is retried with the
/// controller's back-off.
///
/// ```
/// use std::time::Duration;
///
/// use kooper::{HandlerError, Result};
///
/// fn price(annotation: Option<&str>) -> Result<u32> {
///     let Some(price) = annotation else {
///         // Another controller sets it soon: call the handler again in ten seconds.
///         return Err(HandlerError::retry_after(Duration::from_secs(10), "there is no price yet").into());
///     };
///     // The object is invalid: a retry cannot succeed before it is edited.
///     Ok(price.parse().map_err(HandlerError::permanent)?)
/// }
///
/// assert!(price(Some("cheap")).is_err());
/// assert_eq!(price(None).unwrap_err().to_string(), "there is no price yet");
/// ```
#[doc(alias = "TerminalError")]
#[doc(alias = "permanent error")]
#[doc(alias = "requeue")]
#[derive(Debug)]
pub struct HandlerError {
    marked: Marked,
}

/// The hint as a separate error of the chain. The `source` of a `transparent` error
/// skips the [`HandlerError`], but not this one.
#[derive(Debug)]
struct Marked {
    hint: RetryHint,
    source: BoxError,
}

/// When the worker retries a failed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RetryHint {
    /// After the back-off.
    #[default]
    Backoff,
    /// After this time.
    After(Duration),
    /// After this time, because the API server requested it.
    Pause(Duration),
    /// Not before the object changes, or the next resync.
    Never,
}

impl HandlerError {
    /// An error that a retry cannot fix. The handler is not called again before
    /// the object changes or the next resync.
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self { marked: Marked { hint: RetryHint::Never, source: error.into() } }
    }

    /// An error after which the handler is called again after `delay` instead of
    /// the back-off.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self { marked: Marked { hint: RetryHint::After(delay), source: error.into() } }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.marked, f)
    }
}

impl StdError for HandlerError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.marked)
    }
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl StdError for Marked {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The message is that of the inner error, so the chain continues with its source.
        self.source.source()
    }
}

/// The outermost hint in the chain of an error; without one, the hint of an API
/// server's refusal in the chain. `namespace` is that of the object.
pub(crate) fn retry_hint(error: &(dyn StdError + 'static), namespace: Option<&str>) -> RetryHint {
    let marked = std::iter::successors(Some(error), |error: &&(dyn StdError + 'static)| (*error).source())
        .find_map(|error| error.downcast_ref());
    if let Some(Marked { hint, .. }) = marked {
        return *hint;
    }
    let Some(refusal) = Refusal::behind(error) else { return RetryHint::Backoff };
    match refusal.cause {
        // No retry helps: the object goes with its namespace. Another namespace may be created again.
        Cause::NamespaceTerminating if namespace.is_some_and(|own| refusal.is_about(own)) => RetryHint::Never,
        Cause::Busy(pause) => RetryHint::Pause(pause),
        _ => RetryHint::Backoff,
    }
}

/// An error and its causes in one line, for logs. A cause that may quote a
/// secret, or that repeats such a cause, is replaced by other words and ends the
/// line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let all = || std::iter::successors(Some(error), |error: &&(dyn StdError + 'static)| (*error).source());
    let guarded = all().filter_map(|error| guarded::words(error).map(|words| (error.to_string(), words))).last();
    let mut text = String::new();
    for cause in all() {
        let mut cause = cause.to_string();
        if let Some((quoting, words)) = &guarded
            && cause.contains(quoting.as_str())
        {
            cause.clone_from(words);
        }
        // Many errors repeat the message of their source.
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        if guarded.as_ref().is_some_and(|(_, words)| text.ends_with(words.as_str())) {
            break;
        }
    }
    text
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[from] HandlerError);

    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Transparent(#[from] HandlerError);

    #[test]
    fn a_retry_hint_survives_context_from_and_boxing() {
        let hinted = || HandlerError::retry_after(Duration::from_secs(7), "busy");
        let in_anyhow = anyhow::Error::from(hinted()).context("while scaling").context("while syncing");
        for error in [
            Box::new(hinted()) as BoxError,
            Box::new(Outer::from(hinted())),
            Box::new(Transparent::from(hinted())),
            in_anyhow.into(),
            Box::new(Outer(HandlerError::retry_after(
                Duration::from_secs(7),
                Box::new(Outer(HandlerError::permanent("inner"))) as BoxError,
            ))),
        ] {
            assert_eq!(retry_hint(&*error, None), RetryHint::After(Duration::from_secs(7)), "{error:?}");
        }
    }

    #[test]
    fn an_error_without_a_retry_hint_is_retried_with_backoff() {
        assert_eq!(retry_hint(&*BoxError::from("plain"), None), RetryHint::Backoff);
    }

    #[test]
    fn a_chain_names_each_cause_once() {
        let error = anyhow::anyhow!("refused").context("connect").context("sync");
        assert_eq!(chain(&*BoxError::from(error)), "sync: connect: refused");
        assert_eq!(chain(&HandlerError::permanent("bad spec")), "bad spec");
    }

    #[test]
    fn an_error_that_may_quote_a_secret_is_replaced_by_other_words() {
        #[derive(Debug, thiserror::Error)]
        #[error("the settings cannot be read: {0}")]
        struct Quoting(#[source] kube::Error);

        #[derive(Debug, thiserror::Error)]
        #[error("the settings cannot be read")]
        struct Naming(#[source] kube::Error);

        let decoding = || {
            let error = serde_json::from_str::<Vec<u8>>("\"canary\"").expect_err("a string is not a list");
            kube::Error::SerdeError(error)
        };
        let words = "the API server's response does not match the requested type (line 1, column 8)";
        assert_eq!(chain(&decoding()), words);
        assert_eq!(chain(&Quoting(decoding())), words);
        assert_eq!(chain(&Naming(decoding())), format!("the settings cannot be read: {words}"));
        let plugin = || kube::client::AuthError::AuthExec("canary".to_owned());
        assert_eq!(chain(&kube::Error::Service(plugin().into())), "the credentials of the user cannot be used");
        let date = "canary".parse::<k8s_openapi::jiff::Timestamp>().expect_err("not a timestamp");
        let date = kube::client::AuthError::MalformedTokenExpirationDate(date);
        assert!(!chain(&kube::Error::Auth(date)).contains("canary"));
    }
}
