//! Warnings of kinds with pods: fields that are valid but have no effect or a surprising one.

mod annotations;
mod volumes;

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use self::annotations::Annotations;
use crate::quantity::Quantity;
use crate::{form, meta};

/// Labels of nodes that others have replaced.
const OLD_NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    ("failure-domain.beta.kubernetes.io/zone", r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#),
    ("beta.kubernetes.io/instance-type", r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];

/// Volumes whose drivers are gone, in the order in which they are looked for.
const OLD_VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The warnings of a kind that gives its name to pods, which are made from the template at this path.
pub(super) fn of_workload(path: &'static str, object: &Value, present: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let wrong = if present.is_none() { form::dns_label(meta::text(object, "name")) } else { Vec::new() };
    if !wrong.is_empty() {
        let of = if path.is_empty() { "the Pod's hostname" } else { "Pod names and hostnames" };
        warnings.push(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    warnings.extend(of_template(path, object, present));
    warnings
}

/// The warnings of the template at this path, if the write changes what the object is to be.
pub(super) fn of_template(path: &'static str, object: &Value, present: Option<&Value>) -> Vec<String> {
    let is_new = present.is_none_or(|present| present["metadata"]["generation"] != object["metadata"]["generation"]);
    if is_new { of_pods(path, object) } else { Vec::new() }
}

/// The warnings of the template at this path.
pub(super) fn of_pods(path: &'static str, object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let pointer = if path.is_empty() { String::new() } else { format!("/{}", path.replace('.', "/")) };
    let template = object.pointer(&pointer).unwrap_or(&Value::Null);
    Pods { path, spec: &template["spec"] }.warn(&template["metadata"]["annotations"], &mut warnings);
    warnings
}

/// The specification of pods, and where it is.
struct Pods<'a> {
    path: &'static str,
    spec: &'a Value,
}

/// The items of a list with their indices.
fn items(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn old_node_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, why)| *why)
}

impl<'a> Pods<'a> {
    fn at(&self, rest: &str) -> String {
        if self.path.is_empty() { format!("spec.{rest}") } else { format!("{}.spec.{rest}", self.path) }
    }

