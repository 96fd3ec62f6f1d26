//! The pods and claims of a StatefulSet.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{pods, revisions};
use kooper_access::capability::owned_by;
use kooper_runtime::Result;

/// The pod of an ordinal.
pub(super) fn pod(
    set: &Arc<StatefulSet>,
    spec: &StatefulSetSpec,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i32,
) -> Result<Pod> {
    let name = format!("{}-{ordinal}", set.metadata.name.as_deref().unwrap_or_default());
    let mut pod = pods::of_template(template, &set.metadata);
    pod.metadata.generate_name = Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default()));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.clone());
    labels.insert("apps.kubernetes.io/pod-index".to_owned(), ordinal.to_string());
    labels.insert(revisions::LABEL.to_owned(), revision.to_owned());
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(name.clone());
    pod_spec.subdomain = spec.service_name.clone().filter(|name| !name.is_empty());
    for template in spec.volume_claim_templates.iter().flatten() {
        let volume = template.metadata.name.clone().unwrap_or_default();
        let source =
            PersistentVolumeClaimVolumeSource { claim_name: claim_name(set, template, ordinal), read_only: None };
        let volumes = pod_spec.volumes.get_or_insert_default();
        volumes.retain(|one| one.name != volume);
        volumes.push(Volume { name: volume, persistent_volume_claim: Some(source), ..Volume::default() });
    }
    pod.metadata.name = Some(name);
    Ok(owned_by(set, pod)?)
}

/// The claim of an ordinal, by its template. The set does not own it: it outlives its pods.
pub(super) fn claim(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PersistentVolumeClaim,
    ordinal: i32,
) -> PersistentVolumeClaim {
    let mut labels: BTreeMap<_, _> = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(set, template, ordinal)),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: template.metadata.annotations.clone(),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    let name = |metadata: &ObjectMeta| metadata.name.clone().unwrap_or_default();
    format!("{}-{}-{ordinal}", name(&template.metadata), name(&set.metadata))
}
