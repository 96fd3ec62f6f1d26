//! The condition for the start of a controller.

use futures_util::future::BoxFuture;
use kube::Client;

use super::pass::ControllerPass;

/// A condition for the first list of a controller's objects, such as their CRD.
pub trait Prerequisite: Send + Sync {
    /// The setting that it belongs to, for messages.
    fn name(&self) -> &'static str;

    /// Makes the condition true.
    fn meet<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), PrerequisiteError>>;

    /// Reports to a pass what [`meet`](Self::meet) would do. Returns `false` if there are no
    /// objects before it.
    fn predict<'a>(&'a self, client: &'a Client, pass: &'a dyn ControllerPass) -> BoxFuture<'a, bool>;
}

/// An attempt to meet a prerequisite has failed. It is repeated.
#[derive(Debug)]
pub struct PrerequisiteError {
    /// The error.
    pub problem: String,
    /// The consequence if the controller starts without it, but is not ready. `None` if it does not
    /// start.
    pub consequence: Option<&'static str>,
}
