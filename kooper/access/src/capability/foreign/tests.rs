use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const OURS: &str = "shop/echo";

/// A Service on the server with these ports: number, name, and field manager.
fn service(ports: &[(i64, &str, &str)]) -> Value {
    let port = |(number, name, _): &(i64, &str, &str)| {
        let mut port = json!({"port": number, "protocol": "TCP", "targetPort": number});
        if !name.is_empty() {
            port["name"] = (*name).into();
        }
        port
    };
    let managers: BTreeSet<&str> = ports.iter().map(|(_, _, manager)| *manager).collect();
    let managed = managers.into_iter().map(|manager| {
        let own = ports.iter().filter(|(_, _, one)| *one == manager);
        let keys: serde_json::Map<_, _> = own
            .map(|(number, ..)| {
                (format!("k:{{\"port\":{number},\"protocol\":\"TCP\"}}"), json!({".": {}, "f:port": {}}))
            })
            .collect();
        json!({"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:ports": keys}}})
    });
    json!({
        "metadata": {"resourceVersion": "7", "managedFields": managed.collect::<Vec<_>>()},
        "spec": {"ports": ports.iter().map(port).collect::<Vec<_>>()},
    })
}

fn applied(ports: &Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"ports": ports}})
}

fn shown(entries: &[Foreign]) -> Vec<&str> {
    entries.iter().map(|entry| entry.shown.as_str()).collect()
}

const DUPLICATE: Fault<'_> =
    Fault { reason: "FieldValueDuplicate", message: "Duplicate value: \"http\"", field: "spec.ports[1].name" };

#[test]
fn only_the_entry_with_the_duplicate_value_is_a_cause() {
    let live = service(&[(81, "http", "kubectl-patch"), (9090, "metrics", "mesh")]);
    let wanted = applied(&json!([{"port": 80, "name": "http"}]));
    let causes = Comparison::new(&wanted, &live, OURS).causes(&[DUPLICATE]);
    assert_eq!(shown(&causes), ["spec.ports[port=81,protocol=TCP]"]);
    assert_eq!(causes[0].manager, "kubectl-patch");
    let patch = removal(&live, Some(&wanted), &causes);
    assert_eq!(
        patch,
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/spec/ports/0"},
        ])
    );
}

#[test]
fn a_list_that_would_become_empty_is_replaced_by_the_applied_one() {
    let live = service(&[(81, "http", "kubectl-patch")]);
    let wanted = applied(&json!([{"port": 80, "name": "http"}]));
    let causes = Comparison::new(&wanted, &live, OURS).causes(&[DUPLICATE]);
    let patch = removal(&live, Some(&wanted), &causes);
    assert_eq!(patch[1], json!({"op": "replace", "path": "/spec/ports", "value": [{"port": 80, "name": "http"}]}));
}

#[test]
fn an_error_in_the_applied_object_itself_has_no_foreign_cause() {
    let live = service(&[(80, "http", OURS), (81, "metrics", "mesh")]);
    // The controller itself applies the name twice.
    let wanted = applied(&json!([{"port": 80, "name": "http"}, {"port": 82, "name": "http"}]));
    assert_eq!(shown(&Comparison::new(&wanted, &live, OURS).causes(&[DUPLICATE])), [""; 0]);
    let wrong = Fault { reason: "FieldValueInvalid", message: "Invalid value: 0", field: "spec.ports[0].port" };
    assert_eq!(shown(&Comparison::new(&wanted, &live, OURS).causes(&[wrong])), [""; 0]);
}

#[test]
fn the_ports_beside_a_port_without_a_name_are_the_cause() {
    let live = service(&[(81, "", "kubectl-patch")]);
    let missing = Fault { reason: "FieldValueRequired", message: "Required value", field: "spec.ports[0].name" };
    let alone = applied(&json!([{"port": 80}]));
    let causes = Comparison::new(&alone, &live, OURS).causes(&[missing]);
    assert_eq!(shown(&causes), ["spec.ports[port=81,protocol=TCP]"]);
    let several = applied(&json!([{"port": 80}, {"port": 82}]));
    assert_eq!(shown(&Comparison::new(&several, &live, OURS).causes(&[missing])), [""; 0], "they need names anyway");
}

