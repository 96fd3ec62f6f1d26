//! The functions of a controller, whatever their types are.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::call::action::Action;
use crate::call::{Call, Gone};
use crate::error::BoxError;
use crate::object::{DecodeError, Object};

/// Why a call failed.
#[derive(Debug)]
pub enum CallError {
    /// The object does not decode.
    Decode(DecodeError),
    /// The handler failed.
    Handler(BoxError),
    /// The finalizer could not be set or removed.
    Finalizer(BoxError),
}

/// Decides whether an object is handled. An object that does not decode is handled,
/// so that the call reports the error.
pub type Wants = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// A handler of any type, as a worker calls it.
pub trait DynHandler: Send + Sync {
    /// Calls the function for an object.
    fn call(&self, object: Arc<Object>, call: Call) -> BoxFuture<'static, Result<Action, CallError>>;

    /// Checks that the object decodes as the type that the handler takes.
    fn fits(&self, object: &Object) -> Result<(), DecodeError>;
}

/// The function for `deleted`, as a worker calls it.
pub type DeletedFunction =
    Arc<dyn Fn(Arc<Object>, Gone, Call) -> BoxFuture<'static, Result<Action, CallError>> + Send + Sync>;
