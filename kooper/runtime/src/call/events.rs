//! Kubernetes Events about the objects of a controller.

mod detail;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;

pub use detail::FailureEvents;

/// Records Kubernetes Events. It never waits.
pub trait EventRecorder: fmt::Debug + Send + Sync {
    /// Records an Event.
    fn publish(&self, note: Note);

    /// Records an Event about something that lasts: there is one for each object and
    /// reason, with the last message and a count.
    fn report(&self, note: Note);

    /// Writes on the current runtime, also what is recorded on another one, whose threads
    /// may be blocked.
    fn run_here(&self);

    /// Waits until all Events are written, at most for `limit`.
    fn drain(&self, limit: Duration) -> BoxFuture<'_, ()>;
}

/// Begins to record the Events of a controller through a client; nothing is recorded without one.
pub(crate) type StartEvents = Arc<dyn Fn(Option<Client>, &Arc<str>) -> Arc<dyn EventRecorder> + Send + Sync>;

/// Records nothing.
impl EventRecorder for () {
    fn publish(&self, _: Note) {}

    fn report(&self, _: Note) {}

    fn run_here(&self) {}

    fn drain(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A recorded Kubernetes Event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Note {
    /// The object that it is about.
    pub regarding: ObjectReference,
    /// Another object that it is about.
    pub related: Option<ObjectReference>,
    /// `true` for the type `Warning`, `false` for `Normal`.
    pub warning: bool,
    /// The reason, as one CamelCase word.
    pub reason: String,
    /// The action that was taken, as one CamelCase word.
    pub action: String,
    /// The message for people.
    pub message: String,
}

impl Note {
    /// A warning about an object.
    #[doc(hidden)]
    #[must_use]
    pub fn warning(
        regarding: ObjectReference,
        reason: impl Into<String>,
        action: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let (reason, action, message) = (reason.into(), action.into(), message.into());
        Self { regarding, related: None, warning: true, reason, action, message }
    }
}

impl fmt::Display for Note {
    /// Such as `Warning NoPassword: the Secret does not exist`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "Warning" } else { "Normal" };
        write!(f, "{kind} {}: {}", self.reason, self.message)
    }
}
