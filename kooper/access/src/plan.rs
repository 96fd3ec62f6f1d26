//! The requirements of a controller, derived from its signature before it runs.

mod children;
mod reads;

use std::any::TypeId;
use std::collections::HashMap;

use kooper_grammar::access::Rule;
use kooper_runtime::Kind;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::{CacheId, CacheRequest, CacheUse};
use kooper_runtime::internal::watch::selected::Selected;

use crate::subset::{All, SubsetOf, Subsets};
use children::ChildrenPlan;
use reads::Reads;

/// The permissions, caches and clients that a controller needs.
///
/// They follow from its settings and from the types of its functions'
/// arguments. `kooper`'s `rbac` and `check` commands read them here.
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use kooper::{Deleter, KindExt};
///
/// async fn sweep(_: Arc<ConfigMap>, _: Deleter<Pod>) {}
///
/// let controller = ConfigMap::controller("sweep").handler(sweep).build()?;
/// let because: Vec<_> = controller.plan().needs().iter().map(|need| need.because.as_str()).collect();
/// assert_eq!(because, ["Deleter<Pod>", "resource = ConfigMap", "events"]);
/// # Ok::<_, kooper::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Plan {
    client: bool,
    /// The arguments and settings that take a bare client. Its permissions must be listed in
    /// `rbac`.
    unruled: Vec<&'static str>,
    rbac: Option<Vec<Rule>>,
    needs: Vec<Need>,
    /// Each with what requests it.
    caches: Vec<(CacheRequest, String)>,
    /// Which objects of a cache are used by what is being planned.
    used: CacheUse,
    /// `true` if replicas share the objects, and so their children.
    pub(crate) has_shards: bool,
    /// The selections of `reads`, for readers that name no subset.
    reads: Vec<Reads>,
    /// The caches of these readers, and which argument reads them.
    readers: Vec<(CacheId, String)>,
    /// The caches in which children are found.
    child_readers: Vec<CacheId>,
    /// The kinds that are marked as secret.
    pub(crate) secret: Vec<KindInfo>,
    /// The arguments and settings that keep all objects of a kind in memory, with all fields.
    whole: Vec<String>,
    children: ChildrenPlan,
    /// The kinds that are created or applied.
    written: Vec<KindInfo>,
    /// `true` while the caches of kinds are requested that the controller can do without.
    optional: bool,
    /// The selections of subsets and of `reads`, by their types.
    subsets: HashMap<TypeId, &'static Selected>,
    /// The first argument or setting that records Events.
    events: Option<&'static str>,
    /// The namespace of all Events, if the controller's objects are in no other one.
    events_in: Option<String>,
    /// `true` if Events report calls that keep failing.
    pub(crate) reports: bool,
    /// The types of the program's own settings.
    settings: Vec<SettingsNeed>,
    /// The first mistake: the setting, and what is wrong with it.
    pub(crate) mistake: Option<(&'static str, String)>,
}

/// A type of settings that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub struct SettingsNeed {
    /// The id of the type, by which it is compared with those that the program gives.
    pub type_id: TypeId,
    pub(crate) name: &'static str,
}

/// One permission, and what needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The rule.
    pub rule: Rule,
    /// The names of the objects that it is limited to; empty for all.
    pub names: Vec<String>,
    /// Where it must be granted.
    pub reach: Reach,
    /// The argument or setting that needs the permission, such as `Deleter<Pod>`.
    pub because: String,
}

/// Where a permission must be granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reach {
    /// In the controller's namespaces, or everywhere if it has none.
    Watched,
    /// In the whole cluster: the kind is cluster-scoped.
    Cluster,
    /// In one namespace.
    Namespace(String),
    /// In the namespace of the Lease.
    Lease,
}

impl Reach {
    /// The namespaces of a controller that watches `watched` and has its Lease in `lease`; `None` is
    /// for the whole cluster.
    #[doc(hidden)]
    #[must_use]
    pub fn namespaces(&self, watched: &[String], lease: &str) -> Vec<Option<String>> {
        match self {
            Self::Watched if !watched.is_empty() => watched.iter().cloned().map(Some).collect(),
            Self::Watched | Self::Cluster => vec![None],
            Self::Namespace(namespace) => vec![Some(namespace.clone())],
            Self::Lease => vec![Some(lease.to_owned())],
        }
    }
}

impl Plan {
    /// Requires a bare client for `what`. Only `rbac` can list the permissions
    /// that it needs.
    pub(crate) fn require_client(&mut self, what: &'static str) {
        self.client = true;
        if !self.unruled.contains(&what) {
            self.unruled.push(what);
        }
    }

