//! The arguments of a webhook's function, each found by its type.

use std::sync::Arc;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper_access::capability::SubsetOf;
use kooper_access::extract::{self, Argument};
use kooper_access::plan::Plan;
use kooper_access::{Reader, Settings, State};
use kooper_runtime::Kind;
use kooper_runtime::internal::client::{ClientStack, from_fn};
use kube::Client;
use tower::ServiceExt;

use crate::admission::Admission;

/// A type that a function for objects `K` with the state `S` can take as an argument after
/// the object.
#[diagnostic::on_unimplemented(
    message = "a webhook for `{K}` cannot take `{Self}`",
    label = "not an argument of a webhook",
    note = "after the object take `Option<Arc<{K}>>` (the object before an update or a deletion), `Admission` (the request), `Reader<T>`, `Client`, `State<{S}>` (the value from `init`, or `()` without it), or `Settings<T>` (the program's own settings)",
    note = "a webhook cannot write objects: write them in a controller"
)]
pub trait WebhookArgument<K, S>: Sized + Send + 'static {
    /// Where it comes from.
    #[doc(hidden)]
    const SOURCE: ArgumentSource = ArgumentSource::Request;

    /// Adds to the plan what the argument needs.
    #[doc(hidden)]
    fn plan(_plan: &mut Plan) {}

    /// Extracts the argument from the context of a call.
    fn extract(context: &Context<K, S>) -> Self;
}

/// Where an argument comes from.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentSource {
    /// The request.
    Request,
    /// The object before an update or a deletion, which is decoded only if it is taken.
    Old,
    /// The process, with its caches, the state and the settings.
    Process,
    /// The client, by which a function can have side effects.
    Client,
}

/// The type of the object that is created, changed or deleted: the first argument of a
/// validating webhook.
#[diagnostic::on_unimplemented(
    message = "the first argument of a validating webhook for `{K}` is the object, not `{Self}`",
    label = "not the object",
    note = "write `Arc<{K}>`, or `Option<Arc<{K}>>` if the function also decides on deletions"
)]
pub trait NewObject<K>: Sized + Send + 'static {
    /// `true` if there may be no object, as in a deletion.
    #[doc(hidden)]
    const IS_OPTIONAL: bool;

    /// The object; `None` where it is required and absent.
    #[doc(hidden)]
    fn take(object: Option<K>) -> Option<Self>;
}

/// The type of the object that is changed: the first argument of a mutating webhook.
#[diagnostic::on_unimplemented(
    message = "the first argument of a mutating webhook for `{K}` is the object itself, not `{Self}`",
    label = "not the object",
    note = "write `mut object: {K}`, and return it"
)]
pub trait MutatedObject<K>: Sized + Send + 'static {
    /// The object; `None` where it is absent.
    #[doc(hidden)]
    fn take(object: Option<K>) -> Option<Self>;
}

/// The context of one call, which arguments are extracted from.
pub struct Context<K, S> {
    pub(crate) new: Option<K>,
    pub(crate) old: Option<Arc<K>>,
    pub(crate) admission: Admission,
    /// `None` if no argument needs it.
    pub(crate) process: Option<Arc<Process<S>>>,
}

/// The process, as the source of arguments: the context of a controller, see [`inputs`](crate::inputs).
pub(crate) type Process<S> = extract::Context<ConfigMap, S>;

impl<K, S> Context<K, S> {
    fn process(&self) -> &Process<S> {
        self.process.as_deref().unwrap_or_else(|| panic!("a function is not called before its arguments are there"))
    }
}

kooper_runtime::internal::debug_fields! { Context<K, S> { admission } }

#[diagnostic::do_not_recommend]
impl<K: Send + Sync + 'static> NewObject<K> for Arc<K> {
    const IS_OPTIONAL: bool = false;

    fn take(object: Option<K>) -> Option<Self> {
        object.map(Self::new)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Send + Sync + 'static> NewObject<K> for Option<Arc<K>> {
    const IS_OPTIONAL: bool = true;

    fn take(object: Option<K>) -> Option<Self> {
        Some(object.map(Arc::new))
    }
}

#[diagnostic::do_not_recommend]
impl<K: Send + 'static> MutatedObject<K> for K {
    fn take(object: Option<K>) -> Option<K> {
        object
    }
}

#[diagnostic::do_not_recommend]
impl<K: Send + Sync + 'static, S> WebhookArgument<K, S> for Option<Arc<K>> {
    const SOURCE: ArgumentSource = ArgumentSource::Old;

    fn extract(context: &Context<K, S>) -> Self {
        context.old.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<K, S> WebhookArgument<K, S> for Admission {
    fn extract(context: &Context<K, S>) -> Self {
        context.admission.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<K, S: Send + Sync + 'static> WebhookArgument<K, S> for State<S> {
    const SOURCE: ArgumentSource = ArgumentSource::Process;

    fn extract(context: &Context<K, S>) -> Self {
        Argument::extract(context.process())
    }
}

#[diagnostic::do_not_recommend]
impl<K, S, T: Send + Sync + 'static> WebhookArgument<K, S> for Settings<T> {
    const SOURCE: ArgumentSource = ArgumentSource::Process;

    fn plan(plan: &mut Plan) {
        <Self as Argument<ConfigMap, S>>::plan(plan);
    }

    fn extract(context: &Context<K, S>) -> Self {
        Argument::extract(context.process())
    }
}

#[diagnostic::do_not_recommend]
impl<K, S, T: Kind, U: SubsetOf<T>> WebhookArgument<K, S> for Reader<T, U> {
    const SOURCE: ArgumentSource = ArgumentSource::Process;

    fn plan(plan: &mut Plan) {
        <Self as Argument<ConfigMap, S, (T, ())>>::plan(plan);
    }

    fn extract(context: &Context<K, S>) -> Self {
        <Self as Argument<ConfigMap, S, (T, ())>>::extract(context.process())
    }
}

/// In a dry run its writes fail.
#[diagnostic::do_not_recommend]
impl<K, S> WebhookArgument<K, S> for Client {
    const SOURCE: ArgumentSource = ArgumentSource::Client;

    fn plan(plan: &mut Plan) {
        <Self as Argument<ConfigMap, S>>::plan(plan);
    }

    fn extract(context: &Context<K, S>) -> Self {
        let client = <Self as Argument<ConfigMap, S>>::extract(context.process());
        if context.admission.is_dry_run() { reading(client) } else { client }
    }
}

/// The same client, which writes nothing.
fn reading(client: Client) -> Client {
    let layer = from_fn(|request, next| async move {
        if request.method() == Method::GET {
            return next.oneshot(request).await;
        }
        Err("the request is a dry run, in which only `GET` requests are sent".into())
    });
    ClientStack::new(client).with([layer]).client()
}
