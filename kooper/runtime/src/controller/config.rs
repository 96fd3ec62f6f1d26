//! The settings of a controller.

use std::time::Duration;

use kooper_grammar::selector::{FieldSelector, Selector};

use crate::call::annotations::Annotations;
use crate::call::events::FailureEvents;
use crate::call::finalizer::{Finalizers, Retirement};
use crate::leader::{LeaderElection, PreviousLease};
use crate::object::sections::{self, Changed};
use crate::queue::QueueOptions;
use crate::watch::retriever::Scope;

/// The Leases of a controller: its own, and previous ones that it respects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leases {
    /// The name of the Lease.
    pub name: String,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The mark in its annotation.
    pub mark: String,
    /// The marks of previous names.
    pub previous_marks: Vec<String>,
    /// The Leases of previous names, and of the installation without an instance
    /// name: they are respected, and never written.
    pub previous: Vec<PreviousLease>,
}

/// The names of a controller on the API server.
#[derive(Debug, Clone)]
pub struct Names {
    /// The program's name with that of its instance.
    pub installation: String,
    /// All field managers whose fields are the controller's own.
    pub managers: Vec<String>,
    /// Those of previous names, and of the installation without an instance name.
    pub previous_managers: Vec<String>,
    /// Its Leases; `None` without leader election.
    pub leases: Option<Leases>,
}

/// The settings of a controller.
#[derive(Debug, Clone)]
pub struct Config {
    /// The name of the controller.
    pub name: String,
    /// The delays, limits and resyncs of its queue.
    pub queue: QueueOptions,
    /// The number of concurrent calls.
    pub workers: usize,
    /// The limit of a call.
    pub timeout: Option<Duration>,
    /// The namespaces that are watched; empty for all.
    pub namespaces: Vec<String>,
    /// `true` until `namespaces` is replaced by the namespace of the operator.
    pub own_namespace: bool,
    /// The label selector of the namespaces that are watched.
    pub namespace_selector: Option<String>,
    /// The label selector.
    pub labels: Option<String>,
    /// The field selector.
    pub fields: Option<String>,
    /// `true` if only metadata is fetched.
    pub metadata_only: bool,
    /// `true` if objects are fetched as JSON only.
    pub json_only: bool,
    /// The changes that queue a key.
    pub changed: Vec<Changed>,
    /// When a call that was aborted is stuck.
    pub stuck_after: Duration,
    /// The settings of leader election.
    pub leader: Option<LeaderElection>,
    /// Previous names of the controller.
    pub previous_names: Vec<String>,
    /// Previous names of the finalizer.
    pub previous_finalizers: Vec<String>,
    /// The previous name of the program.
    pub previous_program: Option<String>,
    /// The finalizer of `cleanup`.
    pub finalizer: Option<String>,
    /// `true` if objects that leave the selector are cleaned up.
    pub cleanup_on_leave: bool,
    /// Which objects are cleaned up before the program is uninstalled.
    pub retirement: Option<Retirement>,
    /// `true` if the handler is called for objects that are being deleted.
    pub while_deleting: bool,
    /// `true` if a call runs until its object changes.
    pub daemon: bool,
    /// `true` if the kind may be missing.
    pub optional: bool,
    /// The annotations by which users steer its calls.
    pub annotations: Annotations,
    /// The detail of Events about calls that keep failing.
    pub events: FailureEvents,
}

impl Config {
    /// The defaults.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self {
            name,
            queue: QueueOptions { resync: Some(Duration::from_secs(180)), ..QueueOptions::default() },
            workers: 3,
            timeout: Some(Duration::from_secs(300)),
            namespaces: Vec::new(),
            own_namespace: false,
            namespace_selector: None,
            labels: None,
            fields: None,
            metadata_only: false,
            json_only: false,
            changed: vec![Changed::Any],
            stuck_after: Duration::from_secs(30),
            leader: None,
            previous_names: Vec::new(),
            previous_finalizers: Vec::new(),
            previous_program: None,
            finalizer: None,
            cleanup_on_leave: false,
            retirement: None,
            while_deleting: false,
            daemon: false,
            optional: false,
            annotations: Annotations::default(),
            events: FailureEvents::default(),
        }
    }

    /// The current finalizer, and the previous ones.
    #[must_use]
    pub fn finalizers(&self) -> Option<Finalizers> {
        let own = self.finalizer.clone()?;
        let (previous, on_leave) = (self.previous_finalizers.clone(), self.cleanup_on_leave);
        Some(Finalizers { own, previous, on_leave, retirement: self.retirement })
    }

    /// Returns `true` if no function of the controller is called for an object that is being
    /// deleted. A finalizer that the handler has set is then not removed.
    #[must_use]
    pub fn ignores_deletion(&self) -> bool {
        !self.while_deleting && self.finalizer.is_none() && !self.daemon
    }

    /// Returns `true` if a label or field selector is set.
    #[must_use]
    pub fn has_selector(&self) -> bool {
        self.labels.is_some() || self.fields.is_some()
    }

    /// Returns `true` if existing objects may leave the controller: a selector is set for them, or for their namespaces.
    #[must_use]
    pub fn may_leave(&self) -> bool {
        self.has_selector() || self.namespace_selector.is_some()
    }

    /// The paths among the changes that queue a key.
    pub fn changed_fields(&self) -> impl Iterator<Item = &'static str> {
        sections::fields(&self.changed)
    }

    /// The scopes of the lists and watches.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        // In their normal form, so that equal ones share a watch.
        let labels = self.labels.as_ref().map(|text| Selector::parse(text).map_or(text.clone(), |one| one.to_string()));
        let fields = self.fields.as_ref();
        let fields = fields.map(|text| FieldSelector::parse(text).map_or(text.clone(), |one| one.to_string()));
        let (metadata_only, json_only) = (self.metadata_only, self.json_only);
        Scope { labels, fields, metadata_only, json_only, ..Scope::default() }.in_each(&self.namespaces)
    }
}