    /// Requires verbs on a kind, or on a subresource of it, in the
    /// controller's namespaces.
    pub(crate) fn require<K: Kind>(&mut self, subresource: Option<&str>, verbs: &[&str], because: impl Into<String>) {
        self.require_of(&KindInfo::of::<K>(), subresource, verbs, because.into());
    }

    fn require_of(&mut self, kind: &KindInfo, subresource: Option<&str>, verbs: &[&str], because: String) {
        let reach = if kind.namespaced { Reach::Watched } else { Reach::Cluster };
        let rule = kind.rule(subresource, verbs);
        self.require_permission(Need { rule, names: Vec::new(), reach, because });
    }

    /// Requires nothing more for a setting that was removed.
    pub(crate) fn forget(&mut self, because: &str) {
        self.needs.retain(|need| need.because != because);
        self.caches.retain(|(_, why)| why != because);
    }

    /// Requires a permission.
    #[doc(hidden)]
    pub fn require_permission(&mut self, need: Need) {
        self.client = true;
        if !self.needs.contains(&need) {
            self.needs.push(need);
        }
    }

    /// Requires a cache of objects of a kind, and the permission to fill it.
    /// `setting` is what a mistake in the selection is reported for.
    pub(crate) fn require_cache<K: Kind>(
        &mut self,
        setting: &'static str,
        objects: All<K>,
        because: String,
    ) -> CacheRequest {
        let selected = self.select(setting, objects);
        let request = CacheRequest::of::<K>().selecting(selected).optional(self.optional).using(self.used);
        self.require_watch(&request, &because);
        if selected.is_none() && !request.id.metadata_only {
            self.whole.push(because);
        }
        request
    }

    fn require_watch(&mut self, request: &CacheRequest, because: &str) {
        self.require_selected(&request.kind, request.id.selected, &["list", "watch"], because);
        self.request_cache(request.clone(), because);
    }

