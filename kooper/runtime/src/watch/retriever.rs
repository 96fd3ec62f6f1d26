//! Retrievers: where the objects of a kind come from.
//!
//! A controller retrieves its objects from the API server by default. To
//! retrieve them from elsewhere, pass a [`Retriever`] of your own to
//! `Builder::retriever`.

pub(crate) mod api;
mod closures;
mod erased;
mod frames;
mod shard_selector;
mod status;

use std::error::Error as StdError;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;

use crate::error::BoxError;
use crate::metrics::WatchFault;
use crate::object::{MalformedObject, Object};

pub use api::{ApiRetriever, Scope};
pub use closures::from_fns;
pub(crate) use closures::snapshot;
#[doc(hidden)]
pub use erased::ErasedRetriever;
pub(crate) use erased::Events;
pub use erased::erase;
#[doc(hidden)]
pub use shard_selector::{ShardSelector, fnv1a};

/// Lists and watches the objects of the kind `K`.
///
/// [`ApiRetriever`] uses the API server, [`from_fns`] two closures, and
/// [`channel`](https://docs.rs/kooper/latest/kooper/retriever/fn.channel.html) a list and a channel of events, for tests. To change the objects
/// that a retriever yields, implement the trait for a wrapper around it.
///
/// A retriever only handles single requests. The controller keeps the cache,
/// resumes watches, lists again and backs off.
///
/// ```
/// use std::time::Duration;
///
/// use futures_util::{Stream, stream};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kooper::Retriever;
/// use kooper::object::Object;
/// use kooper::retriever::{Event, ListRequest, Page, RetrieveError, WatchRequest};
///
/// /// The settings that a program is compiled with.
/// struct Compiled;
///
/// impl Retriever<ConfigMap> for Compiled {
///     async fn list(&self, _request: ListRequest) -> Result<Page, RetrieveError> {
///         let mut config = ConfigMap::default();
///         config.metadata.name = Some("settings".into());
///         Ok(Page { objects: vec![Object::from_typed(&config)], ..Page::default() })
///     }
///
///     async fn watch(
///         &self,
///         _request: WatchRequest,
///     ) -> Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError> {
///         Ok(stream::pending()) // they never change
///     }
/// }
/// # let _ = Compiled;
/// ```
#[doc(alias = "ListerWatcher")]
#[doc(alias = "lister")]
#[doc(alias = "watcher")]
#[doc(alias = "informer")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a retriever of `{K}`",
    label = "does not implement `Retriever<{K}>`",
    note = "return `kooper::retriever::ApiRetriever<{K}>`, `kooper::retriever::from_fns(list, watch)`, or implement `kooper::Retriever<{K}>` for `{Self}`"
)]
pub trait Retriever<K>: Send + Sync + 'static {
    /// Lists one page of the existing objects.
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Page, RetrieveError>> + Send;

    /// Watches the changes since a version. When the stream ends, the controller
    /// resumes the watch.
    fn watch(
        &self,
        request: WatchRequest,
    ) -> impl Future<Output = Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError>> + Send;

    /// Returns `true` if [`watch`](Self::watch) can begin with the existing objects,
    /// which makes a list unnecessary. It is called once, when the controller starts.
    fn streams_lists(&self) -> bool {
        false
    }

    /// The maximum time for which a watch may yield nothing, not even a bookmark,
    /// unless a probe shows that nothing has changed. `None` if silence is normal. It
    /// does not apply to [`list`](Self::list), because a page may take long to
    /// arrive. A shorter time than a second counts as a second. It is called once, when
    /// the controller starts.
    ///
    /// After half of this time the controller probes the source: it
    /// [lists](Self::list) one object to get the current version, and opens a second
    /// watch from its last known version. If the second watch is quiet for a third of
    /// this time, nothing has changed. If it yields an event, it replaces the first
    /// watch. If the probes fail until the time is over, the watch is considered dead
    /// and is re-established.
    fn longest_silence(&self) -> Option<Duration> {
        None
    }
}

/// A request for one page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListRequest {
    /// The token that the previous page returned; `None` for the first page.
    pub continue_token: Option<String>,
    /// The most objects that the page may contain. If tokens expire before a list
    /// is complete, it is retried with larger pages, and at last with no limit but
    /// [`u32::MAX`].
    pub limit: u32,
}

impl Default for ListRequest {
    /// The first page, with 500 objects as in client-go.
    fn default() -> Self {
        Self { continue_token: None, limit: 500 }
    }
}

/// A request for a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchRequest {
    /// The resource version after which the watch begins; empty for a streaming
    /// list at the newest version.
    pub version: String,
    /// `true` if the watch begins with all existing objects, followed by a bookmark
    /// with `initial_events_end`.
    pub initial_events: bool,
}

/// One page of a list. A malformed object does not invalidate the others.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects, and errors for those that could not be read.
    pub objects: Vec<Result<Object, MalformedObject>>,
    /// The resource version of the whole list.
    pub version: String,
    /// The token of the next page; `None` for the last page.
    pub continue_token: Option<String>,
}

/// An event of a watch. It is not a Kubernetes Event.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// An object was created.
    Added(Object),
    /// An object changed.
    Modified(Object),
    /// An object was deleted; this is its last state.
    Deleted(Object),
    /// All events up to this version were sent.
    Bookmark {
        /// The resource version.
        version: String,
        /// `true` for the bookmark that ends the list of the initial objects.
        initial_events_end: bool,
    },
    /// Something that is not an object. It is logged and skipped.
    Malformed(MalformedObject),
    /// An object was deleted, and which one cannot be read: all objects are listed again.
    MalformedDeletion(MalformedObject),
}

