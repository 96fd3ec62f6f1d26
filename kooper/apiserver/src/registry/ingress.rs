//! Ingresses.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;
use crate::form;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;

/// Sequences that the path of an ingress must not contain.
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
/// Endings that the path of an ingress must not have.
const BAD_ENDS: [&str; 2] = ["/..", "/."];

pub(super) struct Ingress;

impl Strategy for Ingress {
    fn validate(&self, object: &FieldValue<'_>, _: Write<'_>) {
        let spec = object.field("spec");
        let (rules, backend) = (spec.field("rules"), spec.field("defaultBackend"));
        if rules.is_empty() && !backend.is_set() {
            spec.invalid_as(rules.value, "either `defaultBackend` or `rules` must be specified");
        }
        if backend.is_set() {
            validate_backend(&backend);
        }
        for rule in rules.items() {
            let host = rule.field("host");
            host.invalid_if(host.text().parse::<IpAddr>().is_ok(), "must be a DNS name, not an IP address");
            host.form(if host.text().contains('*') { form::wildcard_subdomain } else { form::dns_subdomain });
            let http = rule.field("http");
            if http.is_set() {
                http.field("paths").required("");
                http.field("paths").items().iter().for_each(validate_path);
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

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let rules = row.items("/spec/rules");
        let named = rules.iter().enumerate().map(|(index, rule)| (index, rule["host"].as_str().unwrap_or_default()));
        let named: Vec<_> = named.filter(|(_, host)| !host.is_empty()).collect();
        let hosts = named.iter().take(3).map(|(_, host)| *host).collect::<Vec<_>>().join(",");
        let hosts = match named.get(2) {
            _ if hosts.is_empty() => "*".to_owned(),
            // Whatever comes after the third is more, with a host or without.
            Some((third, _)) if third + 1 < rules.len() => format!("{hosts} + {} more...", rules.len() - 3),
            _ => hosts,
        };
        let ports = if row.items("/spec/tls").is_empty() { "80" } else { "80, 443" };
        Some(vec![
            row.name(),
            row.text_or("/spec/ingressClassName", "<none>"),
            json!(hosts),
            json!(row.balancer()),
            json!(ports),
            row.age(),
        ])
    }
}

fn validate_path(entry: &FieldValue<'_>) {
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
    validate_backend(&entry.field("backend"));
}

fn validate_backend(backend: &FieldValue<'_>) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Ingress;
    use crate::registry::row::Row;
    use crate::registry::strategy::Strategy;

    #[test]
    fn an_ingress_shows_three_hosts() {
        let rules = ["a", "b", "c"].map(|host| json!({"host": host}));
        let ingress = json!({"spec": {"rules": rules}});
        assert_eq!(Ingress.cells(Row(&ingress)).expect("it has columns")[2], "a,b,c");
    }
}
