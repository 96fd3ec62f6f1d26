//! An object, or an `Arc` of one.

use std::sync::Arc;

use crate::object::kind::Kind;

/// An object, or the `Arc` of one that a handler takes. `M` is inferred and
/// keeps the two apart.
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
