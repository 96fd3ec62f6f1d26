//! The usage of a pod in the quotas of its namespace.

use serde_json::Value;

use crate::amounts::{Amounts, of_pod};
use crate::quantity::Quantity;
use crate::validate::resources;
use crate::{meta, time};

/// Quotas name pods, or what they use, so.
pub(super) fn is_counted(name: &str) -> bool {
    let extended = name.strip_prefix("requests.").is_some_and(|rest| rest.contains('/'));
    let huge = name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-");
    name == "pods" || resources::is_measured(name) || extended || huge
}

/// Adds what a pod uses until it has ended.
pub(super) fn add(pod: &Value, used: &mut Amounts) {
    if has_ended(pod) {
        return;
    }
    let (mut requests, mut limits) = (of_pod(pod, "requests"), of_pod(pod, "limits"));
    let overhead = Amounts::read(&pod["spec"]["overhead"]);
    requests.add(&overhead);
    limits.add(&overhead.only(|name| limits.get(name).is_some_and(|limit| !limit.is_zero())));
    used.add(&of_resources(&requests, &limits));
}

/// Returns the quota usage of the requests and limits of a pod or a container.
fn of_resources(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::default();
    used.set("pods", Quantity::whole(1));
    for (name, amount) in requests.iter() {
        let plain = resources::is_standard(name) || name.starts_with("hugepages-");
        if plain {
            used.set(name, amount);
        }
        if plain || name.contains('/') {
            used.set(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| resources::is_standard(name)) {
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
pub(super) fn unnamed(pod: &Value, limited: &[&str]) -> Option<String> {
    const NAMED: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
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
pub(super) fn is_terminating(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

/// A pod is in a scope.
pub(super) fn is_in_scope(pod: &Value, scope: &str, operator: &str, values: &Value) -> bool {
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
