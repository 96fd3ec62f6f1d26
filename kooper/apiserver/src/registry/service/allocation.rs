//! Allocation of cluster IPs, IP families and node ports for Services.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use http::StatusCode;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::status::{Cause, StatusError};
use crate::{meta, random};

/// The network of cluster addresses, with the length of its prefix.
const NETWORK: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 96, 0, 0), 12);
/// The ports that nodes open for services, without the last.
const NODE_PORTS: std::ops::Range<i64> = 30_000..32_768;
/// The ports that the server chooses from; those before are left to clients that name a port.
const CHOSEN_PORTS: std::ops::Range<i64> = 30_086..32_768;

/// The address of the Service by which pods find the server.
pub(crate) fn first_address() -> Ipv4Addr {
    Ipv4Addr::from(u32::from(NETWORK.0) + 1)
}

/// Gives a new Service, or the next state of one, what it needs and lacks.
///
/// A dry run may have the address of another one.
pub(super) fn allocate(
    kind: &Kind,
    service: &mut Value,
    present: Option<&Value>,
    dry_run: bool,
) -> Result<(), StatusError> {
    if let Some(present) = present {
        keep(service, present);
    }
    pair_addresses(service, present);
    if let Some(present) = present {
        drop_unneeded(service, present);
    }
    let mut causes = Vec::new();
    if is_internal(service) {
        causes = super::cluster_addresses(service);
        if causes.is_empty() {
            families(service, present, &mut causes);
        }
        if causes.is_empty() {
            address(kind, service, present, dry_run, &mut causes);
        }
    }
    if causes.is_empty() {
        node_ports(kind, service, present, dry_run, &mut causes)?;
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid_object(kind, meta::text(service, "name"), &causes))
}

/// Returns whether an ingress point of a load balancer has an IP but no `ipMode`.
pub(super) fn lacks_modes(service: &Value) -> bool {
    let points = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let mut points = points.filter(|point| point["ip"].as_str().is_some_and(|ip| !ip.is_empty()));
    text(service, "type") == "LoadBalancer" && points.any(|point| point["ipMode"].is_null())
}

/// The fields that have no effect on a Service of this type.
pub(super) fn warnings(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_headless(service) && text(service, "sessionAffinity") == "ClientIP" {
        warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
    if is_internal(service) && !text(service, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    warnings
}

fn text<'a>(service: &'a Value, key: &str) -> &'a str {
    service["spec"][key].as_str().unwrap_or_default()
}

/// It has an address within the cluster, or says that it has none.
fn is_internal(service: &Value) -> bool {
    text(service, "type") != "ExternalName"
}

fn is_headless(service: &Value) -> bool {
    text(service, "clusterIP") == "None"
}

fn opens_node_ports(service: &Value) -> bool {
    matches!(text(service, "type"), "NodePort" | "LoadBalancer")
}

fn checks_health(service: &Value) -> bool {
    text(service, "type") == "LoadBalancer" && text(service, "externalTrafficPolicy") == "Local"
}

/// It takes traffic from outside of the cluster.
fn is_external(service: &Value) -> bool {
    let addresses = service["spec"]["externalIPs"].as_array().is_some_and(|addresses| !addresses.is_empty());
    opens_node_ports(service) || text(service, "type") == "ClusterIP" && addresses
}

fn remove(service: &mut Value, key: &str) {
    if let Value::Object(spec) = &mut service["spec"] {
        spec.remove(key);
    }
}

fn ports(service: &Value) -> impl Iterator<Item = &Value> {
    service["spec"]["ports"].as_array().into_iter().flatten()
}

fn ports_mut(service: &mut Value) -> impl Iterator<Item = &mut Value> {
    service["spec"]["ports"].as_array_mut().into_iter().flatten()
}

fn node_port(port: &Value) -> i64 {
    port["nodePort"].as_i64().unwrap_or(0)
}

