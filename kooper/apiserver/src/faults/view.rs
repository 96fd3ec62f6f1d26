//! Frozen views: a watch cache that does not follow.

use std::sync::Arc;

use tokio::sync::watch;

use super::{RequestAttributes, Requests};

/// A watch cache that does not follow, until this is dropped. See [`Faults::freeze`](super::Faults::freeze).
#[derive(Debug)]
#[must_use = "dropping it lets the view follow again"]
pub struct Frozen {
    views: Views,
    number: u64,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.views.0.send_modify(|parts| parts.retain(|part| part.number != self.number));
    }
}

/// The frozen views of a server.
#[derive(Clone, Debug)]
pub(super) struct Views(Arc<watch::Sender<Vec<Part>>>);

#[derive(Clone, Debug)]
struct Part {
    number: u64,
    requests: Requests,
    version: u64,
}

impl Default for Views {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }
}

impl Views {
    /// Freezes the view of some requests at a version.
    pub(super) fn freeze(&self, requests: Requests, version: u64) -> Frozen {
        let mut number = 0;
        self.0.send_modify(|parts| {
            number = parts.iter().map(|part| part.number).max().unwrap_or(0) + 1;
            parts.push(Part { number, requests, version });
        });
        Frozen { views: self.clone(), number }
    }

    /// Returns a request's view of the watch cache. The view of a spared request is never frozen.
    pub(super) fn of(&self, request: RequestAttributes, spared: bool) -> View {
        View { request, spared, parts: self.0.subscribe() }
    }
}

/// A request's view of the watch cache.
#[derive(Debug)]
pub(crate) struct View {
    request: RequestAttributes,
    spared: bool,
    parts: watch::Receiver<Vec<Part>>,
}

impl View {
    /// The last version that it shows, if it is frozen.
    pub(crate) fn frozen(&self) -> Option<u64> {
        if self.spared { None } else { oldest(&self.parts.borrow(), &self.request) }
    }

    /// Waits until it may show a version.
    pub(crate) async fn shows(&mut self, version: u64) {
        let Self { request, spared, parts } = self;
        let shown = |parts: &Vec<Part>| *spared || oldest(parts, request).is_none_or(|frozen| frozen >= version);
        if parts.wait_for(shown).await.is_err() {
            // The server is gone, and nothing follows.
            std::future::pending::<()>().await;
        }
    }
}

fn oldest(parts: &[Part], request: &RequestAttributes) -> Option<u64> {
    parts.iter().filter(|part| part.requests.matches(request)).map(|part| part.version).min()
}
