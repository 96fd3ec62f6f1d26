//! Discovery: what is served, in the old form and in the aggregated one.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http::{Answer, Request};
use crate::kinds::{Kind, Subresource};
use crate::status::Refusal;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The Kubernetes version whose behaviour is served.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.3",
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2026-07-22T18:07:38Z",
        "goVersion": "go1.26.8",
        "compiler": "gc",
        "platform": "linux/amd64"
    })
}

fn wants_aggregated(request: &Request) -> bool {
    let wanted = |range: &str| {
        range.starts_with("application/json") && range.contains("g=apidiscovery.k8s.io") && range.contains("v=v2;")
            || range.ends_with("v=v2") && range.contains("g=apidiscovery.k8s.io")
    };
    request.accepts().find(|range| range.starts_with("application/json")).is_some_and(wanted)
}

pub(crate) fn core(cluster: &Arc<Cluster>, request: &Request) -> Answer {
    if wants_aggregated(request) {
        return aggregated(cluster, &[String::new()]);
    }
    let versions = json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": request.header(http::header::HOST).unwrap_or_default()}]
    });
    Answer::json(StatusCode::OK, &versions)
}

pub(crate) fn groups(cluster: &Arc<Cluster>, request: &Request) -> Answer {
    let names = group_names(cluster);
    if wants_aggregated(request) {
        return aggregated(cluster, &names);
    }
    let groups: Vec<_> = names.iter().map(|name| group_value(cluster, name)).collect();
    Answer::json(StatusCode::OK, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

pub(crate) fn group(cluster: &Arc<Cluster>, name: &str) -> Answer {
    if name.is_empty() || !cluster.kinds().serves_group(name) {
        return Answer::no_page();
    }
    let mut group = group_value(cluster, name);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Answer::json(StatusCode::OK, &group)
}

/// The groups but the core one, in the order in which they came.
fn group_names(cluster: &Arc<Cluster>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for kind in cluster.kinds().iter().filter(|kind| !kind.group.is_empty()) {
        if !names.contains(&kind.group) {
            names.push(kind.group.clone());
        }
    }
    names
}

fn versions(cluster: &Arc<Cluster>, group: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for kind in cluster.kinds().iter().filter(|kind| kind.group == group) {
        if !versions.contains(&kind.version) {
            versions.push(kind.version.clone());
        }
    }
    versions.sort_by_key(|version| std::cmp::Reverse(crate::crd::priority(version)));
    versions
}

fn group_value(cluster: &Arc<Cluster>, name: &str) -> Value {
    let versions: Vec<_> = versions(cluster, name)
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

pub(crate) fn resources(cluster: &Arc<Cluster>, group: &str, version: &str) -> Answer {
    let kinds = cluster.kinds();
    if !kinds.serves_group_version(group, version) {
        let builtin = group.is_empty() || kinds.iter().any(|kind| kind.group == group && kind.custom.is_none());
        return if builtin { Refusal::unknown_resource().into() } else { Answer::no_page() };
    }
    let mut resources = Vec::new();
    for kind in kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        let mut resource = json!({
            "name": kind.resource, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": kind.verbs
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            resource["categories"] = json!(kind.categories);
        }
        if let Some(hash) = &kind.storage_hash {
            resource["storageVersionHash"] = json!(hash);
        }
        resources.push(resource);
        for subresource in &kind.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", kind.resource, subresource.name), "singularName": "",
                "namespaced": kind.namespaced, "kind": subresource.kind, "verbs": subresource.verbs
            });
            if let Some((group, version)) = &subresource.group_version {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            resources.push(entry);
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Answer::json(StatusCode::OK, &list)
}

fn aggregated(cluster: &Arc<Cluster>, groups: &[String]) -> Answer {
    let kinds = cluster.kinds();
    let items: Vec<_> = groups
        .iter()
        .map(|group| {
            let versions: Vec<_> = versions(cluster, group)
                .iter()
                .map(|version| {
                    let of_version = kinds.iter().filter(|kind| kind.group == *group && kind.version == *version);
                    json!({
                        "version": version,
                        "resources": of_version.map(|kind| aggregated_resource(kind)).collect::<Vec<_>>(),
                        "freshness": "Current"
                    })
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items
    });
    Answer::json(StatusCode::OK, &list).with_content_type(AGGREGATED)
}

fn aggregated_resource(kind: &Kind) -> Value {
    let custom = kind.custom.is_some();
    let response = |of: Option<&Subresource>| {
        let (group, version) = match of.and_then(|subresource| subresource.group_version.as_ref()) {
            Some((group, version)) => (group.as_str(), version.as_str()),
            None if custom => (kind.group.as_str(), kind.version.as_str()),
            None => ("", ""),
        };
        let name = of.map_or(&kind.kind, |subresource| &subresource.kind);
        json!({"group": group, "version": version, "kind": name})
    };
    let mut resource = json!({
        "resource": kind.resource,
        "responseKind": response(None),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    if !kind.subresources.is_empty() {
        let subresources = kind.subresources.iter().map(|subresource| {
            json!({
                "subresource": subresource.name, "responseKind": response(Some(subresource)), "verbs": subresource.verbs
            })
        });
        resource["subresources"] = subresources.collect();
    }
    resource
}