    /// The containers of all kinds, with their paths.
    fn containers(&self) -> impl Iterator<Item = (String, &'a Value)> {
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |list| {
            let spec = self.spec;
            items(&spec[list]).map(move |(index, container)| (self.at(&format!("{list}[{index}]")), container))
        })
    }

    /// Adds the warnings in the order of the real server.
    fn warn(&self, annotations: &Value, to: &mut Vec<String>) {
        let annotations = Annotations { path: self.path, of: annotations };
        self.node_labels(to);
        annotations.ignored(to);
        for (index, volume) in items(&self.spec["volumes"]) {
            for (name, why) in OLD_VOLUMES.iter().filter(|(name, _)| !volume[*name].is_null()) {
                let name = if *name == "storageos" { "storageOS" } else { name };
                to.push(format!("{}: {why}", self.at(&format!("volumes[{index}].{name}"))));
            }
            let resources = &volume["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"];
            for list in ["requests", "limits"] {
                let path = format!("volumes[{index}].ephemeral.volumeClaimTemplate.spec.resources.{list}");
                fractions(&resources[list], &self.at(&path), &["storage"], to);
            }
        }
        volumes::warn(&self.spec["volumes"], to);
        self.repeated("hostAliases", "ip", to);
        self.repeated("imagePullSecrets", "name", to);
        for (index, _) in items(&self.spec["imagePullSecrets"]).filter(|(_, secret)| text(secret, "name").is_empty()) {
            to.push(format!("{}: invalid empty name \"\"", self.at(&format!("imagePullSecrets[{index}].name"))));
        }
        fractions(&self.spec["overhead"], &self.at("overhead"), &["memory", "ephemeral-storage"], to);
        annotations.pod(self.spec, to);
        for (path, container) in self.containers() {
            annotations.container(self.spec, container, to);
            for resource in ["memory", "ephemeral-storage"] {
                for list in ["limits", "requests"] {
                    fractions(&container["resources"][list], &format!("{path}.resources.{list}"), &[resource], to);
                }
            }
            hidden_variables(&container["env"], &path, to);
        }
        self.ports(to);
        if self.spec["terminationGracePeriodSeconds"].as_i64().is_some_and(i64::is_negative) {
            let path = self.at("terminationGracePeriodSeconds");
            to.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
        }
        self.affinity(to);
    }

    fn node_labels(&self, to: &mut Vec<String>) {
        for key in self.spec["nodeSelector"].as_object().into_iter().flat_map(|selector| selector.keys()) {
            to.extend(old_node_label(key).map(|why| format!("{}: {why}", self.at(&format!("nodeSelector[{key}]")))));
        }
        let affinity = &self.spec["affinity"]["nodeAffinity"];
        let mut terms = Vec::new();
        let path = "requiredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in items(&affinity[path]["nodeSelectorTerms"]) {
            terms.push((format!("{path}.nodeSelectorTerms[{index}]"), term, false));
        }
        let path = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in items(&affinity[path]) {
            terms.push((format!("{path}[{index}].preference"), &term["preference"], true));
        }
        for (path, term, with_values) in terms {
            for (index, expression) in items(&term["matchExpressions"]) {
                let path = self.at(&format!("affinity.nodeAffinity.{path}.matchExpressions[{index}]"));
                let key = text(expression, "key");
                to.extend(old_node_label(key).map(|why| format!("{path}.key: {key} is {why}")));
                for (index, value) in items(&expression["values"]).filter(|_| with_values) {
                    let value = value.as_str().unwrap_or_default();
                    let wrong = form::label_value(value).into_iter();
                    to.extend(wrong.map(|why| format!("{path}.values[{index}]: {value} is invalid, {why}")));
                }
            }
        }
        for (index, constraint) in items(&self.spec["topologySpreadConstraints"]) {
            let path = self.at(&format!("topologySpreadConstraints[{index}]"));
            let key = text(constraint, "topologyKey");
            to.extend(old_node_label(key).map(|why| format!("{path}.topologyKey: {key} is {why}")));
            no_selector(constraint, &path, to);
        }
    }

    fn repeated(&self, list: &str, key: &str, to: &mut Vec<String>) {
        let mut seen = HashSet::new();
        for (index, item) in items(&self.spec[list]) {
            let value = text(item, key);
            if !seen.insert(value) {
                to.push(format!("{}: duplicate {key} {value:?}", self.at(&format!("{list}[{index}].{key}"))));
            }
        }
    }

    fn ports(&self, to: &mut Vec<String>) {
        let mut seen: HashMap<(i64, &str), Vec<(String, &Value)>> = HashMap::new();
        for (path, container) in self.containers() {
            for (index, port) in items(&container["ports"]) {
                let path = format!("{path}.ports[{index}]");
                let number = |port: &Value, key: &str| port[key].as_i64().unwrap_or_default();
                let (host, ip) = (number(port, "hostPort"), text(port, "hostIP"));
                if !ip.is_empty() && host == 0 {
                    to.push(format!(
                        "{path}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
                        text(port, "name"),
                        number(port, "containerPort"),
                        text(port, "protocol"),
                    ));
                }
                let same = seen.entry((number(port, "containerPort"), text(port, "protocol"))).or_default();
                for (other_path, other) in same.iter() {
                    let (other_host, other_ip) = (number(other, "hostPort"), text(other, "hostIP"));
                    let what = if (host, ip) == (other_host, other_ip) {
                        "duplicate"
                    } else if host == 0 || other_host == 0 {
                        "overlapping"
                    } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
                        "dangerously ambiguous"
                    } else {
                        continue;
                    };
                    to.push(format!("{path}: {what} port definition with {other_path}"));
                }
                same.push((path, port));
            }
        }
        let mut names: HashMap<&str, String> = HashMap::new();
        for (path, container) in self.containers() {
            for (index, port) in items(&container["ports"]).filter(|(_, port)| !text(port, "name").is_empty()) {
                let path = format!("{path}.ports[{index}]");
                let name = text(port, "name");
                match names.get(name) {
                    Some(other) => to.push(format!(
                        "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by \
                         name will use {other}"
                    )),
                    None => drop(names.insert(name, path)),
                }
            }
        }
    }

    fn affinity(&self, to: &mut Vec<String>) {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let affinity = &self.spec["affinity"][kind];
            let list = "requiredDuringSchedulingIgnoredDuringExecution";
            for (index, term) in items(&affinity[list]) {
                no_selector(term, &self.at(&format!("affinity.{kind}.{list}[{index}]")), to);
            }
            let list = "preferredDuringSchedulingIgnoredDuringExecution";
            for (index, term) in items(&affinity[list]) {
                let path = self.at(&format!("affinity.{kind}.{list}[{index}].podAffinityTerm"));
                no_selector(&term["podAffinityTerm"], &path, to);
            }
        }
    }
}

fn no_selector(of: &Value, path: &str, to: &mut Vec<String>) {
    if of["labelSelector"].is_null() {
        to.push(format!("{path}.labelSelector: a null labelSelector results in matching no pod"));
    }
}

/// Warns of amounts that are not whole bytes.
fn fractions(amounts: &Value, path: &str, resources: &[&str], to: &mut Vec<String>) {
    for resource in resources {
        let amount = text(amounts, resource);
        if Quantity::parse(amount).is_some_and(|quantity| !quantity.to_millis().is_whole()) {
            to.push(format!("{path}[{resource}]: fractional byte value {amount:?} is invalid, must be an integer"));
        }
    }
}

/// Warns of variables that come again without a use of their first value.
fn hidden_variables(env: &Value, path: &str, to: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, variable) in items(env) {
        let name = text(variable, "name");
        let (reference, value) = (format!("$({name})"), text(variable, "value"));
        let hides = !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference);
        if !seen.insert(name) && hides {
            to.push(format!(
                "{path}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}
