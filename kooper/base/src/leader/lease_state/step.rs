//! The steps of a candidate or leader, and the reasons why leadership is lost.

use std::sync::Arc;

use super::known::LeaseWrite;
use crate::clock::Moment;

/// The next step.
#[derive(Debug)]
pub enum NextStep {
    /// Read the Lease.
    Read,
    /// Write it.
    Write(LeaseWrite),
    /// Wait until then, unless the record changes.
    Wait(Moment),
    /// Leadership was lost.
    Lost(Lost),
    /// The lease was released, or was not held.
    Idle,
}

/// Why leadership was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No renewal succeeded in time.
    #[error("the lease could not be renewed in time")]
    Deadline,
    /// Another candidate holds the lease.
    #[error("the lease is held by {0}")]
    Taken(Arc<str>),
    /// Another client removed the holder from the record.
    #[error("another client removed the holder from the lease")]
    Emptied,
    /// The Lease was deleted.
    #[error("the lease was deleted")]
    Deleted,
    /// The lease was not held.
    #[error("the lease is not held")]
    NeverHeld,
}
