//! Identifies a cache: a Rust type, and which of its objects.

use std::any::TypeId;
use std::sync::Arc;

use kube::Client;

use super::retriever::{self, ApiRetriever, ErasedRetriever, Scope};
use super::selected::Selected;
use crate::object::kind::{Kind, KindInfo, is_metadata};

/// A cache that must be synced before the first call.
#[derive(Clone)]
pub struct CacheRequest {
    /// The cache.
    pub id: CacheId,
    /// The kind of its objects.
    pub kind: KindInfo,
    /// `true` if objects are handled while the cluster does not serve the kind.
    pub optional: bool,
    /// Which of its objects the controller uses.
    pub used: CacheUse,
    pub(crate) open: fn(Client, Scope) -> Arc<dyn ErasedRetriever>,
}

/// Which objects of a cache its controller uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// All.
    #[default]
    All,
    /// Its own, whether selected or not: their keys are queued.
    Own,
    /// The children of its objects.
    Children,
    /// The same, and it applies them itself, with the labels that all of its children have.
    AppliedChildren,
}

/// Identifies a cache within its controller: the Rust type, and which objects it
/// has. A cache of `PartialObjectMeta` has only metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheId {
    type_id: TypeId,
    /// `true` if it has only metadata.
    pub metadata_only: bool,
    /// `None` for all objects.
    pub selected: Option<&'static Selected>,
}

impl CacheId {
    /// The cache of all objects of a kind.
    #[must_use]
    pub fn of<K: Kind>() -> Self {
        Self { type_id: TypeId::of::<K>(), metadata_only: is_metadata::<K>(), selected: None }
    }

    /// The cache of some of these objects.
    #[must_use]
    pub fn selecting(self, selected: Option<&'static Selected>) -> Self {
        Self { selected, ..self }
    }

    /// The same objects without a selection. What is selected is in the scope of a
    /// watch, too: watches are shared by their scope.
    pub(crate) fn unselected(self) -> Self {
        Self { selected: None, ..self }
    }
}

impl CacheRequest {
    /// The cache of all objects of a kind.
    #[must_use]
    pub fn of<K: Kind>() -> Self {
        Self {
            id: CacheId::of::<K>(),
            kind: KindInfo::of::<K>(),
            optional: false,
            used: CacheUse::All,
            open: |client, scope| retriever::erase::<K, _>(ApiRetriever::<K>::new(client, scope)),
        }
    }

    /// The cache of some of these objects.
    #[must_use]
    pub fn selecting(mut self, selected: Option<&'static Selected>) -> Self {
        self.id = self.id.selecting(selected);
        self
    }

    /// The same, for a controller that can do without the kind.
    #[must_use]
    pub fn optional(self, optional: bool) -> Self {
        Self { optional, ..self }
    }

    /// The same, for a controller that uses these of the objects.
    #[must_use]
    pub fn using(self, used: CacheUse) -> Self {
        Self { used, ..self }
    }

    /// Returns `true` if labels, fields or names limit the objects.
    pub fn hides(&self) -> bool {
        self.id.selected.is_some_and(Selected::hides)
    }

    /// The scopes of its watches, for a controller of these namespaces.
    pub(crate) fn scopes(&self, namespaces: &[String], json_only: bool) -> Vec<Scope> {
        let namespaces = if self.kind.namespaced { namespaces } else { &[] };
        let scope = Scope { metadata_only: self.id.metadata_only, json_only, ..Scope::default() };
        match self.id.selected {
            Some(selected) => selected.scopes(&scope, namespaces),
            None => scope.in_each(namespaces),
        }
    }
}

kooper_base::debug_fields! { CacheRequest { id, kind } }

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, Secret};
    use kube::core::metadata::PartialObjectMeta;

    use super::*;

    #[test]
    fn a_cache_of_partial_object_meta_has_only_metadata() {
        let (whole, metadata) = (CacheRequest::of::<Secret>(), CacheRequest::of::<PartialObjectMeta<Secret>>());
        assert!(!whole.id.metadata_only && metadata.id.metadata_only);
        assert_eq!(whole.kind, metadata.kind);
        assert_ne!(whole.id, metadata.id);
        assert_ne!(metadata.id, CacheId::of::<PartialObjectMeta<Pod>>());
        assert!(metadata.scopes(&[], false)[0].metadata_only);
    }
}
