//! Services.

mod allocation;

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Value, json};

pub(crate) use self::allocation::first_address;
use super::row::{Row, or_none, plain};
use super::strategy::{Allocation, Strategy, Update};
use crate::amounts::Amounts;
use crate::cause::Cause;
use crate::kinds::Kind;
use crate::quantity::Quantity;
use crate::status::StatusError;
use crate::task::{SERVICE, Task};
use crate::validate::container::port_or_name;
use crate::validate::field_value::{Causes, FieldValue};
use crate::validate::{self, Write};
use crate::{form, meta};

/// Quota resources for Services.
const COUNTED: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
/// A day: the longest affinity of a client, in seconds.
const DAY: i64 = 86_400;

pub(super) struct Service;

impl Strategy for Service {
    fn name_form(&self) -> form::Check {
        form::dns_label
    }

    fn is_created_by_status(&self) -> bool {
        true
    }

    /// A Service that becomes an ExternalName keeps its internal policy, which it shows again when it becomes another
    /// Service.
    fn hidden<'a>(&self, object: &'a Value) -> Option<&'a str> {
        let spec = &object["spec"];
        if spec["type"] == "ExternalName" { spec["internalTrafficPolicy"].as_str() } else { None }
    }

    fn hide(&self, object: &mut Value) {
        if let Value::Object(spec) = &mut object["spec"] {
            spec.remove("internalTrafficPolicy");
        }
    }

    fn reveal(&self, object: &mut Value, hidden: &str) {
        object["spec"]["internalTrafficPolicy"] = json!(hidden);
    }

    fn prepare_for_create(&self, kind: &Kind, object: &mut Value, allocation: Allocation) -> Result<(), StatusError> {
        if allocation == Allocation::None {
            return Ok(());
        }
        allocation::allocate(kind, object, None, allocation == Allocation::Tried)
    }

    fn prepare_for_update(&self, kind: &Kind, object: &mut Value, update: Update<'_>) -> Result<(), StatusError> {
        if !update.status {
            return allocation::allocate(kind, object, Some(update.present), update.dry_run);
        }
        if allocation::lacks_modes(object) {
            // Where a point takes traffic has no default here, unless the client says that it is a load balancer.
            let causes = super::validate(kind, object, Write::Status(update.present), &mut Vec::new());
            return Err(StatusError::invalid_object(kind, meta::text(object, "name"), &causes));
        }
        Ok(())
    }

    fn complete(&self, object: &mut Value) {
        allocation::pair_addresses(object, None);
    }

    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        deleted.then(|| match (meta::text(object, "namespace"), meta::text(object, "name")) {
            ("default", SERVICE) => Task::Publish,
            (namespace, name) => Task::Endpoints(namespace.to_owned(), name.to_owned()),
        })
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let spec = object.field("spec");
        let kind = match spec.field("type").text() {
            "" => "ClusterIP",
            kind => kind,
        };
        let headless = spec.value["clusterIPs"][0] == "None";
        if let Some(present) = write.present() {
            keep_addresses(&spec, &present["spec"], kind);
        }
        let ports = spec.field("ports");
        ports.require_if(ports.is_empty() && !headless && kind != "ExternalName", "");
        match kind {
            "LoadBalancer" | "NodePort" if headless => {
                let first = spec.field("clusterIPs").named("spec.clusterIPs[0]".to_owned());
                first.invalid_as(&json!("None"), format!("may not be set to 'None' for {kind} services"));
            }
            "ExternalName" => external_name(&spec),
            _ => {}
        }
        each_port(&ports, kind);
        validate::labels(&spec.field("selector"));
        let affinity = spec.field("sessionAffinity");
        affinity.one_of(&["ClientIP", "None"]);
        let timeout = spec.field("sessionAffinityConfig.clientIP.timeoutSeconds");
        if affinity.text() == "ClientIP" && timeout.number().is_some_and(|seconds| seconds <= 0 || seconds > DAY) {
            timeout.invalid(format!("must be greater than 0 and less than {DAY}"));
        }
        if kind != "ExternalName" {
            cluster_ips(&spec);
        }
        for ip in spec.field("externalIPs").items() {
            address(&ip);
        }
        spec.field("type").one_of(&TYPES);
        if kind != "LoadBalancer" {
            let why = "may only be used when `type` is 'LoadBalancer'";
            spec.field("allocateLoadBalancerNodePorts").forbidden_if_set(why);
            spec.field("loadBalancerClass").forbidden_if_set(why);
            if !spec.field("loadBalancerSourceRanges").is_empty() {
                spec.field("loadBalancerSourceRanges").named("spec.LoadBalancerSourceRanges".to_owned()).forbidden(why);
            }
        }
        let external = spec.field("externalTrafficPolicy");
        let accessible = match kind {
            "LoadBalancer" | "NodePort" => true,
            "ClusterIP" => !spec.field("externalIPs").is_empty(),
            _ => false,
        };
        if !external.is_empty() && !accessible {
            external.invalid("may only be set for externally-accessible services");
        } else {
            external.one_of(&["Cluster", "Local"]);
        }
        spec.field("internalTrafficPolicy").one_of(&["Cluster", "Local"]);
    }

    fn validate_status(&self, object: &FieldValue<'_>, present: &Value) {
        validate_points(object, present);
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        allocation::warnings(object)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
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
        Some(vec![
            row.name(),
            json!(row.text("/spec/type")),
            row.text_or("/spec/clusterIPs/0", "<none>"),
            json!(outside(row)),
            or_none(ports.join(",")),
            row.age(),
            row.labels("/spec/selector"),
        ])
    }

    fn counts_for(&self, name: &str) -> bool {
        COUNTED.contains(&name)
    }

    fn add_usage(&self, object: &Value, used: &mut Amounts) {
        let spec = &object["spec"];
        let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
        let chosen = ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count();
        let (balancers, ports) = match spec["type"].as_str() {
            Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => (1, chosen),
            Some("LoadBalancer") => (1, ports.len()),
            Some("NodePort") => (0, ports.len()),
            _ => (0, 0),
        };
        used.set("services", Quantity::whole(1));
        used.set("services.loadbalancers", Quantity::whole(balancers));
        used.set("services.nodeports", Quantity::whole(ports as u64));
    }

    fn may_change_usage(&self, _: &Value, _: &Value) -> bool {
        true
    }
}

