//! The caches of a controller.

use crate::object::kind::KindInfo;
use crate::watch::cache_id::CacheId;
use crate::watch::store::Cache;

/// The caches that a controller's functions read, each with its kind. There may be
/// several of a kind: of all objects, of some, and of metadata.
#[derive(Debug, Clone, Default)]
pub struct Caches(Vec<(CacheId, KindInfo, Cache)>);

impl Caches {
    /// The cache, unless the plan did not request it.
    pub(crate) fn get(&self, id: CacheId) -> Option<&Cache> {
        self.0.iter().find(|(known, ..)| *known == id).map(|(.., cache)| cache)
    }

    /// The caches of a kind; those that have more of it come first.
    pub fn of_kind<'a>(&'a self, kind: &'a KindInfo) -> impl Iterator<Item = (CacheId, &'a Cache)> {
        self.0.iter().filter(|(_, known, _)| known.is_same(kind)).map(|(id, _, cache)| (*id, cache))
    }
}

impl FromIterator<(CacheId, KindInfo, Cache)> for Caches {
    fn from_iter<I: IntoIterator<Item = (CacheId, KindInfo, Cache)>>(caches: I) -> Self {
        let mut all: Vec<(CacheId, KindInfo, Cache)> = Vec::new();
        for cache in caches {
            if !all.iter().any(|(known, ..)| *known == cache.0) {
                all.push(cache);
            }
        }
        all.sort_by_key(|(id, ..)| (id.metadata_only, id.selected.is_some()));
        Self(all)
    }
}
