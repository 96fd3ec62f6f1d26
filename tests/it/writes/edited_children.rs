//! Children that are edited by hand, on a real API server.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kooper::Controller;
use kooper::Kind;
use kooper::prelude::*;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde::Serialize;
use serde_json::{Value, json};

use super::capabilities::event;
use crate::live::{Live, configmap, connection};

/// A cluster in which a controller keeps one child, `child`.
struct Stand {
    cluster: &'static ControlPlane,
    namespace: &'static str,
    resource: &'static str,
    live: Live,
}

impl Stand {
    fn start<T>(namespace: &'static str, resource: &'static str, exclusive: bool, child: &Value) -> Option<Self>
    where
        T: Kind + Serialize + Clone,
    {
        Self::start_with::<T>(namespace, resource, None, exclusive, child)
    }

    /// Like `start`, with a child that was created by hand and is adopted.
    fn start_with<T>(
        namespace: &'static str,
        resource: &'static str,
        adopted: Option<&Value>,
        exclusive: bool,
        child: &Value,
    ) -> Option<Self>
    where
        T: Kind + Serialize + Clone,
    {
        let cluster = ControlPlane::shared_in(namespace, [configmap(namespace, "parent", "1")])?;
        if let Some(adopted) = adopted {
            let created = cluster.kubectl_with(&["-n", namespace, "create", "-f", "-"], &adopted.to_string());
            assert!(created.success, "{}", created.stderr);
        }
        let adopts = adopted.is_some();
        let mut child: T = serde_json::from_value(child.clone()).unwrap();
        child.meta_mut().name = Some("child".to_owned());
        let handler = move |parent: Arc<ConfigMap>, children: OwnedApplier<T>| {
            let child = child.clone();
            async move {
                let children = if exclusive { children.exclusive() } else { children };
                if adopts {
                    return children.adopt(&parent, &child).await.map(drop);
                }
                children.apply_owned(&parent, &child).await.map(drop)
            }
        };
        let controller = Controller::builder::<ConfigMap>("parents")
            .namespaces([namespace])
            .fields("metadata.name=parent")
            .resync(None)
            .handler(handler);
        let live = Live::start(connection(cluster.kubeconfig(), None), [controller.build().unwrap()]);
        let stand = Self { cluster, namespace, resource, live };
        stand.wait("the child is created", |child| child["metadata"]["name"] == "child");
        Some(stand)
    }

    fn child(&self) -> Value {
        let what = ["get", self.resource, "child", "--ignore-not-found", "--show-managed-fields", "--output=json"];
        let child = self.cluster.kubectl(&[&["-n", self.namespace], &what[..]].concat());
        serde_json::from_str(&child.stdout).unwrap_or_default()
    }

    /// Edits the child like a user.
    fn edit(&self, operations: &Value) {
        let patch = ["patch", self.resource, "child", "--type=json", "-p", &operations.to_string()];
        self.cluster.must(&[&["-n", self.namespace], &patch[..]].concat());
    }

    fn wait(&self, what: &str, right: impl Fn(&Value) -> bool) {
        until(what, || right(&self.child()).then_some(()), || self.child().to_string());
    }

    /// Waits until an Event on the owner names an entry and its field manager.
    fn wait_for_event(&self, reason: &str, parts: &[&str]) {
        event(self.cluster, self.namespace, "parent", |event| {
            let note = event["note"].as_str().unwrap_or_default();
            event["reason"] == reason && parts.iter().all(|part| note.contains(part))
        });
    }

    /// Stops, and checks the field managers: the controller owns fields by its apply only, and not by its edits.
    fn stop(self) {
        let owned_once = |child: &Value| {
            let managers = child["metadata"]["managedFields"].as_array().unwrap();
            let ours: Vec<_> =
                managers.iter().filter(|one| one["manager"].as_str().unwrap().contains("/parents")).collect();
            ours.len() == 1 && ours[0]["operation"] == "Apply"
        };
        self.wait("only the apply owns the controller's fields", owned_once);
        self.live.stop();
    }
}

fn ports(child: &Value) -> Vec<(i64, String)> {
    let ports = child["spec"]["ports"].as_array().into_iter().flatten();
    ports.map(|port| (port["port"].as_i64().unwrap(), port["name"].as_str().unwrap_or_default().to_owned())).collect()
}

#[test]
fn a_port_with_an_edited_number_is_restored_and_an_additional_one_is_kept() {
    let service = json!({"spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}});
    let Some(stand) = Stand::start::<Service>("edited-ports", "service", false, &service) else { return };
    stand.edit(&json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]));
    stand.wait("the port is back", |child| ports(child) == [(80, "http".to_owned())]);
    stand.wait_for_event("ForeignEntryRemoved", &["`spec.ports[port=81,protocol=TCP]`", "`kubectl-patch`"]);
    stand.edit(&json!([
        {"op": "add", "path": "/spec/ports/-", "value": {"name": "metrics", "port": 9090}},
        {"op": "replace", "path": "/spec/ports/0/port", "value": 82},
    ]));
    stand.wait("the port is back, and the other stays", |child| {
        let mut ports = ports(child);
        ports.sort();
        ports == [(80, "http".to_owned()), (9090, "metrics".to_owned())]
    });
    stand.stop();
}