/// Why a list or watch request failed.
///
/// The first variants are errors that the API server returns, with its message. A
/// retriever of your own returns [`RetrieveError::other`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RetrieveError {
    /// The version or the continue token is too old (410): the controller lists
    /// again.
    #[error("the version is too old: {0}")]
    Expired(String),
    /// The version is newer than the server's (504 with cause
    /// `ResourceVersionTooLarge`).
    #[error("the version is newer than the server's: {0}")]
    TooLargeVersion(String),
    /// The server cannot begin a watch with a list (400 or 422).
    #[error("streaming lists are not supported: {0}")]
    NoStreaming(String),
    /// The request is forbidden (403).
    #[error("not allowed: {0}")]
    Forbidden(String),
    /// The kind is not installed (404).
    #[error("not found: {0}")]
    NotFound(String),
    /// The credentials were rejected (401).
    #[error("the API server rejected the credentials: {0}")]
    Unauthorized(String),
    /// The server requests a pause (429, or 503 with `Retry-After`).
    #[error("the API server requests a pause of {} s: {message}", after.as_secs())]
    Busy {
        /// The time to wait.
        after: Duration,
        /// The server's message.
        message: String,
    },
    /// The server returned another error.
    #[error("the API server responded with {code}: {message}")]
    Status {
        /// The HTTP status code.
        code: u16,
        /// The server's message.
        message: String,
    },
    /// The request could not be sent, or the connection failed.
    #[error("the request failed")]
    Connection(#[source] SharedError),
    /// Nothing was received for this time.
    #[error("no response within {} s", .0.as_secs())]
    Silent(Duration),
    /// The watch was closed before it yielded an event.
    #[error("the watch was closed as soon as it was opened")]
    Closed,
    /// A streaming list was closed before its last object.
    #[error("the list ended early")]
    Incomplete,
    /// The response is not one of the Kubernetes API.
    #[error("the response is invalid: {0}")]
    InvalidResponse(String),
    /// The list is older than the last one, as from a server that lags behind.
    #[error("a list has version {version}, which is older than {last}, the version of the list before")]
    Outdated {
        /// The version of the list.
        version: String,
        /// The version of the last list or event.
        last: String,
    },
    /// The retriever panicked, with this message.
    #[error("the retriever panicked: {0}")]
    Panicked(String),
    /// Another error of a retriever.
    #[error("the retriever failed")]
    Other(#[source] SharedError),
}

/// The source of a [`RetrieveError`], which can be cloned. It is only accessible
/// as the [`source`](std::error::Error::source) of that error.
#[derive(Debug, Clone)]
pub struct SharedError(Arc<dyn StdError + Send + Sync>);

impl SharedError {
    fn new(error: impl Into<BoxError>) -> Self {
        let error: BoxError = error.into();
        Self(error.into())
    }
}

impl Deref for SharedError {
    type Target = dyn StdError + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl RetrieveError {
    /// The kind of failure, for metrics.
    pub(crate) fn fault(&self) -> WatchFault {
        match self {
            Self::Forbidden(_) => WatchFault::Forbidden,
            Self::NotFound(_) => WatchFault::NotFound,
            Self::Unauthorized(_) => WatchFault::Unauthorized,
            _ if self.is_from_server() => WatchFault::Server,
            _ => WatchFault::Connection,
        }
    }

    /// Returns `true` if the server does not serve the objects, or not to this user: no retry helps soon.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Forbidden(_) | Self::NotFound(_))
    }

    /// Returns `true` if the server returned the error in a `Status`.
    pub(crate) fn is_from_server(&self) -> bool {
        matches!(
            self,
            Self::Expired(_)
                | Self::TooLargeVersion(_)
                | Self::NoStreaming(_)
                | Self::Forbidden(_)
                | Self::NotFound(_)
                | Self::Unauthorized(_)
                | Self::Busy { .. }
                | Self::Status { .. }
        )
    }

    /// Returns `true` if the server has only begun to serve the kind and asks the
    /// client to retry.
    pub(crate) fn is_initializing(&self) -> bool {
        match self {
            Self::Busy { message, .. } | Self::Status { message, .. } => message.contains("initializing"),
            _ => false,
        }
    }

    /// An error of a retriever of your own; `error` is its source.
    ///
    /// ```
    /// use std::error::Error;
    ///
    /// use kooper::retriever::RetrieveError;
    ///
    /// let error = RetrieveError::other("the database is unavailable");
    /// assert_eq!(error.to_string(), "the retriever failed");
    /// assert_eq!(error.source().unwrap().to_string(), "the database is unavailable");
    /// ```
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(SharedError::new(error))
    }

    /// A failed connection.
    fn connection(error: impl Into<BoxError>) -> Self {
        Self::Connection(SharedError::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::chain;

    #[test]
    fn the_message_of_an_error_does_not_repeat_its_source() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let error = RetrieveError::connection(refused);
        assert_eq!(error.to_string(), "the request failed");
        let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::ConnectionRefused));
        assert_eq!(chain(&error), "the request failed: connection refused");
        assert_eq!(chain(&RetrieveError::other("no database")), "the retriever failed: no database");
    }

    #[test]
    fn a_source_that_may_quote_a_secret_is_not_shown() {
        let plugin = kube::client::AuthError::AuthExec("canary".to_owned());
        let text = chain(&RetrieveError::connection(plugin));
        assert!(text.starts_with("the request failed: the `auth-provider` of the user cannot be used: "), "{text}");
    }
}
