//! Roles for the users of custom resources: they become part of the usual roles
//! `view`, `edit` and `admin`.

use serde_json::{Value, json};

use kooper_access::Controller;
use kooper_access::internal::crd::merged;

/// A role to view and one to edit, for each CRD. `metadata` is what all documents
/// have, and the names begin with `role`.
pub(crate) fn documents(controllers: &[Controller], metadata: &Value, role: &str) -> Vec<Value> {
    let mut documents = Vec::new();
    for (name, crd) in merged(controllers.iter().filter_map(Controller::crd).map(|(crd, _)| crd)) {
        let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
        let has = |subresource: &str| {
            crd.spec.versions.iter().filter_map(|version| version.subresources.as_ref()).any(|all| match subresource {
                "status" => all.status.is_some(),
                _ => all.scale.is_some(),
            })
        };
        let rule =
            |resource: String, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let (mut view, mut edit) = (vec![rule(plural.clone(), &["get", "list", "watch"])], Vec::new());
        edit.push(rule(plural.clone(), &["create", "delete", "deletecollection", "patch", "update"]));
        if has("status") {
            view.push(rule(format!("{plural}/status"), &["get"]));
        }
        if has("scale") {
            view.push(rule(format!("{plural}/scale"), &["get"]));
            edit.push(rule(format!("{plural}/scale"), &["patch", "update"]));
        }
        for (purpose, rules) in [("view", view), ("edit", edit)] {
            let mut metadata = metadata.clone();
            metadata["name"] = format!("{role}:{name}:{purpose}").into();
            metadata["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{purpose}")] = "true".into();
            documents.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules,
            }));
        }
    }
    documents
}
