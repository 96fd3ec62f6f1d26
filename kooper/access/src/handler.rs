//! Handlers: async functions, and services of [`Input`]s with middleware around them.

mod end;
mod function;
mod init;
pub(crate) mod outcome;
mod signature;
mod status;

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use kooper_runtime::internal::call::attempt::Failure;
use kooper_runtime::internal::call::handler::{DeletedFunction, DynHandler, Predicate};
use kooper_runtime::internal::controller::parts::Priority;
use kooper_runtime::object::{DecodeError, Object};
use kooper_runtime::{Action, BoxError, Call};
use serde::de::DeserializeOwned;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};

use crate::extract::Removed;

pub use end::Deleted;
pub(crate) use function::Function;
pub use function::Handler;
#[doc(hidden)]
pub use function::HandlerFn;
pub use init::Init;
pub use outcome::Outcome;
#[doc(hidden)]
pub use signature::Asynchronous;
pub use status::StatusOf;
pub(crate) use status::{End, end, finish};

/// The request of a handler's middleware: an object and its call.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::handler::Input;
/// use kooper::prelude::*;
/// use kooper::tower;
///
/// let service = tower::service_fn(|Input { object, call }: Input<Pod>| async move {
///     tracing::info!(key = %call.key(), uid = ?object.metadata.uid, "called");
///     Ok::<_, kooper::BoxError>(Action::done())
/// });
/// let controller = Pod::controller("log").service(service).build();
/// # assert!(controller.is_ok());
/// ```
#[derive(Debug)]
pub struct Input<O> {
    /// The object.
    pub object: Arc<O>,
    /// The call.
    pub call: Call,
}

impl<O> Clone for Input<O> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), call: self.call.clone() }
    }
}

/// The service that middleware wraps: a `tower::Service` of [`Input`]s.
///
/// Layers are added with `#[controller(layers = […])]` or
/// [`Builder::layer`](crate::controller::Builder::layer).
pub struct HandlerService<O>(BoxCloneSyncService<Input<O>, Action, BoxError>);

impl<O: 'static> HandlerService<O> {
    pub(crate) fn new<T>(service: T) -> Self
    where
        T: Service<Input<O>, Response = Action> + Clone + Send + Sync + 'static,
        T::Error: Into<BoxError>,
        T::Future: Send + 'static,
    {
        Self(BoxCloneSyncService::new(service.map_err(Into::into)))
    }
}

impl<O> Clone for HandlerService<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

kooper_runtime::internal::debug_fields! { HandlerService<O> {} }

impl<O> Service<Input<O>> for HandlerService<O> {
    type Response = Action;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Action, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, input: Input<O>) -> Self::Future {
        self.0.call(input)
    }
}

/// Middleware around a handler for `O`: any `tower::Layer` over a service of
/// [`Input`]s whose response is an [`Action`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not middleware for a handler of `{O}`",
    label = "not a layer",
    note = "return a `tower::Layer<HandlerService<{O}>>` whose service is a cloneable `tower::Service<Input<{O}>, Response = Action>`"
)]
pub trait Middleware<O>: Send + Sync + 'static {
    /// Wraps a handler.
    fn wrap(&self, service: HandlerService<O>) -> HandlerService<O>;
}

#[diagnostic::do_not_recommend]
impl<O: 'static, L> Middleware<O> for L
where
    L: Layer<HandlerService<O>> + Send + Sync + 'static,
    L::Service:
        Service<Input<O>, Response = Action, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
{
    fn wrap(&self, service: HandlerService<O>) -> HandlerService<O> {
        HandlerService::new(self.layer(service))
    }
}

/// Decides whether an object is queued.
pub(crate) type Filter<O> = Arc<dyn Fn(&O) -> bool + Send + Sync>;

/// The filter of a type, for objects that are not decoded yet.
pub(crate) fn wants<O: DeserializeOwned + 'static>(filter: Option<Filter<O>>) -> Predicate {
    let Some(filter) = filter else { return Arc::new(|_| true) };
    let panicked = "the `when` filter panicked: the handler is called for the object";
    Arc::new(move |object| decoded(object, &*filter, true, panicked))
}

/// Decides which objects are handled first.
pub(crate) type PriorityOf<O> = Arc<dyn Fn(&O) -> i32 + Send + Sync>;

/// The priority of objects that are not decoded yet.
pub(crate) fn priority<O: DeserializeOwned + 'static>(priority: PriorityOf<O>) -> Priority {
    let panicked = "the `priority` function panicked: the object has the priority 0";
    Arc::new(move |object| decoded(object, &*priority, 0, panicked))
}

/// The result of a user's function for an object; `otherwise` if it does not decode or the function panics.
fn decoded<O: DeserializeOwned + 'static, T: Copy>(
    object: &Object,
    function: &dyn Fn(&O) -> T,
    otherwise: T,
    panicked: &str,
) -> T {
    let decide = || object.decode::<O>().map_or(otherwise, |decoded| function(&decoded));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decide)).unwrap_or_else(|_| {
        tracing::error!(key = %object.key(), "{panicked}");
        otherwise
    })
}

pub(crate) fn deleted_function<O: DeserializeOwned + Send + Sync + 'static>(
    service: HandlerService<Removed<O>>,
) -> DeletedFunction {
    Arc::new(move |object, gone, call| {
        let service = service.clone();
        Box::pin(async move {
            let object = Arc::new(object.decode::<O>().map_err(Failure::Decode)?);
            send(service, Input { object: Arc::new(Removed { object, gone }), call }).await
        })
    })
}

pub(crate) struct Typed<O>(pub(crate) HandlerService<O>);

impl<O: DeserializeOwned + Send + Sync + 'static> DynHandler for Typed<O> {
    fn call(&self, object: Arc<Object>, call: Call) -> BoxFuture<'static, Result<Action, Failure>> {
        let service = self.0.clone();
        Box::pin(async move {
            let decoded = Arc::new(object.decode::<O>().map_err(Failure::Decode)?);
            drop(object);
            send(service, Input { object: decoded, call }).await
        })
    }

    fn fits(&self, object: &Object) -> Result<(), DecodeError> {
        object.decode::<O>().map(drop)
    }
}

async fn send<O: Send + Sync + 'static>(mut service: HandlerService<O>, input: Input<O>) -> Result<Action, Failure> {
    let ready = service.ready().await.map_err(Failure::Handler)?;
    ready.call(input).await.map_err(Failure::Handler)
}
