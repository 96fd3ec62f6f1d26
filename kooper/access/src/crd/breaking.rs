//! Finds changes of a CRD that might break stored objects or their users. A
//! schema that only becomes less strict is compatible; if that cannot be
//! determined, it counts as a change.

mod integer;
mod schema;
#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::Value;

/// One incompatible change, with its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrdChange {
    /// The field, its version and the change; for [`AllowedBy::Migration`] also what to do.
    pub(crate) text: String,
    pub(crate) allowed_by: AllowedBy,
}

/// The condition under which a change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedBy {
    /// It restricts values that still decode: a server that ratchets accepts
    /// stored values until they are edited. With other servers it needs consent.
    Ratcheting,
    /// The user's consent; the server allows it.
    Consent,
    /// The server rejects it: objects have to be migrated first.
    Migration,
}

/// The changes from the CRD of the cluster to a new one.
pub(crate) fn changes(old: &CustomResourceDefinition, new: &CustomResourceDefinition) -> Vec<CrdChange> {
    let mut found = Vec::new();
    let (was, is) = (&old.spec, &new.spec);
    for (field, was, is) in [
        ("group", &was.group, &is.group),
        ("scope", &was.scope, &is.scope),
        ("names.plural", &was.names.plural, &is.names.plural),
        ("names.kind", &was.names.kind, &is.names.kind),
    ] {
        if was != is {
            let text = format!(
                "`{field}` is immutable, but changes from {was} to {is}: create a CRD with another group or name, \
                 move the objects to it, and delete this one"
            );
            found.push(CrdChange { text, allowed_by: AllowedBy::Migration });
        }
    }
    let stored: Vec<_> = old.status.iter().flat_map(|status| status.stored_versions.iter().flatten()).collect();
    for before in &was.versions {
        let name = &before.name;
        match is.versions.iter().find(|after| after.name == *name) {
            Some(after) => {
                version(before, after, &mut found);
                schema::compare(name, before, after, &mut found);
            }
            None if stored.contains(&name) => {
                let text = format!(
                    "the version `{name}` is removed while it is in `status.storedVersions`: keep it until every \
                     object is written again in another storage version, then remove it from \
                     `status.storedVersions`"
                );
                found.push(CrdChange { text, allowed_by: AllowedBy::Migration });
            }
            None if before.served => {
                found.push(CrdChange::consent(format!("the version `{name}`, which is served, is removed")));
            }
            None => {}
        }
    }
    // Without a conversion, stored objects are read as the new version.
    let storage = |versions: &[CustomResourceDefinitionVersion]| versions.iter().find(|one| one.storage).cloned();
    if let (Some(before), Some(after)) = (storage(&was.versions), storage(&is.versions))
        && is.conversion.as_ref().is_none_or(|conversion| conversion.strategy == "None")
        && before.name != after.name
    {
        schema::compare(&format!("{} as {}", before.name, after.name), &before, &after, &mut found);
    }
    found
}

/// The subresources and selectable fields of a version, and whether it is served.
fn version(was: &CustomResourceDefinitionVersion, is: &CustomResourceDefinitionVersion, found: &mut Vec<CrdChange>) {
    let name = &was.name;
    if was.served && !is.served {
        found.push(CrdChange::consent(format!("the version `{name}` is no longer served")));
    }
    let offered = |version: &CustomResourceDefinitionVersion| {
        let all = version.subresources.as_ref();
        [("status", all.is_some_and(|all| all.status.is_some())), ("scale", all.is_some_and(|all| all.scale.is_some()))]
    };
    for ((subresource, before), (_, after)) in offered(was).into_iter().zip(offered(is)) {
        if before && !after {
            found.push(CrdChange::consent(format!("the subresource `{subresource}` ({name}) is removed")));
        }
    }
    for field in was.selectable_fields.iter().flatten() {
        if is.selectable_fields.as_ref().is_none_or(|kept| !kept.contains(field)) {
            found.push(CrdChange::consent(format!("the selectable field `{}` ({name}) is removed", field.json_path)));
        }
    }
}

/// The schema of a version, as JSON.
pub(in crate::crd) fn schema_of(version: &CustomResourceDefinitionVersion) -> Value {
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = schema.and_then(|schema| serde_json::to_value(schema).ok());
    // Without a schema all fields are kept.
    schema.unwrap_or_else(|| serde_json::json!({"x-kubernetes-preserve-unknown-fields": true}))
}

impl CrdChange {
    fn consent(text: String) -> Self {
        Self { text, allowed_by: AllowedBy::Consent }
    }
}
