//! The watches of the Leases of the map and of some sessions.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::poll_fn;
use std::iter;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kooper_base::clock::Clock;
use kooper_base::leader::lease::LeaseError;
use serde_json::Value;

use super::leases::{MapLease, Slot};
use crate::map::MapRecord;
use crate::session::SlotRecord;

/// The Lease of the map; the others are those of the slots.
const MAP: usize = 0;

/// A watch that is forbidden is tried again after so many retry periods.
const FORBIDDEN: u32 = 10;

/// An event of a watch.
pub(super) enum LeaseUpdate {
    Map(MapRecord),
    MapDeleted,
    Slot(u8, SlotRecord),
}

/// A Lease, or `None` if it was deleted.
type LeaseEvent = Result<Option<Value>, LeaseError>;

pub(super) struct Watches {
    clock: Arc<dyn Clock>,
    mark: Arc<str>,
    retry: Duration,
    leases: Vec<Slot>,
    /// Those that are open, by their Leases.
    open: BTreeMap<usize, BoxStream<'static, LeaseEvent>>,
    /// Those that have ended are not opened before this. Meanwhile their Leases are only read.
    not_before: BTreeMap<usize, Duration>,
    /// It was logged that watches are forbidden.
    has_warned: bool,
}

impl Watches {
    /// The watches of these Leases, of which the first one is that of the map. None is open.
    pub(super) fn new(leases: Vec<Slot>, mark: Arc<str>, clock: Arc<dyn Clock>, retry: Duration) -> Self {
        let (open, not_before) = (BTreeMap::new(), BTreeMap::new());
        Self { clock, mark, retry, leases, open, not_before, has_warned: false }
    }

    /// Opens those of the map and of these slots, and closes the others. Returns when those are opened that could not be
    /// opened now.
    pub(super) fn open(&mut self, slots: &[u8]) -> Duration {
        let wanted: Vec<usize> = iter::once(MAP).chain(slots.iter().map(|slot| usize::from(*slot) + 1)).collect();
        self.open.retain(|lease, _| wanted.contains(lease));
        let (now, mut next) = (self.clock.now(), Duration::MAX);
        for lease in wanted {
            if let (Entry::Vacant(closed), Some(Slot(watched))) = (self.open.entry(lease), self.leases.get(lease)) {
                match self.not_before.get(&lease).filter(|at| now < **at) {
                    Some(at) => next = next.min(*at),
                    None => drop(closed.insert(watched.watch())),
                }
            }
        }
        next
    }

    /// The slots whose watches are open.
    pub(super) fn slots(&self) -> impl Iterator<Item = u8> {
        self.open.keys().filter_map(|lease| lease.checked_sub(1)?.try_into().ok())
    }

    /// Waits until one shows something, or ends: `None`.
    pub(super) async fn next(&mut self) -> Option<LeaseUpdate> {
        let (lease, event) = poll_fn(|context| {
            for (lease, watch) in &mut self.open {
                if let Poll::Ready(event) = watch.poll_next_unpin(context) {
                    return Poll::Ready((*lease, event));
                }
            }
            Poll::Pending
        })
        .await;
        match event {
            Some(Ok(Some(object))) if lease == MAP => MapLease::event(&object, &self.mark).map(LeaseUpdate::Map),
            Some(Ok(None)) if lease == MAP => Some(LeaseUpdate::MapDeleted),
            Some(Ok(Some(object))) => {
                let record = self.leases.get_mut(lease)?.event(object)?;
                Some(LeaseUpdate::Slot((lease - 1).try_into().ok()?, record))
            }
            // The next read of the slots shows it.
            Some(Ok(None)) => None,
            Some(Err(error @ LeaseError::Forbidden { .. })) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!("{error}; until then the Lease is polled, so a release is noticed later");
                }
                self.close(lease, self.retry * FORBIDDEN)
            }
            Some(Err(_)) | None => self.close(lease, self.retry),
        }
    }

    fn close(&mut self, lease: usize, pause: Duration) -> Option<LeaseUpdate> {
        self.open.remove(&lease);
        self.not_before.insert(lease, self.clock.now() + pause);
        None
    }
}
