//! The content of a configuration.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kooper_grammar::selector::{Comparator, Selector};
use kooper_runtime::internal::object::kind::KindInfo;
use kube::Client;
use kube::api::Api;
use kube::core::{ApiResource, DynamicObject};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Registration, probe};
use crate::certificates::Certificates;
use crate::webhook::{FailurePolicy, Matching, Rules, Webhook, is_of_kubernetes, is_selected_by_namespace};

const GROUP: &str = "admissionregistration.k8s.io/v1";

/// The namespaces that a cluster needs to start: no webhook on a kind of Kubernetes is called
/// for them.
const SYSTEM: [&str; 2] = ["kube-system", "kube-node-lease"];

/// The labels by which AKS excludes its own namespaces: it adds expressions with them to the selectors of all webhooks, and
/// would add them again at once if they were removed.
const OF_CLOUDS: [&str; 2] = ["control-plane", "kubernetes.azure.com/managedby"];

/// Users can keep an object that is being deleted by a finalizer of their own, and change it: only updates of its status,
/// and of metadata other than labels and annotations, are not checked. Nor is the annotation by which Kooper keeps the
/// children of an orphaning deletion, which must not fail.
pub(super) const NOT_TERMINATING: &str = "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp) || \
    object.metadata.?labels != oldObject.metadata.?labels || \
    [object, oldObject].exists(either, either.metadata.?annotations.orValue({}).exists(name, \
    name != 'kooper.rs/orphan' && object.metadata.?annotations[?name] != oldObject.metadata.?annotations[?name])) || \
    oldObject.exists(field, !(field in object)) || object.exists(field, !(field in ['metadata', 'status'] || \
    field in oldObject && object[field] == oldObject[field]))";

/// Where API servers reach the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A Service of the program's namespace.
    Service { name: String, port: u16 },
    /// An address outside of the cluster.
    Url(String),
}

