//! The name of an object in the queue, the store and the logs.

use std::fmt;
use std::sync::Arc;

/// The namespace and name of an object of one kind.
///
/// Its text form is client-go's: `namespace/name`, or `name` alone for a
/// cluster-scoped object. A clone shares the text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    text: Arc<str>,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self { text: format!("{namespace}/{name}").into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster_scoped(name: &str) -> Self {
        Self { text: name.into() }
    }

    /// The key of an object whose namespace may be absent.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) if !namespace.is_empty() => Self::namespaced(namespace, name),
            _ => Self::cluster_scoped(name),
        }
    }

    /// The namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.text.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name within its namespace.
    pub fn name(&self) -> &str {
        // Neither a namespace nor a name can hold a slash: both are one
        // segment of a URL path.
        self.text.split_once('/').map_or(&*self.text, |(_, name)| name)
    }

    /// The text form, `namespace/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_splits_into_the_namespace_and_name_it_was_made_of() {
        let key = ObjectKey::namespaced("shop", "web-0");
        assert_eq!((key.namespace(), key.name()), (Some("shop"), "web-0"));
        assert_eq!(key.to_string(), "shop/web-0");
    }

    #[test]
    fn a_cluster_scoped_key_has_no_namespace() {
        for key in
            [ObjectKey::cluster_scoped("node-1"), ObjectKey::new(None, "node-1"), ObjectKey::new(Some(""), "node-1")]
        {
            assert_eq!((key.namespace(), key.name()), (None, "node-1"));
        }
    }
}
