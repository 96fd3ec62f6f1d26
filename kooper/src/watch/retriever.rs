//! Lists and watches one kind.

pub(crate) mod api;
mod channel;
mod closures;
mod erased;
mod frames;

mod status;

use std::future::Future;
use std::time::Duration;

use futures_util::Stream;

use crate::metrics::WatchFault;
use crate::object::{MalformedObject, Object};

pub use api::{ApiRetriever, Scope};
pub use channel::{Sender, channel, fixed};
pub use closures::from_fns;
pub(crate) use erased::{Erased, erase};

/// Where objects of the kind `K` come from.
///
/// The API server is one such place ([`ApiRetriever`]), two closures are another
/// ([`from_fns`]), and for tests a fixed list with a channel of events
/// ([`channel`]). To change what a retriever yields, wrap it: implement the
/// trait and ask the inner one.
///
/// The informer that drives it keeps the store, resumes, relists and backs
/// off; a retriever only answers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a retriever of `{K}`",
    label = "does not implement `Retriever<{K}>`",
    note = "return `kooper::retriever::ApiRetriever<{K}>`, `kooper::retriever::from_fns(list, watch)`, or implement `kooper::Retriever<{K}>` for `{Self}`"
)]
pub trait Retriever<K>: Send + Sync + 'static {
    /// One page of the objects that exist now.
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Page, RetrieveError>> + Send;

    /// What happens from a version on, until the source ends the stream.
    fn watch(
        &self,
        request: WatchRequest,
    ) -> impl Future<Output = Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError>> + Send;

    /// Whether [`watch`](Self::watch) can begin with the objects that exist,
    /// so that no list is needed.
    fn streams_lists(&self) -> bool {
        false
    }

    /// A watch that sends nothing for so long, not even a bookmark, is taken
    /// for dead; `None` where silence means nothing. A [`list`](Self::list)
    /// ends by itself: a page may take long to arrive.
    fn longest_silence(&self) -> Option<Duration> {
        None
    }
}

/// Which page of a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListRequest {
    /// The token of the page before this one.
    pub continue_token: Option<String>,
    /// How many objects the page may hold. Where tokens expire before a list is
    /// complete, the next try has larger pages.
    pub limit: u32,
}

impl Default for ListRequest {
    /// The first page, of 500 objects as in client-go.
    fn default() -> Self {
        Self { continue_token: None, limit: 500 }
    }
}

/// From where a watch begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchRequest {
    /// The resource version after which events are wanted; empty for a
    /// streaming list at the newest version.
    pub version: String,
    /// Begin with all objects that exist, closed by a bookmark that says so.
    pub initial_events: bool,
}

/// One page of a list. An object that is none spoils neither its neighbours
/// nor the page.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects, and what could not be read as one.
    pub objects: Vec<Result<Object, MalformedObject>>,
    /// The version of the whole list.
    pub version: String,
    /// The token of the next page; `None` on the last.
    pub continue_token: Option<String>,
}

/// One line of a watch.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// An object appeared.
    Added(Object),
    /// An object changed.
    Modified(Object),
    /// An object vanished; this is its last state.
    Deleted(Object),
    /// Nothing happened up to this version.
    Bookmark {
        /// The version up to which everything was sent.
        version: String,
        /// It closes the objects that existed at the start.
        initial_events_end: bool,
    },
    /// Something that is no object: it is reported and passed over.
    Malformed(MalformedObject),
}

/// Why a list or watch failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RetrieveError {
    /// The version or the continue token is too old (410): list anew.
    #[error("the version is too old: {0}")]
    Expired(String),
    /// The version is newer than anything the server has (504 with cause
    /// `ResourceVersionTooLarge`).
    #[error("the version is newer than the server's: {0}")]
    TooLargeVersion(String),
    /// The server cannot begin a watch with a list (400 or 422).
    #[error("streaming lists are not supported: {0}")]
    NoStreaming(String),
    /// Not allowed (403).
    #[error("not allowed: {0}")]
    Forbidden(String),
    /// The kind is not installed (404).
    #[error("not found: {0}")]
    NotFound(String),
    /// The credentials are refused (401).
    #[error("the API server refuses the credentials: {0}")]
    Unauthorized(String),
    /// The server asks for a pause (429, or 503 with `Retry-After`).
    #[error("the API server asks for a pause of {} s: {message}", after.as_secs())]
    Busy {
        /// How long.
        after: Duration,
        /// The server's words.
        message: String,
    },
    /// Any other answer than success.
    #[error("the API server answered {code}: {message}")]
    Status {
        /// The HTTP code.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// The connection failed, or what came over it was no answer.
    #[error("{0}")]
    Transport(String),
}

impl RetrieveError {
    /// What kind of failure it is, for the metrics.
    pub(crate) fn fault(&self) -> WatchFault {
        match self {
            Self::Forbidden(_) => WatchFault::Forbidden,
            Self::NotFound(_) => WatchFault::NotFound,
            Self::Unauthorized(_) => WatchFault::Unauthorized,
            Self::Transport(_) => WatchFault::Connection,
            _ => WatchFault::Server,
        }
    }

    /// Any error of a retriever of one's own.
    pub fn other(error: impl Into<crate::error::BoxError>) -> Self {
        Self::Transport(crate::error::chain(&*error.into()))
    }
}
