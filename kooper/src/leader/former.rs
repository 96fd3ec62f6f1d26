//! A lease of a former name: its holder is respected, it is never written.

use std::sync::Arc;
use std::time::Duration;

use super::claim::Record;
use super::clock::{Clock, Moment};
use super::lease::{Lease, LeaseError};

pub(super) struct Former {
    object: Lease,
    /// Waited for at least.
    lease: Duration,
    seen: Option<(Record, Moment)>,
}

impl Former {
    pub(super) fn new(object: Lease, lease: Duration) -> Self {
        Self { object, lease, seen: None }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.object.name
    }

    /// Who holds it and has not let it expire.
    pub(super) async fn holder(&mut self, clock: &dyn Clock) -> Result<Option<Arc<str>>, LeaseError> {
        let found = self.object.read().await?.filter(|record| !record.holder.is_empty());
        let now = clock.now();
        let Some(record) = found else {
            self.seen = None;
            return Ok(None);
        };
        let since = match &self.seen {
            Some((seen, since)) if seen.says_the_same(&record) => *since,
            _ => now,
        };
        let expires = since + record.lease.unwrap_or_default().max(self.lease);
        let holder = Arc::clone(&record.holder);
        self.seen = Some((record, since));
        Ok((now < expires).then_some(holder))
    }
}