fn deployment() -> (Value, Value) {
    let live = json!({
        "metadata": {"resourceVersion": "7", "managedFields": [
            {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {
                "f:replicas": {},
                "f:template": {"f:metadata": {"f:annotations": {"f:restarted": {}}}, "f:spec": {
                    "f:containers": {"k:{\"name\":\"web\"}": {"f:env": {
                        "k:{\"name\":\"A\"}": {"f:valueFrom": {}},
                        "k:{\"name\":\"B\"}": {".": {}, "f:name": {}},
                    }}},
                    "f:volumes": {"k:{\"name\":\"data\"}": {"f:emptyDir": {}}},
                }},
            }}},
            {"manager": "kubelet", "subresource": "status", "fieldsV1": {"f:spec": {"f:paused": {}}}},
        ]},
        "spec": {"replicas": 5, "paused": true, "template": {
            "metadata": {"annotations": {"restarted": "now", "ours": "1"}},
            "spec": {
                "containers": [{"name": "web", "env": [{"name": "A", "valueFrom": {"x": 1}}, {"name": "B"}]}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        }},
    });
    let wanted = json!({"spec": {"template": {
        "metadata": {"annotations": {"ours": "1"}},
        "spec": {
            "containers": [{"name": "web", "env": [{"name": "A", "value": "1"}]}],
            "volumes": [{"name": "data", "configMap": {"name": "data"}}],
        },
    }}});
    (live, wanted)
}

#[test]
fn fields_that_exclude_applied_ones_are_causes() {
    let (live, wanted) = deployment();
    let comparison = Comparison::new(&wanted, &live, OURS);
    let of_env = Fault {
        reason: "FieldValueInvalid",
        message: "Invalid value: \"\": may not be specified when `value` is not empty",
        field: "spec.template.spec.containers[0].env[0].valueFrom",
    };
    let of_volume = Fault {
        reason: "FieldValueForbidden",
        message: "Forbidden: may not specify more than 1 volume type",
        field: "spec.template.spec.volumes[0].configMap",
    };
    assert_eq!(shown(&comparison.causes(&[of_env])), ["spec.template.spec.containers[name=web].env[name=A].valueFrom"]);
    let causes = comparison.causes(&[of_volume]);
    assert_eq!(shown(&causes), ["spec.template.spec.volumes[name=data].emptyDir"]);
    let volume = "/spec/template/spec/volumes/0";
    let patch = removal(&live, Some(&wanted), &causes);
    assert_eq!(patch[1], json!({"op": "remove", "path": format!("{volume}/emptyDir")}));
    let instead = json!({"op": "add", "path": format!("{volume}/configMap"), "value": {"name": "data"}});
    assert_eq!(patch[2], instead, "a volume without a source would get an emptyDir again");
}

#[test]
fn an_element_that_is_no_longer_applied_is_a_cause_if_what_another_applier_owns_of_it_is_incomplete() {
    let key = "k:{\"name\":\"sidecar\"}";
    let owned = |manager: &str, fields: &Value| {
        let fields = json!({"f:spec": {"f:containers": {key: fields}}});
        json!({"manager": manager, "operation": "Apply", "fieldsV1": fields})
    };
    let wanted = json!({"spec": {"containers": [{"name": "web", "image": "web"}]}});
    let fault = Fault { reason: "FieldValueRequired", message: "Required value", field: "spec.containers[1].image" };
    let causes = |theirs: &Value, other: &str, others: &Value| {
        let live = json!({
            "metadata": {"resourceVersion": "7", "managedFields": [owned("tuner", theirs), owned(other, others)]},
            "spec": {"containers": [{"name": "web", "image": "web"}, {"name": "sidecar", "image": "old", "tty": true}]},
        });
        let causes = Comparison::new(&wanted, &live, OURS).causes(&[fault]);
        causes.into_iter().map(|cause| cause.shown).collect::<Vec<_>>()
    };
    let (part, whole) = (json!({".": {}, "f:tty": {}}), json!({".": {}, "f:image": {}, "f:tty": {}}));
    assert_eq!(causes(&part, OURS, &whole), ["spec.containers[name=sidecar]"]);
    assert_eq!(causes(&whole, OURS, &part), [""; 0], "the other manager owns the image");
    assert_eq!(causes(&part, "another", &whole), [""; 0], "the controller has never applied it");
}

#[test]
fn a_default_that_excludes_an_applied_field_is_a_cause_although_no_manager_owns_it() {
    for (strategy, new, message) in [
        ("strategy", "Recreate", "Forbidden: may not be specified when strategy `type` is 'Recreate'"),
        ("updateStrategy", "OnDelete", "Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'"),
    ] {
        let live = json!({
            "metadata": {"resourceVersion": "7"},
            "spec": {"replicas": 1, strategy: {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
        });
        let wanted = json!({"spec": {strategy: {"type": new}}});
        let field = format!("spec.{strategy}.rollingUpdate");
        let fault = Fault { reason: "FieldValueForbidden", message, field: &field };
        let causes = Comparison::new(&wanted, &live, OURS).causes(&[fault]);
        assert_eq!(shown(&causes), [field.as_str()]);
        let patch = removal(&live, Some(&wanted), &causes);
        assert_eq!(patch[1], json!({"op": "remove", "path": format!("/spec/{strategy}/rollingUpdate")}));
        assert_eq!(patch[2], json!({"op": "add", "path": format!("/spec/{strategy}/type"), "value": new}));
        let own = json!({"spec": {strategy: {"type": new, "rollingUpdate": {"partition": 1}}}});
        assert_eq!(shown(&Comparison::new(&own, &live, OURS).causes(&[fault])), [""; 0], "it is applied");
    }
}

#[test]
fn exclusive_removes_everything_beneath_lists_and_maps_and_nothing_else() {
    let (live, wanted) = deployment();
    assert_eq!(
        shown(&Comparison::new(&wanted, &live, OURS).beneath()),
        [
            "spec.template.metadata.annotations.restarted",
            "spec.template.spec.containers[name=web].env[name=A].valueFrom",
            "spec.template.spec.containers[name=web].env[name=B]",
            "spec.template.spec.volumes[name=data].emptyDir",
        ],
        "the replicas that an autoscaler sets are kept"
    );
}

#[test]
fn the_managed_fields_of_an_edit_are_removed_from_the_end() {
    let entry = |manager: &str| json!({"manager": manager});
    let live = json!({"metadata": {"resourceVersion": "7", "managedFields": [entry("x"), entry("y"), entry("x")]}});
    let patch = disown(&live, "x").unwrap();
    assert_eq!([&patch[1]["path"], &patch[2]["path"]], ["/metadata/managedFields/2", "/metadata/managedFields/0"]);
    assert_eq!(disown(&live, "z"), None);
}

/// An object with one list: the elements that others own, and those that the controller owns.
fn with_list(name: &str, elements: &Value, theirs: &[&str], ours: &[&str]) -> Value {
    let fields = |keys: &[&str]| {
        let keys: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).to_owned(), json!({".": {}}))).collect();
        json!({"f:spec": {format!("f:{name}"): keys}})
    };
    json!({
        "metadata": {"resourceVersion": "7", "managedFields": [
            {"manager": "kubectl-patch", "operation": "Update", "fieldsV1": fields(theirs)},
            {"manager": OURS, "operation": "Apply", "fieldsV1": fields(ours)},
        ]},
        "spec": {name: elements},
    })
}