/// An update that leaves out what the server allocated keeps it.
fn keep(service: &mut Value, present: &Value) {
    if is_internal(service) && is_internal(present) {
        for key in ["clusterIP", "clusterIPs"] {
            let value = &present["spec"][key];
            if service["spec"][key].is_null() && !value.is_null() {
                service["spec"][key] = value.clone();
            }
        }
    }
    if opens_node_ports(service) && opens_node_ports(present) {
        let used: HashSet<i64> = ports(service).map(node_port).collect();
        for port in ports_mut(service) {
            let before = ports(present).filter(|before| before["name"] == port["name"]).last().map_or(0, node_port);
            if node_port(port) == 0 && before != 0 && !used.contains(&before) {
                port["nodePort"] = json!(before);
            }
        }
    }
    let health = &present["spec"]["healthCheckNodePort"];
    if checks_health(service) && checks_health(present) && service["spec"]["healthCheckNodePort"].is_null() {
        service["spec"]["healthCheckNodePort"] = health.clone();
    }
}

/// `clusterIP` is the first of `clusterIPs`.
pub(super) fn pair_addresses(service: &mut Value, present: Option<&Value>) {
    let single = text(service, "clusterIP").to_owned();
    let several = service["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default();
    let Some(present) = present else {
        if !single.is_empty() && several.is_empty() {
            service["spec"]["clusterIPs"] = json!([single]);
        }
        return;
    };
    let before = text(present, "clusterIP");
    let all_before = present["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default();
    if single == before {
        if several.is_empty() && !all_before.is_empty() {
            service["spec"]["clusterIPs"] = json!(all_before);
        }
    } else if all_before == several {
        // A change of the old field alone is meant for both.
        if single.is_empty() {
            remove(service, "clusterIPs");
        } else {
            service["spec"]["clusterIPs"] = json!([single]);
        }
    }
}

/// A change of type drops what the new type does not have, where the client left it as it was.
fn drop_unneeded(service: &mut Value, present: &Value) {
    let same = |service: &Value, key: &str| service["spec"][key] == present["spec"][key];
    if is_internal(present) && !is_internal(service) {
        if same(service, "clusterIP") && same(service, "clusterIPs") {
            remove(service, "clusterIP");
            remove(service, "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if same(service, key) {
                remove(service, key);
            }
        }
    }
    let was_open: Vec<_> = ports(present).map(node_port).collect();
    let is_added = |port: &Value| node_port(port) != 0 && !was_open.contains(&node_port(port));
    if opens_node_ports(present) && !opens_node_ports(service) && !ports(service).any(is_added) {
        for port in ports_mut(service).filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    let balanced = |service: &Value| text(service, "type") == "LoadBalancer";
    for (key, before, after) in [
        ("healthCheckNodePort", checks_health(present), checks_health(service)),
        ("allocateLoadBalancerNodePorts", balanced(present), balanced(service)),
        ("loadBalancerClass", balanced(present), balanced(service)),
        ("externalTrafficPolicy", is_external(present), is_external(service)),
    ] {
        if before && !after && same(service, key) {
            remove(service, key);
        }
    }
    if !balanced(service) {
        service["status"]["loadBalancer"] = json!({});
    }
}

/// The cluster has addresses of IPv4 alone.
fn families(service: &mut Value, present: Option<&Value>, causes: &mut Vec<Cause>) {
    let selects = service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let free = is_headless(service) && !selects;
    if text(service, "ipFamilyPolicy").is_empty() {
        let before = present.map(|present| present["spec"]["ipFamilyPolicy"].clone()).filter(Value::is_string);
        let policy = if free { "RequireDualStack" } else { "SingleStack" };
        service["spec"]["ipFamilyPolicy"] = before.unwrap_or_else(|| json!(policy));
    }
    let policy = text(service, "ipFamilyPolicy").to_owned();
    let mut given = service["spec"]["ipFamilies"].as_array().cloned().unwrap_or_default();
    let ips = service["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default();
    if policy == "SingleStack" {
        for (several, what) in [(&ips, "cluster IPs"), (&given, "IP families")] {
            if several.len() == 2 {
                let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                causes.push(Cause::invalid("spec.ipFamilyPolicy", &json!(policy), why));
            }
        }
    }
    // Without families, they are those of the addresses.
    for (index, ip) in ips.iter().enumerate().take_while(|(_, ip)| **ip != "None").skip(given.len()) {
        if ip.as_str().is_some_and(|ip| ip.contains(':')) {
            let field = format!("spec.clusterIPs[{index}]");
            causes.push(Cause::invalid(field, &json!(ips), "IPv6 is not configured on this cluster"));
        } else {
            given.push(json!("IPv4"));
        }
    }
    if !causes.is_empty() {
        return;
    }
    if free {
        let mut all = if given.is_empty() { vec![json!("IPv4")] } else { given };
        if all.len() < 2 && policy != "SingleStack" {
            all.push(if all[0] == "IPv4" { json!("IPv6") } else { json!("IPv4") });
        }
        service["spec"]["ipFamilies"] = json!(all);
        return;
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        causes.push(Cause::invalid("spec.ipFamilyPolicy", &json!(policy), why));
    }
    for (index, family) in given.iter().enumerate().filter(|(_, family)| **family != "IPv4") {
        let field = format!("spec.ipFamilies[{index}]");
        causes.push(Cause::invalid(field, family, "not configured on this cluster"));
    }
    service["spec"]["ipFamilies"] = if given.is_empty() { json!(["IPv4"]) } else { json!(given) };
}

/// The address within the cluster.
fn address(kind: &Kind, service: &mut Value, present: Option<&Value>, dry_run: bool, causes: &mut Vec<Cause>) {
    if is_headless(service) || present.is_some_and(is_internal) {
        return;
    }
    let given = text(service, "clusterIP").to_owned();
    let taken = |address: &str| {
        let others = kind.table.snapshot();
        let index = kind.fields.iter().position(|field| field == "spec.clusterIP");
        index.is_some_and(|index| others.tree.range("").any(|(_, other)| *other.traits().fields[index] == *address))
    };
    if given.is_empty() && dry_run {
        // Which one it would be is not looked for.
        service["spec"]["clusterIP"] = json!(NETWORK.0.to_string());
        service["spec"]["clusterIPs"] = json!([NETWORK.0.to_string()]);
        return;
    }
    if given.is_empty() {
        let bits = 32 - NETWORK.1;
        let free = (0..1000).map(|_| {
            // Neither the network's own address nor that for all.
            let host = 2 + random::below((1 << bits) - 3);
            Ipv4Addr::from(u32::from(NETWORK.0) | host).to_string()
        });
        let Some(address) = { free }.find(|address| !taken(address)) else { return };
        service["spec"]["clusterIP"] = json!(address);
        service["spec"]["clusterIPs"] = json!([address]);
        return;
    }
    let known = given.parse().is_ok_and(|address: Ipv4Addr| {
        u32::from(address) >> (32 - NETWORK.1) == u32::from(NETWORK.0) >> (32 - NETWORK.1)
    });
    let why = if !known && dry_run {
        format!(
            "the provided IP ({given}) is not in the valid range. The range of valid IPs is {}/{}",
            NETWORK.0, NETWORK.1
        )
    } else if !known {
        "the provided network does not match the current range".to_owned()
    } else if !dry_run && taken(&given) {
        "provided IP is already allocated".to_owned()
    } else {
        return;
    };
    let why = format!("failed to allocate IP {given}: {why}");
    causes.push(Cause::invalid("spec.clusterIPs", &json!([given]), why));
}

/// The ports that all nodes open for the Service.
fn node_ports(
    kind: &Kind,
    service: &mut Value,
    present: Option<&Value>,
    dry_run: bool,
    causes: &mut Vec<Cause>,
) -> Result<(), StatusError> {
    if !opens_node_ports(service) && !checks_health(service) {
        return Ok(());
    }
    let mut own: HashSet<i64> = present.into_iter().flat_map(opened).collect();
    let mut taken = taken_ports(kind, meta::text(service, "uid"));
    let allocates = text(service, "type") == "NodePort" || service["spec"]["allocateLoadBalancerNodePorts"] != false;
    let mut tried: Vec<i64> = Vec::new();
    let next = |taken: &mut HashSet<i64>, tried: &mut Vec<i64>| {
        if dry_run {
            // One behind the others, or behind all that there could be.
            tried.push(tried.iter().max().unwrap_or(&NODE_PORTS.end) + 1);
            return tried.last().copied();
        }
        let span = u32::try_from(CHOSEN_PORTS.end - CHOSEN_PORTS.start).unwrap_or(1);
        let mut candidates = (0..4096).map(|_| CHOSEN_PORTS.start + i64::from(random::below(span)));
        let port = candidates.find(|port| !taken.contains(port))?;
        taken.insert(port);
        Some(port)
    };
    // One port number of several protocols is the same port of the node when a Service is created. The real server does
    // not look at that when it updates one, but at what comes twice.
    let mut shared: HashMap<i64, i64> = HashMap::new();
    let mut updated: HashSet<(String, i64)> = HashSet::new();
    for (index, port) in ports_mut(service).enumerate() {
        let number = port["port"].as_i64().unwrap_or(0);
        let wanted = node_port(port);
        if wanted != 0 {
            if shared.get(&number) != Some(&wanted) && !own.contains(&wanted) {
                let why = if !NODE_PORTS.contains(&wanted) && !dry_run {
                    Some(format!(
                        "provided port is not in the valid range. The range of valid ports is {}-{}",
                        NODE_PORTS.start,
                        NODE_PORTS.end - 1
                    ))
                } else if taken.contains(&wanted) {
                    Some("provided port is already allocated".to_owned())
                } else {
                    None
                };
                if let Some(why) = why {
                    causes.push(Cause::invalid(format!("spec.ports[{index}].nodePort"), &json!(wanted), why));
                    return Ok(());
                }
                tried.push(wanted);
            }
            taken.insert(wanted);
        } else if allocates {
            let Some(allocated) = shared.get(&number).copied().or_else(|| next(&mut taken, &mut tried)) else {
                return Ok(());
            };
            port["nodePort"] = json!(allocated);
        } else {
            continue;
        }
        let node = node_port(port);
        if present.is_none() {
            shared.entry(number).or_insert(node);
            continue;
        }
        own.insert(node);
        let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
        if !updated.insert((protocol.clone(), node)) {
            let why = format!("duplicate nodePort: {{{protocol} {node}}}");
            return Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why));
        }
    }
    if checks_health(service)
        && service["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0) == 0
        && let Some(port) = next(&mut taken, &mut tried)
    {
        service["spec"]["healthCheckNodePort"] = json!(port);
    }
    Ok(())
}

/// The ports that a Service has.
fn opened(service: &Value) -> impl Iterator<Item = i64> {
    let health = service["spec"]["healthCheckNodePort"].as_i64();
    ports(service).map(node_port).chain(health).filter(|port| *port != 0)
}

/// The ports of all other services.
fn taken_ports(kind: &Kind, own: &str) -> HashSet<i64> {
    let Some(index) = kind.fields.iter().position(|field| field == "spec.type") else { return HashSet::new() };
    let snapshot = kind.table.snapshot();
    let others = snapshot.tree.range("").filter(|(_, other)| {
        matches!(other.traits().fields[index].as_ref(), "NodePort" | "LoadBalancer") && *other.traits().uid != *own
    });
    others.flat_map(|(_, other)| opened(&other.value()).collect::<Vec<_>>()).collect()
}
