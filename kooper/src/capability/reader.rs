//! Reading from a cache.

use std::sync::Arc;

use super::Reader;
use crate::key::ObjectKey;
use crate::kind::Kind;
use crate::object::DecodeError;
use crate::plan::CacheId;

impl<T: Kind> Reader<T> {
    /// The object, decoded; `None` where there is none.
    ///
    /// # Errors
    /// When the object does not fit the type.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, DecodeError> {
        let found = self.backing.cache(CacheId::of::<T>()).get(key);
        found.map(|object| object.decode().map(Arc::new)).transpose()
    }
}
