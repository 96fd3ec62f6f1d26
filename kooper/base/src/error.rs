//! Errors of handlers, and when their calls are retried.
//!
//! A handler may return any error; it is retried with back-off. [`HandlerError`]
//! wraps an error to change that.

mod guarded;
#[doc(hidden)]
pub mod panicking;
#[doc(hidden)]
pub mod redaction;
#[doc(hidden)]
pub mod refusal;

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::refusal::{ApiStatus, Cause};

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
    marked: ErrorMarks,
}

/// The marks as a separate error of the chain. The `source` of a `transparent` error
/// skips the [`HandlerError`], but not this one.
#[derive(Debug)]
struct ErrorMarks {
    hint: Option<RetryHint>,
    is_public: bool,
    source: BoxError,
}

/// When the worker retries a failed key.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryHint {
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

/// The source of an error about an object that exists and that no cache has yet. The call is
/// repeated at once, like after a conflict.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleCache;

impl StdError for StaleCache {}

impl fmt::Display for StaleCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cache does not have it yet")
    }
}

impl HandlerError {
    /// An error that a retry cannot fix. The handler is not called again before
    /// the object changes or the next resync.
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        Self::hinted(RetryHint::Never, error.into())
    }

    /// Another name of [`permanent`](Self::permanent), as in controller-runtime.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self::permanent(error)
    }

    /// An error after which the handler is called again after `delay` instead of
    /// the back-off.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::hinted(RetryHint::After(delay), error.into())
    }

    /// An error that the Kubernetes Event about the failed call may show with all of its
    /// [`source`](StdError::source)s, to everyone who can view the object's namespace.
    /// Of others it shows the outermost message alone. When the call is retried does
    /// not change.
    ///
    /// ```
    /// use std::num::ParseIntError;
    ///
    /// use kooper::{HandlerError, Result};
    ///
    /// #[derive(Debug, thiserror::Error)]
    /// #[error("the price is invalid")]
    /// struct BadPrice(#[source] ParseIntError);
    ///
    /// fn price(annotation: &str) -> Result<u32> {
    ///     // The Event says "the price is invalid: invalid digit found in string".
    ///     Ok(annotation.parse().map_err(|error| HandlerError::public(BadPrice(error)))?)
    /// }
    /// # assert!(price("cheap").is_err());
    /// ```
    pub fn public(error: impl Into<BoxError>) -> Self {
        Self { marked: ErrorMarks { hint: None, is_public: true, source: error.into() } }
    }

    fn hinted(hint: RetryHint, source: BoxError) -> Self {
        Self { marked: ErrorMarks { hint: Some(hint), is_public: false, source } }
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

impl fmt::Display for ErrorMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl StdError for ErrorMarks {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The message is that of the inner error, so the chain continues with its source.
        self.source.source()
    }
}

/// An error, its source, the source of that one, and so on. After marks comes the error that they are on, whose type would
/// be lost otherwise.
#[doc(hidden)]
pub fn sources<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let next = |error: &&'a (dyn StdError + 'static)| -> Option<&'a (dyn StdError + 'static)> {
        let error: &'a (dyn StdError + 'static) = *error;
        match error.downcast_ref::<ErrorMarks>() {
            Some(marked) => Some(&*marked.source),
            None => error.source(),
        }
    };
    std::iter::successors(Some(error), next)
}

/// The marks in the chain of an error, the outermost first.
fn marks<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a ErrorMarks> {
    sources(error).filter_map(|error| error.downcast_ref())
}

