//! One call of a controller, with everything around its handler.

use std::sync::Arc;

use super::ControllerSpec;
use super::parts::{Handlers, InitContext};
use crate::call::Call;
use crate::call::action::Action;
use crate::call::attempt::{Failure, Part};
use crate::call::context::ControllerContext;
use crate::call::extensions::Extensions;
use crate::call::finalizer::Finalizing;
use crate::call::handler::{DynHandler, Predicate};
use crate::call::lookup::Lookup;
use crate::error::Result;
use crate::object::Object;
use crate::watch::cache_id::CacheRequest;

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

    /// The filter before the queue, and again before each call. One that waits to be
    /// cleaned up passes it, whatever `when` decides; another one that is being deleted
    /// does not, unless the controller says so. Nor does a paused one before it is deleted.
    pub(super) fn wants(&self) -> Predicate {
        let (wants, finalizers) = (self.parts.wants(), self.config.finalizers());
        let (while_deleting, annotations) = (self.config.while_deleting, self.config.annotations.clone());
        let wants = move |object: &Object| (object.is_terminating() || !annotations.is_paused(object)) && wants(object);
        Arc::new(move |object| match &finalizers {
            Some(finalizers) => finalizers
                .retire(object)
                .unwrap_or_else(|| if object.is_terminating() { finalizers.hold(object) } else { wants(object) }),
            None => (while_deleting || !object.is_terminating()) && wants(object),
        })
    }

    /// Decides whether the function for paused objects is called for an object: only the annotation keeps it from being
    /// handled. `None` if there is no such function.
    pub(super) fn paused(&self) -> Option<Predicate> {
        let is_used = self.parts.has_paused() && self.config.retirement.is_none();
        let (wants, annotations) = (self.parts.wants(), self.config.annotations.clone());
        let is_paused =
            move |object: &Object| annotations.is_paused(object) && !object.is_terminating() && wants(object);
        is_used.then(|| Arc::new(is_paused) as Predicate)
    }

    /// The handler combined with `cleanup`, if that is set.
    pub(super) fn finalizing(
        &self,
        handlers: &Handlers,
        controller: &Arc<ControllerContext>,
    ) -> Option<Arc<Finalizing>> {
        Some(Arc::new(Finalizing {
            finalizers: self.config.finalizers()?,
            handler: handlers.handler.clone(),
            cleanup: handlers.cleanup.clone()?,
            lookup: self.lookup(controller)?,
            controller: controller.clone(),
        }))
    }

    /// Reads single objects of the kind from the API server.
    pub(super) fn lookup(&self, controller: &ControllerContext) -> Option<Lookup> {
        // A response shows if a cache selects the written object by its fields.
        let by_fields = |request: &CacheRequest| {
            let selected = request.id.selected.filter(|_| request.kind.is_same(&self.kind));
            selected.is_some_and(|selected| !selected.fields.is_empty())
        };
        Some(Lookup {
            client: controller.client.clone().filter(|_| !self.own_retriever)?,
            kind: self.kind.clone(),
            namespace_selector: self.config.namespace_selector.clone(),
            labels: self.config.labels.clone(),
            fields: self.config.fields.clone(),
            metadata_only: self.config.metadata_only && !self.caches.iter().any(by_fields),
            field_manager: controller.field_manager(),
        })
    }
}
