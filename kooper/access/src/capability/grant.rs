//! Traits that bound methods by verb: a method that an argument does not grant does
//! not compile.

use std::any::TypeId;

use k8s_openapi::api::core::v1::Pod;

use super::verb::{Apply, ApplyOwned, Create, Delete, Evict, Get, Patch, WriteStatus};

macro_rules! grants {
    ($($(#[$doc:meta])* $name:ident<$kind:ident> = $verb:ident, $message:literal, $note:literal;)*) => {
        $(
            $(#[$doc])*
            #[diagnostic::on_unimplemented(message = $message, label = "not granted by this argument", note = $note)]
            pub trait $name<$kind> {}

            #[diagnostic::do_not_recommend]
            impl<$kind> $name<$kind> for $verb {}
        )*
    };
}

grants! {
    /// Granted by [`Creator`](super::Creator).
    MayCreate<T> = Create,
        "this argument may not create `{T}`: take `Creator<{T}>`, which also adds the rule",
        "`Applier<{T}>` creates objects that do not exist, and updates those that do";
    /// Granted by [`Applier`](super::Applier).
    MayApply<T> = Apply,
        "this argument may not apply `{T}`: take `Applier<{T}>`, which also adds the rule",
        "the status of `{T}` is applied by `StatusWriter<{T}>`";
    /// Granted by [`OwnedApplier`](super::OwnedApplier).
    MayApplyOwned<T> = ApplyOwned,
        "this argument may not apply a child `{T}`: take `OwnedApplier<{T}>`, which also adds the rules and watches the children",
        "`Applier<{T}>` applies objects that are not children";
    /// Granted by [`Patcher`](super::Patcher).
    MayPatch<T> = Patch,
        "this argument may not patch `{T}`: take `Patcher<{T}>`, which also adds the rule",
        "a handler can take several capabilities of one kind";
    /// Granted by [`Deleter`](super::Deleter).
    MayDelete<T> = Delete,
        "this argument may not delete `{T}`: take `Deleter<{T}>`, which also adds the rule",
        "a handler can take several capabilities of one kind";
    /// Granted by [`StatusWriter`](super::StatusWriter).
    MayWriteStatus<T> = WriteStatus,
        "this argument may not write the status of `{T}`: take `StatusWriter<{T}>`, which also adds the rule",
        "a handler can take several capabilities of one kind";
}

/// Granted by [`Getter`](super::Getter).
#[diagnostic::on_unimplemented(
    message = "this argument may not get `{T}`: take `Getter<{T}>`, which also adds the rule",
    label = "not granted by this argument",
    note = "`Reader<{T}>` reads from a cache instead, with `get`"
)]
pub trait MayGet<T> {
    /// The type that names the subset; `()` for all objects.
    #[doc(hidden)]
    fn subset() -> TypeId;
}

#[diagnostic::do_not_recommend]
impl<T, S: 'static> MayGet<T> for Get<S> {
    fn subset() -> TypeId {
        TypeId::of::<S>()
    }
}

/// Granted by [`Evictor`](super::Evictor).
#[diagnostic::on_unimplemented(
    message = "this argument may not evict pods: take `Evictor`, which also adds the rule",
    label = "not granted by this argument",
    note = "only pods are evicted"
)]
pub trait MayEvict<T> {}

#[diagnostic::do_not_recommend]
impl MayEvict<Pod> for Evict {}
