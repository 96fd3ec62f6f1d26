//! The requests of a member, and their results.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::{self, FuturesUnordered};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::leases::{Slot, StoreError};
use crate::map::MapRecord;
use crate::session::SlotRecord;

/// The most reads of slots at a time: each has a connection of its own.
const READS: usize = 4;

/// The kinds of requests, of which one each is sent at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Session,
    Slots,
    Map,
}

/// The result of a request.
pub(super) enum Answer {
    SessionRead(u8, Result<Option<SlotRecord>, StoreError>),
    SessionWrite(u8, Result<SlotRecord, StoreError>),
    /// The slots that were read, and the error of one that was not.
    Slots(Vec<(u8, Option<SlotRecord>)>, Option<StoreError>),
    Tombstone(Result<SlotRecord, StoreError>),
    MapRead(Result<Option<MapRecord>, StoreError>),
    MapWrite(Result<Option<MapRecord>, StoreError>),
}

pub(super) type Requests = FuturesUnordered<BoxFuture<'static, (Lane, Duration, Answer)>>;

/// Reads slots, a few at a time. What was read until the timeout is the result: others are read first the next time. A
/// slot that cannot be read does not hide the others.
pub(super) async fn read_slots(slots: Vec<(u8, Arc<Mutex<Slot>>)>, patience: Duration) -> Answer {
    let reads = slots.into_iter().map(|(index, slot)| async move { (index, slot.lock().await.read().await) });
    let (mut found, mut failed) = (Vec::new(), None);
    let all = stream::iter(reads).buffer_unordered(READS).for_each(|(index, read)| {
        match read {
            Ok(record) => found.push((index, record)),
            Err(error) => failed = Some(error),
        }
        ready(())
    });
    let is_late = timeout(patience, all).await.is_err() && found.is_empty();
    Answer::Slots(found, failed.or(is_late.then_some(StoreError::Silent)))
}