const TCP: &str = "k:{\"port\":53,\"protocol\":\"TCP\"}";
const UDP: &str = "k:{\"port\":53,\"protocol\":\"UDP\"}";

#[test]
fn a_port_without_a_protocol_is_the_tcp_port() {
    let wanted = applied(&json!([{"name": "dns", "port": 53}]));
    let live = with_list("ports", &json!([{"name": "dns", "port": 53, "protocol": "UDP"}]), &[UDP], &[]);
    let causes = Comparison::new(&wanted, &live, OURS).causes(&[DUPLICATE]);
    assert_eq!(shown(&causes), ["spec.ports[port=53,protocol=UDP]"]);
    let both = json!([
        {"name": "dns", "port": 53, "protocol": "TCP"},
        {"name": "dns-udp", "port": 53, "protocol": "UDP"},
    ]);
    let live = with_list("ports", &both, &[UDP], &[TCP]);
    let beneath = Comparison::new(&wanted, &live, OURS).beneath();
    assert_eq!(shown(&beneath), ["spec.ports[port=53,protocol=UDP]"]);
    assert_eq!(removal(&live, None, &beneath)[1], json!({"op": "remove", "path": "/spec/ports/1"}));
}

#[test]
fn a_key_that_is_not_set_is_that_of_the_element_that_the_controller_owns() {
    let (plain, other) = ("k:{\"id\":\"a\",\"mode\":\"plain\"}", "k:{\"id\":\"a\",\"mode\":\"other\"}");
    let elements = json!([{"id": "a", "mode": "plain", "x": 1}, {"id": "a", "mode": "other", "x": 1}]);
    let live = with_list("routes", &elements, &[plain, other], &[plain]);
    let wanted = json!({"apiVersion": "example.com/v1", "spec": {"routes": [{"id": "a", "x": 1}]}});
    assert_eq!(shown(&Comparison::new(&wanted, &live, OURS).beneath()), ["spec.routes[id=a,mode=other]"]);
}

#[test]
fn an_element_of_a_nested_list_with_its_own_keys_is_removed() {
    let live = json!({
        "metadata": {"resourceVersion": "7", "managedFields": [{"manager": "mesh", "fieldsV1": {"f:spec": {
            "f:routes": {"k:{\"id\":1}": {"f:rules": {"k:{\"path\":\"/b\"}": {".": {}}}}},
        }}}]},
        "spec": {"routes": [{"id": 1, "rules": [{"path": "/b", "to": "x"}]}]},
    });
    let wanted = json!({"spec": {"routes": [{"id": 1, "rules": [{"path": "/a", "to": "x"}]}]}});
    let fault =
        Fault { reason: "FieldValueDuplicate", message: "Duplicate value", field: "spec.routes[0].rules[1].to" };
    let causes = Comparison::new(&wanted, &live, OURS).causes(&[fault]);
    assert_eq!(shown(&causes), ["spec.routes[id=1].rules[path=/b]"]);
    let patch = removal(&live, Some(&wanted), &causes);
    let replaced = json!({"op": "replace", "path": "/spec/routes/0/rules", "value": [{"path": "/a", "to": "x"}]});
    assert_eq!(patch[1], replaced);
}

