//! The objects that a pass begins with.

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams, ValidationDirective};
use serde_json::{Map, Value, json};

use crate::cli::document::{Document, DocumentError, LAST_APPLIED, OF_SERVER};
use kooper_access::Controller;
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::error::chain;
use kooper_runtime::internal::error::refusal::is_not_found;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::object::segment::escape;

/// The field manager of `kubectl apply --server-side`: what it applied before and is
/// no longer in the file is removed.
const MANAGER: &str = "kubectl";

/// An object of a file.
pub(super) struct InputObject<'a> {
    document: &'a Document,
    kind: KindInfo,
    pub(super) key: ObjectKey,
    /// The controllers that handle it; none if they only read it.
    pub(super) controllers: Vec<String>,
}

/// Why a pass cannot begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum SeedError {
    #[error("the controllers of this program only read the objects in the files: add one that they handle")]
    Unhandled,
}

impl<'a> InputObject<'a> {
    /// Finds the controllers of an object.
    pub(super) fn new(
        document: &'a Document,
        controllers: &[Controller],
        default_namespace: &str,
    ) -> Result<Self, DocumentError> {
        let text = |field: &str| document.object[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let is_of = |known: &KindInfo| (&*known.api_version(), &*known.kind) == (api_version, kind);
        let known = || controllers.iter().flat_map(Controller::kinds);
        let Some(found) = known().find(|known| is_of(known)).cloned() else {
            return Err(document.error("kind", &unknown(api_version, kind, controllers)));
        };
        let namespace = document.object["metadata"]["namespace"].as_str();
        if !found.namespaced
            && let Some(namespace) = namespace
        {
            let problem = format!("{kind} is cluster-scoped: remove the namespace `{namespace}`");
            return Err(document.error("metadata.namespace", &problem));
        }
        let namespace = found.namespaced.then(|| namespace.unwrap_or(default_namespace));
        let key = ObjectKey::new(namespace, document.object["metadata"]["name"].as_str().unwrap_or_default());
        let own: Vec<_> = controllers.iter().filter(|one| !one.has_own_retriever() && is_of(one.kind_info())).collect();
        let watches = |one: &&&Controller| {
            let watched = one.namespaces();
            watched.is_empty() || namespace.is_some_and(|namespace| watched.iter().any(|one| one == namespace))
        };
        let handling: Vec<_> = own.iter().filter(watches).map(|one| one.name().to_owned()).collect();
        if handling.is_empty()
            && let Some(first) = own.first()
        {
            let problem = format!(
                "the controller `{}` watches other namespaces: {}; choose this one with `--namespace {}`",
                first.name(),
                first.namespaces().join(", "),
                namespace.unwrap_or_default(),
            );
            return Err(document.error("metadata.namespace", &problem));
        }
        Ok(Self { document, kind: found, key, controllers: handling })
    }

    /// Applies it to the object of the cluster, or creates it, in the dry run.
    pub(super) async fn apply(&self, client: &Client) -> Result<(), DocumentError> {
        let mut object = self.document.object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            // Of an object that was read from a cluster.
            metadata.retain(|field, _| !OF_SERVER.contains(&field.as_str()));
            if let Some(namespace) = self.key.namespace() {
                metadata.insert("namespace".to_owned(), namespace.into());
            }
        }
        // The API server replaces what was applied last.
        let last = self.last_applied(client).await?;
        self.patch(client, &Patch::Apply(&object)).await?;
        match last.and_then(|(last, stored)| removal(&last, &object, &stored)) {
            Some(removal) => self.patch(client, &Patch::Merge(&removal)).await,
            None => Ok(()),
        }
    }

    /// The object that `kubectl apply` applied last without `--server-side`, and the one that is stored now.
    async fn last_applied(&self, client: &Client) -> Result<Option<(Value, Value)>, DocumentError> {
        let request = Request::new(self.kind.path(self.key.namespace()));
        let request = request.get(&escape(self.key.name()), &GetParams::default());
        let request = request.map_err(|error| self.document.error("", &chain(&error)))?;
        let found = match client.request::<Value>(request).await {
            // Who may apply may not always read, and the apply says what is wrong.
            Err(kube::Error::Api(_)) => return Ok(None),
            found => found.map_err(|error| self.document.error("", &chain(&error)))?,
        };
        let last = found["metadata"]["annotations"][LAST_APPLIED].as_str();
        let last: Option<Value> = last.and_then(|last| serde_json::from_str(last).ok());
        Ok(last.map(|last| (last, found)))
    }

