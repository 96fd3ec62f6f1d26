//! The functions of a controller, whatever their types are.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::call::action::Action;
use crate::call::attempt::Failure;
use crate::call::{Call, Gone};
use crate::object::{DecodeError, Object};

/// Decides whether a function is called for an object. The handler is called for one that does not decode, so that the
/// call reports the error.
pub type Predicate = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// A handler of any type, as a worker calls it.
pub trait DynHandler: Send + Sync {
    /// Calls the function for an object.
    fn call(&self, object: Arc<Object>, call: Call) -> BoxFuture<'static, Result<Action, Failure>>;

    /// Checks that the object decodes as the type that the handler takes.
    fn fits(&self, object: &Object) -> Result<(), DecodeError>;
}

/// The function for `deleted`, as a worker calls it.
pub type DeletedFunction =
    Arc<dyn Fn(Arc<Object>, Gone, Call) -> BoxFuture<'static, Result<Action, Failure>> + Send + Sync>;
