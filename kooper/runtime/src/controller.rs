//! Controllers, whatever their types are: lists and watches, a queue, and workers that call a handler.

pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod health;
mod namespaces;
mod once;
pub(crate) mod partition;
pub(crate) mod parts;
pub(crate) mod pass;
pub(crate) mod prerequisite;
pub(crate) mod review;
mod run;
mod starting;
pub(crate) mod view;

use std::sync::Arc;

use crate::call::children::ChildObserver;
use crate::call::context::ControllerContext;
use crate::call::extensions::Extensions;
use crate::call::finalizer::Finalizing;
use crate::call::handler::Predicate;
use crate::call::lookup::Lookup;
use crate::call::observer::Observe;
use crate::object::Object;
use crate::object::kind::KindInfo;
use crate::watch::cache_id::CacheRequest;

pub use config::Config;
use config::Names;
use partition::Partition;
use parts::{DynController, Handlers, Relation, TriggerStream};
use prerequisite::Prerequisite;
pub use run::{Process, Runner};

/// A controller without its types: what a [`Runner`] runs.
pub struct ControllerSpec {
    /// Its settings.
    pub config: Config,
    /// Its own kind.
    pub kind: KindInfo,
    /// `true` if the retriever is a custom one.
    pub own_retriever: bool,
    /// The cache of its objects.
    pub primary: CacheRequest,
    /// The cache of the metadata of all objects of the kind, for a controller with a
    /// selector and a finalizer: the finalizer is removed from objects outside of the
    /// selector, too.
    pub unselected: Option<CacheRequest>,
    /// The cache of the namespaces whose objects are handled, if a selector is set for them.
    pub namespaces: Option<CacheRequest>,
    /// The caches that its functions read, and those of children and related objects.
    pub caches: Vec<CacheRequest>,
    /// The other kinds whose changes queue keys.
    pub relations: Arc<[Relation]>,
    /// Keys from elsewhere.
    pub sources: Arc<[TriggerStream]>,
    /// `true` if failures are recorded as Events.
    pub reports_failures: bool,
    /// Its functions.
    pub parts: Arc<dyn DynController>,
}

impl ControllerSpec {
    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// The filter before the queue, and again before each call. One that waits to be
    /// cleaned up passes it, whatever `when` decides; another one that is being deleted
    /// does not, unless the controller says so. Nor does a paused one before it is deleted.
    fn wants(&self) -> Predicate {
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
    fn paused(&self) -> Option<Predicate> {
        let is_used = self.parts.has_paused() && self.config.retirement.is_none();
        let (wants, annotations) = (self.parts.wants(), self.config.annotations.clone());
        let is_paused =
            move |object: &Object| annotations.is_paused(object) && !object.is_terminating() && wants(object);
        is_used.then(|| Arc::new(is_paused) as Predicate)
    }

    /// The handler combined with `cleanup`, if that is set.
    fn finalizing(&self, handlers: &Handlers, controller: &Arc<ControllerContext>) -> Option<Arc<Finalizing>> {
        Some(Arc::new(Finalizing {
            finalizers: self.config.finalizers()?,
            handler: handlers.handler.clone(),
            cleanup: handlers.cleanup.clone()?,
            lookup: self.lookup(controller)?,
            controller: controller.clone(),
        }))
    }

    /// Reads single objects of the kind from the API server.
    fn lookup(&self, controller: &ControllerContext) -> Option<Lookup> {
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

kooper_base::debug_fields! { ControllerSpec { config, kind } }

/// Additions of the crates above to the run of a controller.
pub struct Hooks {
    /// Its names on the API server.
    pub names: Names,
    /// The condition for its start.
    pub prerequisite: Option<Arc<dyn Prerequisite>>,
    /// Values that its arguments keep.
    pub extensions: Extensions,
    /// Observes its objects and their children.
    pub child_observer: Arc<dyn ChildObserver>,
    /// Makes the observers of its calls.
    pub observe: Observe,
    /// The part of its objects that it handles; `None` for all.
    pub partition: Option<Arc<dyn Partition>>,
}

kooper_base::debug_fields! { Hooks { extensions } }
