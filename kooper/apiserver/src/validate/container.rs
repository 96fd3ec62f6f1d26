//! The rules of containers.

use std::collections::HashSet;

use serde_json::json;

use super::field_value::FieldValue;
use super::resources;
use crate::form;

/// The highest number of a user or a group.
pub(crate) const MOST_ID: i64 = i32::MAX as i64;

/// Which containers of a pod are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Main,
    Init,
    Ephemeral,
}

/// The rules of all containers of a pod; `volumes` are the names of its valid volumes.
pub(crate) fn containers(spec: &FieldValue<'_>, volumes: &HashSet<&str>) {
    let main = spec.field("containers");
    main.require_if(main.items().is_empty(), "");
    let mut names = HashSet::new();
    for container in main.items() {
        check(&container, volumes, Group::Main);
        container.field("name").unique(&mut names);
    }
    host_ports(&main.items());
    for container in spec.field("initContainers").items() {
        check(&container, volumes, Group::Init);
        let name = container.field("name");
        if !name.is_empty() && !names.insert(name.text()) {
            name.duplicate();
        }
        host_ports(&[container]);
    }
    let others = names.clone();
    for container in spec.field("ephemeralContainers").items() {
        check(&container, volumes, Group::Ephemeral);
        container.field("name").unique(&mut names);
        let target = container.field("targetContainerName");
        if !target.is_empty() && !others.contains(target.text()) {
            target.not_found();
        }
        for key in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"] {
            if !container.field(key).is_empty() {
                container.field(key).forbidden("cannot be set for an Ephemeral Container");
            }
        }
        if container.field("resources.limits").is_set() || container.field("resources.requests").is_set() {
            container.field("resources").forbidden("cannot be set for an Ephemeral Container");
        }
    }
}

fn check(container: &FieldValue<'_>, volumes: &HashSet<&str>, group: Group) {
    container.field("name").name(form::dns_label);
    container.field("image").required("");
    container.field("terminationMessagePolicy").one_of(&["File", "FallbackToLogsOnError"]);
    container.field("imagePullPolicy").one_of(&["Always", "IfNotPresent", "Never"]);
    ports(&container.field("ports"));
    env(&container.field("env"));
    env_from(&container.field("envFrom"));
    mounts(container, volumes);
    resources::of_container(&container.field("resources"));
    let security = container.field("securityContext");
    user_ids(&security);
    if security.field("allowPrivilegeEscalation").value == &json!(false) && security.field("privileged").is_true() {
        security.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    match group {
        Group::Main => handlers(container),
        Group::Init if container.field("restartPolicy").text() == "Always" => handlers(container),
        Group::Init => {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                container
                    .field(key)
                    .forbidden_if_set("may not be set for init containers without restartPolicy=Always");
            }
        }
        Group::Ephemeral => {}
    }
}

/// The users and groups of a security context.
pub(crate) fn user_ids(security: &FieldValue<'_>) {
    for key in ["runAsUser", "runAsGroup"] {
        security.field(key).between(0, MOST_ID);
    }
}

fn ports(ports: &FieldValue<'_>) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        let before = name.count();
        name.form(form::port_name);
        if !name.is_empty() && name.count() == before && !names.insert(name.text()) {
            name.duplicate();
        }
        let number = port.field("containerPort");
        match number.number() {
            None | Some(0) => number.require(""),
            Some(_) => number.between(1, 65535),
        }
        if port.field("hostPort").number() != Some(0) {
            port.field("hostPort").between(1, 65535);
        }
        port.field("protocol").one_of(&["SCTP", "TCP", "UDP"]);
    }
}

