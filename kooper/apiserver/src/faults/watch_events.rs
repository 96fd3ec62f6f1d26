//! Which watch events a fault is for.

use super::{RequestAttributes, Requests};

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the type of its name")]
pub enum WatchEvent {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

impl WatchEvent {
    /// The watch events of this type of a resource, see [`WatchEvents::of`].
    pub fn of(self, resource: &str) -> WatchEvents {
        WatchEvents::from(self).of(resource)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
        }
    }
}

/// Watch events that have something in common: a type, a resource, an object, a user.
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing by itself: give it to `Faults::on_event`"]
pub struct WatchEvents {
    event: Option<WatchEvent>,
    requests: Requests,
}

impl WatchEvents {
    /// All watch events.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only those of a resource: `shops`, or `shops.example.com`.
    pub fn of(mut self, resource: &str) -> Self {
        self.requests = self.requests.of(resource);
        self
    }

    /// Only those of the object of this name.
    pub fn named(mut self, name: &str) -> Self {
        self.requests = self.requests.named(name);
        self
    }

    /// Only those of objects in this namespace.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.requests = self.requests.in_namespace(namespace);
        self
    }

    /// Only those that are sent to this user.
    pub fn by(mut self, user: &str) -> Self {
        self.requests = self.requests.by(user);
        self
    }

    pub(super) fn matches(&self, event: &RequestAttributes) -> bool {
        self.event.is_none_or(|wanted| wanted.name() == event.verb) && self.requests.matches_object(event)
    }
}

impl From<WatchEvent> for WatchEvents {
    fn from(event: WatchEvent) -> Self {
        Self { event: Some(event), requests: Requests::all() }
    }
}
