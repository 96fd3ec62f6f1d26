//! The rows of the kinds that a cluster is run by.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::row::{Row, or_none, plain};
use crate::time::{age, duration};

pub(super) fn node(row: Row<'_>) -> Vec<Value> {
    let ready = row.items("/status/conditions").iter().find(|condition| condition["type"] == "Ready");
    let status = ready.map_or("Unknown", |ready| if ready["status"] == "True" { "Ready" } else { "NotReady" });
    let status =
        if row.flag("/spec/unschedulable") { format!("{status},SchedulingDisabled") } else { status.to_owned() };
    let labels = row.at("/metadata/labels").as_object().into_iter().flatten();
    let roles: BTreeSet<_> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    let address = |kind: &str| {
        let found = row.items("/status/addresses").iter().find(|address| address["type"] == kind);
        or_none(found.map(|address| plain(&address["address"])).unwrap_or_default())
    };
    let info = |name: &str| {
        let text = row.at("/status/nodeInfo")[name].as_str().unwrap_or_default();
        if text.is_empty() { "<unknown>" } else { text }
    };
    let machine = row.text("/status/nodeInfo/architecture");
    let machine = if machine.is_empty() { String::new() } else { format!(" ({machine})") };
    vec![
        row.name(),
        json!(status),
        or_none(roles.into_iter().collect::<Vec<_>>().join(",")),
        row.age(),
        json!(row.text("/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(info("osImage")),
        json!(format!("{}{machine}", info("kernelVersion"))),
        json!(info("containerRuntimeVersion")),
    ]
}

pub(super) fn event(row: Row<'_>) -> Vec<Value> {
    let since = |pointer: &str| Some(row.text(pointer)).filter(|time| !time.is_empty()).map(age);
    let unknown = || "<unknown>".to_owned();
    let first = since("/firstTimestamp").or_else(|| since("/eventTime")).unwrap_or_else(unknown);
    let in_series = row.at("/series").is_object();
    let last = if in_series {
        since("/series/lastObservedTime").unwrap_or_else(unknown)
    } else {
        since("/lastTimestamp").unwrap_or_else(|| first.clone())
    };
    let count = if in_series { row.number("/series/count") } else { row.number("/count").max(1) };
    let (kind, name) = (row.text("/involvedObject/kind").to_lowercase(), row.text("/involvedObject/name"));
    let target = if name.is_empty() { kind } else { format!("{kind}/{name}") };
    let either = |first: &str, second: &str| {
        let first = row.text(first);
        if first.is_empty() { row.text(second).to_owned() } else { first.to_owned() }
    };
    let component = either("/source/component", "/reportingComponent");
    let source = match either("/source/host", "/reportingInstance") {
        host if host.is_empty() => component,
        host => format!("{component}, {host}"),
    };
    vec![
        json!(last),
        json!(row.text("/type")),
        json!(row.text("/reason")),
        json!(target),
        json!(row.text("/involvedObject/fieldPath")),
        json!(source),
        json!(row.text("/message").trim()),
        json!(first),
        json!(count),
        row.name(),
    ]
}

pub(super) fn binding(row: Row<'_>) -> Vec<Value> {
    let subjects = |kind: &str| {
        let all = row.items("/subjects").iter().filter(|subject| subject["kind"] == kind);
        let names: Vec<_> = all
            .map(|subject| {
                let name = plain(&subject["name"]);
                if kind == "ServiceAccount" { format!("{}/{name}", plain(&subject["namespace"])) } else { name }
            })
            .collect();
        json!(names.join(", "))
    };
    let role = format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name"));
    vec![row.name(), json!(role), row.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}

pub(super) fn quota(row: Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in row.at("/status/hard").as_object().into_iter().flatten() {
        let used = row.at("/status/used")[resource.as_str()].as_str().unwrap_or("0");
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", plain(hard)));
    }
    vec![row.name(), json!(requests.join(", ")), json!(limits.join(", ")), row.age()]
}

pub(super) fn priority_class(row: Row<'_>) -> Vec<Value> {
    let (value, default) = (json!(row.number("/value")), json!(row.flag("/globalDefault")));
    vec![row.name(), value, default, row.age(), json!(row.text("/preemptionPolicy"))]
}

pub(super) fn signing_request(row: Row<'_>) -> Vec<Value> {
    let has = |kind: &str| row.items("/status/conditions").iter().any(|condition| condition["type"] == kind);
    let mut status = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let lasts = row.at("/spec/expirationSeconds").as_u64().map(duration).unwrap_or_default();
    let (signer, user) = (row.text_or("/spec/signerName", "<none>"), json!(row.text("/spec/username")));
    vec![row.name(), row.age(), signer, user, or_none(lasts), json!(status)]
}

pub(super) fn admission_policy(row: Row<'_>, rules: &str) -> Vec<Value> {
    let kind = row.at("/spec/paramKind");
    let kind = if kind.is_object() {
        format!("{}/{}", plain(&kind["apiVersion"]), plain(&kind["kind"]))
    } else {
        "<unset>".to_owned()
    };
    vec![row.name(), json!(row.count(rules)), json!(kind), row.age()]
}

pub(super) fn admission_binding(row: Row<'_>) -> Vec<Value> {
    let param = row.at("/spec/paramRef");
    let param = if !param.is_object() {
        "<unset>".to_owned()
    } else if !plain(&param["name"]).is_empty() {
        let namespace = if param["namespace"].is_string() { plain(&param["namespace"]) } else { "*".to_owned() };
        format!("{namespace}/{}", plain(&param["name"]))
    } else if param["selector"].is_object() {
        super::row::selector_text(&param["selector"])
    } else {
        "<unset>".to_owned()
    };
    vec![row.name(), json!(row.text("/spec/policyName")), json!(param), row.age()]
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

pub(super) fn priority_level(row: Row<'_>) -> Vec<Value> {
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
