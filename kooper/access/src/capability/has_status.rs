//! Kinds with a status.

use kooper_runtime::Kind;
use kube::core::object::HasStatus as CustomStatus;

/// A kind with a status subresource: custom resources with
/// `#[kube(status = "…")]`, and built-in kinds that have one. `M` is inferred and
/// keeps impls apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no status to write",
    label = "a kind without status",
    note = "take `Applier<{Self}>` or `Patcher<{Self}>`, or give the custom resource a status: `#[kube(status = \"…\")]`"
)]
pub trait HasStatus<M>: Kind {
    /// The type of the status.
    type Status;

    /// `true` if an empty list is the same as none to the API server.
    #[doc(hidden)]
    const OMITS_EMPTY_LISTS: bool = false;

    /// The status.
    fn status(&self) -> Option<&Self::Status>;
}

/// The marker for custom resources.
#[derive(Debug)]
pub enum Custom {}

/// The marker for built-in kinds.
#[derive(Debug)]
pub enum BuiltIn {}

#[diagnostic::do_not_recommend]
impl<T: Kind + CustomStatus> HasStatus<Custom> for T {
    type Status = T::Status;

    fn status(&self) -> Option<&Self::Status> {
        CustomStatus::status(self)
    }
}
