//! The plugin `LimitRanger`: what containers, pods and claims may request in a namespace, and what they request where
//! they name nothing.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{in_namespace, not_admitted};
use crate::amounts::{Amounts, of_pod};
use crate::cause::{aggregate, distinct};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::meta;
use crate::quantity::Quantity;
use crate::status::StatusError;

/// Annotation that lists the defaults set by the plugin.
const NOTE: &str = "kubernetes.io/limit-ranger";

fn ranges(cluster: &Arc<Cluster>, object: &Value) -> Vec<Value> {
    in_namespace(cluster, "limitranges", meta::text(object, "namespace"))
}

/// The limits of a range for a type: `Container`, `Pod` or `PersistentVolumeClaim`.
fn limits<'a>(range: &'a Value, of: &'a str) -> impl Iterator<Item = &'a Value> {
    range["spec"]["limits"].as_array().into_iter().flatten().filter(move |limit| limit["type"] == of)
}

/// Gives the containers of a new pod the resources that the ranges of its namespace have for them.
pub(super) fn complete(cluster: &Arc<Cluster>, pod: &mut Value) {
    for range in ranges(cluster, pod) {
        let defaults = |key: &str| {
            let mut all = Amounts::default();
            for (name, amount) in limits(&range, "Container").flat_map(|limit| entries(&limit[key])) {
                all.set(name, amount);
            }
            all
        };
        let defaults = [("requests", "request", defaults("defaultRequest")), ("limits", "limit", defaults("default"))];
        let mut notes = Vec::new();
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                for (key, noun, defaults) in &defaults {
                    let added = fill(&mut container["resources"], key, defaults);
                    if !added.is_empty() {
                        let name = container["name"].as_str().unwrap_or_default();
                        notes.push(format!("{} {noun} for {what} {name}", added.join(", ")));
                    }
                }
            }
        }
        if !notes.is_empty() {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            let annotations = meta::of(pod).entry("annotations").or_insert_with(|| json!({}));
            annotations[NOTE] = json!(note);
        }
    }
}

/// Adds the amounts that a container lacks, and returns their names.
fn fill(resources: &mut Value, key: &str, defaults: &Amounts) -> Vec<String> {
    let mut added = Vec::new();
    for (name, amount) in defaults.iter() {
        if resources[key].get(name).is_none() {
            resources[key][name] = json!(amount.to_string());
            added.push(name.to_owned());
        }
    }
    added
}

/// Refuses a pod or a claim that is outside of the ranges of its namespace.
pub(super) fn check(cluster: &Arc<Cluster>, kind: &Kind, object: &Value) -> Result<(), StatusError> {
    for range in ranges(cluster, object) {
        let mut found: Vec<String> = Vec::new();
        if kind.kind == "Pod" {
            for limit in limits(&range, "Container") {
                for list in ["containers", "initContainers"] {
                    for container in object["spec"][list].as_array().into_iter().flatten() {
                        let amounts = |key: &str| Amounts::read(&container["resources"][key]);
                        violations(limit, "Container", &amounts("requests"), Some(&amounts("limits")), &mut found);
                    }
                }
            }
            for limit in limits(&range, "Pod") {
                violations(limit, "Pod", &of_pod(object, "requests"), Some(&of_pod(object, "limits")), &mut found);
            }
        } else {
            let requests = Amounts::read(&object["spec"]["resources"]["requests"]);
            for limit in limits(&range, "PersistentVolumeClaim") {
                violations(limit, "PersistentVolumeClaim", &requests, None, &mut found);
            }
        }
        if !found.is_empty() {
            return Err(not_admitted(kind, object, aggregate(&distinct(found))));
        }
    }
    Ok(())
}

fn entries(amounts: &Value) -> Vec<(String, Quantity)> {
    Amounts::read(amounts).iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// A bound, and what is held against it.
#[derive(Clone, Copy)]
struct Bound {
    amount: Quantity,
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl Bound {
    /// Returns the end of the error message if the request is missing, or if the request or the
    /// limit is below the bound.
    fn at_least(self) -> Option<String> {
        match (self.request, self.limit) {
            (None, _) => Some(".  No request is specified".to_owned()),
            (Some(request), _) if self.amount.exceeds(request) => Some(format!(", but request is {request}")),
            (_, Some(limit)) if self.amount.exceeds(limit) => Some(format!(", but limit is {limit}")),
            _ => None,
        }
    }

    /// Returns the end of the error message if the limit is missing, or if the limit or the request
    /// is above the bound.
    fn at_most(self) -> Option<String> {
        match (self.request, self.limit) {
            (_, None) => Some(".  No limit is specified".to_owned()),
            (_, Some(limit)) if limit.exceeds(self.amount) => Some(format!(", but limit is {limit}")),
            (Some(request), _) if request.exceeds(self.amount) => Some(format!(", but request is {request}")),
            _ => None,
        }
    }

    /// Returns the end of the error message if the request is missing or above the bound. Claims
    /// have no limits.
    fn requests_at_most(self) -> Option<String> {
        match self.request {
            None => Some(".  No request is specified".to_owned()),
            Some(request) => request.exceeds(self.amount).then(|| format!(", but request is {request}")),
        }
    }

    /// Returns the end of the error message if the ratio of limit to request exceeds the bound or
    /// is undefined.
    fn ratio_at_most(self) -> Option<String> {
        let given = |amount: Option<Quantity>| amount.filter(|amount| !amount.is_zero());
        let Some(request) = given(self.request) else {
            return Some(", but no request is specified or request is 0".to_owned());
        };
        let Some(limit) = given(self.limit) else {
            return Some(", but no limit is specified or limit is 0".to_owned());
        };
        let ratio = limit.millis() as f64 / request.millis() as f64;
        (ratio * 1000.0 > self.amount.millis() as f64).then(|| format!(", but provided ratio is {ratio:.6}"))
    }
}

/// The bounds that containers, pods or claims violate; claims have no limits.
fn violations(limit: &Value, of: &str, requests: &Amounts, limits: Option<&Amounts>, found: &mut Vec<String>) {
    let bound = |name: &str, amount| {
        let limit = limits.and_then(|limits| limits.get(name));
        Bound { amount, request: requests.get(name), limit }
    };
    let at_most = if limits.is_some() { Bound::at_most } else { Bound::requests_at_most };
    for (name, amount) in entries(&limit["min"]) {
        let why = bound(&name, amount).at_least();
        found.extend(why.map(|why| format!("minimum {name} usage per {of} is {amount}{why}")));
    }
    for (name, amount) in entries(&limit["max"]) {
        let why = at_most(bound(&name, amount));
        found.extend(why.map(|why| format!("maximum {name} usage per {of} is {amount}{why}")));
    }
    if limits.is_none() {
        return;
    }
    for (name, amount) in entries(&limit["maxLimitRequestRatio"]) {
        let why = bound(&name, amount).ratio_at_most();
        found.extend(why.map(|why| format!("{name} max limit to request ratio per {of} is {amount}{why}")));
    }
}