impl Target {
    /// The names that the server's certificate is for, of a program in this namespace.
    pub(crate) fn names(&self, namespace: &str) -> Vec<String> {
        match self {
            Self::Service { name, .. } => vec![format!("{name}.{namespace}.svc")],
            Self::Url(url) => {
                let host = url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
                vec![host.unwrap_or_default().trim_matches(['[', ']']).to_owned()]
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { name, port } => write!(f, "the Service `{name}`, port {port}"),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// One of the two configurations of a program.
#[derive(Debug)]
pub(crate) struct Configuration<'a> {
    pub(crate) registration: &'a Registration,
    pub(crate) mutates: bool,
    pub(crate) rolled_out: bool,
    pub(crate) owner: Option<Value>,
}

impl<'a> Configuration<'a> {
    pub(crate) fn name(&self) -> String {
        self.registration.configuration_name()
    }

    /// The API of its kind.
    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        let resource = if self.mutates {
            ApiResource::erase::<MutatingWebhookConfiguration>(&())
        } else {
            ApiResource::erase::<ValidatingWebhookConfiguration>(&())
        };
        Api::all_with(client.clone(), &resource)
    }

    fn webhooks(&self) -> impl Iterator<Item = &'a Arc<Webhook>> {
        let mutates = self.mutates;
        self.registration.webhooks.iter().filter(move |webhook| webhook.rules.mutates == mutates)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.webhooks().next().is_none()
    }

    /// Ignores the entries that others have added.
    pub(super) fn forget_others(&self, live: &mut Value) {
        let ending = format!(".{}", self.domain());
        let is_own = |entry: &Value| entry["name"].as_str().is_some_and(|name| name.ends_with(&ending));
        live.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().for_each(|entries| entries.retain(is_own));
    }

    /// Returns whether it has entries of functions that this version does not have, or has at another path.
    pub(crate) fn has_unknown(&self, live: &Value) -> bool {
        let probe = probe::webhook(self.mutates);
        let is_known = |entry: &Value| {
            self.webhooks().map(|webhook| &**webhook).chain([&probe]).any(|webhook| self.is_of(entry, webhook))
        };
        !entries(live).all(is_known)
    }

    /// Returns whether it has entries of functions, of any version.
    pub(crate) fn has_functions(&self, live: &Value) -> bool {
        entries(live).any(|entry| entry["name"].as_str().is_some_and(|name| !self.is_probe(name)))
    }

    /// Returns whether an entry calls this function: replicas without it, or with it at another path, answer with 404.
    fn is_of(&self, entry: &Value, webhook: &Webhook) -> bool {
        let (path, client) = (webhook.path(), &entry["clientConfig"]);
        let is_at = client["service"]["path"] == path || client["url"].as_str().is_some_and(|url| url.ends_with(&path));
        entry["name"] == self.entry_name(&webhook.rules) && is_at
    }

    /// The names of the entries whose policy is `Fail` once the server was reached.
    pub(crate) fn to_fail(&self) -> BTreeSet<String> {
        let fails =
            |webhook: &&Arc<Webhook>| webhook.rules.failure == FailurePolicy::Fail && !self.registration.ignores;
        let failing = self.webhooks().filter(fails);
        failing.map(|webhook| self.entry_name(&webhook.rules)).collect()
    }

    pub(crate) fn is_probe(&self, name: &str) -> bool {
        name == self.entry_name(&probe::webhook(self.mutates).rules)
    }

    /// The configuration, where the entries in `armed` have the policy `Fail`. While not all
    /// replicas are of one version, functions that are not registered yet stay so, and others are called only for what
    /// they were called for before, as far as this version expects it.
    pub(crate) fn desired(&self, bundle: &str, armed: &BTreeSet<String>, live: &Value) -> Value {
        let to_fail = self.to_fail();
        let mut listed: Vec<Value> = Vec::new();
        for webhook in self.webhooks() {
            let name = self.entry_name(&webhook.rules);
            let fails = to_fail.contains(&name) && armed.contains(&name);
            let mut entry = self.entry(&name, webhook, bundle, fails);
            let registered = entries(live).find(|entry| self.is_of(entry, webhook));
            if self.rolled_out || registered.is_some_and(|live| narrow(&mut entry["rules"][0], &live["rules"][0])) {
                listed.push(entry);
            }
        }
        if !self.is_empty() {
            listed.push(self.probe(bundle));
        }
        let kind = if self.mutates { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
        let mut metadata = json!({"name": self.name(), "labels": {"app.kubernetes.io/managed-by": "kooper"}});
        if let Some(owner) = &self.owner {
            metadata["ownerReferences"] = json!([owner]);
        }
        if let Certificates::Injected { from, .. } = &self.registration.shared.certificates {
            metadata["annotations"] = json!({"cert-manager.io/inject-ca-from": from});
        }
        json!({"apiVersion": GROUP, "kind": kind, "metadata": metadata, "webhooks": listed})
    }

    /// A domain name, as the API server requires.
    pub(super) fn entry_name(&self, rules: &Rules) -> String {
        format!("{}.{}", rules.name.replace('_', "-"), self.domain())
    }

    /// The end of the names of all entries of the program.
    fn domain(&self) -> String {
        format!("{}.kooper.rs", self.registration.installation.program)
    }

    fn entry(&self, name: &str, webhook: &Webhook, bundle: &str, fails: bool) -> Value {
        let Rules { kind, operations, timeout, matching, .. } = &webhook.rules;
        let mut entry = self.common(name, webhook, bundle);
        let subresources = matching.subresources.iter().map(|one| format!("{}/{one}", kind.plural));
        let resources: Vec<_> = std::iter::once(kind.plural.clone()).chain(subresources).collect();
        entry["rules"] = json!([{
            "apiGroups": [kind.group], "apiVersions": [kind.version], "resources": resources,
            "operations": operations, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        }]);
        entry["failurePolicy"] = if fails { "Fail" } else { "Ignore" }.into();
        entry["timeoutSeconds"] = timeout.as_secs().into();
        entry["matchConditions"] = match &matching.conditions {
            Some(conditions) => conditions.iter().map(|(name, text)| condition(name, text)).collect(),
            None => usual_conditions(kind, matching),
        };
        entry["namespaceSelector"] = self.namespace_selector(kind, matching);
        entry
    }

    /// The entry of the probe.
    fn probe(&self, bundle: &str) -> Value {
        let Registration { namespace, lease, .. } = self.registration;
        let webhook = probe::webhook(self.mutates);
        let mut entry = self.common(&self.entry_name(&webhook.rules), &webhook, bundle);
        entry["rules"] = json!([{
            "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "resources": ["leases"],
            "operations": ["UPDATE"], "scope": "Namespaced",
        }]);
        entry["failurePolicy"] = "Ignore".into();
        entry["timeoutSeconds"] = 1.into();
        entry["namespaceSelector"] = json!({"matchExpressions": [named("In", &[namespace])]});
        let expression = format!("has(request.dryRun) && request.dryRun && request.name == '{lease}'");
        entry["matchConditions"] = json!([condition("probe", &expression)]);
        entry
    }

    fn common(&self, name: &str, webhook: &Webhook, bundle: &str) -> Value {
        let path = webhook.path();
        let mut config = match &self.registration.target {
            Target::Service { name, port } => json!({
                "service": {"name": name, "namespace": self.registration.namespace, "path": path, "port": port},
            }),
            Target::Url(url) => json!({"url": format!("{}{path}", url.trim_end_matches('/'))}),
        };
        if !bundle.is_empty() {
            config["caBundle"] = STANDARD.encode(bundle).into();
        }
        let side_effects = if webhook.rules.has_side_effects { "NoneOnDryRun" } else { "None" };
        let mut entry = json!({
            "name": name, "admissionReviewVersions": ["v1"], "clientConfig": config, "sideEffects": side_effects,
            "matchPolicy": "Equivalent",
        });
        if self.mutates {
            entry["reinvocationPolicy"] = "Never".into();
        }
        entry
    }

    /// For objects of Kubernetes not those namespaces without which neither the cluster nor the
    /// program starts, unless others were selected; for others the namespaces of the controllers. It is never left out:
    /// that of another version, or of other flags, would stay.
    fn namespace_selector(&self, kind: &KindInfo, matching: &Matching) -> Value {
        let Registration { namespace, namespaces, is_local, .. } = self.registration;
        let selected = matching.namespaces.iter().flat_map(Selector::requirements);
        let mut expressions: Vec<_> =
            selected.map(|one| expression(one.key(), operator(one.operator()), one.values())).collect();
        let is_foreign = is_of_kubernetes(kind) && !is_local;
        if is_selected_by_namespace(kind) && is_foreign && matching.namespaces.is_none() {
            let [one, other] = SYSTEM;
            expressions.push(named("NotIn", &[one, other, namespace]));
        } else if kind.namespaced && !is_foreign && !namespaces.is_empty() {
            expressions.push(named("In", namespaces));
        }
        json!({"matchExpressions": expressions})
    }
}

/// An expression about the names of namespaces.
fn named(operator: &str, names: &[impl Serialize]) -> Value {
    expression("kubernetes.io/metadata.name", operator, names)
}

fn expression(key: &str, operator: &str, values: &[impl Serialize]) -> Value {
    let mut expression = json!({"key": key, "operator": operator});
    if !values.is_empty() {
        expression["values"] = json!(values);
    }
    expression
}

/// A comparison with its name in Kubernetes.
fn operator(comparator: Comparator) -> &'static str {
    match comparator {
        Comparator::NotIn => "NotIn",
        Comparator::Exists => "Exists",
        Comparator::DoesNotExist => "DoesNotExist",
        // Numbers were refused when the webhook was built.
        Comparator::In | Comparator::GreaterThan | Comparator::LessThan => "In",
    }
}

fn condition(name: &str, expression: &str) -> Value {
    json!({"name": name, "expression": expression})
}

/// No webhook is called for the removal of a finalizer from an object that is being deleted, which it could keep for
/// ever; nor for an update that changes nothing that a user states. Kinds of Kubernetes, and those without a `spec`,
/// state other fields, and a subresource is written for something else.
fn usual_conditions(kind: &KindInfo, matching: &Matching) -> Value {
    let mut conditions = vec![condition("not-terminating", NOT_TERMINATING)];
    if !is_of_kubernetes(kind) {
        let subresource = if matching.subresources.is_empty() { "" } else { "has(request.subResource) || " };
        let differs = ["?spec", "metadata.?labels", "metadata.?annotations"]
            .map(|field| format!("object.{field} != oldObject.{field}"));
        let always = format!("{subresource}request.operation != 'UPDATE' || !has(object.spec)");
        let expression = format!("{always} || {}", differs.join(" || "));
        conditions.push(condition("changed", &expression));
    }
    conditions.into()
}

/// Keeps of a rule what the live one has, too. Returns `false` if nothing is left.
fn narrow(rule: &mut Value, live: &Value) -> bool {
    ["operations", "resources"].into_iter().all(|field| {
        let Some(own) = rule[field].as_array_mut() else { return false };
        own.retain(|one| live[field].as_array().is_some_and(|live| live.contains(one)));
        !own.is_empty()
    })
}

pub(super) fn entries(live: &Value) -> impl Iterator<Item = &Value> + Clone {
    live["webhooks"].as_array().into_iter().flatten()
}

fn conditions(entry: &Value) -> impl Iterator<Item = &Value> {
    entry["matchConditions"].as_array().into_iter().flatten()
}

/// The parts that an apply would keep because they belong to others, too, such as to the client that has restored a
/// backup: entries that are not desired, and conditions of the others. A strategic merge patch of these entries deletes
/// them.
pub(super) fn surplus(desired: &Value, live: &Value) -> Vec<Value> {
    let deleted = |item: &Value| json!({"name": item["name"], "$patch": "delete"});
    let surplus = entries(live).filter_map(|entry| {
        let Some(desired) = entries(desired).find(|one| one["name"] == entry["name"]) else {
            return Some(deleted(entry));
        };
        let is_desired = |one: &Value| conditions(desired).any(|desired| desired["name"] == one["name"]);
        let surplus: Vec<_> = conditions(entry).filter(|one| !is_desired(one)).map(deleted).collect();
        (!surplus.is_empty()).then(|| json!({"name": entry["name"], "matchConditions": surplus}))
    });
    surplus.collect()
}

/// The names of the entries that have the policy `Fail`.
pub(crate) fn armed(live: &Value) -> BTreeSet<String> {
    let armed = entries(live).filter(|entry| entry["failurePolicy"] == "Fail");
    armed.filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect()
}

/// Returns whether all entries have an authority: that of a new one is injected later than that of the probe.
pub(super) fn are_trusted(live: &Value) -> bool {
    entries(live).all(|entry| entry["clientConfig"]["caBundle"].as_str().is_some_and(|bundle| !bundle.is_empty()))
}

/// The bundle that every entry of the configurations has; empty if they differ, or there is none.
pub(crate) fn published(live: [&Value; 2]) -> String {
    let bundles: BTreeSet<_> = live
        .into_iter()
        .flat_map(entries)
        .map(|entry| &entry["clientConfig"]["caBundle"])
        .map(ToString::to_string)
        .collect();
    let mut bundles = bundles.into_iter();
    let (Some(only), None) = (bundles.next(), bundles.next()) else { return String::new() };
    decoded(only.trim_matches('"'))
}

/// The bundle of a configuration, whose entries are written with the same one.
pub(crate) fn bundle(live: &Value) -> String {
    decoded(live["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default())
}

fn decoded(bundle: &str) -> String {
    String::from_utf8(STANDARD.decode(bundle).unwrap_or_default()).unwrap_or_default()
}

/// Returns whether a configuration has all that is desired, and no other entry.
pub(crate) fn is_as_desired(desired: &Value, live: &Value) -> bool {
    entries(desired).count() == entries(live).count() && has(desired, live)
}

/// Returns whether a value has all fields of another one, as the server adds some, and a cloud some expressions.
pub(super) fn has(desired: &Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            desired.iter().all(|(field, desired)| match live.get(field) {
                Some(live) => has(desired, live),
                // The server omits an empty list.
                None => desired.as_array().is_some_and(Vec::is_empty),
            })
        }
        (Value::Array(desired), Value::Array(live)) => {
            let is_of_cloud = |one: &Value| OF_CLOUDS.iter().any(|key| one["key"] == **key) && !desired.contains(one);
            let live: Vec<_> = live.iter().filter(|one| !is_of_cloud(one)).collect();
            desired.len() == live.len() && desired.iter().zip(live).all(|(desired, live)| has(desired, live))
        }
        (desired, live) => desired == live,
    }
}
