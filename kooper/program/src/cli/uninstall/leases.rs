//! The Leases of an installation.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Preconditions};
use kube::{Client, ResourceExt};

use crate::cli::lease::holder;
use crate::rbac::Place;
use kooper_access::Controller;
use kooper_runtime::internal::error::refusal::{is_denied, is_missing, unless_missing};

/// The name of a Lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeaseName {
    namespace: String,
    name: String,
    /// The names of the Leases of its members, if it is the map of shards.
    members: Vec<String>,
}

/// The result of looking up a Lease.
pub(super) enum LeaseLookup {
    None,
    /// It stays, for this reason.
    Kept(String),
    /// This process holds it.
    Held(String),
    /// It can be deleted.
    Free(Box<Lease>),
}

impl LeaseName {
    pub(super) fn is(&self, namespace: &str, name: &str) -> bool {
        (&*self.namespace, &*self.name) == (namespace, name)
    }
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease {}/{}", self.namespace, self.name)
    }
}

/// The Leases of the controllers, without those of previous names.
pub(super) fn of(controllers: &[Controller], place: &Place) -> BTreeSet<LeaseName> {
    let leases = controllers.iter().filter_map(|one| one.leases(&place.installation, &place.lease_namespace));
    let leases = leases.map(|leases| LeaseName { namespace: leases.namespace, name: leases.name, members: Vec::new() });
    let shards = controllers.iter().filter_map(|one| one.shard_leases(&place.installation, &place.lease_namespace));
    let shards = shards.flat_map(|leases| {
        // The first one is the map.
        let of_members = leases.names.get(1..).unwrap_or_default().to_vec();
        let named = move |(at, name)| {
            let members = if at == 0 { of_members.clone() } else { Vec::new() };
            LeaseName { namespace: leases.namespace.clone(), name, members }
        };
        leases.names.into_iter().enumerate().map(named)
    });
    leases.chain(shards).collect()
}

/// Finds a Lease as it is at a time. One that is held belongs to a process that was not stopped. The map of shards names
/// no holder: members work by it while they hold their own Leases.
pub(super) async fn find(client: &Client, name: &LeaseName, now: Timestamp) -> kube::Result<LeaseLookup> {
    let api: Api<Lease> = Api::namespaced(client.clone(), &name.namespace);
    let found = find_one(&api, &name.name, now).await?;
    // A member that joins after this changes the map, which is then not deleted.
    for member in name.members.iter().filter(|_| matches!(found, LeaseLookup::Free(_))) {
        if let kept @ (LeaseLookup::Held(_) | LeaseLookup::Kept(_)) = find_one(&api, member, now).await? {
            return Ok(kept);
        }
    }
    Ok(found)
}

async fn find_one(api: &Api<Lease>, name: &str, now: Timestamp) -> kube::Result<LeaseLookup> {
    Ok(match unless_missing(api.get(name).await) {
        Ok(None) => LeaseLookup::None,
        Ok(Some(lease)) => match holder(&lease, now) {
            Some(holder) => LeaseLookup::Held(holder.to_owned()),
            None => LeaseLookup::Free(Box::new(lease)),
        },
        Err(kube::Error::Api(status)) if status.code == 403 => LeaseLookup::Kept(status.message),
        Err(error) => return Err(error),
    })
}

/// Deletes a Lease unless it has changed; otherwise returns why it is kept.
pub(super) async fn delete(client: &Client, name: &LeaseName, lease: &Lease) -> kube::Result<Result<(), String>> {
    let api: Api<Lease> = Api::namespaced(client.clone(), &name.namespace);
    let preconditions = Preconditions { uid: lease.uid(), resource_version: lease.resource_version() };
    match api.delete(&name.name, &DeleteParams::default().preconditions(preconditions)).await {
        Err(kube::Error::Api(status)) if is_denied(&status) || matches!(status.code, 403 | 409) => {
            Ok(Err(status.message))
        }
        Err(kube::Error::Api(status)) if is_missing(&status) => Ok(Ok(())),
        deleted => deleted.map(|_| Ok(())),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kooper_runtime::leader::LeaderElection;
    use kooper_sharding::Shards;
    use kooper_tests::responses;

    use super::*;

    fn name() -> LeaseName {
        LeaseName { namespace: "shops".to_owned(), name: "shop".to_owned(), members: Vec::new() }
    }

    #[tokio::test]
    async fn a_lease_whose_deletion_a_webhook_rejects_is_kept_whatever_the_code_and_a_missing_one_is_not() {
        let denied = "admission webhook \"a.io\" denied the request: frozen";
        for (response, kept) in [
            (responses::rejection(404, denied), true),
            (responses::rejection(422, denied), true),
            (responses::missing("shop"), false),
        ] {
            let client = responses::client("shops", move |_| response.clone());
            let deleted = delete(&client, &name(), &Lease::default()).await.expect("a response");
            assert_eq!(deleted.err(), kept.then(|| denied.to_owned()));
        }
    }

    #[tokio::test]
    async fn a_lease_that_a_proxy_does_not_find_is_not_taken_for_a_missing_one() {
        let client = responses::client("shops", |_| responses::rejection(404, "404 page not found"));
        assert!(find(&client, &name(), Timestamp::now()).await.is_err());
        assert!(delete(&client, &name(), &Lease::default()).await.is_err());
        let client = responses::client("shops", |_| responses::missing("shop"));
        assert!(matches!(find(&client, &name(), Timestamp::now()).await, Ok(LeaseLookup::None)));
    }

    #[test]
    fn the_leases_are_those_of_leaders_of_maps_and_of_members() {
        let place = Place { lease_namespace: "leases".to_owned(), ..Place::shop(Some("blue"), "shops") };
        let builder = |name: &str| Controller::builder::<Pod>(name).handler(async || {});
        let controllers = [
            builder("elected").leader_election(LeaderElection::new()).previous_names(["old"]),
            builder("shared").shards(Shards::new(8).members(2)),
            builder("named").shards(Shards::new(8).members(2).lease("mine").namespace("there")).daemon(async || {}),
            builder("alone"),
        ];
        let controllers: Vec<_> = controllers.into_iter().flat_map(|one| one.build().unwrap().with_daemon()).collect();
        let found: Vec<_> = of(&controllers, &place).iter().map(ToString::to_string).collect();
        let expected = [
            "leases/shop-elected.blue",
            "leases/shop-shared--0.blue",
            "leases/shop-shared--1.blue",
            "leases/shop-shared.blue",
            "there/mine--0.blue",
            "there/mine--1.blue",
            "there/mine-daemon--0.blue",
            "there/mine-daemon--1.blue",
            "there/mine-daemon.blue",
            "there/mine.blue",
        ];
        assert_eq!(found, expected.map(|name| format!("Lease {name}")));
    }
}
