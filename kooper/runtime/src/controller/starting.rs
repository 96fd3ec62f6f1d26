//! The readiness of a controller that is starting.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::call::context::ControllerContext;
use crate::metrics::health::Probe;

/// Why a controller is not ready: it is starting, or its prerequisite is not met.
pub(super) struct Starting {
    /// The controller: its name.
    pub(super) context: Arc<ControllerContext>,
    /// The reason; `None` when it is ready.
    state: Mutex<Option<String>>,
}

impl Starting {
    pub(super) fn new(context: &Arc<ControllerContext>) -> Self {
        let starting = Self { context: context.clone(), state: Mutex::default() };
        starting.begins();
        starting
    }

    pub(super) fn begins(&self) {
        *self.state.lock() = Some("it is starting".to_owned());
    }

    pub(super) fn failed(&self, what: &str, error: &str) {
        *self.state.lock() = Some(format!("`{what}` failed: {error}"));
    }

    pub(super) fn over(&self) {
        *self.state.lock() = None;
    }
}

impl Probe for Starting {
    fn name(&self) -> String {
        format!("{}: start", self.context.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        self.state.lock().as_ref().map_or(Ok(None), |reason| Err(format!("{}: {reason}", self.context.controller)))
    }
}
