//! One call of a controller, with everything around its handler.

use std::sync::Arc;

use super::ControllerSpec;
use super::parts::InitContext;
use crate::call::Call;
use crate::call::action::Action;
use crate::call::attempt::{Failure, Part};
use crate::call::context::ControllerContext;
use crate::call::extensions::Extensions;
use crate::call::handler::DynHandler;
use crate::error::Result;
use crate::object::Object;

impl ControllerSpec {
    /// Calls the handler for an object once, as a worker does, or the function for paused objects, and returns the
    /// result to the caller.
    pub async fn call_once(
        &self,
        controller: ControllerContext,
        shared: Arc<Extensions>,
        object: Arc<Object>,
        call: Call,
    ) -> Result<Action> {
        let is_wanted = (self.wants())(&object);
        if !is_wanted && !self.paused().is_some_and(|is_paused| is_paused(&object)) {
            return Ok(Action::done());
        }
        let controller = Arc::new(ControllerContext { annotations: self.config.annotations.clone(), ..controller });
        let handlers = self.parts.handlers(InitContext { controller: controller.clone(), shared }).await?;
        let called = match (handlers.paused.as_ref().filter(|_| !is_wanted), self.finalizing(&handlers, &controller)) {
            (Some(paused), _) => paused.call(object, call).await.map(|_| Action::done()),
            (None, Some(finalizing)) => finalizing.call(object, call).await,
            (None, None) => handlers.handler.call(object, call).await,
        };
        called.map_err(|failure| match failure {
            Failure::Decode(error) => error.into(),
            Failure::Handler(error) | Failure::Finalizer(error) => error,
            failure => failure.of(Part::Handler).into(),
        })
    }
}
