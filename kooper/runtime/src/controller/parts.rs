//! The parts of a controller whose types are erased.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use kube::Client;
use parking_lot::Mutex;

use crate::call::context::ControllerContext;
use crate::call::extensions::Extensions;
use crate::call::handler::{DeletedFunction, DynHandler, Predicate};
use crate::error::BoxError;
use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;
use crate::object::{DecodeError, Object};
use crate::watch::cache_id::CacheId;
use crate::watch::retriever::ErasedRetriever;

/// The context in which the functions of a controller are built.
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub struct InitContext {
    /// The controller.
    pub controller: Arc<ControllerContext>,
    /// The values that controllers share, such as their states.
    pub shared: Arc<Extensions>,
}

/// The functions of a controller, with their state.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub struct Handlers {
    /// The handler.
    pub handler: Arc<dyn DynHandler>,
    /// The function for `cleanup`.
    pub cleanup: Option<Arc<dyn DynHandler>>,
    /// The function for `deleted`.
    pub deleted: Option<DeletedFunction>,
    /// The function for paused objects.
    pub paused: Option<Arc<dyn DynHandler>>,
}

/// The parts of a running controller, independent of its types.
pub trait DynController: Send + Sync {
    /// The custom retriever, if the user has set one.
    fn retriever(&self, client: Option<Client>) -> Option<Result<Arc<dyn ErasedRetriever>, BoxError>>;

    /// The filter before the queue.
    fn wants(&self) -> Predicate;

    /// Returns `true` if the user has set a filter.
    fn has_filter(&self) -> bool;

    /// The function of the user that decides the priority of an object; `None` if all have the same.
    fn priority(&self) -> Option<Priority>;

    /// Returns `true` if the controller has a function for removed objects.
    fn has_deleted(&self) -> bool;

    /// Returns `true` if the controller has a function for paused objects.
    fn has_paused(&self) -> bool;

    /// Builds the state, and the functions with it.
    fn handlers(&self, context: InitContext) -> BoxFuture<'_, Result<Handlers, BoxError>>;
}

/// Decides which objects are handled first: those with a higher number. An object that does not decode has 0.
pub type Priority = Arc<dyn Fn(&Object) -> i32 + Send + Sync>;

/// The keys that an item of an external source queues.
#[derive(Debug)]
pub enum Trigger {
    /// One key.
    Key(ObjectKey),
    /// The keys of all objects of the controller.
    All,
}

/// An external source, until the controller takes it.
pub type TriggerStream = Mutex<Option<BoxStream<'static, Trigger>>>;

/// Maps an object to the keys to enqueue.
pub type MapKeys = Arc<dyn Fn(&Object) -> Result<Vec<ObjectKey>, DecodeError> + Send + Sync>;

/// Objects of another kind whose changes enqueue keys.
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub struct Relation {
    /// The cache of these objects.
    pub cache: CacheId,
    /// Their kind.
    pub kind: KindInfo,
    /// The keys.
    pub mapping: Mapping,
}

/// The mapping of related objects to keys.
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub enum Mapping {
    /// To the owner that controls the object.
    Owner,
    /// By a function of the user, which may block its thread.
    Function(MakeMap),
    /// By an index, which is read on the thread of the watch.
    Index(MakeIndex),
}

/// Makes a map function for one controller.
type MakeMap = Box<dyn Fn(&Arc<ControllerContext>) -> MapKeys + Send + Sync>;

/// Makes a map function that reads an index, for one controller.
pub type MakeIndex = fn(&Arc<ControllerContext>) -> MapKeys;
