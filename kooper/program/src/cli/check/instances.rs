//! Other installations of the program that handle the same objects.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;

use crate::cli::lease::{LeaseOwnerMark, holder};
use crate::cli::objects::{unless_forbidden, untyped};
use crate::manifests::INSTALLATION;
use crate::rbac::Place;
use kooper_access::Controller;
use kooper_runtime::internal::leader::SCOPE;

/// Another installation whose controller handles the same objects.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) struct Overlap {
    pub(in crate::cli) controller: String,
    /// Its Lease or Deployment, such as `Lease shops/shop-web.blue`.
    pub(in crate::cli) with: String,
    /// The namespaces that both of them watch.
    pub(in crate::cli) shared: String,
    /// `true` if it has the name of this installation. It may then be this one, with its Leases in
    /// another namespace.
    pub(in crate::cli) has_same_name: bool,
}

/// The Leases that may be listed, and whether these are all.
pub(in crate::cli) async fn leases(client: &Client, place: &Place) -> kube::Result<(Vec<Lease>, bool)> {
    let own = Api::namespaced(client.clone(), &place.lease_namespace);
    listed(Api::all(client.clone()), own, &ListParams::default()).await
}

/// The Deployments of the program that may be listed, and whether these are all.
pub(in crate::cli) async fn deployments(client: &Client, place: &Place) -> kube::Result<(Vec<DynamicObject>, bool)> {
    let of_program = format!("app.kubernetes.io/name={},{INSTALLATION}", place.installation.program);
    let resource = untyped::<Deployment>();
    let own = Api::namespaced_with(client.clone(), &place.namespace, &resource);
    listed(Api::all_with(client.clone(), &resource), own, &ListParams::default().labels(&of_program)).await
}

async fn listed<K>(all: Api<K>, own: Api<K>, params: &ListParams) -> kube::Result<(Vec<K>, bool)>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    match unless_forbidden(all.list(params).await) {
        Ok(Some(found)) => return Ok((found.items, true)),
        // A cluster that does not serve the kind, such as kcp, has none.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok((Vec::new(), true)),
        Err(error) => return Err(error),
        Ok(None) => {}
    }
    let found = unless_forbidden(own.list(params).await)?;
    Ok((found.map_or_else(Vec::new, |found| found.items), false))
}

/// The other Deployments of the program that run a controller for objects of the same namespaces. Without a choice,
/// the controllers in `near` watch the namespace of their Deployment.
pub(in crate::cli) fn deployed(
    controllers: &[Controller],
    near: &BTreeSet<String>,
    place: &Place,
    deployments: &[DynamicObject],
) -> Vec<Overlap> {
    let mut overlaps = Vec::new();
    let runs = |one: &&DynamicObject| one.data["spec"]["replicas"] != 0;
    for deployment in deployments.iter().filter(runs) {
        let (namespace, account) = (deployment.namespace().unwrap_or_default(), deployment.labels().get(INSTALLATION));
        if (&*namespace, account) == (&*place.namespace, Some(&place.account())) {
            continue;
        }
        let theirs = namespaces(deployment);
        overlaps.extend(controllers.iter().filter_map(|controller| {
            let usual = if near.contains(controller.name()) { &*namespace } else { "*" };
            Some(Overlap {
                controller: controller.name().to_owned(),
                with: format!("Deployment {namespace}/{}", deployment.name_any()),
                shared: shared(controller.namespaces(), theirs.unwrap_or(usual))?,
                has_same_name: account == Some(&place.account()),
            })
        }));
    }
    overlaps
}

/// The namespaces that a Deployment as `manifests` prints it watches; `None` if it sets none.
fn namespaces(deployment: &DynamicObject) -> Option<&str> {
    let containers = deployment.data["spec"]["template"]["spec"]["containers"].as_array()?;
    let mut variables = containers.iter().filter_map(|container| container["env"].as_array()).flatten();
    variables.find(|variable| variable["name"] == "KOOPER_NAMESPACE")?["value"].as_str()
}