    async fn patch(&self, client: &Client, patch: &Patch<&Value>) -> Result<(), DocumentError> {
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            force: matches!(patch, Patch::Apply(_)),
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::default()
        };
        let request = Request::new(self.kind.path(self.key.namespace()));
        let request = request.patch(&escape(self.key.name()), &params, patch);
        let request = request.map_err(|error| self.document.error("", &chain(&error)))?;
        match client.request::<Value>(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 && status.message.starts_with("namespaces ") => {
                let namespace = self.key.namespace().unwrap_or_default();
                let problem = format!(
                    "the namespace `{namespace}` does not exist: create it with `kubectl create namespace {namespace}`"
                );
                Err(self.document.error("metadata.namespace", &problem))
            }
            Err(kube::Error::Api(status)) if is_not_found(&status) => {
                let problem = format!(
                    "the API server has no kind `{}` of `{}`: apply its CRD first ({})",
                    self.kind.kind,
                    self.kind.api_version(),
                    status.message.trim_end(),
                );
                Err(self.document.error("kind", &problem))
            }
            Err(kube::Error::Api(status)) => {
                let cause = status.details.as_ref().and_then(|details| details.causes.first());
                let field = cause.map_or("", |cause| &*cause.field);
                Err(self.document.error(field, &status.message))
            }
            Err(error) => Err(self.document.error("", &chain(&error))),
        }
    }
}

/// A merge patch without the fields that were applied last and are not applied any more; `None` if there are none. The
/// fields of others stay, and so do entries of lists: the server merges them as it does those of the apply.
fn removal(last: &Value, object: &Value, stored: &Value) -> Option<Value> {
    let (Value::Object(last), Value::Object(object)) = (last, object) else { return None };
    let mut removed = Map::new();
    for (field, last) in last {
        let stored = &stored[field];
        let patch = match object.get(field) {
            // The server's own.
            _ if ["apiVersion", "kind", "status", "creationTimestamp"].contains(&&**field) => None,
            Some(now) => removal(last, now, stored),
            // The other fields of another object may be defaults of the API server.
            None if ["labels", "annotations"].contains(&&**field) && has_more(stored, last) => {
                removal(last, &json!({}), stored)
            }
            None => Some(Value::Null),
        };
        removed.extend(patch.map(|patch| (field.clone(), patch)));
    }
    (!removed.is_empty()).then_some(Value::Object(removed))
}

/// Returns `true` if an object has fields that another one does not have.
fn has_more(object: &Value, other: &Value) -> bool {
    let (Value::Object(object), Value::Object(other)) = (object, other) else { return false };
    object.iter().any(|(field, value)| other.get(field).is_none_or(|other| has_more(value, other)))
}

/// The message for a kind that no controller handles or reads.
fn unknown(api_version: &str, kind: &str, controllers: &[Controller]) -> String {
    let kinds: Vec<_> = controllers.iter().map(Controller::kind_info).collect();
    if let Some(other) = kinds.iter().find(|known| known.kind == kind) {
        return format!("no controller of this program handles {kind} of {api_version}: write {}", other.api_version());
    }
    let mut known: Vec<_> = kinds.iter().map(|known| format!("{} of {}", known.kind, known.api_version())).collect();
    known.sort_unstable();
    known.dedup();
    format!("no controller of this program handles {kind} of {api_version}: they handle {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kooper_tests::responses;

    use super::*;

    #[tokio::test]
    async fn a_kind_whose_object_a_webhook_rejects_with_404_is_not_taken_for_one_that_is_not_served() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "corner"}});
        let document = Document { object, source: None };
        let key = ObjectKey::namespaced("shop", "corner");
        let seed = InputObject { document: &document, kind: KindInfo::of::<ConfigMap>(), key, controllers: Vec::new() };
        let denied = "admission webhook \"a.io\" denied the request: frozen";
        for (message, is_served) in [(denied, true), ("404 page not found", false)] {
            let client = responses::client("shop", move |_| responses::rejection(404, message));
            let error = seed.apply(&client).await.expect_err("it is rejected").to_string();
            assert!(error.contains(message), "{error}");
            assert_eq!(!error.contains("has no kind"), is_served, "{error}");
        }
    }

    #[test]
    fn what_others_have_written_is_not_removed() {
        let last = json!({
            "metadata": {"annotations": {}, "labels": {"a": "b"}}, "spec": {"size": {"width": 1}, "price": 2},
        });
        let mut stored = last.clone();
        stored["spec"]["size"]["height"] = json!(2);
        stored["metadata"] = json!({"annotations": {"note": "c"}, "labels": {"a": "b", "d": "e"}});
        let object = json!({"metadata": {"name": "x"}, "spec": {"price": 2}});
        // An object that would be empty is removed as a whole: its fields may be required in it.
        let expected = json!({"metadata": {"labels": {"a": null}}, "spec": {"size": null}});
        assert_eq!(removal(&last, &object, &stored), Some(expected));
        assert_eq!(removal(&last, &last, &stored), None);
    }
}