/// The addresses of a Service outside of the cluster.
fn outside(row: Row<'_>) -> String {
    let own: Vec<_> = row.items("/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match row.text("/spec/type") {
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own.join(","),
        "LoadBalancer" => {
            let balancer = row.balancer();
            let all: Vec<_> = balancer.split(',').filter(|part| !part.is_empty()).chain(own).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ => "<unknown>".to_owned(),
    }
}

fn external_name(spec: &FieldValue<'_>) {
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        spec.field(key).forbidden_if(!spec.field(key).is_empty(), "may not be set for ExternalName services");
    }
    let name = spec.field("externalName");
    let host = name.text().trim_end_matches('.');
    name.require_if(host.is_empty(), "");
    let shown = json!(host);
    name.nested(&shown, |name| name.form(form::dns_subdomain));
}

fn each_port(ports: &FieldValue<'_>, kind: &str) {
    let items = ports.items();
    let mut names = HashSet::new();
    let (mut pairs, mut node_ports) = (HashSet::new(), HashSet::new());
    for port in &items {
        let name = port.field("name");
        if name.is_empty() {
            name.require_if(items.len() > 1, "");
        } else {
            name.form(form::dns_label);
            name.unique(&mut names);
        }
        let number = port.field("port").number().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            port.field("port").invalid_as(&json!(number), "must be between 1 and 65535, inclusive");
        }
        let protocol = match port.field("protocol").text() {
            "" => "TCP",
            protocol => protocol,
        };
        port.field("protocol").one_of(&["SCTP", "TCP", "UDP"]);
        let target = port.field("targetPort");
        // Zero stands for the port itself.
        if target.is_set() && target.number() != Some(0) {
            port_or_name(&target);
        } else {
            target.nested(&json!(number), port_or_name);
        }
        port.field("appProtocol").form(form::qualified);
        let node_port = port.field("nodePort");
        if let Some(own) = node_port.number().filter(|own| *own != 0) {
            node_port.forbidden_if(kind == "ClusterIP", "may not be used when `type` is 'ClusterIP'");
            if !node_ports.insert((protocol, own)) {
                node_port.duplicate();
            }
        }
        if !pairs.insert((protocol, number)) {
            // The real server shows its own form of the port.
            let shown = format!(
                r#"{{"Name":"","Protocol":{protocol:?},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            port.add(Cause::other("FieldValueDuplicate", port.path(), format!("Duplicate value: {shown}")));
        }
    }
}

