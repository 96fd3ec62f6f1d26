//! The role of controllers that run on a cluster, as the program would print it.

use std::hash::{DefaultHasher, Hash, Hasher};

use kube::Client;
use serde_json::{Value, json};

use super::PROGRAM;
use kooper_access::Controller;
use kooper_access::internal::Installation;
use kooper_program::rbac::{self, Place};
use kooper_runtime::Result;

/// Applies the ServiceAccount of the controllers with their generated role. Where a
/// controller takes a `Client` and lists nothing with `rbac`, they may do everything.
pub(super) async fn apply(client: &Client, namespace: &str, controllers: &[Controller]) -> Result<()> {
    let installation = Installation::new(PROGRAM, None);
    let place = Place {
        installation,
        namespace: namespace.to_owned(),
        lease_namespace: namespace.to_owned(),
        reviews_tokens: false,
    };
    let documents = match rbac::grants(controllers, &place) {
        Ok(grants) => rbac::documents(&grants, &place),
        Err(unruled) => {
            eprintln!("{unruled}; in this test the controllers have all permissions");
            everything(&place)
        }
    };
    // Other controllers may run already, with the same account and a role of their own.
    let mut hasher = DefaultHasher::new();
    documents.iter().for_each(|document| document.to_string().hash(&mut hasher));
    let ending = format!("-{:x}", hasher.finish());
    for mut document in documents {
        let names: &[&str] = match document["kind"].as_str() {
            Some("ServiceAccount") => &[],
            _ if document["roleRef"]["name"] == "cluster-admin" => &["/metadata/name"],
            _ => &["/metadata/name", "/roleRef/name"],
        };
        for name in names {
            if let Some(Value::String(name)) = document.pointer_mut(name) {
                name.push_str(&ending);
            }
        }
        put(client, &document).await?;
    }
    Ok(())
}

fn everything(place: &Place) -> Vec<Value> {
    let account = place.account();
    let metadata = json!({"name": account, "namespace": place.namespace});
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": place.namespace});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{}:{account}", place.namespace)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [subject],
        }),
    ]
}

/// Applies a document of the kinds that a role consists of.
async fn put(client: &Client, document: &Value) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&document["apiVersion"]), text(&document["kind"]));
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let namespace = match &document["metadata"]["namespace"] {
        Value::String(namespace) => format!("namespaces/{namespace}/"),
        _ => String::new(),
    };
    let name = text(&document["metadata"]["name"]);
    let path = format!("{root}/{version}/{namespace}{}s/{name}?fieldManager={PROGRAM}&force=true", kind.to_lowercase());
    let request = http::Request::patch(path).header(http::header::CONTENT_TYPE, "application/apply-patch+yaml");
    client.request::<Value>(request.body(document.to_string().into_bytes())?).await?;
    Ok(())
}
