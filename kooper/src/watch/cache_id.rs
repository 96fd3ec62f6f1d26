//! Identifies a cache: a kind, with whole objects or metadata only.

use std::any::TypeId;
use std::sync::Arc;

use kube::Client;

use super::retriever::{self, ApiRetriever, ErasedRetriever, Scope};
use crate::object::kind::{Kind, KindInfo};

/// A cache that must be synced before the first call.
#[derive(Clone)]
pub(crate) struct CacheRequest {
    pub(crate) id: CacheId,
    pub(crate) kind: KindInfo,
    pub(crate) open: fn(Client, Scope) -> Arc<dyn ErasedRetriever>,
}

/// Identifies a cache within its controller: the Rust type, and whether it has
/// only metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheId {
    pub(crate) type_id: TypeId,
    pub(crate) metadata_only: bool,
}

impl CacheId {
    /// The cache of whole objects of a kind.
    pub(crate) fn of<K: Kind>() -> Self {
        Self { type_id: TypeId::of::<K>(), metadata_only: false }
    }
}

impl CacheRequest {
    pub(crate) fn of<K: Kind>(metadata_only: bool) -> Self {
        let id = CacheId { metadata_only, ..CacheId::of::<K>() };
        Self {
            id,
            kind: KindInfo::of::<K>(),
            open: |client, scope| retriever::erase::<K, _>(ApiRetriever::<K>::new(client, scope)),
        }
    }
}

impl std::fmt::Debug for CacheRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheRequest").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}
