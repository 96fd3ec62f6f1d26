//! The shards of a controller, as its Leases show them.

use kooper_access::Controller;
use kooper_access::controller::ShardLeases;
use kooper_sharding::{OverviewError, ShardOverview, ShardState};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};

use super::super::objects::counted;
use super::super::verdict::Verdict;
use crate::manifests::INSTALLATION;
use crate::rbac::Place;
use k8s_openapi::jiff::Timestamp;

/// Findings about the shards of a controller.
pub(super) async fn inspect(
    client: &Client,
    controller: &Controller,
    place: &Place,
    deployments: &[DynamicObject],
) -> Vec<(Verdict, String)> {
    let Some(leases) = controller.shard_leases(&place.installation, &place.lease_namespace) else { return Vec::new() };
    let wall = Timestamp::now().as_microsecond();
    let read = ShardOverview::read(client, &leases.namespace, &leases.names, &leases.mark, wall).await;
    let mut findings = match read {
        Ok(overview) => findings(&overview, &leases),
        Err(error @ OverviewError::NoMap(_)) => {
            vec![(Verdict::Note, format!("{error}; the first replica creates it"))]
        }
        Err(error @ OverviewError::Leader(..)) => vec![(Verdict::Note, error.to_string())],
        // The access to each Lease is checked by itself.
        Err(error) if error.is_forbidden() => Vec::new(),
        Err(error) => vec![(Verdict::Missing, error.to_string())],
    };
    findings.extend(deployments.iter().filter_map(|deployment| too_many_replicas(deployment, &leases, place)));
    let name = controller.name();
    findings.into_iter().map(|(verdict, text)| (verdict, format!("shards of controller {name}: {text}"))).collect()
}

fn findings(overview: &ShardOverview, leases: &ShardLeases<'_>) -> Vec<(Verdict, String)> {
    let (count, field) = (overview.count(), overview.field());
    let members: Vec<_> = overview.members(leases.shards).collect();
    let is_unowned = |state: &ShardState| matches!(state, ShardState::Free | ShardState::Orphaned);
    let unowned = overview.shards().filter(|shard| is_unowned(&shard.state)).count();
    let working = members.iter().filter(|member| !member.has_expired).count();
    let mut findings = Vec::new();
    if unowned == 0 {
        let replicas = counted(working, "replica");
        findings.push((Verdict::Ok, format!("{count} by {field}, all owned, {replicas}")));
    } else if working == 0 {
        findings.push((Verdict::Note, format!("{count} by {field}, and no replica runs")));
    } else {
        let text = format!(
            "{unowned} of {count} have no owner: if this lasts for longer than `lease_duration`, the log of the replicas has the \
             reason"
        );
        findings.push((Verdict::Missing, text));
    }
    let (needed, most) = (overview.needed_members(), leases.shards.most_members().into());
    if needed > most {
        let lease = leases.names.first().map_or("", String::as_str);
        let text = format!(
            "an owner is a member beyond the {most} that this program reads: no replica of this version takes over its shards. \
             Write `members = {needed}`; to have fewer, stop all replicas before you start this version, and delete the Lease \
             {}/{lease} if it still has a map",
            leases.namespace
        );
        findings.push((Verdict::Missing, text));
    }
    if overview.differs_from(leases.shards) {
        let is_rolled_out = working > 0 && members.iter().all(|member| member.other.is_none());
        let awaited = match is_rolled_out {
            true => "the running calls of all replicas have ended",
            false => "all replicas are of this version",
        };
        let text = format!(
            "the map has {count} by {field}, and this program has other settings: the map is changed when {awaited}"
        );
        findings.push((Verdict::Note, text));
    }
    findings.extend(overview.rejected().map(|text| (Verdict::Note, text)));
    for member in members {
        let replica = member.replica;
        if let Some(other) = member.other {
            findings.push((Verdict::Note, format!("the replica {replica} was started with {other}")));
        }
        if member.is_drained {
            let text = format!("the replica {replica} is drained: `shards --undo-drain {replica}` undoes this");
            findings.push((Verdict::Note, text));
        }
    }
    findings
}

