//! An object as handlers have it, in an `Arc`, or by itself.

use std::sync::Arc;

use crate::object::kind::Kind;

/// An object that is passed by itself or in the `Arc` that a handler gets.
/// `M` tells the two apart, and is never written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object",
    label = "not an object",
    note = "pass a reference to the object, or to the `Arc` that the handler takes"
)]
pub trait AsObject<M> {
    /// The object's type.
    type Object: Kind;

    /// The object.
    fn as_object(&self) -> &Self::Object;
}

#[diagnostic::do_not_recommend]
impl<K: Kind> AsObject<()> for K {
    type Object = K;

    fn as_object(&self) -> &K {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<K: Kind> AsObject<(K,)> for Arc<K> {
    type Object = K;

    fn as_object(&self) -> &K {
        self
    }
}
