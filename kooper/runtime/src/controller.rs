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
use crate::call::extensions::Extensions;
use crate::call::observer::Observe;
use crate::object::kind::KindInfo;
use crate::watch::cache_id::CacheRequest;

pub use config::Config;
use config::Names;
use partition::Partition;
use parts::{DynController, Relation, TriggerStream};
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
}

impl std::fmt::Debug for ControllerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerSpec").field("config", &self.config).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What the crates above add to the run of a controller.
pub struct Hooks {
    /// Its names on the API server.
    pub names: Names,
    /// The condition for its start.
    pub prerequisite: Option<Arc<dyn Prerequisite>>,
    /// What its arguments keep.
    pub extensions: Extensions,
    /// Is told of its objects and of their children.
    pub child_observer: Arc<dyn ChildObserver>,
    /// Makes the observers of its calls.
    pub observe: Observe,
    /// The part of its objects that it handles; `None` for all.
    pub partition: Option<Arc<dyn Partition>>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("extensions", &self.extensions).finish_non_exhaustive()
    }
}
