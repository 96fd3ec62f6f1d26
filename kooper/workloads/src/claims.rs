//! Volumes: binds each claim to one that fits, or to a new one.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
    PersistentVolumeSpec, PersistentVolumeStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use serde_json::json;

use super::children::{expression, key_of, matches, remove_finalizer, unless_gone};
use kooper_access::KindExt as _;
use kooper_access::capability::{Index, PatchBody, by};
use kooper_access::{ConfigError, Controller, Creator, Deleter, Patcher, Reader, StatusWriter};
use kooper_runtime::{ObjectKey, Result};

/// The finalizers of claims that pods use, and of volumes that claims use.
const CLAIM_IN_USE: &str = "kubernetes.io/pvc-protection";
const VOLUME_IN_USE: &str = "kubernetes.io/pv-protection";

/// The annotation of volumes that were made for a claim, and that which marks a finished binding.
const PROVISIONED_BY: (&str, &str) = ("pv.kubernetes.io/provisioned-by", "kooper.rs/simulated");
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

pub(super) fn claims() -> Result<Controller, ConfigError> {
    PersistentVolumeClaim::controller("claims")
        .resync(None)
        .watches::<PersistentVolume, _, _>(unbound)
        .watches::<Pod, _, _>(claims_of)
        .while_deleting()
        .handler(bind)
        .build()
}

pub(super) fn volumes() -> Result<Controller, ConfigError> {
    PersistentVolume::controller("volumes")
        .resync(None)
        .watches::<PersistentVolumeClaim, _, _>(|claim: &PersistentVolumeClaim| {
            claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).map(ObjectKey::cluster_scoped)
        })
        .while_deleting()
        .handler(release)
        .build()
}

/// Claims that are not bound, by the volume that they name; those that name none have the empty name.
struct UnboundByVolume;

impl Index for UnboundByVolume {
    type Object = PersistentVolumeClaim;

    fn values(claim: &PersistentVolumeClaim) -> impl IntoIterator<Item = String> {
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).unwrap_or_default();
        (phase(claim) != Some("Bound")).then_some(volume)
    }
}

/// Volumes by the claim that they are reserved for; free ones have the empty name.
struct VolumesByClaim;

impl Index for VolumesByClaim {
    type Object = PersistentVolume;

    fn values(volume: &PersistentVolume) -> impl IntoIterator<Item = String> {
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        [reference.map_or_else(String::new, |claim| place(claim.namespace.as_deref(), claim.name.as_deref()))]
    }
}

/// Pods by the claims that they use.
struct PodsByClaim;

impl Index for PodsByClaim {
    type Object = Pod;

    fn values(pod: &Pod) -> impl IntoIterator<Item = String> {
        claims_of(pod).into_iter().map(|claim| place(claim.namespace(), Some(claim.name())))
    }
}

/// Where a claim is, such as `default/data`.
fn place(namespace: Option<&str>, name: Option<&str>) -> String {
    format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
}

/// The claims that a volume may be for.
fn unbound(volume: &PersistentVolume, claims: &Reader<PersistentVolumeClaim>) -> Vec<ObjectKey> {
    let waiting = |volume: &str| claims.select(by::index(UnboundByVolume, volume)).flatten();
    let all = waiting("").chain(volume.metadata.name.as_deref().into_iter().flat_map(waiting));
    all.map(|claim| key_of(&claim.metadata)).collect()
}

fn claims_of(pod: &Pod) -> Vec<ObjectKey> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let names = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    names.map(|claim| ObjectKey::new(pod.metadata.namespace.as_deref(), &claim.claim_name)).collect()
}

fn phase(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.status.as_ref()?.phase.as_deref()
}

async fn bind(
    claim: Arc<PersistentVolumeClaim>,
    volumes: Reader<PersistentVolume>,
    pods: Reader<Pod>,
    creator: Creator<PersistentVolume>,
    volume_patcher: Patcher<PersistentVolume>,
    patcher: Patcher<PersistentVolumeClaim>,
    statuses: StatusWriter<PersistentVolumeClaim>,
) -> Result<()> {
    let place = place(claim.metadata.namespace.as_deref(), claim.metadata.name.as_deref());
    if claim.metadata.deletion_timestamp.is_some() {
        // Also by one that has ended.
        let used = pods.select(by::index(PodsByClaim, place)).next().is_some();
        if !used {
            remove_finalizer(&claim, CLAIM_IN_USE, &patcher).await?;
        }
        return Ok(());
    }
    let Some(spec) = &claim.spec else { return Ok(()) };
    let [reserved, free] = [place.as_str(), ""].map(|claim| volumes.select(by::index(VolumesByClaim, claim)));
    let all = reserved.chain(free).collect::<Result<Vec<_>, _>>()?;
    let own = all.iter().find(|volume| is_for(volume, &claim));
    let fits = || all.iter().filter(|volume| fits(volume, &claim)).min_by_key(|volume| capacity(volume));
    let volume = match (own.or_else(fits), spec.storage_class_name.as_deref()) {
        (Some(volume), _) => Arc::clone(volume),
        // It waits for a volume that is made by hand.
        (None, Some("")) => return Ok(()),
        (None, _) if spec.volume_name.is_some() || spec.selector.is_some() => return Ok(()),
        (None, _) => Arc::new(creator.create(&provisioned(&claim)).await?),
    };
    let name = volume.name_any();
    if !is_for(&volume, &claim)
        || volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.as_ref().is_none_or(|one| one.uid.is_none()))
    {
        let reference = json!({"spec": {"claimRef": reference(&claim)}});
        unless_gone(volume_patcher.patch_object(&volume, PatchBody::merge(reference)).await)?;
    }
    if spec.volume_name.as_deref() != Some(&name) || !claim.annotations().contains_key(BIND_COMPLETED) {
        let mut annotations = json!({BIND_COMPLETED: "yes"});
        if spec.volume_name.is_none() {
            annotations[BOUND_BY_CONTROLLER] = json!("yes");
        }
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": name}});
        if unless_gone(patcher.patch_object(&claim, PatchBody::merge(patch)).await)?.is_none() {
            return Ok(());
        }
    }
    let volume = volume.spec.clone().unwrap_or_default();
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: volume.access_modes,
        capacity: volume.capacity,
        ..PersistentVolumeClaimStatus::default()
    };
    unless_gone(statuses.apply_status(&claim, &status).await)?;
    Ok(())
}

