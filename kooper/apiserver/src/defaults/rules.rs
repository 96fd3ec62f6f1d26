//! Defaults that are made from the value of another member.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::quantity::Quantity;

type Entries = Map<String, Value>;

const RBAC: &str = "rbac.authorization.k8s.io";
/// The version of a DaemonSet's template, which has no field any more.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Sets the fields that are filled in before the defaults of the table.
pub(super) fn before(name: &str, entries: &mut Entries) {
    match name {
        "io.k8s.api.core.v1.Container" | "io.k8s.api.core.v1.EphemeralContainer" => {
            pull_policy(entries, "image", "imagePullPolicy");
        }
        "io.k8s.api.core.v1.ImageVolumeSource" => pull_policy(entries, "reference", "pullPolicy"),
        "io.k8s.api.core.v1.PodSpec" => service_account(entries),
        "io.k8s.api.core.v1.Pod" => pod(entries),
        "io.k8s.api.core.v1.PodStatus" => pod_addresses(entries),
        "io.k8s.api.core.v1.ServicePort" => target_port(entries),
        "io.k8s.api.apps.v1.StatefulSetSpec" => {
            let claims = entries.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten() {
                claim["apiVersion"] = json!("v1");
                claim["kind"] = json!("PersistentVolumeClaim");
            }
        }
        "io.k8s.api.core.v1.NodeStatus" => copy(entries, "capacity", "allocatable"),
        "io.k8s.api.core.v1.LimitRangeItem" => limits(entries),
        "io.k8s.api.core.v1.ReplicationController" => {
            if let Some(labels) = template_labels(entries) {
                let spec = &mut entries["spec"];
                if spec["selector"].as_object().is_none_or(Map::is_empty) {
                    spec["selector"] = labels;
                }
            }
        }
        "io.k8s.api.rbac.v1.Subject" => {
            let named = matches!(entries.get("kind").and_then(Value::as_str), Some("User" | "Group"));
            if named && !entries.contains_key("apiGroup") {
                entries.insert("apiGroup".to_owned(), json!(RBAC));
            }
        }
        _ => {}
    }
}

/// Returns whether this is an update strategy of unknown type. Its parts have no defaults.
pub(super) fn is_unknown_strategy(name: &str, entries: &Entries) -> bool {
    let strategies = ["DaemonSetUpdateStrategy", "DeploymentStrategy", "StatefulSetUpdateStrategy"];
    let known = ["", "OnDelete", "Recreate", "RollingUpdate"];
    name.strip_prefix("io.k8s.api.apps.v1.").is_some_and(|name| strategies.contains(&name))
        && entries.get("type").and_then(Value::as_str).is_some_and(|given| !known.contains(&given))
}

/// Sets or removes the fields that depend on the defaults of the table.
pub(super) fn after(name: &str, entries: &mut Entries) {
    if name != "io.k8s.api.core.v1.ServiceSpec" {
        return;
    }
    let by_client = entries.get("sessionAffinity").is_some_and(|affinity| affinity == "ClientIP");
    let config = entries.get("sessionAffinityConfig");
    if !by_client {
        entries.remove("sessionAffinityConfig");
    } else if config.is_none_or(|config| config["clientIP"]["timeoutSeconds"].is_null()) {
        entries.insert("sessionAffinityConfig".to_owned(), json!({"clientIP": {"timeoutSeconds": 10_800}}));
    }
}

/// Sets the defaults that apply to a whole object with its metadata.
pub(super) fn of_object(name: &str, entries: &mut Entries) {
    let is_balanced = entries.get("spec").is_some_and(|spec| spec["type"] == "LoadBalancer");
    if name == "io.k8s.api.core.v1.Service" && is_balanced {
        let status = entries.get_mut("status");
        let points =
            status.and_then(|status| status.pointer_mut("/loadBalancer/ingress")).and_then(Value::as_array_mut);
        for point in points.into_iter().flatten().filter_map(Value::as_object_mut) {
            if point.contains_key("ip") {
                point.entry("ipMode").or_insert_with(|| json!("VIP"));
            }
        }
    }
    match name {
        "io.k8s.api.core.v1.Namespace" => name_label(entries),
        "io.k8s.api.core.v1.Secret" => encode_strings(entries),
        "io.k8s.api.apps.v1.DaemonSet" => template_generation(entries),
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition" => definition(entries),
        _ => {}
    }
    if !matches!(name, "io.k8s.api.batch.v1.Job" | "io.k8s.api.core.v1.ReplicationController") {
        return;
    }
    let Some(labels) = template_labels(entries) else { return };
    let metadata = entries.entry("metadata").or_insert_with(|| json!({}));
    if metadata["labels"].as_object().is_none_or(Map::is_empty) {
        metadata["labels"] = labels;
    }
}

