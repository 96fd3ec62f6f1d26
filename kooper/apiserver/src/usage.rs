//! Usage: what an object counts for in the quotas of its namespace.

use serde_json::Value;

use crate::amounts::{Amounts, of_pod};
use crate::kinds::Kind;
use crate::quantity::Quantity;
use crate::{meta, time};

/// What pods are counted by, beside their number and what has a prefix.
const OF_PODS: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
const OF_SERVICES: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// Between the name of a storage class and what is counted for it.
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";

/// A kind of which objects are counted in more than one way.
fn is(kind: &Kind, name: &str) -> bool {
    kind.custom.is_none() && kind.group.is_empty() && kind.kind == name
}

/// Whether quotas count objects of a kind at all.
pub(crate) fn is_counted(kind: &Kind) -> bool {
    kind.namespaced && (kind.custom.is_some() || kind.kind != "Event")
}

/// The name under which the objects of a kind are counted.
fn count_of(kind: &Kind) -> String {
    let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    format!("count/{}{group}", kind.resource)
}

/// The older name under which the objects of a kind are counted.
fn alias_of(kind: &Kind) -> Option<&str> {
    let known = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
    (kind.custom.is_none() && kind.group.is_empty() && known.contains(&kind.resource.as_str()))
        .then_some(kind.resource.as_str())
}

/// Whether objects of a kind count for what a quota names so.
pub(crate) fn counts_for(kind: &Kind, name: &str) -> bool {
    if is(kind, "Pod") {
        let extended = name.strip_prefix("requests.").is_some_and(|rest| rest.contains('/'));
        let huge = name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-");
        return OF_PODS.contains(&name) || extended || huge || name == "count/pods";
    }
    if is(kind, "Service") {
        return OF_SERVICES.contains(&name) || name == "count/services";
    }
    if is(kind, "PersistentVolumeClaim") {
        let measured = name.split_once(BY_CLASS).map_or(name, |(_, rest)| rest);
        return OF_CLAIMS.contains(&measured) || name == "count/persistentvolumeclaims";
    }
    name == count_of(kind) || alias_of(kind) == Some(name)
}

/// What an object counts for.
pub(crate) fn of(kind: &Kind, object: &Value) -> Amounts {
    let mut used = Amounts::default();
    let one = Quantity::whole(1);
    used.set(count_of(kind), one);
    if let Some(alias) = alias_of(kind) {
        used.set(alias, one);
    }
    let spec = &object["spec"];
    if is(kind, "Pod") && !has_ended(object) {
        let (mut requests, mut limits) = (of_pod(object, "requests"), of_pod(object, "limits"));
        let overhead = Amounts::read(&spec["overhead"]);
        requests.add(&overhead);
        limits.add(&overhead.only(|name| limits.get(name).is_some_and(|limit| !limit.is_zero())));
        used.add(&of_resources(&requests, &limits));
    } else if is(kind, "Service") {
        let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
        let chosen = ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count();
        let (balancers, ports) = match spec["type"].as_str() {
            Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => (1, chosen),
            Some("LoadBalancer") => (1, ports.len()),
            Some("NodePort") => (0, ports.len()),
            _ => (0, 0),
        };
        used.set("services", one);
        used.set("services.loadbalancers", Quantity::whole(balancers));
        used.set("services.nodeports", Quantity::whole(ports as u64));
    } else if is(kind, "PersistentVolumeClaim") {
        let annotated = object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
        let class = annotated.or_else(|| spec["storageClassName"].as_str()).filter(|class| !class.is_empty());
        let storage = Amounts::read(&spec["resources"]["requests"]).get("storage");
        for (name, amount) in [("persistentvolumeclaims", Some(one)), ("requests.storage", storage)] {
            let Some(amount) = amount else { continue };
            used.set(name, amount);
            if let Some(class) = class {
                used.set(format!("{class}{BY_CLASS}{name}"), amount);
            }
        }
    }
    used
}

