//! Effects of faults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Reply;

/// Effect of a fault on a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Effect {
    /// It is refused.
    Reply(Reply),
    /// It is served later.
    Delay(Duration),
    /// It is served, and answered later.
    DelayAnswer(Duration),
    /// The connection is reset before it is served.
    Reset,
    /// It is served, and the connection is reset instead of the answer.
    DropResponse,
    /// It is served, and the connection is reset in the middle of the answer.
    CutAnswer,
}

/// Effect of a fault on a watch event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EventEffect {
    /// It is not sent.
    Skip,
    /// It is sent twice.
    Repeat,
    /// It is sent later, and so is what follows it.
    Delay(Duration),
    /// Neither it nor what follows it is sent; the watch stays open.
    Stall,
    /// It is sent after the next event of another object.
    Reorder,
    /// The watch ends before it.
    Close,
    /// The connection is reset before it.
    Reset,
    /// The connection is reset in the middle of it.
    Cut,
    /// Half of it is sent, as a line of its own.
    Corrupt,
    /// The watch ends with `410 Gone` before it.
    Expire,
    /// Neither it nor what follows it is sent; after a time the watch ends with `410 Gone`.
    ExpireAfter(Duration),
}