/// Returns `true` if a request failed because an object has changed since it was read. The next call sees its current
/// state, and is made at once.
#[doc(hidden)]
pub fn is_conflict(error: &(dyn StdError + 'static)) -> bool {
    let refused = || {
        let refusal = ApiStatus::behind(error);
        refusal.is_some_and(|refusal| matches!(refusal.cause, Cause::Conflict | Cause::AnotherObject))
    };
    let is_of_stale_cache = || sources(error).any(<dyn std::error::Error>::is::<StaleCache>);
    retry_hint(error, None) == RetryHint::Backoff && (refused() || is_of_stale_cache())
}

/// The outermost hint in the chain of an error; without one, the hint of an API
/// server's refusal in the chain. `namespace` is that of the object.
#[doc(hidden)]
pub fn retry_hint(error: &(dyn StdError + 'static), namespace: Option<&str>) -> RetryHint {
    if let Some(hint) = marks(error).find_map(|marked| marked.hint) {
        return hint;
    }
    let Some(refusal) = ApiStatus::behind(error) else { return RetryHint::Backoff };
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
#[doc(hidden)]
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    joined(error, usize::MAX)
}

/// The text of an error that is safe for everyone who views the object: its outermost
/// message, and its causes if the author has marked the error as public.
#[doc(hidden)]
pub fn public_chain(error: &(dyn StdError + 'static)) -> String {
    joined(error, if marks(error).any(|marked| marked.is_public) { usize::MAX } else { 1 })
}

/// The first causes of an error in one line.
fn joined(error: &(dyn StdError + 'static), most: usize) -> String {
    let guarded =
        sources(error).filter_map(|error| guarded::words(error).map(|words| (error.to_string(), words))).last();
    let rejections = rejections(error);
    let mut text = String::new();
    for cause in sources(error).take(most) {
        let mut cause = cause.to_string();
        if let Some((quoting, words)) = &guarded
            && cause.contains(quoting.as_str())
        {
            cause.clone_from(words);
        }
        for (whole, status) in &rejections {
            cause = cause.replace(whole, status);
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
    redaction::redact(&text).into_owned()
}

/// The messages of kube for rejected requests in the chain of an error, each with the API server's own message and
/// reason: kube adds all fields of the Status, as Rust formats them.
fn rejections(error: &(dyn StdError + 'static)) -> Vec<(String, String)> {
    let rejection = |error: &(dyn StdError + 'static)| {
        let rejected = error.downcast_ref::<kube::Error>()?;
        let kube::Error::Api(status) = rejected else { return None };
        Some((rejected.to_string(), status.to_string()))
    };
    sources(error).filter_map(rejection).collect()
}

/// The message of a panic, without known secrets.
#[doc(hidden)]
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    redaction::redact(text).into_owned()
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
    fn the_message_of_a_panic_has_no_secrets() {
        let panics: [(Box<dyn Any + Send>, &str); 3] = [
            (Box::new("no connection to postgres://me:canary@db".to_owned()), "@db"),
            (Box::new("no connection to amqp://me:canary@mq"), "@mq"),
            (Box::new(7), "no message"),
        ];
        for (panic, expected) in panics {
            let text = panic_text(&*panic);
            assert!(text.ends_with(expected) && !text.contains("canary"), "{text}");
        }
    }

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
    fn only_the_outermost_message_is_public_unless_the_error_is_marked() {
        #[derive(Debug, thiserror::Error)]
        #[error("the settings cannot be read")]
        struct Settings(#[source] BoxError);

        let secret = || Settings("line 3: password=canary".into());
        let whole = "the settings cannot be read: line 3: password=canary";
        for (error, expected) in [
            (Box::new(secret()) as BoxError, "the settings cannot be read"),
            (HandlerError::permanent(secret()).into(), "the settings cannot be read"),
            (HandlerError::public(secret()).into(), whole),
            (HandlerError::public(HandlerError::permanent(secret())).into(), whole),
            (HandlerError::permanent(HandlerError::public(secret())).into(), whole),
            (anyhow::Error::from(HandlerError::public("inner")).context("outer").into(), "outer: inner"),
            (anyhow::Error::from(secret()).context("outer").into(), "outer"),
        ] {
            assert_eq!(public_chain(&*error), expected, "{error:?}");
        }
        let hinted = HandlerError::public(HandlerError::permanent("bad spec"));
        assert_eq!(retry_hint(&hinted, None), RetryHint::Never, "it does not change when the call is retried");
    }

    #[test]
    fn a_chain_names_each_cause_once() {
        let error = anyhow::anyhow!("refused").context("connect").context("sync");
        assert_eq!(chain(&*BoxError::from(error)), "sync: connect: refused");
        assert_eq!(chain(&HandlerError::permanent("bad spec")), "bad spec");
    }

    #[test]
    fn a_rejected_request_has_the_message_of_the_api_server_and_no_fields_of_rust() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot scale it: {0}")]
        struct Scaling(#[source] kube::Error);

        let rejected = || {
            let (message, reason) = ("pods is forbidden".to_owned(), "Forbidden".to_owned());
            kube::Error::Api(Box::new(kube::core::Status { code: 403, message, reason, ..Default::default() }))
        };
        assert_eq!(chain(&rejected()), "pods is forbidden: Forbidden");
        assert_eq!(chain(&Scaling(rejected())), "cannot scale it: pods is forbidden: Forbidden");
    }

    #[test]
    fn a_rejected_request_is_known_as_one_also_if_its_error_is_marked() {
        let rejected = || kube::Error::Api(Box::new(kube::core::Status { code: 409, ..Default::default() }));
        assert!(is_conflict(&rejected()));
        assert!(is_conflict(&HandlerError::public(rejected())), "the next call has the current state");
        assert!(!is_conflict(&HandlerError::permanent(rejected())), "it is not retried");
        assert_eq!(chain(&HandlerError::permanent(rejected())), chain(&rejected()));
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
        assert_eq!(chain(&HandlerError::permanent(decoding())), words);
        assert_eq!(public_chain(&HandlerError::public(Naming(decoding()))), chain(&Naming(decoding())));
        let proxy_url = Box::new("http://me:canary@proxy:3128".parse().expect("a URL"));
        let proxy = kube::Error::ProxyProtocolDisabled { proxy_url, protocol_feature: "kube/http-proxy" };
        let advice = "run `cargo add kooper --features http-proxy`, and build the program again";
        assert!(chain(&proxy).ends_with(advice) && !chain(&proxy).contains("canary"));
        let plugin = || kube::client::AuthError::AuthExec("canary".to_owned());
        let words = "the `auth-provider` of the user cannot be used: replace one in the kubeconfig with an exec plugin";
        assert_eq!(chain(&kube::Error::Service(plugin().into())), words);
        let date = "canary".parse::<k8s_openapi::jiff::Timestamp>().expect_err("not a timestamp");
        let date = kube::client::AuthError::MalformedTokenExpirationDate(date);
        assert!(!chain(&kube::Error::Auth(date)).contains("canary"));
    }
}
