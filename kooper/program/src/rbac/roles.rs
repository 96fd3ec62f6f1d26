//! Permissions as documents for `kubectl apply`: few, short and in a fixed order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Grant, Grants, Place};

/// The API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

/// The service account, and a role with its binding for the cluster and for
/// each namespace in which something is granted; and the role of those that may read
/// the metrics, if it is needed.
#[must_use]
pub fn documents(grants: &Grants, place: &Place) -> Vec<Value> {
    let mut documents = vec![json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": place.metadata(Some(&place.namespace), &place.account()),
    })];
    let mut places: BTreeMap<Option<&str>, Vec<&Grant>> = BTreeMap::new();
    for grant in grants.keys() {
        places.entry(grant.namespace.as_deref()).or_default().push(grant);
    }
    for (namespace, grants) in places {
        let scope = if namespace.is_some() { "" } else { "Cluster" };
        let (role, binding) = (format!("{scope}Role"), format!("{scope}RoleBinding"));
        let name = place.role(namespace);
        documents.push(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": role, "metadata": place.metadata(namespace, &name),
            "rules": rules(&grants),
        }));
        documents.push(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": binding, "metadata": place.metadata(namespace, &name),
            "roleRef": {"apiGroup": GROUP, "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": place.account(), "namespace": place.namespace}],
        }));
    }
    if place.reviews_tokens {
        documents.push(metrics_reader(place.metadata(None, ""), &place.role(None)));
    }
    documents
}

/// A role for those that may read the metrics of a program, such as Prometheus. Its name
/// begins with `role`.
#[must_use]
pub fn metrics_reader(mut metadata: Value, role: &str) -> Value {
    metadata["name"] = format!("{role}:metrics-reader").into();
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": metadata,
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    })
}

/// Permissions that differ in one field only are combined: first the verbs of a
/// resource, then its names, then the resources.
#[must_use]
pub fn rules(grants: &[&Grant]) -> Vec<Value> {
    let mut verbs: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for grant in grants {
        verbs.entry((&*grant.group, grant.path(), grant.name.as_deref())).or_default().insert(&grant.verb);
    }
    let mut names: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for ((group, resource, name), verbs) in verbs {
        names.entry((group, resource, verbs, name.is_some())).or_default().extend(name);
    }
    let mut resources: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for ((group, resource, verbs, _), names) in names {
        resources.entry((group, names, verbs)).or_default().insert(resource);
    }
    let mut rules: Vec<_> =
        resources.into_iter().map(|((group, names, verbs), ours)| (group, ours, names, verbs)).collect();
    rules.sort();
    let rule = |(group, resources, names, verbs): (&str, BTreeSet<String>, BTreeSet<&str>, BTreeSet<&str>)| {
        let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    };
    rules.into_iter().map(rule).collect()
}
