//! The kinds that only have columns.

use serde_json::{Value, json};

use super::row::{Row, or_none, plain, selector_text};
use super::strategy::Strategy;

/// A kind that only has the cells of its rows.
pub(super) struct Printed(pub(super) fn(Row<'_>) -> Vec<Value>);

impl Strategy for Printed {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some((self.0)(row))
    }
}

pub(super) fn validating_admission_policy(row: Row<'_>) -> Vec<Value> {
    admission_policy(row, "/spec/validations")
}

pub(super) fn mutating_admission_policy(row: Row<'_>) -> Vec<Value> {
    admission_policy(row, "/spec/mutations")
}

fn admission_policy(row: Row<'_>, rules: &str) -> Vec<Value> {
    let kind = row.at("/spec/paramKind");
    let kind = if kind.is_object() {
        format!("{}/{}", plain(&kind["apiVersion"]), plain(&kind["kind"]))
    } else {
        "<unset>".to_owned()
    };
    vec![row.name(), json!(row.count(rules)), json!(kind), row.age()]
}

pub(super) fn admission_policy_binding(row: Row<'_>) -> Vec<Value> {
    let param = row.at("/spec/paramRef");
    let param = if !param.is_object() {
        "<unset>".to_owned()
    } else if !plain(&param["name"]).is_empty() {
        let namespace = if param["namespace"].is_string() { plain(&param["namespace"]) } else { "*".to_owned() };
        format!("{namespace}/{}", plain(&param["name"]))
    } else if param["selector"].is_object() {
        selector_text(&param["selector"])
    } else {
        "<unset>".to_owned()
    };
    vec![row.name(), json!(row.text("/spec/policyName")), json!(param), row.age()]
}

pub(super) fn controller_revision(row: Row<'_>) -> Vec<Value> {
    let owner = row.items("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
    let controller = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let text = |key: &str| owner[key].as_str().unwrap_or_default();
            let (group, kind) = (text("apiVersion").split_once('/'), text("kind").to_lowercase());
            let kind = group.map_or_else(|| kind.clone(), |(group, _)| format!("{kind}.{group}"));
            format!("{kind}/{}", text("name"))
        },
    );
    vec![row.name(), json!(controller), json!(row.number("/revision")), row.age()]
}

pub(super) fn csi_driver(row: Row<'_>) -> Vec<Value> {
    let tokens = row.at("/spec/tokenRequests").as_array();
    let tokens = tokens.map_or_else(
        || "<unset>".to_owned(),
        |all| all.iter().map(|one| plain(&one["audience"])).collect::<Vec<_>>().join(","),
    );
    let modes: Vec<_> = row.items("/spec/volumeLifecycleModes").iter().map(plain).collect();
    vec![
        row.name(),
        json!(row.at("/spec/attachRequired") != false),
        json!(row.flag("/spec/podInfoOnMount")),
        json!(row.flag("/spec/storageCapacity")),
        json!(tokens),
        json!(row.flag("/spec/requiresRepublish")),
        or_none(modes.join(",")),
        row.age(),
    ]
}

pub(super) fn csi_node(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.count("/spec/drivers")), row.age()]
}

pub(super) fn csi_storage_capacity(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("/storageClassName")), row.text_or("/capacity", "<unset>")]
}

pub(super) fn flow_schema(row: Row<'_>) -> Vec<Value> {
    let dangling = row.items("/status/conditions").iter().find(|condition| condition["type"] == "Dangling");
    vec![
        row.name(),
        json!(row.text("/spec/priorityLevelConfiguration/name")),
        json!(row.number("/spec/matchingPrecedence")),
        row.text_or("/spec/distinguisherMethod/type", "<none>"),
        row.age(),
        json!(dangling.map_or("?", |condition| condition["status"].as_str().unwrap_or_default())),
    ]
}

pub(super) fn ingress_class(row: Row<'_>) -> Vec<Value> {
    let parameters = row.at("/spec/parameters");
    let shown = if parameters.is_object() {
        let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", plain(&parameters["kind"]), plain(&parameters["name"]))
    } else {
        "<none>".to_owned()
    };
    let name = row.marked("ingressclass.kubernetes.io/is-default-class");
    vec![name, json!(row.text("/spec/controller")), json!(shown), row.age()]
}

pub(super) fn ip_address(row: Row<'_>) -> Vec<Value> {
    let parent = row.at("/spec/parentRef");
    let shown = if parent.is_object() {
        let text = |key: &str| parent[key].as_str().unwrap_or_default();
        let group = if text("group").is_empty() { String::new() } else { format!(".{}", text("group")) };
        let namespace = if text("namespace").is_empty() { String::new() } else { format!("/{}", text("namespace")) };
        format!("{}{namespace}/{}", format!("{}{group}", text("resource")).to_lowercase(), text("name"))
    } else {
        "<none>".to_owned()
    };
    vec![row.name(), json!(shown), row.age()]
}

pub(super) fn priority_level_configuration(row: Row<'_>) -> Vec<Value> {
    let number = |pointer: &str| {
        let number = row.at(pointer);
        if number.is_null() { json!("<none>") } else { number.clone() }
    };
    let queuing = "/spec/limited/limitResponse/queuing";
    vec![
        row.name(),
        json!(row.text("/spec/type")),
        number("/spec/limited/nominalConcurrencyShares"),
        number(&format!("{queuing}/queues")),
        number(&format!("{queuing}/handSize")),
        number(&format!("{queuing}/queueLengthLimit")),
        row.age(),
    ]
}

pub(super) fn resource_claim(row: Row<'_>) -> Vec<Value> {
    let allocated = row.at("/status/allocation").is_object();
    let states: Vec<_> = [
        ("deleted", row.is_deleting()),
        ("pending", !allocated && !row.is_deleting()),
        ("allocated", allocated),
        ("reserved", allocated && row.count("/status/reservedFor") > 0),
    ]
    .into_iter()
    .filter_map(|(state, holds)| holds.then_some(state))
    .collect();
    vec![row.name(), json!(states.join(",")), row.age()]
}

pub(super) fn resource_slice(row: Row<'_>) -> Vec<Value> {
    let [node, driver, pool] = ["/spec/nodeName", "/spec/driver", "/spec/pool/name"].map(|at| json!(row.text(at)));
    vec![row.name(), node, driver, pool, row.age()]
}

pub(super) fn runtime_class(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("/handler")), row.age()]
}

pub(super) fn service_cidr(row: Row<'_>) -> Vec<Value> {
    let ranges: Vec<_> = row.items("/spec/cidrs").iter().map(plain).collect();
    vec![row.name(), json!(ranges.join(",")), row.age()]
}

pub(super) fn storage_class(row: Row<'_>) -> Vec<Value> {
    vec![
        row.marked("storageclass.kubernetes.io/is-default-class"),
        json!(row.text("/provisioner")),
        row.text_or("/reclaimPolicy", "Delete"),
        row.text_or("/volumeBindingMode", "Immediate"),
        json!(row.flag("/allowVolumeExpansion")),
        row.age(),
    ]
}

pub(super) fn volume_attachment(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        json!(row.text("/spec/attacher")),
        json!(row.text("/spec/source/persistentVolumeName")),
        json!(row.text("/spec/nodeName")),
        json!(row.flag("/status/attached")),
        row.age(),
    ]
}

pub(super) fn volume_attributes_class(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("/driverName")), row.age()]
}