    /// Adds needs whose kinds the cluster need not serve. A kind that something else needs is required all the same.
    #[doc(hidden)]
    pub fn optionally(&mut self, add: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.optional, true);
        add(self);
        self.optional = before;
    }

    /// Requires a cache for a reader.
    pub(crate) fn require_reader<K: Kind, S: SubsetOf<K>>(&mut self, because: String) {
        let objects = self.subset::<K, S>();
        let request = self.require_cache("handler", objects, because.clone());
        if TypeId::of::<S>() == TypeId::of::<()>() {
            if self.used == CacheUse::Children {
                self.child_readers.push(request.id);
            }
            self.readers.push((request.id, because));
        }
    }

    /// Requires verbs on the selected objects of a kind.
    pub(crate) fn require_selected(
        &mut self,
        kind: &KindInfo,
        selected: Option<&Selected>,
        verbs: &[&str],
        because: &str,
    ) {
        let names = selected.map(Selected::role_names).unwrap_or_default();
        let namespaces = selected.into_iter().flat_map(|selected| &selected.namespaces);
        let mut reaches: Vec<_> = namespaces.map(|namespace| Reach::Namespace(namespace.clone())).collect();
        if reaches.is_empty() {
            reaches.push(if kind.namespaced { Reach::Watched } else { Reach::Cluster });
        }
        for reach in reaches {
            let rule = kind.rule(None, verbs);
            self.require_permission(Need { rule, names: names.clone(), reach, because: because.to_owned() });
        }
    }

    /// Returns the selection. A mistake in it is noted.
    fn select<K: Kind>(&mut self, setting: &'static str, objects: All<K>) -> Option<&'static Selected> {
        if objects.secret {
            self.note_secret::<K>();
        }
        match objects.into_selected() {
            Ok(selected) => selected.interned(),
            Err(mistake) => {
                self.note_mistake(setting, &mistake);
                None
            }
        }
    }

    /// Notes that the objects of a kind hold secrets.
    pub(crate) fn note_secret<K: Kind>(&mut self) {
        self.secret.push(KindInfo::of::<K>());
    }

    pub(crate) fn note_mistake(&mut self, setting: &'static str, mistake: &str) {
        self.mistake.get_or_insert_with(|| (setting, mistake.to_owned()));
    }

    /// The objects of a subset that an argument names.
    pub(crate) fn subset<K: Kind, S: SubsetOf<K>>(&mut self) -> All<K> {
        if let Some(selected) = self.select("handler", S::objects()) {
            self.subsets.insert(TypeId::of::<S>(), selected);
        }
        S::objects()
    }

    /// Requires the permission to get the objects of a selection.
    pub(crate) fn require_get<K: Kind>(&mut self, objects: All<K>, because: &str) {
        let Some(selected) = self.select("handler", objects) else {
            return self.require::<K>(None, &["get"], because);
        };
        if !(selected.labels.is_empty() && selected.fields.is_empty()) {
            self.note_mistake(
                "handler",
                &format!("{because} gets objects by their names: select with `names` and `namespaces` only"),
            );
        }
        self.require_selected(&KindInfo::of::<K>(), Some(selected), &["get"], because);
    }

    pub(crate) fn request_cache(&mut self, request: CacheRequest, because: &str) {
        self.caches.push((request, because.to_owned()));
    }

    /// Notes that objects of a kind are created or applied. They get an owner
    /// reference if they are children.
    pub(crate) fn note_written<K: Kind>(&mut self) {
        self.written.push(KindInfo::of::<K>());
    }

    /// Records Kubernetes Events on the controller's objects.
    pub(crate) fn record_events(&mut self, because: &'static str) {
        self.client = true;
        self.events.get_or_insert(because);
    }

    /// The controller's objects are in this namespace alone, and so are the Events on them.
    #[doc(hidden)]
    pub fn limit_events(&mut self, namespace: &str) {
        self.events_in = Some(namespace.to_owned());
    }

    /// Requires settings of a type.
    pub(crate) fn require_settings<T: 'static>(&mut self) {
        let need = SettingsNeed { type_id: TypeId::of::<T>(), name: std::any::type_name::<T>() };
        if !self.settings.contains(&need) {
            self.settings.push(need);
        }
    }

    /// Notes the rules that `rbac` lists, beside those of the arguments.
    pub(crate) fn grant(&mut self, rules: Vec<Rule>) {
        self.rbac.get_or_insert_default().extend(rules);
    }

    /// Settles which caches readers and children have.
    #[doc(hidden)]
    pub fn settle_caches(&mut self) {
        self.settle_reads();
        self.settle_children();
        let required: Vec<_> =
            self.caches.iter().filter(|(request, _)| !request.optional).map(|(request, _)| request.id).collect();
        for (request, _) in &mut self.caches {
            request.optional &= !required.contains(&request.id);
        }
        self.settle_used();
    }

    /// Turns what was noted about the controller's own kind into needs.
    pub(crate) fn settle(&mut self, kind: &KindInfo) {
        self.settle_caches();
        let children =
            self.children.owned.iter().any(|owned| self.written.iter().any(|written| written.is_same(&owned.kind)));
        if children {
            self.require_of(kind, Some("finalizers"), &["update"], "owns".to_owned());
            self.record_events("owns");
        }
        // Events on cluster-scoped objects are in this namespace.
        let reach = match &self.events_in {
            Some(namespace) => Reach::Namespace(namespace.clone()),
            None if kind.namespaced => Reach::Watched,
            None => Reach::Namespace("default".to_owned()),
        };
        let reports = self.reports.then_some(("", "events"));
        let groups = self.events.map(|because| ("events.k8s.io", because));
        for (group, because) in reports.into_iter().chain(groups) {
            let rule = Rule::new(group, "events", None, &["create", "patch"]);
            self.require_permission(Need {
                rule,
                names: Vec::new(),
                reach: reach.clone(),
                because: because.to_owned(),
            });
        }
    }

    /// Returns whether the controller needs a client.
    #[must_use]
    pub fn takes_client(&self) -> bool {
        self.client
    }

    /// The arguments and settings that take a bare client. Only `rbac` can list its permissions.
    #[must_use]
    pub fn unruled_clients(&self) -> &[&'static str] {
        &self.unruled
    }

    /// The rules that `rbac` lists; `None` without `rbac`.
    #[must_use]
    pub fn rbac(&self) -> Option<&[Rule]> {
        self.rbac.as_deref()
    }

    /// The permissions that arguments and settings need, without those of
    /// `rbac`.
    #[must_use]
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// The caches, each once.
    #[doc(hidden)]
    pub fn caches(&self) -> impl Iterator<Item = &CacheRequest> {
        let known = |at: usize, id| self.caches.iter().take(at).any(|(known, _)| known.id == id);
        let caches = self.caches.iter().enumerate();
        caches.filter(move |(at, (request, _))| !known(*at, request.id)).map(|(_, (request, _))| request)
    }

    /// The types of settings that arguments take, each once.
    #[doc(hidden)]
    #[must_use]
    pub fn settings(&self) -> &[SettingsNeed] {
        &self.settings
    }

    /// The selections of subsets and of `reads`, by their types.
    pub(crate) fn subsets(&self) -> Subsets {
        Subsets(self.subsets.clone())
    }

    /// Returns whether this argument or setting keeps all objects of a kind in memory, with all
    /// fields.
    #[doc(hidden)]
    #[must_use]
    pub fn keeps_all(&self, because: &str) -> bool {
        self.whole.iter().any(|whole| whole == because)
    }
}

#[cfg(test)]
mod tests;