/// A namespace has its name as a label.
fn name_label(entries: &mut Entries) {
    let Some(Value::Object(metadata)) = entries.get_mut("metadata") else { return };
    let Some(name) = metadata.get("name").filter(|name| name.is_string()).cloned() else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/metadata.name"] = name;
}

/// The strings of a secret become data.
fn encode_strings(secret: &mut Entries) {
    let Some(Value::Object(strings)) = secret.remove("stringData") else { return };
    if strings.is_empty() {
        return;
    }
    let data = secret.entry("data").or_insert_with(|| json!({}));
    for (key, text) in strings {
        data[key] = json!(STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

/// The annotation of a DaemonSet that stands for a field without a name.
fn template_generation(set: &mut Entries) {
    let metadata = set.entry("metadata").or_insert_with(|| json!({}));
    let annotations = &mut metadata["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    if annotations.get(TEMPLATE_GENERATION).is_none() {
        annotations[TEMPLATE_GENERATION] = json!("0");
    }
}

/// The names of a custom resource definition, and how its versions are converted.
fn definition(definition: &mut Entries) {
    let Some(spec) = definition.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let names = &mut spec["names"];
    if let Some(kind) = names["kind"].as_str().map(ToOwned::to_owned) {
        if !names["singular"].is_string() {
            names["singular"] = json!(kind.to_lowercase());
        }
        if !names["listKind"].is_string() && !kind.is_empty() {
            names["listKind"] = json!(format!("{kind}List"));
        }
    }
    if !spec["conversion"].is_object() {
        spec["conversion"] = json!({"strategy": "None"});
    }
}

/// The labels of the pod template, if it has any.
fn template_labels(entries: &Entries) -> Option<Value> {
    let labels = entries.get("spec")?.get("template")?.get("metadata")?.get("labels")?;
    labels.as_object().is_some_and(|labels| !labels.is_empty()).then(|| labels.clone())
}

/// Pods listen on the port of the Service, unless it names another one.
fn target_port(entries: &mut Entries) {
    if entries.get("targetPort").is_none_or(|target| *target == 0 || *target == "") {
        let port = entries.get("port").cloned().unwrap_or_else(|| json!(0));
        entries.insert("targetPort".to_owned(), port);
    }
}

fn copy(entries: &mut Entries, from: &str, to: &str) {
    if !entries.contains_key(to)
        && let Some(value) = entries.get(from).cloned()
    {
        entries.insert(to.to_owned(), value);
    }
}

/// Images without a tag, or with the tag `latest`, are always pulled.
fn pull_policy(entries: &mut Entries, image: &str, policy: &str) {
    if entries.contains_key(policy) {
        return;
    }
    let image = entries.get(image).and_then(Value::as_str).unwrap_or_default();
    let always = is_latest(image);
    entries.insert(policy.to_owned(), json!(if always { "Always" } else { "IfNotPresent" }));
}

/// Returns whether an image has the tag `latest`, or neither a tag nor a digest.
fn is_latest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    // An invalid image name has no tag.
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/' | b':' | b'@');
    let path = image.split(['@']).next().unwrap_or_default();
    let name = last.split([':', '@']).next().unwrap_or_default();
    if name.is_empty() || !image.bytes().all(known) || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return false;
    }
    if path != image {
        // With a digest, only a tag that is written counts.
        return path.rsplit('/').next().is_some_and(|last| last.ends_with(":latest"));
    }
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// `podIP` is the first of `podIPs`, and counts where they differ.
fn pod_addresses(status: &mut Entries) {
    let first = status.get("podIPs").and_then(|addresses| addresses[0].get("ip")).cloned();
    match status.get("podIP").filter(|address| address.as_str().is_some_and(|address| !address.is_empty())) {
        Some(address) if first.as_ref() != Some(address) => {
            let addresses = json!([{"ip": address}]);
            status.insert("podIPs".to_owned(), addresses);
        }
        Some(_) => {}
        None => {
            if let Some(first) = first {
                status.insert("podIP".to_owned(), first);
            }
        }
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`.
fn service_account(entries: &mut Entries) {
    let given = |key: &str| entries.get(key).filter(|name| name.as_str().is_some_and(|name| !name.is_empty())).cloned();
    if let Some(name) = given("serviceAccountName").or_else(|| given("serviceAccount")) {
        entries.insert("serviceAccountName".to_owned(), name.clone());
        entries.insert("serviceAccount".to_owned(), name);
    }
}

/// Sets the defaults that apply to pods but not to pod templates.
fn pod(entries: &mut Entries) {
    let Some(Value::Object(spec)) = entries.get_mut("spec") else { return };
    // A template of pods keeps what is negative.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(i64::is_negative) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
    }
    let host_network = spec.get("hostNetwork").is_some_and(|flag| *flag == true);
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            requests_from_limits(container);
            let ports = container.get_mut("ports").filter(|_| host_network).and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                if port["hostPort"].as_i64().unwrap_or(0) == 0 && port["containerPort"].is_number() {
                    port["hostPort"] = port["containerPort"].clone();
                }
            }
        }
    }
    pod_resources(spec);
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().filter(|limits| !limits.is_empty()).cloned() else {
        return;
    };
    let requests = &mut container["resources"]["requests"];
    if !requests.is_object() {
        *requests = json!({});
    }
    for (resource, limit) in limits {
        if requests.get(&resource).is_none() {
            requests[resource] = limit;
        }
    }
}

/// The requests of a pod that has limits: those of its containers, else the limits.
fn pod_resources(spec: &mut Entries) {
    let limits = spec.get("resources").and_then(|resources| resources["limits"].as_object()).cloned();
    let Some(limits) = limits.filter(|limits| !limits.is_empty()) else { return };
    let mut requests = spec["resources"]["requests"].as_object().cloned().unwrap_or_default();
    for resource in ["cpu", "memory"] {
        let sum = containers_request(spec, resource);
        if let Some(sum) = sum.filter(|_| !requests.contains_key(resource)) {
            requests.insert(resource.to_owned(), json!(sum.to_string()));
        }
    }
    for (resource, limit) in limits {
        let known = matches!(resource.as_str(), "cpu" | "memory") || resource.starts_with("hugepages-");
        if known && !requests.contains_key(&resource) {
            requests.insert(resource, limit);
        }
    }
    if !requests.is_empty() {
        spec["resources"]["requests"] = Value::Object(requests);
    }
}

/// Returns the total request of a pod's containers at startup or afterwards, whichever is larger.
fn containers_request(spec: &Entries, resource: &str) -> Option<Quantity> {
    let list = |name: &str| spec.get(name).and_then(Value::as_array).into_iter().flatten();
    let request = |container: &Value| {
        let amount = &container["resources"]["requests"][resource];
        let text = amount.as_str().map_or_else(|| amount.to_string(), ToOwned::to_owned);
        Quantity::parse(&text)
    };
    let mut found = false;
    let mut add = |sum: Quantity, container: &Value| match request(container) {
        Some(amount) => {
            found = true;
            sum.plus(amount)
        }
        None => sum,
    };
    let mut running = Quantity::ZERO;
    for container in list("containers") {
        running = add(running, container);
    }
    // Containers that restart run beside those that start after them.
    let (mut sidecars, mut start) = (Quantity::ZERO, Quantity::ZERO);
    for container in list("initContainers") {
        if container["restartPolicy"] == "Always" {
            sidecars = add(sidecars, container);
            start = start.max(sidecars);
        } else {
            start = start.max(add(sidecars, container));
        }
    }
    let most = running.plus(sidecars).max(start);
    found.then_some(most)
}

/// The limits of containers come from their maximum, and their requests from the limits or the minimum.
fn limits(item: &mut Entries) {
    if item.get("type").is_none_or(|kind| kind != "Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(amounts) = item.get(from).and_then(Value::as_object).cloned() else { continue };
        let target = item.entry(to).or_insert_with(|| json!({}));
        for (resource, amount) in amounts {
            if target.get(&resource).is_none() {
                target[resource] = amount;
            }
        }
    }
    item.retain(|_, value| value.as_object().is_none_or(|amounts| !amounts.is_empty()));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{before, is_latest};

    fn filled(name: &str, mut object: Value) -> Value {
        before(name, object.as_object_mut().expect("it is an object"));
        object
    }

    #[test]
    fn images_with_a_tag_are_pulled_once() {
        for latest in ["nginx", "nginx:latest", "a.example:5000/b/c", "a.example:5000/b/c:latest"] {
            assert!(is_latest(latest), "{latest}");
        }
        for fixed in ["", "nginx:1", "a.example:5000/b:2", "nginx@sha256:0", "nginx:1@sha256:0", "Not an image"] {
            assert!(!is_latest(fixed), "{fixed}");
        }
    }

    #[test]
    fn requests_of_pods_come_from_their_limits() {
        let pod = filled(
            "io.k8s.api.core.v1.Pod",
            json!({"spec": {"hostNetwork": true, "containers": [{
                "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
            }]}}),
        );
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
        assert_eq!(container["ports"][0]["hostPort"], 80);
        assert_eq!(container["ports"][1]["hostPort"], 82);
    }

    #[test]
    fn a_pod_with_limits_requests_what_its_containers_do() {
        let pod = filled(
            "io.k8s.api.core.v1.Pod",
            json!({"spec": {
                "resources": {"limits": {"cpu": "4", "memory": "8Gi"}},
                "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "500m"}}}],
                "initContainers": [{"resources": {"requests": {"cpu": "2"}}}]
            }}),
        );
        assert_eq!(pod["spec"]["resources"]["requests"], json!({"cpu": "2", "memory": "8Gi"}));
    }
}