/// The rules of the addresses of a Service, which hold before it gets any.
fn cluster_addresses(service: &Value) -> Vec<Cause> {
    let causes = Causes::default();
    cluster_ips(&FieldValue::root(service, &causes).field("spec"));
    causes.into_inner()
}

fn cluster_ips(spec: &FieldValue<'_>) {
    let (first, all) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    let ips = all.items();
    let headless = first.text() == "None" || ips.first().is_some_and(|ip| ip.text() == "None");
    if first.is_empty() && !ips.is_empty() {
        all.invalid("must be empty when `clusterIP` is not specified");
    } else if !first.is_empty() && ips.is_empty() {
        all.require("");
    } else if !first.is_empty() && !ips.is_empty() && ips[0].text() != first.text() {
        all.invalid("first value must match `clusterIP`");
    }
    let mut families = HashSet::new();
    for family in spec.field("ipFamilies").items() {
        if !matches!(family.text(), "IPv4" | "IPv6") {
            family.not_supported(&["IPv4", "IPv6"]);
        }
        family.unique(&mut families);
    }
    spec.field("ipFamilyPolicy").one_of(&["PreferDualStack", "RequireDualStack", "SingleStack"]);
    if headless {
        all.invalid_if(ips.len() > 1, "'None' must be the first and only value");
        return;
    }
    let before = all.count();
    for ip in &ips {
        address(ip);
    }
    let wrong = all.count() > before;
    all.invalid_if(ips.len() > 2, "may only hold up to 2 values");
    if wrong {
        return;
    }
    let is_long = |ip: &FieldValue<'_>| ip.text().contains(':');
    if ips.len() > 1 && (ips.iter().all(is_long) || !ips.iter().any(is_long)) {
        all.invalid("may specify no more than one IP for each IP family");
    }
    for (index, (ip, family)) in ips.iter().zip(spec.field("ipFamilies").items()).enumerate() {
        if is_long(ip) != (family.text() == "IPv6") {
            let family = family.text();
            ip.invalid(format!("expected an {family} value as indicated by `ipFamilies[{index}]`"));
        }
    }
}

/// The points where a load balancer takes traffic.
fn validate_points(object: &FieldValue<'_>, present: &Value) {
    let points = object.field("status.loadBalancer.ingress");
    if object.field("spec.type").text() != "LoadBalancer" {
        points.forbidden_if(!points.items().is_empty(), "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    let old = present["status"]["loadBalancer"]["ingress"].as_array();
    for point in points.items() {
        let (ip, mode, host) = (point.field("ip"), point.field("ipMode"), point.field("hostname"));
        if !ip.is_empty() && !old.into_iter().flatten().any(|old| old["ip"] == ip.text()) {
            address(&ip);
        }
        if ip.is_empty() {
            mode.forbidden_if_set("may not be specified when `ip` is not set");
        } else if !mode.is_set() {
            mode.require("must be specified when `ip` is set");
        } else {
            mode.one_of(&["Proxy", "VIP"]);
        }
        host.form(form::dns_subdomain);
        host.invalid_if(host.text().parse::<IpAddr>().is_ok(), "must be a DNS name, not an IP address");
    }
}

fn address(ip: &FieldValue<'_>) {
    if ip.text().parse::<IpAddr>().is_err() {
        ip.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

/// The first cluster IP of a Service stays.
fn keep_addresses(spec: &FieldValue<'_>, old: &Value, kind: &str) {
    let list = |spec: &Value| match &spec["clusterIPs"] {
        Value::Array(ips) => ips.clone(),
        _ => spec["clusterIP"].as_str().filter(|ip| !ip.is_empty()).map(|ip| vec![json!(ip)]).unwrap_or_default(),
    };
    let (new_ips, old_ips) = (list(spec.value), list(old));
    let was_external = old["type"] == "ExternalName";
    if kind == "ExternalName" || was_external || old_ips.is_empty() {
        return;
    }
    let all = spec.field("clusterIPs");
    let first = all.named("spec.clusterIPs[0]".to_owned());
    if new_ips.is_empty() {
        first.invalid_as(&Value::Null, "primary clusterIP can not be unset");
    } else if new_ips[0] != old_ips[0] {
        first.invalid_as(all.value, "may not change once set");
    }
}
