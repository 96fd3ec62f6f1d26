//! Kinds with a status.

use kube::core::object::HasStatus as CustomStatus;

use crate::object::kind::Kind;

/// A kind with a status that is written by itself: custom resources with
/// `#[kube(status = "…")]`, and those of `k8s-openapi` that have one. `M` is
/// inferred: it only keeps impls apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no status to write",
    label = "a kind without status",
    note = "take `Applier<{Self}>` or `Patcher<{Self}>`, or give the custom resource a status: `#[kube(status = \"…\")]`"
)]
pub trait HasStatus<M>: Kind {
    /// The type of the status.
    type Status;

    /// The status.
    fn status(&self) -> Option<&Self::Status>;
}

/// Marks the statuses of custom resources.
#[derive(Debug)]
pub enum Custom {}

/// Marks the statuses of built-in kinds.
#[derive(Debug)]
pub enum BuiltIn {}

#[diagnostic::do_not_recommend]
impl<T: Kind + CustomStatus> HasStatus<Custom> for T {
    type Status = T::Status;

    fn status(&self) -> Option<&Self::Status> {
        CustomStatus::status(self)
    }
}
