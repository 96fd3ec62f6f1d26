//! What a controller's signature says it needs, known before it runs.

use std::any::TypeId;

use kooper_grammar::access::Rule;

use crate::object::kind::{Kind, KindInfo};
use crate::watch::cache_id::CacheRequest;

/// Collects what the arguments of a handler need, and what the controller
/// itself does.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    client: bool,
    /// What asks for a client by itself, so that `access` has to say what it does.
    unruled: Vec<&'static str>,
    access: Option<Vec<Rule>>,
    needs: Vec<Need>,
    caches: Vec<CacheRequest>,
    /// The kinds of children.
    owned: Vec<CacheRequest>,
    /// The kinds that are created or applied.
    written: Vec<TypeId>,
    events: Option<&'static str>,
}

/// One permission, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The rule.
    pub rule: Rule,
    /// The objects' names that it is for; empty for all.
    pub names: Vec<String>,
    /// Where it has to hold.
    pub reach: Reach,
    /// What brings it, such as `Deleter<Pod>`.
    pub because: String,
}

/// Where a permission has to hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reach {
    /// Wherever the controller looks: its namespaces, or all of them.
    Watched,
    /// The whole cluster: the kind is in no namespace.
    Cluster,
    /// One namespace.
    Namespace(String),
    /// The namespace of the lease.
    Lease,
}

impl Plan {
    /// Something takes a client: the controller cannot run without a server.
    pub fn needs_client(&mut self) {
        self.client = true;
    }

    /// Something, named here, takes a client to do whatever it likes: what
    /// that is only `access` can tell.
    pub fn unruled(&mut self, what: &'static str) {
        self.client = true;
        if !self.unruled.contains(&what) {
            self.unruled.push(what);
        }
    }

    /// Needs verbs on a kind of objects, or on a subresource of it, wherever
    /// the controller looks.
    pub fn need<K: Kind>(&mut self, subresource: Option<&str>, verbs: &[&str], because: impl Into<String>) {
        let kind = KindInfo::of::<K>();
        let reach = if kind.namespaced { Reach::Watched } else { Reach::Cluster };
        let rule = kind.rule(subresource, verbs);
        self.add(Need { rule, names: Vec::new(), reach, because: because.into() });
    }

    /// Needs a permission.
    pub fn add(&mut self, need: Need) {
        self.client = true;
        if !self.needs.contains(&need) {
            self.needs.push(need);
        }
    }

    /// Needs a cache of whole objects of a kind, and the permission to fill it.
    pub fn cache<K: Kind>(&mut self, because: impl Into<String>) {
        self.need::<K>(None, &["list", "watch"], because);
        self.request(CacheRequest::of::<K>(false));
    }

    /// Creates or applies objects of a kind, with an owner reference where it
    /// is in `owns`.
    pub fn sets_owner<K: Kind>(&mut self) {
        self.written.push(TypeId::of::<K>());
    }

    /// Objects of a kind are children of the controller's own: they are watched,
    /// and each wakes its owner.
    pub(crate) fn owns<K: Kind>(&mut self, because: impl Into<String>) {
        self.cache::<K>(because);
        let request = CacheRequest::of::<K>(false);
        if !self.owned.iter().any(|known| known.id == request.id) {
            self.owned.push(request);
        }
    }

    /// The kinds of children, each once.
    pub(crate) fn owned(&self) -> &[CacheRequest] {
        &self.owned
    }

    /// Tells Kubernetes Events about the controller's objects.
    pub fn tells_events(&mut self, because: &'static str) {
        self.client = true;
        self.events.get_or_insert(because);
    }

    /// Whether Kubernetes Events may be written.
    pub(crate) fn may_tell_events(&self) -> bool {
        self.events.is_some()
    }

    /// Turns what was noted about the controller's own kind into needs.
    pub(crate) fn settle<K: Kind>(&mut self) {
        let kind = KindInfo::of::<K>();
        let children = self.owned.iter().any(|owned| self.written.contains(&owned.id.type_id));
        if children {
            self.need::<K>(Some("finalizers"), &["update"], "owns");
            self.tells_events("owns");
        }
        let Some(because) = self.events else { return };
        let rule = Rule::new("events.k8s.io", "events", None, &["create", "patch"]);
        // Events about objects in no namespace are in this one.
        let reach = if kind.namespaced { Reach::Watched } else { Reach::Namespace("default".to_owned()) };
        self.add(Need { rule, names: Vec::new(), reach, because: because.to_owned() });
    }

    pub(crate) fn request(&mut self, request: CacheRequest) {
        if !self.caches.iter().any(|known| known.id == request.id) {
            self.caches.push(request);
        }
    }

    /// Whether something takes a client.
    pub fn takes_client(&self) -> bool {
        self.client
    }

    /// What takes a client without a rule that says what for.
    pub fn unruled_clients(&self) -> &[&'static str] {
        &self.unruled
    }

    /// Notes the rules that `access` names, beyond what the arguments bring.
    pub(crate) fn grant(&mut self, rules: Vec<Rule>) {
        self.access = Some(rules);
    }

    /// The rules that `access` names; `None` where it was not given.
    pub fn access(&self) -> Option<&[Rule]> {
        self.access.as_deref()
    }

    /// The permissions that arguments and settings bring, those of `access`
    /// aside.
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    pub(crate) fn caches(&self) -> &[CacheRequest] {
        &self.caches
    }
}