#[test]
fn exclusive_removes_an_element_that_others_added_to_a_set() {
    let live = with_list("hosts", &json!(["a", "b"]), &["v:\"b\""], &["v:\"a\""]);
    let wanted = json!({"spec": {"hosts": ["a"]}});
    let beneath = Comparison::new(&wanted, &live, OURS).beneath();
    assert_eq!(shown(&beneath), ["spec.hosts[\"b\"]"]);
    assert_eq!(removal(&live, None, &beneath)[1], json!({"op": "remove", "path": "/spec/hosts/1"}));
}

/// Applies a JSON patch of `removal`.
fn patched(mut live: Value, patch: Value) -> Value {
    json_patch::patch(&mut live, &serde_json::from_value::<json_patch::Patch>(patch).unwrap()).unwrap();
    live
}

proptest! {
    /// Others may have added ports of either protocol: only the applied ones remain.
    #[test]
    fn exclusive_keeps_only_the_applied_ports(
        theirs in prop::collection::btree_set((90i64..95, prop::bool::ANY), 0..6),
        ours in prop::collection::btree_map(90i64..95, prop::option::of(prop::bool::ANY), 1..4),
    ) {
        let protocol = |tcp: bool| if tcp { "TCP" } else { "UDP" };
        let key = |(port, tcp): &(i64, bool)| format!("k:{{\"port\":{port},\"protocol\":\"{}\"}}", protocol(*tcp));
        let own: BTreeSet<_> = ours.iter().map(|(port, tcp)| (*port, tcp.unwrap_or(true))).collect();
        let keys = |of: &BTreeSet<_>| of.iter().map(key).collect::<Vec<_>>();
        let (theirs_keys, own_keys) = (keys(&theirs), keys(&own));
        let all: BTreeSet<_> = theirs.union(&own).copied().collect();
        let elements: Vec<_> = all.iter().map(|(port, tcp)| json!({"port": port, "protocol": protocol(*tcp)})).collect();
        let theirs_keys: Vec<_> = theirs_keys.iter().map(String::as_str).collect();
        let own_keys: Vec<_> = own_keys.iter().map(String::as_str).collect();
        let live = with_list("ports", &elements.into(), &theirs_keys, &own_keys);
        let wanted: Vec<_> = ours
            .iter()
            .map(|(port, tcp)| match tcp {
                Some(tcp) => json!({"port": port, "protocol": protocol(*tcp)}),
                None => json!({"port": port}),
            })
            .collect();
        let beneath = Comparison::new(&applied(&wanted.into()), &live, OURS).beneath();
        let after = patched(live.clone(), removal(&live, None, &beneath));
        let left: BTreeSet<_> = after["spec"]["ports"].as_array().unwrap().iter()
            .map(|port| (port["port"].as_i64().unwrap(), port["protocol"] == "TCP")).collect();
        prop_assert_eq!(left, own);
    }

    /// After the removal no other entry has an applied name, all entries that do not collide are kept, and the list is
    /// not empty.
    #[test]
    fn only_entries_that_collide_are_removed(
        theirs in prop::collection::btree_map(100i64..110, 0usize..4, 0..6),
        ours in prop::collection::btree_map(90i64..95, 0usize..4, 1..4),
        present in 0usize..2,
    ) {
        let names = ["http", "https", "metrics", "admin"];
        let mut ports: Vec<_> = theirs.iter().map(|(port, name)| (*port, names[*name], "kubectl-patch")).collect();
        ports.extend(ours.iter().take(present).map(|(port, name)| (*port, names[*name], OURS)));
        prop_assume!(!ports.is_empty());
        let live = service(&ports);
        let wanted: Vec<_> = ours.iter().map(|(port, name)| json!({"port": port, "name": names[*name]})).collect();
        let wanted = applied(&wanted.into());
        let causes = Comparison::new(&wanted, &live, OURS).causes(&[DUPLICATE]);
        let after = patched(live.clone(), removal(&live, Some(&wanted), &causes));
        let left: BTreeSet<_> = after["spec"]["ports"].as_array().unwrap().iter().map(|port| port["port"].as_i64().unwrap()).collect();
        prop_assert!(!left.is_empty());
        let taken: BTreeSet<_> = ours.values().collect();
        for (port, name) in &theirs {
            prop_assert_eq!(left.contains(port), !taken.contains(name), "{} of {}", port, after);
        }
    }
}
