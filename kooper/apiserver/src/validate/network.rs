//! The rules of Ingresses and NetworkPolicies.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::at::At;
use super::selector;
use crate::form;

/// What a path of an ingress never has in it.
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
/// How a path of an ingress never ends.
const BAD_ENDS: [&str; 2] = ["/..", "/."];

pub(super) fn ingress(object: &At<'_>) {
    let spec = object.field("spec");
    let (rules, backend) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.is_empty() && !backend.is_set() {
        spec.invalid_as(rules.value, "either `defaultBackend` or `rules` must be specified");
    }
    if backend.is_set() {
        self::backend(&backend);
    }
    for rule in rules.items() {
        let host = rule.field("host");
        if host.text().parse::<IpAddr>().is_ok() {
            host.invalid("must be a DNS name, not an IP address");
        }
        host.form(if host.text().contains('*') { form::wildcard_subdomain } else { form::dns_subdomain });
        let http = rule.field("http");
        if http.is_set() {
            http.field("paths").required("");
            http.field("paths").items().iter().for_each(path);
        }
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            let check = if host.text().contains('*') { form::wildcard_subdomain } else { form::dns_subdomain };
            host.form_even_if_empty(check);
        }
        tls.field("secretName").form(form::dns_subdomain);
    }
    spec.field("ingressClassName").form(form::dns_subdomain);
}

fn path(entry: &At<'_>) {
    let (kind, path) = (entry.field("pathType"), entry.field("path"));
    if !kind.is_set() {
        return kind.require("pathType must be specified");
    }
    let text = path.text();
    let exact = matches!(kind.text(), "Exact" | "Prefix");
    if !exact && kind.text() != "ImplementationSpecific" {
        kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"]);
    } else if !text.starts_with('/') && (exact || !text.is_empty()) {
        path.invalid_as(&json!(text), "must be an absolute path");
    }
    if exact {
        for sequence in BAD_SEQUENCES.iter().filter(|sequence| text.contains(**sequence)) {
            path.invalid(format!("must not contain '{sequence}'"));
        }
        for end in BAD_ENDS.iter().filter(|end| text.ends_with(**end)) {
            path.invalid(format!("cannot end with '{end}'"));
        }
    }
    backend(&entry.field("backend"));
}

fn backend(backend: &At<'_>) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    let refuse = |why: &str| backend.invalid_as(&json!(""), why);
    match (resource.is_set(), service.is_set()) {
        (true, true) => refuse("cannot set both resource and service backends"),
        (false, false) => refuse("resource or service backend is required"),
        (true, false) => {
            for key in ["kind", "name"] {
                resource.field(key).name(form::path_segment);
            }
        }
        (false, true) => {
            service.field("name").name(form::dns_label);
            let (name, number) = (service.field("port.name"), service.field("port.number"));
            let numbered = number.number().is_some_and(|number| number != 0);
            match (!name.is_empty(), numbered) {
                (true, true) => refuse("cannot set both port name & port number"),
                (true, false) => name.form(form::port_name),
                (false, true) => number.between(1, 65535),
                (false, false) => backend.require("port name or number is required"),
            }
        }
    }
}

pub(super) fn network_policy(object: &At<'_>) {
    let spec = object.field("spec");
    selector::validate(&spec.field("podSelector"));
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(direction).items() {
            rule.field("ports").items().iter().for_each(policy_port);
            rule.field(peers).items().iter().for_each(peer);
        }
    }
    let types = spec.field("policyTypes");
    if types.items().len() > 2 {
        return types.invalid("may not specify more than two policyTypes");
    }
    for kind in types.items() {
        if !matches!(kind.text(), "Ingress" | "Egress") {
            kind.not_supported(&["Ingress", "Egress"]);
        }
    }
}

fn policy_port(entry: &At<'_>) {
    entry.field("protocol").one_of(&["TCP", "UDP", "SCTP"]);
    let (port, end) = (entry.field("port"), entry.field("endPort"));
    match port.value {
        Value::Null if end.is_set() => end.invalid("may not be specified when `port` is not specified"),
        Value::Null => {}
        Value::String(_) => {
            if end.is_set() {
                end.invalid("may not be specified when `port` is non-numeric");
            }
            port.form_even_if_empty(form::port_name);
        }
        _ => {
            port.between(1, 65535);
            if end.number().zip(port.number()).is_some_and(|(end, port)| end < port) {
                end.invalid_as(port.value, "must be greater than or equal to `port`");
            }
            end.between(1, 65535);
        }
    }
}

fn peer(peer: &At<'_>) {
    let [pods, namespaces, block] = ["podSelector", "namespaceSelector", "ipBlock"].map(|key| peer.field(key));
    let given = [&pods, &namespaces, &block].into_iter().filter(|at| at.is_set()).count();
    for selector in [&pods, &namespaces] {
        selector::validate(selector);
    }
    if block.is_set() && block.field("cidr").required("") {
        let cidr = block.field("cidr");
        block_of(&cidr);
        for except in block.field("except").items() {
            if let (Some(whole), Some(part)) = (network(cidr.text()), block_of(&except))
                && (!contains(whole, part.0) || whole.1 >= part.1)
            {
                except.invalid("must be a strict subset of `cidr`");
            }
        }
    }
    if given == 0 {
        peer.require("must specify a peer");
    } else if given > 1 && block.is_set() {
        peer.forbidden("may not specify both ipBlock and another peer");
    }
}

fn block_of(at: &At<'_>) -> Option<(IpAddr, u8)> {
    let network = network(at.text());
    if network.is_none() {
        at.invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
    network
}

/// An address and the length of its prefix.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

fn contains((network, bits): (IpAddr, u8), address: IpAddr) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    network.is_ipv4() == address.is_ipv4() && number(network) & mask == number(address) & mask
}
