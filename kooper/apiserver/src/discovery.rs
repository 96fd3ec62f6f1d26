//! Discovery: what is served, in the old form and in the aggregated one.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http::accept::{self, Encoding};
use crate::http::{Answer, Request};
use crate::kinds::{Kind, Subresource};
use crate::status::StatusError;
use crate::verbs::Media;

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

/// Returns the encoding of aggregated discovery, if the client prefers it.
fn aggregated_encoding(request: &Request) -> Option<Encoding> {
    let preferred = accept::negotiate(request.accept(), |range, encoding| match range.form() {
        _ if !accept::streams(range, encoding) => None,
        None => Some(None),
        Some(["apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"]) => Some(Some(encoding)),
        Some(_) => None,
    });
    preferred.flatten()
}

pub(crate) fn core(cluster: &Arc<Cluster>, request: &Request) -> Result<Answer, StatusError> {
    if let Some(encoding) = aggregated_encoding(request) {
        return aggregated(cluster, &[String::new()], encoding);
    }
    Media::check_plain(request)?;
    let versions = json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": request.header(http::header::HOST).unwrap_or_default()}]
    });
    Ok(Answer::json(StatusCode::OK, &versions))
}

pub(crate) fn groups(cluster: &Arc<Cluster>, request: &Request) -> Result<Answer, StatusError> {
    if let Some(encoding) = aggregated_encoding(request) {
        return aggregated(cluster, &group_names(cluster, |kind| kind.group.clone()), encoding);
    }
    Media::check_plain(request)?;
    // The order of the names of APIServices.
    let names = group_names(cluster, |kind| format!("{}.{}", kind.version, kind.group));
    let groups: Vec<_> = names.iter().map(|name| group_value(cluster, name)).collect();
    Ok(Answer::json(StatusCode::OK, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})))
}

pub(crate) fn group(cluster: &Arc<Cluster>, request: &Request, name: &str) -> Result<Answer, StatusError> {
    if name.is_empty() || !cluster.kinds().serves_group(name) {
        return Ok(Answer::no_page());
    }
    Media::check_plain(request)?;
    let mut group = group_value(cluster, name);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Ok(Answer::json(StatusCode::OK, &group))
}

/// The groups but the core one. Those of definitions come last, in the order of these texts about their versions.
fn group_names(cluster: &Arc<Cluster>, order: impl Fn(&Kind) -> String) -> Vec<String> {
    let kinds = cluster.kinds();
    let (mut custom, builtin): (Vec<_>, Vec<_>) =
        kinds.iter().filter(|kind| !kind.group.is_empty()).partition(|kind| kind.custom.is_some());
    custom.sort_by_key(|kind| order(kind));
    let mut names: Vec<String> = Vec::new();
    for kind in builtin.into_iter().chain(custom) {
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

pub(crate) fn resources(
    cluster: &Arc<Cluster>,
    request: &Request,
    group: &str,
    version: &str,
) -> Result<Answer, StatusError> {
    let kinds = cluster.kinds();
    if !kinds.serves_group_version(group, version) {
        let builtin = group.is_empty() || kinds.iter().any(|kind| kind.group == group && kind.custom.is_none());
        return if builtin { Err(StatusError::unknown_resource()) } else { Ok(Answer::no_page()) };
    }
    Media::check_plain(request)?;
    let mut resources = Vec::new();
    for kind in kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        let mut resource = json!({
            "name": kind.resource, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": kind.verbs
        });
        add_names(kind, &mut resource);
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
    Ok(Answer::json(StatusCode::OK, &list))
}

/// Adds the short names and the categories of a resource, which most do not have.
fn add_names(kind: &Kind, resource: &mut Value) {
    for (key, names) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !names.is_empty() {
            resource[key] = json!(names);
        }
    }
}

fn aggregated(cluster: &Arc<Cluster>, groups: &[String], encoding: Encoding) -> Result<Answer, StatusError> {
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
    let content_type = match encoding {
        Encoding::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Encoding::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    };
    Ok(Answer::json(StatusCode::OK, &list).encoded(encoding)?.with_content_type(content_type))
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
    add_names(kind, &mut resource);
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
