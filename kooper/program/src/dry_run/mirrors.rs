//! The caches that have the results of a dry run.

use parking_lot::Mutex;
use std::sync::Arc;

use serde_json::{Value, json};

use super::request::{Id, selects};
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::informer::Watched;
use kooper_runtime::object::Object;
use kooper_runtime::retriever::Scope;

/// The caches of the controllers.
#[derive(Debug, Default)]
pub(super) struct Mirrors(Mutex<Vec<Mirror>>);

#[derive(Debug, Clone)]
struct Mirror {
    kind: KindInfo,
    scope: Scope,
    watched: Arc<Watched>,
}

impl Mirrors {
    pub(super) fn add(&self, kind: &KindInfo, scope: &Scope, watched: &Arc<Watched>) {
        let mut mirrors = self.0.lock();
        if !mirrors.iter().any(|known| Arc::ptr_eq(&known.watched, watched)) {
            mirrors.push(Mirror { kind: kind.clone(), scope: scope.clone(), watched: watched.clone() });
        }
    }

    /// Shows the state of an object to the caches of its kind that select it.
    pub(super) fn show(&self, id: &Id, version: &str, now: Option<&Value>) {
        let mirrors = self.0.lock().clone();
        let of_kind = |mirror: &&Mirror| {
            (&mirror.kind.group, &mirror.kind.plural, &*mirror.kind.version) == (&id.group, &id.plural, version)
        };
        let covers = |mirror: &&Mirror| {
            mirror.scope.namespace.as_ref().is_none_or(|namespace| Some(namespace) == id.namespace.as_ref())
        };
        for mirror in mirrors.iter().filter(of_kind).filter(covers) {
            let selected =
                now.filter(|now| selects(mirror.scope.labels.as_deref(), mirror.scope.fields.as_deref(), now));
            let shown = selected.map(|now| if mirror.scope.metadata_only { metadata_of(now) } else { now.clone() });
            match shown.and_then(|shown| Object::parse(shown.to_string().as_bytes()).ok()) {
                Some(object) => mirror.watched.show(object),
                None => mirror.watched.hide(&ObjectKey::new(id.namespace.as_deref(), &id.name)),
            }
        }
    }
}

/// Only the metadata of an object.
pub(super) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