/// The installations that hold a Lease for a controller of the same program and handle
/// objects of the same namespaces.
pub(in crate::cli) fn overlaps(
    controllers: &[Controller],
    place: &Place,
    leases: &[Lease],
    now: Timestamp,
) -> Vec<Overlap> {
    let mut overlaps = Vec::new();
    for controller in controllers {
        let Some((own_namespace, own_names)) = own_leases(controller, place) else { continue };
        let mut found = Vec::new();
        for lease in leases.iter().filter(|lease| holder(lease, now).is_some()) {
            let (namespace, name) = (lease.namespace().unwrap_or_default(), lease.name_any());
            if namespace == own_namespace && own_names.contains(&name) {
                continue;
            }
            let Some(mark) = LeaseOwnerMark::of(lease) else { continue };
            if (mark.program(), mark.controller) != (&*place.installation.program, controller.name()) {
                continue;
            }
            let has_same_name = mark.installation == place.account();
            // Its own members, of a version with more of them.
            let is_own = namespace == own_namespace && controller.has_shards() && has_same_name;
            let theirs = lease.annotations().get(SCOPE).map_or("*", String::as_str);
            // Each of its replicas may have a session.
            if let Some(shared) = shared(controller.namespaces(), theirs).filter(|_| !is_own)
                && !found.contains(&(namespace.clone(), mark))
            {
                found.push((namespace.clone(), mark));
                overlaps.push(Overlap {
                    controller: controller.name().to_owned(),
                    with: format!("Lease {namespace}/{name}"),
                    shared,
                    has_same_name,
                });
            }
        }
    }
    overlaps
}

/// The namespace and the names of a controller's own Leases.
fn own_leases(controller: &Controller, place: &Place) -> Option<(String, Vec<String>)> {
    if let Some(shards) = controller.shard_leases(&place.installation, &place.lease_namespace) {
        return Some((shards.namespace, shards.names));
    }
    let own = controller.leases(&place.installation, &place.lease_namespace)?;
    Some((own.namespace, vec![own.name]))
}

