//! A webhook of a configuration, and which requests it is about.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::super::{Attributes, Operation, refused};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::select::LabelSelector;
use crate::status::StatusError;
use crate::{match_conditions, meta};

const GROUP: &str = "admissionregistration.k8s.io";
pub(super) const MUTATING: &str = "mutatingwebhookconfigurations";
pub(super) const VALIDATING: &str = "validatingwebhookconfigurations";

/// The configurations themselves are written without webhooks and policies: one that fails can be removed.
const EXEMPT: [&str; 6] = [
    MUTATING,
    VALIDATING,
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// A webhook of a configuration.
pub(super) struct WebhookEntry {
    /// Its configuration, its name and its place among those with that name.
    pub(super) id: String,
    pub(super) value: Value,
}

/// The webhooks of all configurations of a resource, by the names of the configurations.
pub(super) fn hooks(cluster: &Arc<Cluster>, resource: &str) -> Vec<WebhookEntry> {
    let mut hooks = Vec::new();
    for mut configuration in cluster.objects(GROUP, resource) {
        let Value::Array(entries) = configuration["webhooks"].take() else { continue };
        for (index, value) in entries.into_iter().enumerate() {
            let id = format!("{}/{index}", meta::text(&configuration, "name"));
            hooks.push(WebhookEntry { id, value });
        }
    }
    hooks
}

impl WebhookEntry {
    pub(super) fn name(&self) -> &str {
        self.text("name")
    }

    pub(super) fn text(&self, key: &str) -> &str {
        self.value[key].as_str().unwrap_or_default()
    }

    pub(super) fn ignores_failures(&self) -> bool {
        self.text("failurePolicy") == "Ignore"
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.value["timeoutSeconds"].as_u64().unwrap_or(10))
    }

    /// The kind as which the webhook gets the object, if it is to be called for a request.
    pub(super) fn concerns(
        &self,
        request: &Attributes<'_>,
        object: &Value,
        old: &Value,
    ) -> Result<Option<Arc<Kind>>, StatusError> {
        if request.kind.group == GROUP && EXEMPT.contains(&&*request.kind.resource) {
            return Ok(None);
        }
        // Its object is a Scale, and here it is a part of the whole.
        if request.subresource == "scale" {
            return Ok(None);
        }
        let in_namespace = self.selects_namespace(request, object);
        if matches!(in_namespace, Ok(false)) || !self.selects_object(object, old) {
            return Ok(None);
        }
        let Some(kind) = self.kind(request) else { return Ok(None) };
        in_namespace?;
        self.meets_conditions(request, &kind, object, old).map(|met| met.then_some(kind))
    }

    /// The kind that a rule names: that of the request, or with the policy `Equivalent` another version of it.
    fn kind(&self, request: &Attributes<'_>) -> Option<Arc<Kind>> {
        let has_rule = |kind: &Kind| {
            self.value["rules"].as_array().into_iter().flatten().any(|rule| is_about(rule, kind, request))
        };
        if has_rule(request.kind) {
            return Some(Arc::clone(request.kind));
        }
        // Versions of built-in kinds differ in more than their names.
        if self.text("matchPolicy") != "Equivalent" || request.kind.custom.is_none() {
            return None;
        }
        let kinds = request.cluster.kinds();
        let same = |kind: &&Arc<Kind>| kind.group == request.kind.group && kind.resource == request.kind.resource;
        kinds.iter().filter(same).find(|kind| has_rule(kind)).cloned()
    }

    fn selects_object(&self, object: &Value, old: &Value) -> bool {
        let selector = LabelSelector(&self.value["objectSelector"]);
        let selected = |object: &&Value| object.is_object() && selector.matches(&object["metadata"]["labels"]);
        selector.is_empty() || [object, old].iter().any(selected)
    }

    fn selects_namespace(&self, request: &Attributes<'_>, object: &Value) -> Result<bool, StatusError> {
        let selector = LabelSelector(&self.value["namespaceSelector"]);
        let name = request.namespace.as_str();
        if name.is_empty() || selector.is_empty() {
            return Ok(true);
        }
        if request.kind.is_namespace() && request.subresource.is_empty() && request.operation != Operation::Delete {
            return Ok(selector.matches(&object["metadata"]["labels"]));
        }
        let Some(namespaces) = request.cluster.kind("", "v1", "namespaces") else { return Ok(true) };
        let namespace = namespaces.table.get(name).ok_or_else(|| StatusError::not_found(&namespaces, name))?;
        Ok(selector.matches(&namespace.value()["metadata"]["labels"]))
    }

    fn meets_conditions(
        &self,
        request: &Attributes<'_>,
        kind: &Arc<Kind>,
        object: &Value,
        old: &Value,
    ) -> Result<bool, StatusError> {
        let conditions = &self.value["matchConditions"];
        if conditions.as_array().is_none_or(Vec::is_empty) {
            return Ok(true);
        }
        let [object, old] = [object, old].map(|object| as_kind(object, kind));
        match match_conditions::are_met(conditions, &object, &old, &request.review(kind)) {
            Ok(met) => Ok(met),
            Err(_) if self.ignores_failures() => Ok(false),
            Err(why) => Err(refused(request.kind, &request.name, why)),
        }
    }

    /// Where the webhook is: the address, which errors name, and the authority that signs its certificate.
    pub(super) fn location(&self, cluster: &Cluster) -> Result<super::client::Location, String> {
        super::client::Location::of(&self.value["clientConfig"], self.timeout(), cluster)
    }

    /// An attempt to change what a deletion deletes.
    pub(super) fn modifies_nothing(&self) -> StatusError {
        StatusError::internal_error(&format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            self.name()
        ))
    }
}

/// The object in a version of its kind. All versions of a custom kind have the same content.
pub(super) fn as_kind(object: &Value, kind: &Kind) -> Value {
    let mut object = object.clone();
    if object.is_object() {
        object["apiVersion"] = kind.api_version().into();
    }
    object
}

/// Returns whether a rule is about a request, if its object is of this kind.
fn is_about(rule: &Value, kind: &Kind, request: &Attributes<'_>) -> bool {
    let lists = |key: &str, found: &str| {
        let mut listed = rule[key].as_array().into_iter().flatten();
        listed.any(|one| one == "*" || one == found)
    };
    let in_scope = match rule["scope"].as_str() {
        Some("Namespaced") => !kind.is_namespace() && !request.namespace.is_empty(),
        Some("Cluster") => kind.is_namespace() || request.namespace.is_empty(),
        _ => true,
    };
    let is_resource = |one: &Value| {
        let one = one.as_str().unwrap_or_default();
        let (resource, subresource) = one.split_once('/').unwrap_or((one, ""));
        (resource == "*" || resource == kind.resource) && (subresource == "*" || subresource == request.subresource)
    };
    in_scope
        && lists("operations", request.operation.name())
        && lists("apiGroups", &kind.group)
        && lists("apiVersions", &kind.version)
        && rule["resources"].as_array().into_iter().flatten().any(is_resource)
}
