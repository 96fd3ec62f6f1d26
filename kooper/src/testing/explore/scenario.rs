//! What a scenario returns.

use crate::error::{BoxError, chain};

/// What a scenario of an [`Exploration`](super::Exploration) returns: `()` or a `Result<(), E>`.
pub trait ScenarioResult {
    /// Whether the scenario passed, or why it failed.
    #[doc(hidden)]
    fn checked(self) -> Result<(), String>;
}

impl ScenarioResult for () {
    fn checked(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Into<BoxError>> ScenarioResult for Result<(), E> {
    fn checked(self) -> Result<(), String> {
        self.map_err(|error| chain(&*error.into()))
    }
}
