//! The templates that a StatefulSet or a DaemonSet has had, as ControllerRevisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use super::children::{self, Selects, claim};
use super::pods;
use super::typed;
use super::versions::{Field as _, given};
use kooper_access::capability::{PatchBody, owned_by};
use kooper_access::{Creator, Deleter, Patcher, Reader};
use kooper_runtime::Result;

/// The label of the pods of a revision.
pub(super) const LABEL: &str = "controller-revision-hash";

/// The revision of a pod: its hash in DaemonSets, its name in StatefulSets.
pub(super) fn of_pod(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(LABEL).map(String::as_str)
}

/// The capabilities for reading and writing revisions.
pub(super) struct Access {
    pub(super) reader: Reader<ControllerRevision>,
    pub(super) creator: Creator<ControllerRevision>,
    pub(super) patcher: Patcher<ControllerRevision>,
    pub(super) deleter: Deleter<ControllerRevision>,
}

/// The revisions of one owner, the oldest first.
pub(super) struct Revisions {
    all: Vec<Arc<ControllerRevision>>,
    /// The position of that of the present template.
    present: Option<usize>,
}

impl Revisions {
    /// Adopts those that an earlier owner has left behind, whose names would be in the way.
    pub(super) async fn of<O: Selects>(owner: &Arc<O>, template: &PodTemplateSpec, access: &Access) -> Result<Self> {
        let mut all = claim(owner, &access.reader, &access.patcher).await?;
        all.sort_by_key(|one| (number(one), one.metadata.name.clone()));
        let data = data(template);
        let present = all.iter().rposition(|one| one.data.field().is_some_and(|RawExtension(have)| *have == data));
        Ok(Self { all, present })
    }

    /// The name of the revision of the present template; `None` until it was written.
    pub(super) fn present(&self) -> Option<&str> {
        let present = self.all.get(self.present?)?;
        present.metadata.name.as_deref().filter(|_| self.present == Some(self.all.len() - 1))
    }

    /// The template of a revision.
    pub(super) fn template(&self, name: &str) -> Option<PodTemplateSpec> {
        let found = self.all.iter().find(|one| one.metadata.name.as_deref() == Some(name))?;
        let RawExtension(data) = found.data.field()?;
        typed(&data["spec"]["template"]).ok()
    }

    /// Makes the present template the newest revision.
    pub(super) async fn write<O: Selects>(
        &self,
        owner: &Arc<O>,
        template: &PodTemplateSpec,
        hash_label: &str,
        access: &Access,
    ) -> Result<()> {
        let next = self.all.last().map_or(0, |last| number(last)) + 1;
        if let Some(earlier) = self.present.and_then(|present| self.all.get(present)) {
            let patch = PatchBody::merge(json!({"revision": next}));
            children::unless_gone(access.patcher.patch_object(earlier, patch).await)?;
            return Ok(());
        }
        let data = data(template);
        let hash = pods::hash(&data, None);
        let mut labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
        labels.insert(hash_label.to_owned(), hash.clone());
        let metadata = ObjectMeta {
            name: Some(format!("{}-{hash}", owner.meta().name.as_deref().unwrap_or_default())),
            labels: Some(labels),
            annotations: annotations(owner.meta()),
            ..ObjectMeta::default()
        };
        let revision = ControllerRevision { metadata, data: given(RawExtension(data)), revision: given(next) };
        access.creator.create(&owned_by(owner, revision)?).await?;
        Ok(())
    }

    /// Deletes the oldest revisions beyond the limit that no pod has.
    pub(super) async fn clean_up(&self, limit: Option<i32>, used: &[&str], access: &Access) -> Result<()> {
        let name = |one: &Arc<ControllerRevision>| one.metadata.name.clone().unwrap_or_default();
        let is_used = |one: &&Arc<ControllerRevision>| {
            let name = name(one);
            used.iter().any(|used| *used == name || name.ends_with(&format!("-{used}")))
        };
        let idle: Vec<_> = self.all.iter().filter(|one| !is_used(one)).collect();
        let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or_default();
        let beyond = idle.len().saturating_sub(limit);
        for one in idle.into_iter().take(beyond) {
            access.deleter.delete_object(one).await?;
        }
        Ok(())
    }
}

fn annotations(owner: &ObjectMeta) -> Option<BTreeMap<String, String>> {
    owner.annotations.clone().filter(|annotations| !annotations.is_empty())
}

fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.field().copied().unwrap_or_default()
}

fn data(template: &PodTemplateSpec) -> Value {
    let mut template = json!(template);
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}
