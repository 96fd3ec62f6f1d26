//! The verbs that capabilities grant, each with the rules that it brings.

use crate::kind::Kind;
use crate::plan::Plan;

/// A verb that a capability grants on the kind `T`. `M` is inferred: it only
/// keeps impls apart.
pub trait Verb<T, M = ()>: 'static {
    /// Notes what the verb needs.
    fn plan(plan: &mut Plan);
}

/// Reads from a cache.
#[derive(Debug)]
pub enum Read {}

impl<T: Kind> Verb<T> for Read {
    fn plan(plan: &mut Plan) {
        plan.cache::<T>(format!("Reader<{}>", T::kind(&())));
    }
}

/// A verb that grants reading `T` from a cache.
#[diagnostic::on_unimplemented(
    message = "this argument may not read `{T}` from a cache: take `Reader<{T}>`, which also adds the rule",
    label = "not a `Reader<{T}>`"
)]
pub trait MayRead<T> {}

impl<T: Kind> MayRead<T> for Read {}
