//! The steps of a candidate or leader, and the reasons why leadership is lost.

use std::fmt;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// No renewal succeeded in time.
    Deadline,
    /// Another candidate holds the lease.
    Taken(Arc<str>),
    /// Another client removed the holder from the record.
    Emptied,
    /// The Lease was deleted.
    Deleted,
    /// The lease was not held.
    NeverHeld,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("the lease could not be renewed in time"),
            Self::Taken(holder) => write!(f, "the lease is held by {holder}"),
            Self::Emptied => f.write_str("another client removed the holder from the lease"),
            Self::Deleted => f.write_str("the lease was deleted"),
            Self::NeverHeld => f.write_str("the lease is not held"),
        }
    }
}
