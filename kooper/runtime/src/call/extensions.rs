//! State that a controller or a call keeps for the crates above.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

/// Values by their type, as in the crate `http`.
#[derive(Default)]
pub struct Extensions(RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Extensions {
    /// The value of this type. The default is kept if there is none.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let kept = self.0.read().get(&TypeId::of::<T>()).cloned();
        let kept = kept
            .unwrap_or_else(|| self.0.write().entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default()).clone());
        // Values are kept by their own type.
        kept.downcast().unwrap_or_default()
    }

    /// Keeps a value, in place of one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) {
        self.0.write().insert(TypeId::of::<T>(), Arc::new(value));
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extensions").field("types", &self.0.read().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_found_by_its_type() {
        let extensions = Extensions::default();
        extensions.insert(7_u32);
        assert_eq!(*extensions.get::<u32>(), 7);
        assert_eq!(*extensions.get::<u64>(), 0);
        assert!(Arc::ptr_eq(&extensions.get::<u64>(), &extensions.get::<u64>()));
    }
}
