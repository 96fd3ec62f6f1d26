//! One handler call, as the handler sees it.

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::key::ObjectKey;
use crate::reason::Reasons;

/// What a handler can know of the call that it is in: take it as an argument.
#[derive(Debug, Clone)]
pub struct Call {
    controller: Arc<str>,
    key: ObjectKey,
    attempt: u32,
    reasons: Reasons,
    cancelled: CancellationToken,
}

impl Call {
    pub(crate) fn new(
        controller: Arc<str>,
        key: ObjectKey,
        attempt: u32,
        reasons: Reasons,
        cancelled: CancellationToken,
    ) -> Self {
        Self { controller, key, attempt, reasons, cancelled }
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// The object's namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Which try this is since the last success, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Why the handler is called.
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// Whether the call should come to its end: the process stops, or the
    /// call has passed its timeout.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Waits until the call should come to its end. A handler that waits for
    /// something long selects on this too.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancelled.cancelled()
    }
}
