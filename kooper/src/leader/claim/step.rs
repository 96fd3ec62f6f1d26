//! What a candidate does next, and why it stops.

use std::fmt;
use std::sync::Arc;

use super::known::LeaseWrite;
use crate::leader::clock::Moment;

/// What to do next.
#[derive(Debug)]
pub(in crate::leader) enum Step {
    Read,
    Write(LeaseWrite),
    /// Nothing before that moment, unless the record changes.
    Wait(Moment),
    /// Leadership is over.
    Lost(Lost),
    /// The lease is given up, or there was nothing to give up.
    Left,
}

/// Why leadership is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// No renewal succeeded in time.
    Deadline,
    /// Somebody else holds the lease.
    Taken(Arc<str>),
    /// Somebody emptied the record.
    Emptied,
    /// Somebody deleted the Lease.
    Deleted,
    /// There was none.
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
