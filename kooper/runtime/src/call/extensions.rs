//! State that a controller or a call keeps for the crates above.

use std::sync::Arc;

use parking_lot::RwLock;

/// Values by their type, which are shared.
#[derive(Debug, Default)]
pub struct Extensions(RwLock<http::Extensions>);

impl Extensions {
    /// The value of this type. The default is kept if there is none.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let kept = self.0.read().get::<Arc<T>>().cloned();
        kept.unwrap_or_else(|| self.0.write().get_or_insert_default::<Arc<T>>().clone())
    }

    /// Keeps a value, in place of one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) {
        self.0.write().insert(Arc::new(value));
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
