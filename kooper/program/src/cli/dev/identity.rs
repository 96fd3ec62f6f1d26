//! The service account of the operator, with the permissions that it has in a cluster.

use kooper_apiserver::User;
use serde_json::{Value, json};

use crate::rbac::{self, Place};
use kooper_access::Controller;

/// The service account that the program runs as.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) user: User,
    /// The account, its roles and their bindings.
    pub(super) documents: Vec<Value>,
    /// The namespaces in which something is granted.
    pub(super) namespaces: Vec<String>,
    /// Why the account has all permissions, if it does.
    pub(super) unrestricted: Option<String>,
}

impl Identity {
    /// The objects that `rbac` prints. A program whose rules are not known gets all permissions.
    pub(super) fn new(controllers: &[Controller], place: &Place) -> Self {
        let user = User::service_account(&place.namespace, &place.account());
        let known = rbac::known(controllers, place);
        let mut namespaces: Vec<_> = known.keys().filter_map(|grant| grant.namespace.clone()).collect();
        namespaces.dedup();
        match rbac::ensure_known(controllers) {
            Ok(()) => Self { user, documents: rbac::documents(&known, place), namespaces, unrestricted: None },
            Err(unknown) => {
                let mut documents = rbac::documents(&rbac::Grants::new(), place);
                documents.push(everything(place));
                Self { user, documents, namespaces, unrestricted: Some(unknown.to_string()) }
            }
        }
    }
}

/// The binding to `cluster-admin`.
fn everything(place: &Place) -> Value {
    let account = place.account();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{}:{account}", place.namespace)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": place.namespace}],
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::Client;

    use super::*;
    use kooper_runtime::leader::LeaderElection;

    #[test]
    fn the_namespace_of_leases_is_created_also_for_a_program_whose_rules_are_not_known() {
        let place = Place { lease_namespace: "leases".into(), ..Place::shop(None, "default") };
        let builder = || {
            let builder = Controller::builder::<Pod>("pods").namespaces(["shop"]);
            builder.leader_election(LeaderElection::default())
        };
        let known = Identity::new(&[builder().handler(async || {}).build().expect("one")], &place);
        let unknown = Identity::new(&[builder().handler(async |_: Client| {}).build().expect("one")], &place);
        assert!(known.unrestricted.is_none() && unknown.unrestricted.is_some());
        for identity in [known, unknown] {
            assert_eq!(identity.namespaces, ["leases", "shop"], "{:?}", identity.unrestricted);
        }
    }
}
