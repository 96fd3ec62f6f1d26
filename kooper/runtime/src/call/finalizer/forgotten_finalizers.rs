//! Finalizers that a handler has set itself, and that nothing removes: the controller
//! is not called for objects that are being deleted.

use std::collections::HashMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::Value;

use crate::call::lookup::Lookup;
use crate::error::chain;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::watch::store::Cache;

/// Finds objects that are being deleted and keep such a finalizer.
pub(crate) struct ForgottenFinalizers {
    lookup: Lookup,
    /// The field managers of the controller.
    managers: Vec<String>,
    /// The uids of the objects that are known, each as long as it exists.
    examined: Mutex<HashMap<ObjectKey, Box<str>>>,
}

impl ForgottenFinalizers {
    pub(crate) fn new(lookup: Lookup, managers: Vec<String>) -> Self {
        Self { lookup, managers, examined: Mutex::default() }
    }

    /// Finds such a finalizer of one of the controller's `own` objects, once. Caches have no managed fields, so its
    /// metadata is read from the API server.
    pub(crate) async fn examine(&self, object: &Object, own: &Cache) -> Option<String> {
        let (key, uid) = (object.key(), object.uid());
        if !object.is_terminating() || self.examined.lock().get(key).is_some_and(|known| **known == *uid) {
            return None;
        }
        let finalizers = object.finalizers().unwrap_or_default();
        if finalizers.iter().all(|finalizer| is_of_kubernetes(finalizer)) {
            return None;
        }
        let metadata = match self.lookup.metadata(key).await {
            Ok(metadata) => metadata.filter(|metadata| metadata.uid.as_deref() == Some(uid)),
            Err(error) => {
                tracing::debug!(%key, "cannot find out who set its finalizers: {}", chain(&error));
                return None;
            }
        };
        note(&mut self.examined.lock(), key, uid, |known| own.get(known).is_some());
        metadata.and_then(|metadata| set_by(&self.managers, &metadata))
    }

    /// Forgets an object that no longer exists.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.examined.lock().remove(key);
    }
}

/// Notes an object that was examined. Nothing says so of one that has left with its shard or namespace, and was deleted
/// then: it is forgotten before the map grows.
fn note(examined: &mut HashMap<ObjectKey, Box<str>>, key: &ObjectKey, uid: &str, exists: impl Fn(&ObjectKey) -> bool) {
    if examined.len() == examined.capacity() {
        examined.retain(|known, _| exists(known));
    }
    examined.insert(key.clone(), uid.into());
}

/// The first finalizer of an object that one of these field managers has set.
#[must_use]
pub fn set_by(managers: &[String], metadata: &ObjectMeta) -> Option<String> {
    let entries = || metadata.managed_fields.iter().flatten();
    let sets = |finalizer: &&String| {
        let item = format!("v:{}", Value::from(finalizer.as_str()));
        entries().any(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:metadata"]["f:finalizers"][&item]);
            let own = entry.manager.as_ref().is_some_and(|manager| managers.contains(manager));
            own && fields.is_some_and(|item| !item.is_null())
        })
    };
    metadata.finalizers.iter().flatten().find(sets).cloned()
}

/// Returns `true` if a finalizer belongs to Kubernetes itself. Handlers do not set
/// these.
fn is_of_kubernetes(finalizer: &str) -> bool {
    match finalizer.split_once('/') {
        Some((domain, _)) => domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"),
        None => ["foregroundDeletion", "orphan", "kubernetes"].contains(&finalizer),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_were_deleted_elsewhere_take_no_memory_for_good() {
        let key = |number: u32| ObjectKey::cluster_scoped(&number.to_string());
        let (mut left, mut stay) = (HashMap::new(), HashMap::new());
        for number in 0..1000 {
            note(&mut left, &key(number), "1", |_| false);
            note(&mut stay, &key(number), "1", |_| true);
        }
        assert!(left.len() < 10 && left.contains_key(&key(999)), "{}", left.len());
        assert_eq!(stay.len(), 1000);
    }

    #[test]
    fn a_finalizer_belongs_to_the_manager_of_its_entry() {
        let metadata: ObjectMeta = serde_json::from_value(json!({
            "finalizers": ["example.com/other", "example.com/own"],
            "managedFields": [
                {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:finalizers": {".": {}, "v:\"example.com/other\"": {}}}}},
                {"manager": "shop/web", "fieldsV1": {"f:metadata": {"f:finalizers": {"v:\"example.com/own\"": {}}}}},
                {"manager": "shop/web", "fieldsV1": {"f:metadata": {"f:finalizers": {"v:\"example.com/gone\"": {}}}}},
                {"manager": "bare"},
            ],
        }))
        .unwrap();
        let of = |manager: &str| set_by(&[manager.to_owned()], &metadata);
        assert_eq!(of("shop/web").as_deref(), Some("example.com/own"));
        assert_eq!(of("kubectl").as_deref(), Some("example.com/other"));
        assert_eq!([of("shop"), of("bare")], [None, None]);
        let removed = ObjectMeta { finalizers: None, ..metadata };
        assert_eq!(set_by(&["shop/web".to_owned()], &removed), None, "it was removed meanwhile");
    }

    #[test]
    fn the_finalizers_of_kubernetes_need_no_request() {
        assert!(
            ["orphan", "kubernetes.io/pvc-protection", "batch.kubernetes.io/job-tracking"].map(is_of_kubernetes)
                == [true; 3]
        );
        assert!(["example.com/a", "mykubernetes.io/a", "old"].map(is_of_kubernetes) == [false; 3]);
    }
}
