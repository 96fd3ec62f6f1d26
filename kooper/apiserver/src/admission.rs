//! Admission: what must hold around an object before it is written.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::meta;
use crate::status::{Refusal, details};

/// NamespaceLifecycle: nothing is created in a namespace that is absent or going.
pub(crate) fn create(
    cluster: &Arc<Cluster>,
    kind: &Kind,
    namespace: Option<&str>,
    object: &Value,
) -> Result<(), Refusal> {
    let Some(namespace) = namespace else { return Ok(()) };
    let Some(namespaces) = cluster.kind("", "v1", "namespaces") else { return Ok(()) };
    let Some(found) = namespaces.table.get(namespace) else {
        return Err(Refusal::not_found(&namespaces, namespace));
    };
    let found = found.value();
    if !meta::is_deleting(&found) && found["status"]["phase"] != "Terminating" {
        return Ok(());
    }
    let name = meta::text(object, "name");
    let resource =
        if kind.group.is_empty() { kind.resource.clone() } else { format!("{}.{}", kind.resource, kind.group) };
    let message = format!(
        "{resource} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being \
         terminated"
    );
    let mut about = details(name, &kind.group, &kind.resource);
    about["causes"] = json!([{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace"
    }]);
    Err(Refusal::forbidden(message, about))
}
