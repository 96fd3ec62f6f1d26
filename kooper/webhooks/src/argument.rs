//! The arguments of a webhook's function, each found by its type.

use std::sync::Arc;

use kooper_access::internal::GivenSettings;
use kooper_access::{Settings, State};

use crate::admission::Admission;

/// A type that a function for objects `K` with the state `S` can take as an argument after
/// the object.
#[diagnostic::on_unimplemented(
    message = "a webhook for `{K}` cannot take `{Self}`",
    label = "not an argument of a webhook",
    note = "after the object take `Option<Arc<{K}>>` (the object before an update or a deletion), `Admission` (the request), `State<{S}>` (of `state(…)`, `()` without it), or `Settings<T>` (the program's own settings)"
)]
pub trait Argument<K, S>: Sized + Send + 'static {
    /// `true` for the object before an update or a deletion, which is decoded only if it is
    /// taken.
    #[doc(hidden)]
    const IS_OLD: bool = false;

    /// The type of settings that are not there.
    #[doc(hidden)]
    #[must_use]
    fn lacks(_settings: &GivenSettings) -> Option<&'static str> {
        None
    }

    /// Extracts the argument from the context of a call.
    fn extract(context: &Context<K, S>) -> Self;
}

/// The type of the object that is created, changed or deleted: the first argument of a
/// function that validates.
#[diagnostic::on_unimplemented(
    message = "the first argument of a function that validates `{K}` is the object, not `{Self}`",
    label = "not the object",
    note = "write `Arc<{K}>`, or `Option<Arc<{K}>>` if the function also decides on deletions"
)]
pub trait NewObject<K>: Sized + Send + 'static {
    /// `true` if there may be no object, as in a deletion.
    #[doc(hidden)]
    const IS_OPTIONAL: bool;

    /// The object; `None` where it is required and absent.
    #[doc(hidden)]
    fn take(object: Option<Arc<K>>) -> Option<Self>;
}

/// The context of one call, which arguments are extracted from.
pub struct Context<K, S> {
    pub(crate) new: Option<Arc<K>>,
    pub(crate) old: Option<Arc<K>>,
    pub(crate) admission: Admission,
    pub(crate) state: State<S>,
    pub(crate) settings: GivenSettings,
}

impl<K, S> std::fmt::Debug for Context<K, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("admission", &self.admission).finish_non_exhaustive()
    }
}

#[diagnostic::do_not_recommend]
impl<K: Send + Sync + 'static> NewObject<K> for Arc<K> {
    const IS_OPTIONAL: bool = false;

    fn take(object: Option<Self>) -> Option<Self> {
        object
    }
}

#[diagnostic::do_not_recommend]
impl<K: Send + Sync + 'static> NewObject<K> for Option<Arc<K>> {
    const IS_OPTIONAL: bool = true;

    fn take(object: Self) -> Option<Self> {
        Some(object)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Send + Sync + 'static, S> Argument<K, S> for Option<Arc<K>> {
    const IS_OLD: bool = true;

    fn extract(context: &Context<K, S>) -> Self {
        context.old.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<K, S> Argument<K, S> for Admission {
    fn extract(context: &Context<K, S>) -> Self {
        context.admission.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<K, S: Send + Sync + 'static> Argument<K, S> for State<S> {
    fn extract(context: &Context<K, S>) -> Self {
        context.state.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<K, S, T: Send + Sync + 'static> Argument<K, S> for Settings<T> {
    fn lacks(settings: &GivenSettings) -> Option<&'static str> {
        settings.get::<T>().is_none().then(std::any::type_name::<T>)
    }

    fn extract(context: &Context<K, S>) -> Self {
        let none = || panic!("a webhook is not built without the settings that it takes");
        context.settings.get().unwrap_or_else(none)
    }
}
