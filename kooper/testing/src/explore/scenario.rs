//! The return types of scenarios.

use kooper_runtime::BoxError;
use kooper_runtime::internal::error::chain;

/// The return type of an [`Exploration`](super::Exploration)'s scenario: `()` or a
/// `Result<(), E>`.
pub trait ScenarioResult {
    /// Returns the error of a failed scenario, with its sources, as text.
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