/// The Deployment of this installation has more replicas than can share the shards, with the one that a
/// rolling update adds.
fn too_many_replicas(deployment: &DynamicObject, leases: &ShardLeases<'_>, place: &Place) -> Option<(Verdict, String)> {
    let namespace = deployment.namespace().unwrap_or_default();
    let account = deployment.labels().get(INSTALLATION);
    let is_own = (&*namespace, account) == (&*place.namespace, Some(&place.account()));
    let replicas = deployment.data["spec"]["replicas"].as_u64().unwrap_or(1);
    let members = u64::from(leases.shards.most_members());
    let name = deployment.name_any();
    (is_own && replicas >= members).then(|| {
        let text = format!(
            "the Deployment {namespace}/{name} has {}, and one more during a rolling update, but only {members} can own \
             shards: raise `members`, or scale it down",
            counted(replicas, "replica")
        );
        (Verdict::Missing, text)
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kooper_access::KindExt;
    use kooper_sharding::Shards;
    use kooper_tests::responses;
    use serde_json::json;

    use super::*;

    fn controller(shards: Shards) -> Controller {
        ConfigMap::controller("shops").shards(shards).handler(async || {}).build().unwrap()
    }

    /// The findings of a program with one shard, for a map with two and a replica that was started with this number.
    async fn found(started_with: u16) -> Vec<String> {
        let client = responses::client("trade", move |request| {
            let map = r#"{"by":"uid","count":2,"sessions":["0/17/pod_1"],"shards":[[0,7],[0,7]]}"#;
            let session = json!({"count": started_with, "by": "uid", "of": 2}).to_string();
            let overrides = r#"{"drained":[null]}"#;
            let annotations = json!({
                "kooper.rs/shards": map, "kooper.rs/shards-session": session, "kooper.rs/shards-overrides": overrides,
            });
            let metadata = json!({"resourceVersion": "7", "annotations": annotations});
            let released = json!({"metadata": metadata, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
            let (acquired, renewed) = ("1970-01-01T00:00:00.000017Z", Timestamp::now().to_string());
            let times = json!({"acquireTime": acquired, "renewTime": renewed, "leaseDurationSeconds": 15});
            let mut held = json!({"metadata": metadata, "spec": times});
            held["spec"]["holderIdentity"] = json!("pod_1");
            match request.uri().path().rsplit('/').next() {
                Some("shop-shops") => (200, released),
                Some("shop-shops--0") => (200, held),
                name => (404, json!({"code": 404, "details": {"name": name}})),
            }
        });
        let found = inspect(&client, &controller(Shards::new(1)), &Place::shop(None, "trade"), &[]).await;
        found.into_iter().map(|(_, text)| text).collect()
    }

    #[tokio::test]
    async fn another_number_of_shards_waits_for_all_replicas_and_then_for_their_calls() {
        let waits = |awaited: &str| {
            format!(
                "shards of controller shops: the map has 2 by uid, and this program has other settings: the map is changed \
                 when {awaited}"
            )
        };
        let found = [found(2).await, found(1).await];
        assert!(found[0].contains(&waits("all replicas are of this version")), "{found:?}");
        assert!(found[1].contains(&waits("the running calls of all replicas have ended")), "{found:?}");
    }

    #[tokio::test]
    async fn an_entry_of_the_overrides_without_effect_is_found() {
        let text = "shards of controller shops: an entry of the annotation kooper.rs/shards-overrides of the Lease \
                    trade/shop-shops has no effect: `null` in `drained` must be a replica, such as \"shop-7d4b9_0a1b\"";
        let found = found(1).await;
        assert!(found.iter().any(|found| found == text), "{found:?}");
    }

    #[test]
    fn a_deployment_with_more_replicas_than_members_is_found() {
        let controller = controller(Shards::new(32).members(3));
        let place = Place::shop(None, "trade");
        let leases = controller.shard_leases(&place.installation, &place.lease_namespace).unwrap();
        let found = |account: &str, replicas: i32| {
            let metadata = json!({"namespace": "trade", "name": "shop", "labels": {INSTALLATION: account}});
            let spec = json!({"replicas": replicas, "selector": {}, "template": {}});
            let deployment = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
            too_many_replicas(&deployment, &leases, &place).map(|(_, text)| text)
        };
        assert_eq!(
            found("shop", 3).as_deref(),
            Some(
                "the Deployment trade/shop has 3 replicas, and one more during a rolling update, but only 3 can own shards: \
                 raise `members`, or scale it down"
            )
        );
        assert_eq!(found("shop", 2), None, "with one more there are three");
        assert_eq!(found("shop.blue", 9), None, "it is another installation");
    }
}
