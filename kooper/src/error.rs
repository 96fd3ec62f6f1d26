//! What a handler's error asks the worker to do.

mod guarded;
pub(crate) mod refusal;

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::refusal::{Cause, Refusal};

/// Any error, boxed; what a handler's own error is turned into.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The result type of the prelude: a handler that writes `Result<()>` can use
/// `?` on every error.
pub type Result<T = (), E = BoxError> = std::result::Result<T, E>;

/// An error with a wish about the retry.
///
/// It can stand anywhere in the [`source`](StdError::source) chain of what a
/// handler returns: `anyhow`'s context, `thiserror`'s `#[from]` and boxing
/// keep it. Where several stand in one chain, the outermost wins.
///
/// ```
/// use kooper::{HandlerError, Result};
///
/// fn price(text: &str) -> Result<u32> {
///     // The object itself is wrong: no retry helps until somebody edits it.
///     Ok(text.parse::<u32>().map_err(HandlerError::permanent)?)
/// }
/// # assert!(price("cheap").is_err());
/// ```
#[derive(Debug)]
pub struct HandlerError {
    marked: Marked,
}

/// The wish as a node of the chain: an error that is `transparent` leaves out
/// the [`HandlerError`] itself, and not what is behind it.
#[derive(Debug)]
struct Marked {
    wish: Wish,
    source: BoxError,
}

/// What the worker does with a failed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wish {
    /// Come back with back-off.
    #[default]
    Retry,
    /// Come back after this long.
    After(Duration),
    /// As `After`, because the API server says so.
    Pause(Duration),
    /// Wait for the object's next change.
    Never,
}

impl HandlerError {
    /// An error that no retry can heal: the key waits for the next event of
    /// its object, or for resync.
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self { marked: Marked { wish: Wish::Never, source: error.into() } }
    }

    /// An error that says when to try again, in place of the back-off.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self { marked: Marked { wish: Wish::After(delay), source: error.into() } }
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
        // The text is the inner error's own: the chain goes on behind it.
        self.source.source()
    }
}

/// The wish in an error's chain, the outermost one; without one, what a refusal
/// of the API server in the chain asks for.
pub(crate) fn wish(error: &(dyn StdError + 'static)) -> Wish {
    let marked = std::iter::successors(Some(error), |error: &&(dyn StdError + 'static)| (*error).source())
        .find_map(|error| error.downcast_ref());
    if let Some(Marked { wish, .. }) = marked {
        return *wish;
    }
    match Refusal::behind(error).map(|refusal| refusal.cause) {
        // No retry helps.
        Some(Cause::NamespaceTerminating) => Wish::Never,
        Some(Cause::Busy(pause)) => Wish::Pause(pause),
        _ => Wish::Retry,
    }
}

/// An error and its causes in one line, for logs. A cause that may quote a
/// secret ends it, in words of its own; so does one that repeats such a cause.
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
        // Many errors repeat their source in their own text.
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

/// What a panic said.
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
    fn a_wish_survives_context_from_and_boxing() {
        let wished = || HandlerError::retry_after(Duration::from_secs(7), "busy");
        let in_anyhow = anyhow::Error::from(wished()).context("while scaling").context("while syncing");
        for error in [
            Box::new(wished()) as BoxError,
            Box::new(Outer::from(wished())),
            Box::new(Transparent::from(wished())),
            in_anyhow.into(),
            Box::new(Outer(HandlerError::retry_after(
                Duration::from_secs(7),
                Box::new(Outer(HandlerError::permanent("inner"))) as BoxError,
            ))),
        ] {
            assert_eq!(wish(&*error), Wish::After(Duration::from_secs(7)), "{error:?}");
        }
    }

    #[test]
    fn an_error_without_a_wish_is_retried() {
        assert_eq!(wish(&*BoxError::from("plain")), Wish::Retry);
    }

    #[test]
    fn a_chain_names_each_cause_once() {
        let error = anyhow::anyhow!("refused").context("connect").context("sync");
        assert_eq!(chain(&*BoxError::from(error)), "sync: connect: refused");
        assert_eq!(chain(&HandlerError::permanent("bad spec")), "bad spec");
    }

    #[test]
    fn what_may_quote_a_secret_is_told_in_other_words() {
        #[derive(Debug, thiserror::Error)]
        #[error("the settings cannot be read: {0}")]
        struct Quoting(#[source] kube::Error);

        #[derive(Debug, thiserror::Error)]
        #[error("the settings cannot be read")]
        struct Naming(#[source] kube::Error);

        let decoding = || {
            let error = serde_json::from_str::<Vec<u8>>("\"canary\"").expect_err("a text");
            kube::Error::SerdeError(error)
        };
        let words = "the API server's answer does not fit the type that was asked for (line 1, column 8)";
        assert_eq!(chain(&decoding()), words);
        assert_eq!(chain(&Quoting(decoding())), words);
        assert_eq!(chain(&Naming(decoding())), format!("the settings cannot be read: {words}"));
        let plugin = || kube::client::AuthError::AuthExec("canary".to_owned());
        assert_eq!(chain(&kube::Error::Service(plugin().into())), "the credentials of the user cannot be used");
        let date = "canary".parse::<k8s_openapi::jiff::Timestamp>().expect_err("no time");
        let date = kube::client::AuthError::MalformedTokenExpirationDate(date);
        assert!(!chain(&kube::Error::Auth(date)).contains("canary"));
    }
}