fn host_ports(containers: &[FieldValue<'_>]) {
    let mut taken = HashSet::new();
    for port in containers.iter().flat_map(|container| container.field("ports").items()) {
        let Some(number) = port.field("hostPort").number().filter(|number| *number != 0) else { continue };
        let protocol = match port.field("protocol").text() {
            "" => "TCP",
            protocol => protocol,
        };
        let whole = format!("{protocol}/{}/{number}", port.field("hostIP").text());
        if !taken.insert(whole.clone()) {
            port.field("hostPort").duplicate_of(&json!(whole));
        }
    }
}

/// The fields of a pod that an environment variable may have.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn env(variables: &FieldValue<'_>) {
    for variable in variables.items() {
        variable.field("name").name(form::env_name);
        let from = variable.field("valueFrom");
        if !from.is_set() {
            continue;
        }
        let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
        let count = sources.iter().filter(|source| from.field(source).is_set()).count();
        field_reference(&from.field("fieldRef"));
        for source in ["configMapKeyRef", "secretKeyRef"] {
            let source = from.field(source);
            if source.is_set() {
                source.field("name").form_even_if_empty(form::dns_subdomain);
                source.field("key").name(form::config_key);
            }
        }
        let why = match count {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            _ if !variable.field("value").is_empty() => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        from.invalid_as(&json!(""), why);
    }
}

fn field_reference(reference: &FieldValue<'_>) {
    if !reference.is_set() || !reference.field("fieldPath").required("") {
        return;
    }
    let path = reference.field("fieldPath");
    let subscripted = path.text().starts_with("metadata.labels['") || path.text().starts_with("metadata.annotations['");
    if subscripted || ENV_FIELDS.contains(&path.text()) {
        return;
    }
    // A path of the pod that has no value here is another mistake than one that no pod has.
    if matches!(path.text(), "metadata.labels" | "metadata.annotations") {
        path.not_supported(&ENV_FIELDS);
    } else {
        path.invalid(format!("error converting fieldPath: field label not supported: {}", path.text()));
    }
}

fn env_from(sources: &FieldValue<'_>) {
    for source in sources.items() {
        source.field("prefix").form(form::env_name);
        let given = ["configMapRef", "secretRef"].map(|key| source.field(key)).into_iter().filter(FieldValue::is_set);
        let given: Vec<_> = given.collect();
        for reference in &given {
            reference.field("name").form_even_if_empty(form::dns_subdomain);
        }
        let why = match given.len() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        // The real server names the list here, not the item.
        sources.invalid_as(&json!(""), why);
    }
}

fn mounts(container: &FieldValue<'_>, volumes: &HashSet<&str>) {
    let mounts = container.field("volumeMounts");
    let mut paths = HashSet::new();
    for mount in mounts.items() {
        let name = mount.field("name");
        name.required("");
        if !volumes.contains(name.text()) {
            name.not_found();
        }
        let path = mount.field("mountPath");
        path.required("");
        if !paths.insert(path.text()) {
            path.invalid_as(&json!(path.text()), "must be unique");
        }
        for key in ["subPath", "subPathExpr"] {
            // The real server names the list here, not the item.
            let at = mount.field(key);
            at.named(format!("{}.{key}", mounts.path())).form(form::descending_path);
        }
        if !mount.field("subPath").is_empty() && !mount.field("subPathExpr").is_empty() {
            mount.field("subPathExpr").invalid("subPathExpr and subPath are mutually exclusive");
        }
    }
}

fn handlers(container: &FieldValue<'_>) {
    for key in ["postStart", "preStop"] {
        let handler = container.field("lifecycle").field(key);
        if handler.is_set() {
            action(&handler);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(key);
        if probe.is_set() {
            self::probe(&probe, key);
        }
    }
}

fn probe(probe: &FieldValue<'_>, kind: &str) {
    action(probe);
    for count in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        probe.field(count).not_negative();
    }
    let period = probe.field("terminationGracePeriodSeconds");
    period.invalid_if(period.number().is_some_and(|seconds| seconds <= 0), "must be greater than 0");
    let successes = probe.field("successThreshold");
    if kind == "readinessProbe" {
        period.invalid_if(period.is_set(), "must not be set for readinessProbes");
    } else if successes.number().is_some_and(|number| number != 1) {
        successes.invalid("must be 1");
    }
}

/// Validates the action of a probe or a lifecycle hook.
fn action(handler: &FieldValue<'_>) {
    let mut given = 0;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.field(key);
        if !action.is_set() {
            continue;
        }
        given += 1;
        if given > 1 {
            action.forbidden("may not specify more than 1 handler type");
            continue;
        }
        match key {
            "exec" => drop(action.field("command").required("")),
            "httpGet" => {
                port_or_name(&action.field("port"));
                action.field("scheme").one_of(&["HTTP", "HTTPS"]);
                for header in action.field("httpHeaders").items() {
                    let name = header.field("name").named(action.field("httpHeaders").path().to_owned());
                    name.form_even_if_empty(form::http_header);
                }
            }
            "tcpSocket" => port_or_name(&action.field("port")),
            "grpc" => port_or_name(&action.field("port")),
            _ => {}
        }
    }
    handler.require_if(given == 0, "must specify a handler type");
}

/// A port by its number or its name.
pub(crate) fn port_or_name(port: &FieldValue<'_>) {
    if port.value.is_string() {
        port.form_even_if_empty(form::port_name);
    } else {
        let number = port.number().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            port.invalid_as(&json!(number), "must be between 1 and 65535, inclusive");
        }
    }
}
