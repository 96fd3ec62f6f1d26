//! Names of objects in tests. The trait is here, as only the crate of [`ObjectKey`] knows that it is no kind.

use super::key::ObjectKey;
use super::kind::Kind;

/// Identifies an object of a `Cluster`: a name in the test's
/// namespace, an [`ObjectKey`], or an earlier state of the object.
pub trait Named {
    /// The key of the object.
    #[doc(hidden)]
    fn key_in(&self, namespace: &str, namespaced: bool) -> ObjectKey;
}

impl Named for &str {
    fn key_in(&self, namespace: &str, namespaced: bool) -> ObjectKey {
        ObjectKey::new(namespaced.then_some(namespace), self)
    }
}

impl Named for &ObjectKey {
    fn key_in(&self, namespace: &str, namespaced: bool) -> ObjectKey {
        ObjectKey::new(namespaced.then_some(self.namespace().unwrap_or(namespace)), self.name())
    }
}

impl<K: Kind> Named for &K {
    fn key_in(&self, namespace: &str, namespaced: bool) -> ObjectKey {
        let metadata = self.meta();
        let own = metadata.namespace.as_deref().filter(|own| !own.is_empty()).unwrap_or(namespace);
        ObjectKey::new(namespaced.then_some(own), metadata.name.as_deref().unwrap_or_default())
    }
}