/// What requests and limits of a pod or a container count for.
fn of_resources(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::default();
    used.set("pods", Quantity::whole(1));
    for (name, amount) in requests.iter() {
        let plain = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if plain {
            used.set(name, amount);
        }
        if plain || name.contains('/') {
            used.set(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| matches!(*name, "cpu" | "memory" | "ephemeral-storage")) {
        used.set(format!("limits.{name}"), amount);
    }
    used
}

/// A pod that runs no longer, or is deleted and should not.
fn has_ended(pod: &Value) -> bool {
    let marked = meta::text(pod, "deletionTimestamp");
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64();
    let overdue = grace
        .zip(time::seconds(marked))
        .is_some_and(|(grace, marked)| time::seconds(&time::now()).is_some_and(|now| now > marked + grace));
    overdue || matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// The compute resources that every container of a pod has to name where a quota limits them.
pub(crate) fn missing(kind: &Kind, pod: &Value, limited: &[&str]) -> Option<String> {
    const NAMED: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
    if !is(kind, "Pod") {
        return None;
    }
    let spec = &pod["spec"];
    if ["requests", "limits"].iter().any(|list| {
        let amounts = Amounts::read(&spec["resources"][list]);
        amounts.names().any(|name| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-"))
    }) {
        return None;
    }
    let lists = ["containers", "initContainers"];
    let containers = || lists.iter().flat_map(|list| spec[list].as_array().into_iter().flatten());
    let missing = NAMED.iter().filter(|name| limited.contains(name)).filter_map(|name| {
        let lacking = containers().filter(|container| {
            let amounts = |list: &str| Amounts::read(&container["resources"][list]);
            of_resources(&amounts("requests"), &amounts("limits")).get(name).is_none()
        });
        let mut lacking: Vec<_> = lacking.filter_map(|container| container["name"].as_str()).collect();
        lacking.sort_unstable();
        lacking.dedup();
        (!lacking.is_empty()).then(|| format!("{name} for: {}", lacking.join(",")))
    });
    let missing: Vec<_> = missing.collect();
    (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
}

/// A pod with a deadline.
pub(crate) fn is_terminating(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

/// Whether an object is in all scopes of a quota.
pub(crate) fn is_in_scope(kind: &Kind, object: &Value, quota: &Value) -> bool {
    let spec = &quota["spec"];
    let scopes = spec["scopes"].as_array().into_iter().flatten();
    let mut scopes = scopes.map(|scope| (scope.as_str().unwrap_or_default(), "Exists", &Value::Null));
    let selected = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    let mut selected = selected.map(|expression| {
        let text = |key: &str| expression[key].as_str().unwrap_or_default();
        (text("scopeName"), text("operator"), &expression["values"])
    });
    let within =
        |(scope, operator, values): (&str, &str, &Value)| is(kind, "Pod") && pod_is_in(object, scope, operator, values);
    scopes.all(within) && selected.all(within)
}

fn pod_is_in(pod: &Value, scope: &str, operator: &str, values: &Value) -> bool {
    let spec = &pod["spec"];
    match scope {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => pod["status"]["qosClass"] == "BestEffort",
        "NotBestEffort" => pod["status"]["qosClass"] != "BestEffort",
        "PriorityClass" => {
            let class = spec["priorityClassName"].as_str().filter(|class| !class.is_empty());
            let named = values.as_array().into_iter().flatten().any(|value| value.as_str() == class);
            match operator {
                "Exists" => class.is_some(),
                "DoesNotExist" => class.is_none(),
                "In" => class.is_some() && named,
                "NotIn" => class.is_none() || !named,
                _ => false,
            }
        }
        "CrossNamespacePodAffinity" => ["podAffinity", "podAntiAffinity"].iter().any(|key| {
            let affinity = &spec["affinity"][key];
            let terms = |list: &str| affinity[list].as_array().into_iter().flatten();
            let required = terms("requiredDuringSchedulingIgnoredDuringExecution");
            let preferred = terms("preferredDuringSchedulingIgnoredDuringExecution");
            required.chain(preferred.map(|term| &term["podAffinityTerm"])).any(|term| {
                term["namespaces"].as_array().is_some_and(|names| !names.is_empty())
                    || term["namespaceSelector"].is_object()
            })
        }),
        _ => false,
    }
}
