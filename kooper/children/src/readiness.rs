//! Readiness of objects, by their kind.
//!
//! Functions of the object's JSON alone: the same object always has the same judgement. An object that is being
//! deleted is never ready.

mod workloads;

use serde_json::Value;

/// The readiness of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// It exists, and slots that depend on it need no more than that: a claim whose volume is bound once a pod of one
    /// of them is scheduled would otherwise be waited for by the pod that it waits for.
    Usable(String),
    /// It is not ready yet, for this reason.
    Waiting(String),
    /// It will not become ready by itself, for this reason.
    Failed(String),
}

impl Readiness {
    /// Returns whether it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready)
    }

    /// Returns whether slots that depend on the object need not wait for it.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        matches!(self, Self::Ready | Self::Usable(_))
    }

    fn ready_if(is_ready: bool, why: impl FnOnce() -> String) -> Self {
        if is_ready { Self::Ready } else { Self::Waiting(why()) }
    }
}

impl From<bool> for Readiness {
    fn from(is_ready: bool) -> Self {
        Self::ready_if(is_ready, || "its readiness function returns `false`".to_owned())
    }
}

/// Judges an object by the rules of its kind. `group` is the API group; that of the core kinds is empty.
#[must_use]
pub fn readiness(group: &str, kind: &str, object: &Value) -> Readiness {
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Readiness::Waiting("it is being deleted".to_owned());
    }
    match (group, kind) {
        ("apps", "Deployment") => workloads::deployment(object),
        ("apps", "StatefulSet") => workloads::stateful_set(object),
        ("apps", "DaemonSet") => workloads::daemon_set(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Service") => service(object),
        // The number of pods that may be evicted changes with the pods, which have slots of their own.
        ("policy", "PodDisruptionBudget") => unobserved(object).unwrap_or(Readiness::Ready),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let missing = ["NamesAccepted", "Established"].into_iter().find(|name| !is_true(object, name));
            Readiness::ready_if(missing.is_none(), || explained(object, missing.unwrap_or_default()))
        }
        ("", "Namespace") => phase(object, "Active"),
        _ if is_ready_once_it_exists(group, kind) => Readiness::Ready,
        _ => other(object),
    }
}

/// Returns whether objects of this kind have no state that is waited for.
pub(crate) fn is_ready_once_it_exists(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("", "ConfigMap" | "Secret" | "ServiceAccount" | "LimitRange" | "ResourceQuota")
            | ("rbac.authorization.k8s.io", _)
            | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
            | ("batch", "CronJob")
            | ("autoscaling", "HorizontalPodAutoscaler")
            | ("discovery.k8s.io", "EndpointSlice")
            | ("scheduling.k8s.io", "PriorityClass")
            | ("storage.k8s.io", "StorageClass")
    )
}

/// Returns why the status does not belong to the current spec, if it does not.
fn unobserved(object: &Value) -> Option<Readiness> {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
    let observed = object["status"]["observedGeneration"].as_i64();
    let is_observed = observed.is_some_and(|observed| observed >= generation);
    (!is_observed).then(|| Readiness::Waiting("its controller has not observed it yet".to_owned()))
}

fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

fn is_true(object: &Value, name: &str) -> bool {
    condition(object, name).is_some_and(|condition| condition["status"] == "True")
}

/// The name of a condition, with its message if it has one.
fn explained(object: &Value, name: &str) -> String {
    let condition = condition(object, name);
    let text = |field: &str| condition.and_then(|condition| condition[field].as_str()).filter(|text| !text.is_empty());
    match text("message").or_else(|| text("reason")) {
        Some(text) => format!("{name}: {text}"),
        None => format!("not {name} yet"),
    }
}

fn phase(object: &Value, wanted: &str) -> Readiness {
    let phase = object["status"]["phase"].as_str().unwrap_or("unknown");
    Readiness::ready_if(phase == wanted, || format!("its phase is {phase}"))
}

fn job(job: &Value) -> Readiness {
    if is_true(job, "Failed") {
        return Readiness::Failed(explained(job, "Failed"));
    }
    let count = |field: &str| job["status"][field].as_i64().unwrap_or_default();
    let completions = job["spec"]["completions"].as_i64().unwrap_or(1);
    Readiness::ready_if(is_true(job, "Complete"), || format!("{} of {completions} completed", count("succeeded")))
}

fn pod(pod: &Value) -> Readiness {
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => return Readiness::Ready,
        Some("Failed") => {
            let message = pod["status"]["message"].as_str().or(pod["status"]["reason"].as_str());
            return Readiness::Failed(message.map_or_else(|| "it has failed".to_owned(), str::to_owned));
        }
        _ => {}
    }
    let containers = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|field| pod["status"][field].as_array())
        .flatten();
    for container in containers {
        if container["state"]["waiting"]["reason"] == "CrashLoopBackOff" {
            let name = container["name"].as_str().unwrap_or_default();
            return Readiness::Failed(format!("its container {name} keeps crashing"));
        }
    }
    Readiness::ready_if(is_true(pod, "Ready"), || explained(pod, "Ready"))
}

fn claim(claim: &Value) -> Readiness {
    match claim["status"]["phase"].as_str() {
        Some("Bound") => Readiness::Ready,
        Some("Lost") => Readiness::Failed("its volume is lost".to_owned()),
        _ => Readiness::Usable("it has no volume yet".to_owned()),
    }
}

fn service(service: &Value) -> Readiness {
    let has_some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let has_address = has_some(&service["status"]["loadBalancer"]["ingress"])
        // No controller may serve one that its owner has given addresses.
        || has_some(&service["spec"]["externalIPs"]);
    let is_ready = service["spec"]["type"] != "LoadBalancer" || has_address;
    Readiness::ready_if(is_ready, || "its load balancer has no address yet".to_owned())
}

/// A kind without rules of its own: by the conditions of kstatus, if it has some.
fn other(object: &Value) -> Readiness {
    if is_true(object, "Stalled") {
        return Readiness::Failed(explained(object, "Stalled"));
    }
    if is_true(object, "Reconciling") {
        return Readiness::Waiting(explained(object, "Reconciling"));
    }
    // Not every kind has the field; one that is older than the spec says that the rest is, too.
    if !object["status"]["observedGeneration"].is_null()
        && let Some(waiting) = unobserved(object)
    {
        return waiting;
    }
    match condition(object, "Ready") {
        Some(ready) => {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
            let is_old = ready["observedGeneration"].as_i64().is_some_and(|observed| observed < generation);
            if is_old {
                return Readiness::Waiting("its controller has not observed it yet".to_owned());
            }
            Readiness::ready_if(ready["status"] == "True", || explained(object, "Ready"))
        }
        None => {
            Readiness::Waiting("it has no condition `Ready` yet; write `ready = fn` if its kind has none".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
