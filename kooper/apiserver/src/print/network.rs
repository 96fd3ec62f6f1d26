//! The rows of the kinds that lead traffic to pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::row::{Row, first, or_none, plain};

pub(super) fn service(row: Row<'_>) -> Vec<Value> {
    let ports: Vec<_> = row
        .items("/spec/ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (plain(&port["port"]), plain(&port["protocol"]));
            match port["nodePort"].as_i64().filter(|node| *node > 0) {
                Some(node) => format!("{number}:{node}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    vec![
        row.name(),
        json!(row.text("/spec/type")),
        row.text_or("/spec/clusterIPs/0", "<none>"),
        json!(outside(row)),
        or_none(ports.join(",")),
        row.age(),
        row.labels("/spec/selector"),
    ]
}

/// The addresses of a Service outside of the cluster.
fn outside(row: Row<'_>) -> String {
    let own: Vec<_> = row.items("/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match row.text("/spec/type") {
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own.join(","),
        "LoadBalancer" => {
            let balancer = balancer(row);
            let all: Vec<_> = balancer.split(',').filter(|part| !part.is_empty()).chain(own).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of a load balancer, sorted.
fn balancer(row: Row<'_>) -> String {
    let points = row.items("/status/loadBalancer/ingress").iter();
    let addresses: BTreeSet<_> = points
        .filter_map(|point| {
            ["ip", "hostname"].into_iter().find_map(|key| point[key].as_str().filter(|text| !text.is_empty()))
        })
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn ingress(row: Row<'_>) -> Vec<Value> {
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
    vec![
        row.name(),
        row.text_or("/spec/ingressClassName", "<none>"),
        json!(hosts),
        json!(balancer(row)),
        json!(ports),
        row.age(),
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
    let name = super::marked(row, "ingressclass.kubernetes.io/is-default-class");
    vec![name, json!(row.text("/spec/controller")), json!(shown), row.age()]
}

pub(super) fn network_policy(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.selector("/spec/podSelector"), row.age()]
}

pub(super) fn endpoints(row: Row<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in row.items("/subsets") {
        let subset = Row(subset);
        let addresses = subset.items("/addresses").iter().map(|address| address["ip"].as_str().unwrap_or_default());
        let ports = subset.items("/ports");
        if ports.is_empty() {
            all.extend(addresses.map(ToOwned::to_owned));
            continue;
        }
        for port in ports {
            all.extend(addresses.clone().map(|address| match address.contains(':') {
                true => format!("[{address}]:{}", port["port"]),
                false => format!("{address}:{}", port["port"]),
            }));
        }
    }
    let shown = if row.items("/subsets").is_empty() { "<none>".to_owned() } else { first(&all, 3, ",") };
    vec![row.name(), json!(shown), row.age()]
}

pub(super) fn endpoint_slice(row: Row<'_>) -> Vec<Value> {
    let ports: Vec<_> = row
        .items("/ports")
        .iter()
        .map(|port| match (&port["port"], &port["name"]) {
            (Value::Null, Value::String(name)) => name.clone(),
            (Value::Null, _) => "*".to_owned(),
            (number, _) => number.to_string(),
        })
        .collect();
    let addresses = row.items("/endpoints").iter().filter_map(|endpoint| endpoint["addresses"].as_array()).flatten();
    let addresses: Vec<_> = addresses.map(plain).collect();
    let shown = |all: &[String]| {
        let text = first(all, 3, ",");
        json!(if text.is_empty() { "<unset>".to_owned() } else { text })
    };
    vec![row.name(), json!(row.text("/addressType")), shown(&ports), shown(&addresses), row.age()]
}

pub(super) fn service_cidr(row: Row<'_>) -> Vec<Value> {
    let ranges: Vec<_> = row.items("/spec/cidrs").iter().map(plain).collect();
    vec![row.name(), json!(ranges.join(",")), row.age()]
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