/// The namespaces of both; no names are all namespaces.
fn shared(ours: &[String], theirs: &str) -> Option<String> {
    let ours: BTreeSet<&str> = ours.iter().map(String::as_str).collect();
    let theirs: BTreeSet<&str> = theirs.split(',').filter(|name| *name != "*" && !name.is_empty()).collect();
    let both: Vec<&str> = match (ours.is_empty(), theirs.is_empty()) {
        (true, true) => return Some("all namespaces".to_owned()),
        (true, false) => theirs.into_iter().collect(),
        (false, true) => ours.into_iter().collect(),
        (false, false) => ours.intersection(&theirs).copied().collect(),
    };
    match both.len() {
        0 => None,
        1 => Some(format!("namespace {}", both[0])),
        _ => Some(format!("namespaces {}", both.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use kooper_runtime::leader::LeaderElection;
    use kooper_sharding::Shards;

    fn lease(name: &str, mark: &str, scope: &str, holder: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {
                "namespace": "default", "name": name,
                "annotations": {"kooper.rs/controller": mark, "kooper.rs/namespaces": scope},
            },
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
        }))
        .unwrap()
    }

    fn found(namespaces: &[&str], lease: Lease) -> Option<(String, bool)> {
        async fn handler() {}
        let controller = Controller::builder::<ConfigMap>("shops").leader_election(LeaderElection::default());
        let controller = controller.namespaces(namespaces.iter().copied()).handler(handler).build().unwrap();
        let place = Place::shop(Some("blue"), "default");
        let now = "2026-01-01T00:00:05Z".parse().unwrap();
        let mut overlaps = overlaps(&[controller], &place, &[lease], now);
        overlaps.pop().map(|overlap| (overlap.shared, overlap.has_same_name))
    }

    #[test]
    fn only_a_missing_permission_counts_as_such() {
        let refused = |code| {
            let status = kube::core::Status { code, ..Default::default() };
            unless_forbidden::<()>(Err(kube::Error::Api(Box::new(status))))
        };
        assert!(matches!(unless_forbidden(Ok(())), Ok(Some(()))));
        assert!(matches!(refused(403), Ok(None)));
        assert!(refused(401).is_err() && refused(503).is_err());
    }

    #[test]
    fn another_deployment_of_the_program_is_found() {
        let controller =
            Controller::builder::<ConfigMap>("shops").namespaces(["a"]).handler(async || {}).build().unwrap();
        let controllers = [controller];
        let place = Place::shop(Some("blue"), "shops");
        let found_near = |near: &[&str], namespace: &str, account: &str, replicas: u32, env: serde_json::Value| {
            let deployment = serde_json::from_value(json!({
                "metadata": {"namespace": namespace, "name": "shop", "labels": {"kooper.rs/installation": account}},
                "spec": {
                    "replicas": replicas, "selector": {},
                    "template": {"spec": {"containers": [{"name": "shop", "env": env}]}},
                },
            }));
            let near = near.iter().map(ToString::to_string).collect();
            let mut overlaps = deployed(&controllers, &near, &place, &[deployment.unwrap()]);
            overlaps.pop().map(|overlap| (overlap.with, overlap.shared, overlap.has_same_name))
        };
        let found = |namespace: &str, account: &str, replicas: u32, env: serde_json::Value| {
            found_near(&[], namespace, account, replicas, env)
        };
        let of = |namespaces: &str| json!([{"name": "KOOPER_NAMESPACE", "value": namespaces}]);
        let one = |with: &str, same| Some((format!("Deployment {with}"), "namespace a".to_owned(), same));
        assert_eq!(found("shops", "shop.green", 1, of("a,b")), one("shops/shop", false));
        assert_eq!(found("shops", "shop.green", 1, json!([])), one("shops/shop", false));
        assert_eq!(found("other", "shop.blue", 1, of("a")), one("other/shop", true));
        assert_eq!(found("shops", "shop.green", 1, of("b")), None);
        assert_eq!(found("shops", "shop.green", 0, of("a")), None);
        assert_eq!(found("shops", "shop.blue", 1, of("a")), None, "it is this installation");
        // Each watches its own namespace, unless it is told otherwise.
        assert_eq!(found_near(&["shops"], "b", "shop.green", 1, json!([])), None);
        assert_eq!(found_near(&["shops"], "a", "shop.green", 1, json!([])), one("a/shop", false));
        assert_eq!(found_near(&["shops"], "b", "shop.green", 1, of("a")), one("b/shop", false));
    }

    #[test]
    fn an_instance_whose_replicas_share_the_objects_is_found_once() {
        let controller = Controller::builder::<ConfigMap>("shops").namespaces(["a"]);
        let controller = controller.shards(Shards::new(32).members(2)).handler(async || {}).build().unwrap();
        let place = Place::shop(Some("blue"), "default");
        let now = "2026-01-01T00:00:05Z".parse().unwrap();
        let controllers = [controller];
        let found = |leases: &[Lease]| {
            let found = overlaps(&controllers, &place, leases, now).into_iter();
            found.map(|overlap| (overlap.with, overlap.has_same_name)).collect::<Vec<_>>()
        };
        let green = |slot: u8| lease(&format!("shop-shops--{slot}.green"), "shop.green/shops/shards", "*", "a");
        assert_eq!(found(&[green(0), green(1)]), [("Lease default/shop-shops--0.green".to_owned(), false)]);
        let own = |slot: u8| lease(&format!("shop-shops--{slot}.blue"), "shop.blue/shops/shards", "a", "a");
        assert_eq!(found(&[own(0), own(1), own(5)]), [], "the last one is of a version with more members");
        let leader = lease("shop-shops.green", "shop.green/shops", "a", "a");
        assert_eq!(found(&[leader]).len(), 1);
    }

    #[test]
    fn an_instance_that_watches_the_same_namespace_is_found() {
        let green = |scope| lease("shop-shops.green", "shop.green/shops", scope, "a");
        let one = |text: &str| Some((text.to_owned(), false));
        assert_eq!(found(&["a"], green("a,b")), one("namespace a"));
        assert_eq!(found(&["a", "b"], green("*")), one("namespaces a, b"));
        assert_eq!(found(&[], green("*")), one("all namespaces"));
        assert_eq!(found(&[], green("c")), one("namespace c"));
        assert_eq!(found(&["a"], green("c")), None);
        // Its own Lease, another controller, another program, and one without a holder.
        assert_eq!(found(&["a"], lease("shop-shops.blue", "shop.blue/shops", "a", "a")), None);
        assert_eq!(found(&["a"], lease("shop-carts.green", "shop.green/carts", "a", "a")), None);
        assert_eq!(found(&["a"], lease("bank-shops", "bank/shops", "a", "a")), None);
        assert_eq!(found(&["a"], lease("shop-shops.green", "shop.green/shops", "a", "")), None);
        let elsewhere = Lease {
            metadata: kube::api::ObjectMeta {
                namespace: Some("other".to_owned()),
                ..lease("shop-shops.blue", "shop.blue/shops", "a", "a").metadata
            },
            ..lease("", "", "", "a")
        };
        assert_eq!(found(&["a"], elsewhere), Some(("namespace a".to_owned(), true)));
    }
}
