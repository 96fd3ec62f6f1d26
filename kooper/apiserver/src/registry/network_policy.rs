//! NetworkPolicies.

use std::net::IpAddr;

use serde_json::Value;

use super::row::Row;
use super::strategy::Strategy;
use crate::cel::Cidr;
use crate::form;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, selector};

pub(super) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn validate(&self, object: &FieldValue<'_>, _: Write<'_>) {
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

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), row.selector("/spec/podSelector"), row.age()])
    }
}

fn policy_port(entry: &FieldValue<'_>) {
    entry.field("protocol").one_of(&["TCP", "UDP", "SCTP"]);
    let (port, end) = (entry.field("port"), entry.field("endPort"));
    match port.value {
        Value::Null if end.is_set() => end.invalid("may not be specified when `port` is not specified"),
        Value::Null => {}
        Value::String(_) => {
            end.invalid_if(end.is_set(), "may not be specified when `port` is non-numeric");
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

fn peer(peer: &FieldValue<'_>) {
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
                && (whole.bits == part.bits || !whole.contains_network(part))
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

fn block_of(at: &FieldValue<'_>) -> Option<Cidr> {
    let network = network(at.text());
    at.invalid_if(network.is_none(), "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    network
}

/// A network, also in the forms that CEL does not accept.
fn network(text: &str) -> Option<Cidr> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some(Cidr { address, bits })
}
