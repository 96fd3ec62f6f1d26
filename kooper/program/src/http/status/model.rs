//! The content of the status page.

use std::time::Duration;

use kooper_runtime::internal::call::worker::Running;
use kooper_runtime::internal::controller::view::WatchView;
use kooper_runtime::internal::queue::QueueCounts;

use super::slots::Slots;
use super::webhooks::WebhookRow;
use crate::http::history::Sample;

/// A filter for the keys that are shown, and the maximum number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    /// A part of the keys; empty for all of them.
    pub(crate) search: String,
    /// The maximum number of rows.
    pub(crate) most: usize,
}

/// The state of a controller at one moment.
#[derive(Debug, Default)]
pub(crate) struct ControllerState {
    pub(crate) name: String,
    /// The resource that it handles.
    pub(crate) resource: String,
    pub(crate) role: Role,
    /// Why it handles nothing, if so.
    pub(crate) problem: Option<String>,
    /// The maximum number of calls that run at the same time.
    pub(crate) workers: usize,
    pub(crate) queue: QueueCounts,
    /// Its watches, those with a problem first.
    pub(crate) watches: Rows<WatchView>,
    /// The running calls, the longest one first.
    pub(crate) calls: Rows<Running>,
    /// The keys of its queue; without a search those that run or fail come first.
    pub(crate) keys: Rows<KeyState>,
    /// Why no key matches the search, if it is a whole key.
    pub(crate) unknown: Option<String>,
    /// The slots of the object that is searched for, if it is a single one.
    pub(crate) slots: Option<Slots>,
    /// The webhooks that it registers, and remarks about them.
    pub(crate) webhooks: Rows<WebhookRow>,
    pub(crate) webhook_remarks: Vec<String>,
    /// The last ten minutes.
    pub(crate) samples: Vec<Sample>,
}

/// Some rows, and the number of those that are left out.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    pub(crate) shown: Vec<T>,
    pub(crate) more: usize,
}

/// The role of this replica in a controller. A standby calls no handlers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has neither leader election nor shards.
    #[default]
    Alone,
    /// It is the leader, under this identity.
    Leader(String),
    /// It is not the leader, and why.
    Standby(String),
    /// It works on some of the shards.
    Shards {
        /// The number that it works on.
        owned: usize,
        /// The number of all.
        count: u16,
        /// Its identity.
        identity: String,
    },
    /// It works on none of the shards.
    NoShards,
    /// It has ended.
    Ended,
}

/// A key, and what it waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyState {
    /// The key: `namespace/name`, or `name` for a cluster-scoped object.
    pub(crate) key: String,
    /// A sentence about the call that runs, or the event or time that the key waits for.
    pub(crate) why: String,
    /// The reasons of its next call.
    pub(crate) reasons: String,
    /// The last error, and how many calls have failed since the last success.
    pub(crate) error: Option<(String, u32)>,
}

/// A duration for people: in tenths of a second below ten seconds, else in seconds.
pub(crate) fn shown(time: Duration) -> String {
    match time {
        short if short < Duration::from_secs(10) => format!("{:.1}s", short.as_secs_f64()),
        long => kooper_grammar::duration::format(Duration::from_secs(long.as_secs())),
    }
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { shown: Vec::new(), more: 0 }
    }
}

impl<T> Rows<T> {
    /// The first rows.
    pub(crate) fn first(mut all: Vec<T>, most: usize) -> Self {
        let more = all.len().saturating_sub(most);
        all.truncate(most);
        Self { shown: all, more }
    }
}

impl ControllerState {
    /// The number of rows that are shown.
    pub(crate) fn rows(&self) -> usize {
        self.watches.shown.len() + self.calls.shown.len() + self.keys.shown.len()
    }
}