#[test]
fn a_port_whose_name_was_removed_is_restored() {
    let service = json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let Some(stand) = Stand::start::<Service>("edited-unnamed", "service", false, &service) else { return };
    stand.edit(&json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]));
    stand.wait("the port is back", |child| ports(child) == [(80, String::new())]);
    stand.stop();
}

#[test]
fn a_port_that_was_changed_to_udp_is_restored() {
    let service = json!({"spec": {"selector": {"app": "dns"}, "ports": [{"name": "dns", "port": 53}]}});
    let Some(stand) = Stand::start::<Service>("edited-protocol", "service", false, &service) else { return };
    stand.edit(&json!([{"op": "replace", "path": "/spec/ports/0/protocol", "value": "UDP"}]));
    stand.wait_for_event("ForeignEntryRemoved", &["`spec.ports[port=53,protocol=UDP]`", "`kubectl-patch`"]);
    stand.wait("the port is of TCP again", |child| {
        ports(child) == [(53, "dns".to_owned())] && child["spec"]["ports"][0]["protocol"] == "TCP"
    });
    // An entry that does not collide is kept.
    stand.edit(
        &json!([{"op": "add", "path": "/spec/ports/-", "value": {"name": "dns-udp", "port": 53, "protocol": "UDP"}}]),
    );
    stand.edit(&json!([{"op": "replace", "path": "/spec/ports/0/name", "value": "edited"}]));
    stand.wait("the name is back, and the port of UDP stays", |child| {
        let mut ports = ports(child);
        ports.sort();
        ports == [(53, "dns".to_owned()), (53, "dns-udp".to_owned())]
    });
    stand.stop();
}

#[test]
fn exclusive_removes_a_udp_port_beside_the_tcp_port() {
    let service = json!({"spec": {"selector": {"app": "dns"}, "ports": [{"name": "dns", "port": 53}]}});
    let Some(stand) = Stand::start::<Service>("edited-udp", "service", true, &service) else { return };
    stand.edit(
        &json!([{"op": "add", "path": "/spec/ports/-", "value": {"name": "dns-udp", "port": 53, "protocol": "UDP"}}]),
    );
    stand.wait_for_event("ForeignEntryRemoved", &["`spec.ports[port=53,protocol=UDP]`", "exclusively"]);
    stand.wait("the port is alone", |child| ports(child) == [(53, "dns".to_owned())]);
    stand.stop();
}

