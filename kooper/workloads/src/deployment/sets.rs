//! The ReplicaSets of a Deployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::rollout::{Bounds, Size};
use super::{DESIRED, HASH, HISTORY, MAXIMUM, REVISION, annotation, plain};
use crate::pods;
use crate::versions::{Field as _, given};
use kooper_access::capability::owned_by;
use kooper_runtime::Result;

/// Annotations that a ReplicaSet does not take over.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

/// The ReplicaSet of the present template, and the others by age.
pub(super) struct Sets {
    pub(super) new: Option<Arc<ReplicaSet>>,
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    pub(super) fn of(deployment: &Deployment, mut all: Vec<Arc<ReplicaSet>>) -> Self {
        let template = plain(deployment.spec.field().map(|spec| &spec.template));
        let is_new =
            |set: &Arc<ReplicaSet>| plain(set.spec.field().and_then(|spec| spec.template.as_ref())) == template;
        all.sort_by_key(|set| {
            (
                set.metadata.creation_timestamp.as_ref().map(|time| time.0),
                annotation(set, REVISION),
                set.metadata.name.clone(),
            )
        });
        let new = all.iter().position(is_new).map(|index| all.remove(index));
        Self { new, old: all }
    }

    /// All sets, the new one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.new.iter().chain(&self.old)
    }

    pub(super) fn sizes(&self) -> Vec<Size> {
        self.all().map(|set| size(set)).collect()
    }

    /// A ReplicaSet of the present template.
    pub(super) fn make(&self, deployment: &Arc<Deployment>, replicas: i32, bounds: Bounds) -> Result<ReplicaSet> {
        let spec = deployment.spec.field().cloned().unwrap_or_default();
        let hash = pods::hash(
            &plain(Some(&spec.template)),
            deployment.status.as_ref().and_then(|status| status.collision_count),
        );
        let label = |labels: &mut Option<BTreeMap<String, String>>| {
            labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
        };
        let (mut template, mut selector) = (spec.template, spec.selector);
        label(&mut template.metadata.get_or_insert_default().labels);
        label(&mut selector.match_labels);
        let last = self.old.iter().filter_map(|set| annotation(set, REVISION)).max().unwrap_or_default();
        let desired = spec.replicas.unwrap_or(1);
        let mut annotations = copied(deployment);
        annotations.insert(REVISION.to_owned(), (last + 1).to_string());
        annotations.insert(DESIRED.to_owned(), desired.to_string());
        annotations.insert(MAXIMUM.to_owned(), desired.saturating_add(bounds.surge).to_string());
        let metadata = ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.metadata.name.as_deref().unwrap_or_default())),
            labels: template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        let spec = ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        };
        Ok(owned_by(deployment, ReplicaSet { metadata, spec: given(spec), status: None })?)
    }
}

pub(super) fn size(set: &ReplicaSet) -> Size {
    let status = set.status.as_ref();
    Size {
        spec: set.spec.field().and_then(|spec| spec.replicas).unwrap_or(1),
        status: status.map_or(0, |status| status.replicas),
        available: status.and_then(|status| status.available_replicas).unwrap_or_default(),
        maximum: annotation(set, MAXIMUM),
    }
}

/// The annotations of a Deployment that its ReplicaSets take over.
pub(super) fn copied(deployment: &Deployment) -> BTreeMap<String, String> {
    let mut annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !OWN.contains(&key.as_str()));
    annotations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_surge_may_be_as_large_as_numbers_are() {
        let rolling = json!({"rollingUpdate": {"maxSurge": i32::MAX}});
        let spec = json!({"replicas": 3, "selector": {}, "strategy": rolling, "template": {}});
        let web = json!({"metadata": {"name": "web", "namespace": "default", "uid": "1"}, "spec": spec});
        let web: Arc<Deployment> = Arc::new(serde_json::from_value(web).unwrap());
        let bounds = Bounds::of(web.spec.field().unwrap());
        let set = Sets::of(&web, Vec::new()).make(&web, 3, bounds).unwrap();
        assert_eq!(annotation(&set, MAXIMUM), Some(i32::MAX));
    }
}
