//! The readiness of a controller that is starting.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::call::context::ControllerContext;
use crate::controller::namespaces::Namespaces;
use crate::metrics::health::Probe;

/// Why a controller is not ready: it is starting, or its prerequisite is not met.
pub(super) struct Starting {
    /// The controller: its name.
    pub(super) context: Arc<ControllerContext>,
    state: Mutex<State>,
}

enum State {
    /// It is not ready, for this reason.
    Waits(String),
    /// Its caches are filled, and it is not ready afterwards either.
    Lists(Arc<Namespaces>),
    Over,
}

impl Starting {
    pub(super) fn new(context: &Arc<ControllerContext>) -> Self {
        Self { context: context.clone(), state: Mutex::new(State::begun()) }
    }

    pub(super) fn begins(&self) {
        *self.state.lock() = State::begun();
    }

    pub(super) fn lists(&self, namespaces: Arc<Namespaces>) {
        *self.state.lock() = State::Lists(namespaces);
    }

    pub(super) fn failed(&self, what: &str, error: &str) {
        *self.state.lock() = State::Waits(format!("`{what}` failed: {error}"));
    }

    pub(super) fn over(&self) {
        *self.state.lock() = State::Over;
    }
}

impl State {
    fn begun() -> Self {
        Self::Waits("it is starting".to_owned())
    }
}

impl Probe for Starting {
    fn name(&self) -> String {
        format!("{}: start", self.context.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let reason = match &*self.state.lock() {
            State::Waits(reason) => reason.clone(),
            // The checks of its watches are before this one, and have the reasons until then.
            State::Lists(namespaces) if namespaces.has_first() => "it is starting".to_owned(),
            State::Lists(_) | State::Over => return Ok(None),
        };
        Err(format!("{}: {reason}", self.context.controller))
    }
}
