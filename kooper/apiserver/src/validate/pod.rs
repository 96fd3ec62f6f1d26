//! The rules that pods and templates for pods share.

use std::collections::HashSet;

use serde_json::json;

use super::field_value::FieldValue;
use super::{container, selector, volume};
use crate::form;

/// The longest deadline of a pod.
pub(crate) const TOO_MANY_SECONDS: i64 = i32::MAX as i64;

/// The rules of a template, whose labels a selector may have to match.
pub(crate) fn template(template: &FieldValue<'_>) {
    template_metadata(template);
    spec(&template.field("spec"));
    if !template.field("spec.ephemeralContainers").is_empty() {
        template.field("spec.ephemeralContainers").forbidden("ephemeral containers not allowed in pod template");
    }
}

/// The labels and annotations of a template, under the paths of the real server.
pub(crate) fn template_metadata(template: &FieldValue<'_>) {
    super::labels(&template.field("metadata.labels").named(format!("{}.labels", template.path())));
    super::annotations(&template.field("metadata.annotations").named(format!("{}.annotations", template.path())));
}

/// The restart policy of workloads that run indefinitely, and the deadline that they do not have.
pub(crate) fn runs_for_ever(template: &FieldValue<'_>, owner: &str) {
    template.field("spec.restartPolicy").one_of(&["Always"]);
    let why = format!("activeDeadlineSeconds in {owner} is not Supported");
    template.field("spec.activeDeadlineSeconds").forbidden_if_set(&why);
}