#[test]
fn fields_that_an_interrupted_edit_still_owns_are_released() {
    let service = json!({"spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}});
    let Some(stand) = Stand::start::<Service>("edited-interrupted", "service", false, &service) else { return };
    let managers = stand.child()["metadata"]["managedFields"].clone();
    let ours = managers
        .as_array()
        .unwrap()
        .iter()
        .find_map(|one| one["manager"].as_str().filter(|one| one.ends_with("/parents")));
    let healer = format!("--field-manager={}/heal", ours.unwrap());
    let edit = json!([{"op": "add", "path": "/spec/ports/-", "value": {"name": "metrics", "port": 9090}}]).to_string();
    let namespace = stand.namespace;
    stand.cluster.must(&["-n", namespace, "patch", "service", "child", "--type=json", &healer, "-p", &edit]);
    // It waits until only the controller's apply owns its fields.
    stand.stop();
}

#[test]
fn an_object_whose_port_has_another_number_is_adopted() {
    let made = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "child"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 8080}]},
    });
    let service = json!({"spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}});
    let stand = Stand::start_with::<Service>("edited-adopted", "service", Some(&made), false, &service);
    let Some(stand) = stand else { return };
    stand.wait("it is adopted, with our port", |child| {
        ports(child) == [(80, "http".to_owned())] && child["metadata"]["ownerReferences"][0]["name"] == "parent"
    });
    stand.wait_for_event("ForeignEntryRemoved", &["`spec.ports[port=8080,protocol=TCP]`"]);
    stand.stop();
}

#[test]
fn an_exclusive_child_keeps_conditions_of_other_clients() {
    let service = json!({"spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}});
    let Some(stand) = Stand::start::<Service>("edited-conditions", "service", true, &service) else { return };
    let condition = json!({
        "type": "Theirs", "status": "True", "reason": "Set", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {"conditions": [condition]}}).to_string();
    let namespace = stand.namespace;
    let args = ["-n", namespace, "patch", "service", "child", "--subresource=status", "--type=merge", "-p", &status];
    stand.cluster.must(&args);
    stand.edit(&json!([{"op": "add", "path": "/spec/selector/theirs", "value": "1"}]));
    stand.edit(&json!([{"op": "add", "path": "/spec/ports/-", "value": {"name": "metrics", "port": 9090}}]));
    stand.wait("the port is alone", |child| ports(child) == [(80, "http".to_owned())]);
    assert_eq!(stand.child()["status"]["conditions"][0]["type"], "Theirs");
    stand.stop();
}

#[test]
fn an_additional_key_of_a_config_map_is_kept_and_its_own_are_restored() {
    let config = json!({"data": {"ours": "1"}});
    let Some(stand) = Stand::start::<ConfigMap>("edited-config", "configmap", false, &config) else { return };
    stand.edit(&json!([
        {"op": "add", "path": "/data/theirs", "value": "1"},
        {"op": "replace", "path": "/data/ours", "value": "2"},
    ]));
    stand.wait("our key is set again, and the other stays", |child| {
        child["data"] == json!({"ours": "1", "theirs": "1"})
    });
    stand.stop();
}

#[test]
fn an_edited_pod_template_is_restored() {
    let deployment = json!({"spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{
                    "name": "web", "image": "web",
                    "env": [{"name": "A", "value": "1"}],
                    "ports": [{"name": "http", "containerPort": 80}],
                }],
                "volumes": [{"name": "data", "configMap": {"name": "data"}}],
            },
        },
    }});
    let Some(stand) = Stand::start::<Deployment>("edited-template", "deployment", false, &deployment) else { return };
    let of =
        |child: &Value, path: &str| child.pointer(&format!("/spec/template/spec{path}")).cloned().unwrap_or_default();
    let template = "/spec/template/spec";
    stand.edit(
        &json!([{"op": "replace", "path": format!("{template}/containers/0/ports/0/containerPort"), "value": 81}]),
    );
    stand.wait("the container's port is back", |child| {
        let ports = of(child, "/containers/0/ports");
        ports.as_array().is_some_and(|ports| ports.len() == 1) && ports[0]["containerPort"] == 80
    });
    stand
        .edit(&json!([{"op": "replace", "path": format!("{template}/containers/0/ports/0/protocol"), "value": "UDP"}]));
    stand.wait("the container's protocol is back", |child| {
        let ports = of(child, "/containers/0/ports");
        ports.as_array().is_some_and(|ports| ports.len() == 1 && ports[0]["protocol"] == "TCP")
    });
    let from = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    stand.edit(&json!([{"op": "replace", "path": format!("{template}/containers/0/env/0"), "value": {"name": "A", "valueFrom": from}}]));
    stand.wait("the variable is back", |child| of(child, "/containers/0/env") == json!([{"name": "A", "value": "1"}]));
    stand.edit(
        &json!([{"op": "replace", "path": format!("{template}/volumes/0"), "value": {"name": "data", "emptyDir": {}}}]),
    );
    stand.wait("the volume is back", |child| {
        let volume = of(child, "/volumes/0");
        volume["configMap"]["name"] == "data" && volume.get("emptyDir").is_none()
    });
    // An entry that does not collide is kept, as usual with server-side apply.
    stand.edit(&json!([
        {"op": "add", "path": format!("{template}/containers/0/env/-"), "value": {"name": "B", "value": "2"}},
        {"op": "replace", "path": format!("{template}/containers/0/image"), "value": "other"},
    ]));
    stand.wait("the image is back", |child| of(child, "/containers/0/image") == "web");
    assert_eq!(of(&stand.child(), "/containers/0/env/1/name"), "B");
    stand.stop();
}

#[test]
fn a_child_that_is_applied_exclusively_has_no_entries_of_other_clients() {
    let secret = json!({"stringData": {"ours": "1"}});
    let Some(stand) = Stand::start::<Secret>("edited-data", "secret", true, &secret) else { return };
    stand.edit(&json!([
        {"op": "add", "path": "/data/theirs", "value": "MQ=="},
        {"op": "add", "path": "/metadata/labels", "value": {"theirs": "1"}},
    ]));
    stand.wait("only our data is there", |child| {
        assert_eq!(child["data"]["ours"], "MQ==", "our own keys are never touched");
        child["data"] == json!({"ours": "MQ=="})
    });
    stand.wait_for_event("ForeignEntryRemoved", &["`data.theirs`", "`kubectl-patch`", "exclusively"]);
    assert_eq!(stand.child()["metadata"]["labels"]["theirs"], "1");
    stand.stop();
}

#[test]
fn an_autoscaler_and_an_exclusive_controller_share_a_deployment() {
    let deployment = json!({"spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    }});
    let Some(stand) = Stand::start::<Deployment>("edited-replicas", "deployment", true, &deployment) else { return };
    stand.edit(&json!([
        {"op": "replace", "path": "/spec/replicas", "value": 0},
        {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "sidecar", "image": "sidecar"}},
        {"op": "add", "path": "/spec/template/spec/containers/0/env", "value": [{"name": "B", "value": "2"}]},
    ]));
    stand.wait("the container is alone", |child| {
        let containers = child["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        containers.len() == 1 && containers[0].get("env").is_none()
    });
    assert_eq!(stand.child()["spec"]["replicas"], 0);
    stand.stop();
}
