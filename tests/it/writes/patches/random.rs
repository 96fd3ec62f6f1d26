//! Random requests for one object, by few managers and on few fields, so
//! that they collide often.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::replay::{History, Step};

const MANAGERS: [&str; 4] = ["one", "two", "three", "kubectl"];

/// Generates requests, the same ones for the same seed.
pub(super) struct Writer(Rng);

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// A history without responses.
    pub(super) fn history(&mut self, name: &str) -> History {
        let kinds = [("ConfigMap", "v1"), ("Service", "v1"), ("Deployment", "apps/v1"), ("Widget", "example.com/v1")];
        let (kind, version) = kinds[self.0.usize(..kinds.len())];
        let first = self.first(kind, version, name);
        let rest = (0..self.0.usize(4..10)).map(|_| self.step(kind, version, name));
        let steps = std::iter::once(first).chain(rest).collect();
        History { name: name.to_owned(), kind: kind.to_owned(), api_version: version.to_owned(), steps }
    }

    fn first(&mut self, kind: &str, version: &str, name: &str) -> Step {
        let verb = if self.0.bool() { "apply" } else { "create" };
        Step {
            verb: verb.to_owned(),
            manager: self.manager(),
            body: self.object(kind, version, name),
            ..Step::default()
        }
    }

    fn step(&mut self, kind: &str, version: &str, name: &str) -> Step {
        let (manager, agent) =
            if self.chance(0.9) { (self.manager(), "") } else { (String::new(), "program/1.0 (any)") };
        let mut step = Step { manager, agent: agent.to_owned(), ..Step::default() };
        if kind == "Widget" && self.chance(0.15) {
            step.subresource = "status".to_owned();
            let conditions: Vec<_> =
                self.some(&["A", "B"]).map(|name| json!({"type": name, "status": "True"})).collect();
            step.body =
                json!({"status": {"phase": self.value(), "conditions": conditions}, "spec": {"size": "ignored"}});
            step.verb = "merge".to_owned();
            return step;
        }
        let verbs = if kind == "Widget" {
            &["apply", "apply", "merge", "update"][..]
        } else {
            &["apply", "apply", "merge", "update", "strategic"]
        };
        step.verb = verbs[self.0.usize(..verbs.len())].to_owned();
        if step.verb == "apply" {
            step.manager = self.manager();
            step.force = self.chance(0.4);
            step.body = self.object(kind, version, name);
            return step;
        }
        step.body = self.change(kind);
        self.drop_some(&mut step.body);
        match step.verb.as_str() {
            "strategic" => self.direct(&mut step.body),
            "update" if self.chance(0.08) => step.body["metadata"]["managedFields"] = json!([{}]),
            _ => {}
        }
        step
    }

    fn object(&mut self, kind: &str, version: &str, name: &str) -> Value {
        let mut object = self.change(kind);
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"]["name"] = name.into();
        object["metadata"]["namespace"] = "t".into();
        object
    }

    /// Some fields of a kind.
    fn change(&mut self, kind: &str) -> Value {
        let mut object = json!({"metadata": {}});
        for field in ["labels", "annotations"] {
            if self.chance(0.3) {
                object["metadata"][field] = self.map();
            }
        }
        if self.chance(0.3) {
            object["metadata"]["finalizers"] = self.some(&["x.io/a", "x.io/b", "x.io/c"]).map(Value::from).collect();
        }
        match kind {
            "ConfigMap" => object["data"] = self.map(),
            "Service" => object["spec"] = self.service(),
            "Deployment" => object["spec"] = self.deployment(),
            _ => object["spec"] = self.widget(),
        }
        object
    }

    fn service(&mut self) -> Value {
        let known = [("tcp", 80, "TCP"), ("udp", 80, "UDP"), ("other", 443, "TCP")];
        let mut ports: Vec<Value> = Vec::new();
        for (name, port, protocol) in known {
            if self.chance(0.6) || (ports.is_empty() && port == 443) {
                ports.push(json!({"name": name, "port": port, "protocol": protocol}));
            }
        }
        let mut spec = json!({"ports": ports});
        if self.chance(0.4) {
            spec["selector"] = self.map();
        }
        spec
    }

    fn deployment(&mut self) -> Value {
        let mut names: Vec<_> = self.some(&["a", "b", "c"]).collect();
        if names.is_empty() {
            names.push("a");
        }
        let containers: Vec<_> = names.into_iter().map(|name| self.container(name)).collect();
        let mut pod = json!({"containers": containers});
        if self.chance(0.3) {
            pod["nodeSelector"] = self.map();
        }
        if self.chance(0.3) {
            pod["volumes"] = self.some(&["v", "w"]).map(|name| json!({"name": name, "emptyDir": {}})).collect();
        }
        let labels = json!({"app": "x"});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        let mut spec = json!({"selector": {"matchLabels": labels}, "template": template});
        if self.chance(0.4) {
            spec["replicas"] = self.0.i32(1..4).into();
        }
        spec
    }

    fn container(&mut self, name: &str) -> Value {
        let mut container = json!({"name": name, "image": format!("image:{}", self.value())});
        if self.chance(0.4) {
            let names: Vec<_> = self.some(&["A", "B", "C"]).collect();
            container["env"] = names.into_iter().map(|name| json!({"name": name, "value": self.value()})).collect();
        }
        if self.chance(0.4) {
            container["ports"] =
                self.some(&["80", "81"]).map(|port| json!({"containerPort": port.parse::<u16>().ok()})).collect();
        }
        if self.chance(0.2) {
            container["args"] = self.some(&["x", "y"]).map(Value::from).collect();
        }
        container
    }

    fn widget(&mut self) -> Value {
        let mut spec = Map::new();
        let fields = ["size", "tags", "hosts", "map", "whole", "nested", "ports", "groups", "free"];
        for field in fields.into_iter().filter(|_| self.chance(0.4)).collect::<Vec<_>>() {
            let value = match field {
                "size" => self.value().into(),
                "tags" => self.some(&["a", "b", "c", "d"]).map(Value::from).collect(),
                "hosts" => self.some(&["h", "i"]).map(Value::from).collect(),
                "whole" => json!({"a": self.value()}),
                "nested" => json!({"a": self.value(), "b": {"c": self.value()}}),
                "ports" => {
                    let ports = self.some(&["TCP", "UDP"]).map(|protocol| json!({"port": 80, "protocol": protocol}));
                    ports.chain([json!({"port": 443, "opts": {"a": "1"}})]).collect()
                }
                "groups" => {
                    let names: Vec<_> = self.some(&["a", "b"]).collect();
                    let member = |writer: &mut Self| json!({"id": writer.0.i32(1..3), "role": writer.value()});
                    names.into_iter().map(|name| json!({"name": name, "members": [member(self)]})).collect()
                }
                "free" => json!({"x": self.map(), "y": [self.value()]}),
                _ => self.map(),
            };
            spec.insert(field.to_owned(), value);
        }
        spec.into()
    }

    /// Turns some optional members to `null`.
    fn drop_some(&mut self, value: &mut Value) {
        const OPTIONAL: [&str; 9] =
            ["labels", "annotations", "a", "b", "env", "volumes", "nodeSelector", "size", "free"];
        for (name, value) in value.as_object_mut().into_iter().flatten() {
            if OPTIONAL.contains(&name.as_str()) && self.chance(0.2) {
                *value = Value::Null;
            } else {
                self.drop_some(value);
            }
        }
    }

    /// Adds directives of strategic merge patches.
    fn direct(&mut self, value: &mut Value) {
        let Value::Object(map) = value else { return };
        for name in ["containers", "env", "volumes"] {
            let Some(Value::Array(items)) = map.get_mut(name) else { continue };
            for item in items.iter_mut() {
                self.direct(item);
                if self.chance(0.2) {
                    *item = json!({"name": item["name"], "$patch": "delete"});
                }
            }
            if self.chance(0.3) {
                let order: Value = items.iter().map(|item| json!({"name": item["name"]})).collect();
                map.insert(format!("$setElementOrder/{name}"), order);
            }
        }
        for name in ["spec", "template"] {
            if let Some(value) = map.get_mut(name) {
                self.direct(value);
            }
        }
    }

    fn map(&mut self) -> Value {
        let names: Vec<_> = self.some(&["a", "b", "c"]).collect();
        Value::Object(names.into_iter().map(|name| (name.to_owned(), self.value().into())).collect())
    }

    /// Some of the items, in any order.
    fn some<'i>(&mut self, items: &[&'i str]) -> impl Iterator<Item = &'i str> + use<'i> {
        let mut items: Vec<_> = items.iter().copied().filter(|_| self.0.bool()).collect();
        if self.0.bool() {
            self.0.shuffle(&mut items);
        }
        items.into_iter()
    }

    fn value(&mut self) -> &'static str {
        if self.0.bool() { "1" } else { "2" }
    }

    fn manager(&mut self) -> String {
        MANAGERS[self.0.usize(..MANAGERS.len())].to_owned()
    }

    fn chance(&mut self, of_one: f64) -> bool {
        self.0.f64() < of_one
    }
}