/// The rules of a pod's spec.
pub(crate) fn spec(spec: &FieldValue<'_>) {
    let volumes = volume::volumes(&spec.field("volumes"));
    container::containers(spec, &volumes);
    if spec.field("hostNetwork").is_true() {
        host_network_ports(spec);
    }
    spec.field("restartPolicy").one_of(&["Always", "OnFailure", "Never"]);
    spec.field("dnsPolicy").one_of(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    if spec.field("dnsPolicy").text() == "None" && spec.field("dnsConfig.nameservers").is_empty() {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        match spec.field("dnsConfig").is_set() {
            true => spec.field("dnsConfig.nameservers").require(why),
            false => spec.field("dnsConfig").require("must provide `dnsConfig` when `dnsPolicy` is None"),
        }
    }
    super::labels(&spec.field("nodeSelector"));
    let security = spec.field("securityContext");
    container::user_ids(&security);
    security.field("fsGroup").between(0, container::MOST_ID);
    for group in security.field("supplementalGroups").items() {
        group.between(0, container::MOST_ID);
    }
    affinity(&spec.field("affinity"));
    spread(&spec.field("topologySpreadConstraints"));
    spec.field("serviceAccountName").form(form::dns_subdomain);
    spec.field("nodeName").form(form::dns_subdomain);
    spec.field("activeDeadlineSeconds").between(1, TOO_MANY_SECONDS);
    spec.field("hostname").form(form::dns_label);
    spec.field("subdomain").form(form::dns_label);
    tolerations(&spec.field("tolerations"));
    spec.field("priorityClassName").form(form::dns_subdomain);
    spec.field("runtimeClassName").form(form::dns_subdomain);
    spec.field("preemptionPolicy").one_of(&["PreemptLowerPriority", "Never"]);
    for gate in spec.field("readinessGates").items() {
        gate.field("conditionType").form_even_if_empty(form::qualified);
    }
    let gates = spec.field("schedulingGates");
    let mut names = HashSet::new();
    for gate in gates.items() {
        let name = gate.field("name").named(gate.path().to_owned());
        name.form_even_if_empty(form::qualified);
        name.unique(&mut names);
    }
}

fn host_network_ports(spec: &FieldValue<'_>) {
    for port in spec.field("containers").items().iter().flat_map(|container| container.field("ports").items()) {
        let host = port.field("hostPort");
        if host.number().is_some_and(|number| Some(number) != port.field("containerPort").number()) {
            host.invalid("must match `containerPort` when `hostNetwork` is true");
        }
    }
}

fn tolerations(tolerations: &FieldValue<'_>) {
    for toleration in tolerations.items() {
        let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|name| toleration.field(name));
        key.form(form::qualified);
        if key.is_empty() && operator.text() != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            operator.invalid_as(&json!(operator.text()), why);
        }
        if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            effect.invalid_as(&json!(effect.text()), why);
        }
        match operator.text() {
            "" | "Equal" => {
                let found = form::label_value(value.text());
                if !found.is_empty() {
                    operator.invalid_as(&json!(value.text()), found.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                operator.invalid_as(value.value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "Lt" | "Gt" => operator.not_supported(&["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.not_supported(&["Equal", "Exists"]),
        }
        effect.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

fn affinity(affinity: &FieldValue<'_>) {
    let node = affinity.field("nodeAffinity");
    let required = node.field("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_set() {
        let terms = required.field("nodeSelectorTerms");
        if terms.required("must have at least one node selector term") {
            terms.items().iter().for_each(node_term);
        }
    }
    for preference in node.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        weight(&preference.field("weight"));
        node_term(&preference.field("preference"));
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(key);
        for term in pods.field("requiredDuringSchedulingIgnoredDuringExecution").items() {
            pod_term(&term);
        }
        for preference in pods.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
            weight(&preference.field("weight"));
            pod_term(&preference.field("podAffinityTerm"));
        }
    }
}

fn weight(weight: &FieldValue<'_>) {
    let number = weight.number().unwrap_or(0);
    if !(1..=100).contains(&number) {
        weight.invalid_as(&json!(number), "must be in the range 1-100");
    }
}

fn node_term(term: &FieldValue<'_>) {
    for expression in term.field("matchExpressions").items() {
        let values = expression.field("values");
        match expression.field("operator").text() {
            "In" | "NotIn" => drop(values.required("must be specified when `operator` is 'In' or 'NotIn'")),
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.items().len() != 1 => {
                values.require("must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => expression.field("operator").invalid("not a valid selector operator"),
        }
        expression.field("key").form_even_if_empty(form::qualified);
    }
}

fn pod_term(term: &FieldValue<'_>) {
    selector::validate(&term.field("labelSelector"));
    selector::validate(&term.field("namespaceSelector"));
    for name in term.field("namespaces").items() {
        name.named(format!("{}.namespace", term.path())).form_even_if_empty(form::dns_label);
    }
    let topology = term.field("topologyKey");
    topology.required("can not be empty");
    topology.form_even_if_empty(form::qualified);
}

fn spread(constraints: &FieldValue<'_>) {
    let items = constraints.items();
    for (index, constraint) in items.iter().enumerate() {
        let skew = constraint.field("maxSkew");
        if skew.number().unwrap_or(0) <= 0 {
            skew.invalid_as(&json!(skew.number().unwrap_or(0)), "must be greater than zero");
        }
        let topology = constraint.field("topologyKey");
        if topology.required("can not be empty") {
            topology.form(form::qualified);
        }
        let unsatisfiable = constraint.field("whenUnsatisfiable");
        if !matches!(unsatisfiable.text(), "DoNotSchedule" | "ScheduleAnyway") {
            unsatisfiable.not_supported(&["DoNotSchedule", "ScheduleAnyway"]);
        }
        let pair = |at: &FieldValue<'_>| {
            format!("{{{}, {}}}", at.field("topologyKey").text(), at.field("whenUnsatisfiable").text())
        };
        if items[index + 1..].iter().any(|other| pair(other) == pair(constraint)) {
            let place = constraint.named(format!("{}.{{topologyKey, whenUnsatisfiable}}", constraint.path()));
            place.duplicate_of(&json!(pair(constraint)));
        }
        let domains = constraint.field("minDomains");
        domains.invalid_if(domains.number().is_some_and(|number| number <= 0), "must be greater than zero");
        if domains.is_set() && unsatisfiable.text() != "DoNotSchedule" {
            let why =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", unsatisfiable.text());
            domains.invalid(why);
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.field(key).one_of(&["Ignore", "Honor"]);
        }
        selector::validate(&constraint.field("labelSelector"));
    }
}
