//! Times at which a server is unavailable.

use std::sync::Arc;

use tokio::sync::watch;

use super::State;
use crate::store::Store;

/// A time at which a server is unavailable, until this is dropped. See [`Faults::outage`](super::Faults::outage).
#[derive(Debug)]
#[must_use = "dropping it makes the server available again"]
pub struct Outage {
    state: Arc<State>,
    store: Store,
}

impl Outage {
    pub(super) fn begin(state: &Arc<State>, store: &Store) -> Self {
        state.outages.0.send_modify(|count| {
            count.running += 1;
            count.begun += 1;
        });
        Self { state: Arc::clone(state), store: store.clone() }
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        // The history was in memory only.
        self.store.compact();
        self.state.outages.0.send_modify(|count| count.running -= 1);
    }
}

/// The outages of a server.
#[derive(Debug)]
pub(super) struct Outages(watch::Sender<Count>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    running: u32,
    begun: u64,
}

impl Default for Outages {
    fn default() -> Self {
        Self(watch::Sender::new(Count::default()))
    }
}

impl Outages {
    pub(super) fn is_down(&self) -> bool {
        self.0.borrow().running > 0
    }

    /// Sees the outages that begin from now on.
    pub(super) fn subscribe(&self) -> OutageWatcher {
        let counts = self.0.subscribe();
        let begun = counts.borrow().begun;
        OutageWatcher { counts, begun }
    }
}

/// Sees the next outage.
#[derive(Debug)]
pub(super) struct OutageWatcher {
    counts: watch::Receiver<Count>,
    begun: u64,
}

impl OutageWatcher {
    /// Is done when an outage begins.
    pub(super) async fn begun(&mut self) {
        let before = self.begun;
        if self.counts.wait_for(|count| count.begun != before).await.is_err() {
            // The server is gone, and with it all outages.
            std::future::pending::<()>().await;
        }
    }
}
