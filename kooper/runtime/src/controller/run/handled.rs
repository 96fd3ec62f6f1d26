//! The objects that a controller handles.

use std::iter;
use std::sync::Arc;

use tokio::task::coop::consume_budget;

use crate::call::finalizer::Finalizers;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::watch::store::Cache;

/// The controller's own objects, and those with its finalizer that are not selected any more.
#[derive(Clone)]
pub(super) struct HandledObjects {
    pub(super) primary: Cache,
    /// All objects of the kind, and the finalizers of those that wait to be cleaned up.
    pub(super) unselected: Option<(Cache, Finalizers)>,
}

impl HandledObjects {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.primary.get(key).or_else(|| {
            let (all, finalizers) = self.unselected.as_ref()?;
            all.get(key).filter(|object| finalizers.concern(object))
        })
    }

    /// Calls `take` with the key of each object that is wanted. Other tasks of the thread run in between.
    pub(super) async fn each(&self, is_wanted: impl Fn(&Object) -> bool, take: impl Fn(&ObjectKey)) {
        let unselected = self.unselected.iter().map(|(all, finalizers)| (all, Some(finalizers)));
        for (cache, finalizers) in iter::once((&self.primary, None)).chain(unselected) {
            for object in cache.parts().flatten() {
                if is_wanted(&object) && finalizers.is_none_or(|finalizers| finalizers.concern(&object)) {
                    take(object.key());
                }
                consume_budget().await;
            }
        }
    }
}