/// Returns `true` if the volume is reserved for the claim.
fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        (&reference.name, &reference.namespace) == (&claim.metadata.name, &claim.metadata.namespace)
            && reference.uid.as_ref().is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref())
    })
}

/// Returns `true` if the volume is free and satisfies the claim.
fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(offer), Some(wanted)) = (&volume.spec, &claim.spec) else { return false };
    let labels = volume.metadata.labels.as_ref();
    let selected = wanted.selector.as_ref().is_none_or(|selector| {
        let expression = expression(selector);
        expression.is_empty() || matches(&expression, labels)
    });
    let modes = wanted.access_modes.iter().flatten();
    let requested = wanted.resources.as_ref().and_then(|resources| resources.requests.as_ref()?.get("storage"));
    let named = wanted.volume_name.as_ref();
    offer.claim_ref.is_none()
        && volume.metadata.deletion_timestamp.is_none()
        && named.is_none_or(|name| Some(name) == volume.metadata.name.as_ref())
        && offer.storage_class_name.as_deref().unwrap_or_default()
            == wanted.storage_class_name.as_deref().unwrap_or_default()
        && offer.volume_mode.as_deref().unwrap_or("Filesystem") == wanted.volume_mode.as_deref().unwrap_or("Filesystem")
        && modes.into_iter().all(|mode| offer.access_modes.iter().flatten().any(|one| one == mode))
        && selected
        && requested.is_none_or(|requested| bytes(&requested.0) <= capacity(volume))
}

fn capacity(volume: &PersistentVolume) -> u128 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    capacity.map_or(0, |quantity| bytes(&quantity.0))
}

/// The bytes of a quantity; of a fraction the whole number.
fn bytes(quantity: &str) -> u128 {
    let digits = quantity.find(|c: char| !c.is_ascii_digit()).unwrap_or(quantity.len());
    let number: u128 = quantity[..digits].parse().unwrap_or_default();
    let unit = quantity.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let factor = match unit {
        "k" => 1000,
        "M" => 1000_u128.pow(2),
        "G" => 1000_u128.pow(3),
        "T" => 1000_u128.pow(4),
        "P" => 1000_u128.pow(5),
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        _ => 1,
    };
    number.saturating_mul(factor)
}

fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        name: claim.metadata.name.clone(),
        namespace: claim.metadata.namespace.clone(),
        uid: claim.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// A volume for the claim, as a provisioner would make it. Nothing is ever stored there.
fn provisioned(claim: &PersistentVolumeClaim) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.0.to_owned(), PROVISIONED_BY.1.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: spec.resources.and_then(|resources| resources.requests),
            claim_ref: Some(reference(claim)),
            persistent_volume_reclaim_policy: Some("Delete".to_owned()),
            storage_class_name: spec.storage_class_name,
            volume_mode: spec.volume_mode,
            host_path: Some(HostPathVolumeSource { path: format!("/var/simulated/{name}"), type_: None }),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// Shows whether a volume is in use, and deletes it after its claim if that is its policy.
async fn release(
    volume: Arc<PersistentVolume>,
    claims: Reader<PersistentVolumeClaim>,
    patcher: Patcher<PersistentVolume>,
    deleter: Deleter<PersistentVolume>,
    statuses: StatusWriter<PersistentVolume>,
) -> Result<()> {
    let spec = volume.spec.clone().unwrap_or_default();
    let claim = match &spec.claim_ref {
        Some(one) => {
            let key = ObjectKey::new(one.namespace.as_deref(), one.name.as_deref().unwrap_or_default());
            claims.get(&key)?.filter(|claim| is_for(&volume, claim))
        }
        None => None,
    };
    let was_bound = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    let phase = match (&spec.claim_ref, &claim) {
        (None, _) => "Available",
        (Some(_), Some(claim))
            if claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()) == volume.metadata.name.as_ref() =>
        {
            "Bound"
        }
        (Some(one), None) if one.uid.is_some() && was_bound => "Released",
        _ if was_bound => "Bound",
        _ => "Available",
    };
    if volume.metadata.deletion_timestamp.is_some() {
        if claim.is_none() {
            remove_finalizer(&volume, VOLUME_IN_USE, &patcher).await?;
        }
        return Ok(());
    }
    let status = PersistentVolumeStatus { phase: Some(phase.to_owned()), ..PersistentVolumeStatus::default() };
    unless_gone(statuses.apply_status(&volume, &status).await)?;
    let is_own = volume.annotations().contains_key(PROVISIONED_BY.0);
    if phase == "Released" && is_own && spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") {
        deleter.delete_object(&volume).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn quantities_are_compared_as_bytes() {
        assert!(bytes("1Gi") > bytes("1G"));
        assert_eq!(bytes("1024Mi"), bytes("1Gi"));
        assert_eq!((bytes("5"), bytes("2k")), (5, 2000));
    }
}
