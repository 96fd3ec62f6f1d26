//! Other installations that handle the same objects: they would set the finalizers again, and lose those that they need.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::coordination::v1::Lease;
use kooper_access::Controller;
use kooper_runtime::internal::controller::review::may;
use kube::Client;

use super::installed;
use crate::cli::check::instances::{self, Overlap};
use crate::cli::lease::{LeaseOwnerMark, cautious_now, holder};
use crate::rbac::Place;

/// The maximum length of a hostname that the kubelet sets: it cuts the name of the pod.
const LONGEST_HOSTNAME: usize = 63;

/// The installations with a Deployment, or with a process that holds a Lease. They are only found with the permissions
/// to list these in all namespaces. The controllers in `near` watch the namespace of their installation.
pub(super) async fn find(
    client: &Client,
    controllers: &[Controller],
    near: &BTreeSet<String>,
    place: &Place,
) -> kube::Result<Vec<Overlap>> {
    let mut found = Vec::new();
    if may_list(client, "apps", "deployments").await? {
        let (deployments, _) = instances::deployments(client, place).await?;
        found.extend(instances::deployed(controllers, near, place, &deployments));
    }
    if may_list(client, "coordination.k8s.io", "leases").await? {
        let (mut leases, _) = instances::leases(client, place).await?;
        // The Deployment that is to be stopped may have its Leases in a namespace that this command does not know.
        let has_same_name =
            |lease: &Lease| LeaseOwnerMark::of(lease).is_some_and(|mark| mark.installation == place.account());
        if leases.iter().any(has_same_name) {
            let pods = match installed::pods(client, place).await {
                Err(kube::Error::Api(status)) if status.code == 403 => Vec::new(),
                pods => pods?,
            };
            leases.retain(|lease| !has_same_name(lease) || !is_held_by(lease, &pods));
        }
        found.extend(instances::overlaps(controllers, place, &leases, cautious_now()));
    }
    Ok(found)
}

/// Returns `true` if one of these pods holds the Lease.
fn is_held_by(lease: &Lease, pods: &[String]) -> bool {
    let holder = holder(lease, cautious_now()).and_then(|holder| holder.rsplit_once('_'));
    holder.is_some_and(|(host, _)| {
        let is_cut = |pod: &str| {
            let cut = pod.get(..LONGEST_HOSTNAME).unwrap_or(pod);
            cut.trim_end_matches(['-', '.']) == host
        };
        pods.iter().any(|pod| is_cut(pod))
    })
}

/// Asks for the permission, as a request without it would be in the audit log of the cluster.
async fn may_list(client: &Client, group: &str, resource: &str) -> kube::Result<bool> {
    let what = ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        verb: Some("list".to_owned()),
        ..ResourceAttributes::default()
    };
    match may(client, what).await {
        // Some clusters forbid access reviews.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        allowed => allowed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_held_by_the_pod_of_its_hostname() {
        let long = format!("{}-x-1234", "a".repeat(61));
        let pods = ["shop-1-a".to_owned(), long];
        let is_held = |holder: &str| {
            let spec = json!({
                "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00.000000Z",
            });
            is_held_by(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap(), &pods)
        };
        assert!(is_held("shop-1-a_0f"));
        assert!(is_held(&format!("{}-x_0f", "a".repeat(61))), "the name of the pod is cut");
        assert!(!is_held("shop-1_0f") && !is_held("shop_0f") && !is_held("elsewhere") && !is_held(""));
    }
}
