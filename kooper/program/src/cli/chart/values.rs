//! The values of the chart: the settings of the program, with their schema.

use serde_json::map::Entry;
use serde_json::{Map, Value, json};

use crate::cli::args::{self, Flag, OwnFlag, Settings};
use crate::manifests::{self, Choices};
use kooper_runtime::BoxError;

/// A DNS label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";

/// The name of a Secret.
const SUBDOMAIN: &str = "^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$";

/// A duration, as in Go.
const DURATION: &str = "^(([0-9]+\\.?[0-9]*|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$";

/// An IP address, or none, and a port.
const ADDRESS: &str = "^([0-9.]+|\\[[0-9a-fA-F:.]+\\])?:[0-9]{1,5}$";

/// The schemas of the values that every chart has. `global` and `enabled` are those of a chart that has this one as a
/// dependency.
const PROPERTIES: &str = r#"{
    "global": {},
    "enabled": {"type": "boolean"},
    "image": {"type": "string", "pattern": "^\\S+$"},
    "imagePullSecrets": {"type": "array", "items": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]
    }},
    "replicas": {"type": ["integer", "null"], "minimum": 0},
    "ephemeralStorage": {"type": ["string", "null"], "minLength": 1},
    "runAsUser": {"type": ["integer", "null"], "minimum": 1},
    "hostUsers": {"type": "boolean"},
    "hostNetwork": {"type": "boolean"},
    "resources": {"type": "object"},
    "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
    "tolerations": {"type": "array", "items": {"type": "object"}},
    "affinity": {"type": "object"},
    "topologySpreadConstraints": {"type": "array", "items": {"type": "object"}},
    "priorityClassName": {"type": ["string", "null"]},
    "podLabels": {
        "type": "object", "additionalProperties": {"type": "string"}, "properties": {
            "app.kubernetes.io/name": false, "app.kubernetes.io/instance": false, "kooper.rs/installation": false
        }
    },
    "podAnnotations": {"type": "object", "additionalProperties": {"type": "string"}},
    "serviceAccountAnnotations": {"type": "object", "additionalProperties": {"type": "string"}},
    "networkPolicy": {"type": "boolean"},
    "networkPolicyFrom": {"type": "array", "items": {"type": "object"}},
    "serviceMonitor": {"type": "boolean"},
    "alerts": {"type": "boolean"},
    "env": {"type": "array", "items": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]
    }}
}"#;

/// The words that YAML reads as booleans.
const BOOLEANS: [(&str, [&str; 4]); 2] = [("true", ["true", "yes", "y", "on"]), ("false", ["false", "no", "n", "off"])];

/// The name of the value for a flag: `drainTimeout` for `--drain-timeout`.
fn name(flag: &Flag) -> String {
    let name = camel(flag.name);
    if flag.repeatable { name + "s" } else { name }
}

/// `drainTimeout` for `drain-timeout`.
fn camel(flag: &str) -> String {
    let mut words = flag.split('-');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut chars = word.chars();
        name.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(chars.as_str());
    }
    name
}

/// The values for settings from Secrets, with their flags.
pub(super) fn files(own: &[OwnFlag]) -> Value {
    own.iter().filter(|flag| flag.is_file).map(|flag| (camel(&flag.name), Value::from(&*flag.name))).collect()
}

/// The values of settings that stand for booleans, by their flags.
pub(super) fn words(own: &[OwnFlag]) -> Value {
    let words = own.iter().map(|flag| (flag.name.clone(), words_of(flag)));
    words.filter(|(_, words)| !words.is_empty()).collect()
}

/// The values of a setting that stand for booleans: `{"true": "on", "false": "off"}`.
fn words_of(flag: &OwnFlag) -> Map<String, Value> {
    let word = |(name, known): (&str, [&str; 4])| {
        let word = flag.values.iter().find(|value| known.contains(&value.to_lowercase().as_str()))?;
        Some((name.to_owned(), word.clone().into()))
    };
    BOOLEANS.into_iter().filter_map(word).collect()
}

/// Pairs of a value and its variable, as arguments of a template function.
pub(super) fn variables() -> String {
    let pairs = args::pod_flags().map(|flag| format!("(list \"{}\" \"{}\")", name(flag), flag.variable()));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Variables with their values, if the certificate of the metrics is in a Secret.
pub(super) fn certificate_variables() -> String {
    let pairs = manifests::certificate_variables()
        .map(|(name, file)| format!("(dict \"name\" \"{name}\" \"value\" \"{file}\")"));
    pairs.join(" ")
}

/// `values.yaml`, with a comment on each value.
pub(super) fn yaml(settings: &Settings, choices: &Choices, secret: &str, has_crds: bool) -> Result<String, BoxError> {
    let mut text = String::new();
    let mut add = |comment: &str, name: &str, value: &Value| -> Result<(), BoxError> {
        text += &format!("# {comment}\n{}", serde_saphyr::to_string(&json!({name: value}))?);
        Ok(())
    };
    add("The container image, with its tag or digest", "image", &json!(choices.image))?;
    add("The names of Secrets with credentials for the image's registry", "imagePullSecrets", &json!([]))?;
    add(
        "Replicas: 2 if all controllers have leader election or shards, and all tasks have leader election, \
         `shard_of` or `everywhere`; otherwise 1",
        "replicas",
        &json!(choices.replicas),
    )?;
    add("Requests and limits of the container", "resources", &manifests::resources())?;
    add("The limit of ephemeral storage, such as 100Mi; unlimited if empty", "ephemeralStorage", &Value::Null)?;
    add(
        "The user and group of the process; null if the cluster chooses them, as OpenShift does",
        "runAsUser",
        &json!(manifests::USER),
    )?;
    add(
        "Whether the pods use the user namespace of the node; set false on nodes that support user namespaces",
        "hostUsers",
        &json!(true),
    )?;
    add(
        "Whether the pods run in the network of their nodes, for API servers that reach no pods",
        "hostNetwork",
        &json!(choices.host_network),
    )?;
    add("Labels of the nodes that the pods may run on", "nodeSelector", &json!({}))?;
    add("Taints of nodes that the pods tolerate", "tolerations", &json!([]))?;
    add(
        "The affinity of the pods; without podAntiAffinity, they run on different nodes if possible",
        "affinity",
        &json!({}),
    )?;
    add(
        "How the pods are spread, such as over zones; without labelSelector, the pods of this installation count",
        "topologySpreadConstraints",
        &json!([]),
    )?;
    add("The PriorityClass of the pods; the default one of the cluster if empty", "priorityClassName", &Value::Null)?;
    add("Additional labels of the pods", "podLabels", &json!({}))?;
    add("Annotations of the pods", "podAnnotations", &json!({}))?;
    add(
        "Annotations of the service account, such as the identity that a cloud provider gives it",
        "serviceAccountAnnotations",
        &json!({}),
    )?;
    if has_crds {
        add("Whether the CRDs are installed; only one installation in a cluster can", "crds", &json!(true))?;
        add(
            "Whether the custom resources are added to the roles view, edit and admin",
            "aggregateRoles",
            &json!(choices.aggregate_roles),
        )?;
    }
    add(
        "Whether to deny connections to all ports but those of metrics, probes and webhooks",
        "networkPolicy",
        &json!(choices.network_policy),
    )?;
    add(
        "Who may connect to the metrics if networkPolicy is true; [] for everyone",
        "networkPolicyFrom",
        &manifests::clients(),
    )?;
    add("Whether the Prometheus Operator collects the metrics", "serviceMonitor", &json!(choices.service_monitor))?;
    add("Whether the Prometheus Operator gets alerts for the metrics", "alerts", &json!(choices.alerts))?;
    add(
        "The Secret with tls.crt, tls.key and ca.crt, for metrics over HTTPS",
        "metricsSecret",
        &json!(choices.security.secret),
    )?;
    add("Additional environment variables, such as those with values from Secrets", "env", &json!([]))?;
    if !settings.own.flags.is_empty() {
        let mut own = Map::new();
        for secret_setting in &choices.secrets {
            let value = json!({"secretName": secret, "key": secret_setting});
            own.insert(camel(&format!("{secret_setting}-file")), value);
        }
        for token in &settings.own.pod.line {
            if !token.starts_with("--") {
                return Err(format!(
                    "a chart cannot have a value for `{token}`, only for settings that are a long flag with one \
                     value: leave it out, and set the variable of the setting under `env` in the values"
                )
                .into());
            }
            let (flag, value) = token.split_once('=').map_or((&**token, None), |(flag, value)| (flag, Some(value)));
            let value = value.map_or(Value::Bool(true), Value::from);
            match own.entry(flag.trim_start_matches('-')) {
                Entry::Vacant(place) => drop(place.insert(value)),
                Entry::Occupied(mut place) => match place.get_mut() {
                    Value::Array(values) => values.push(value),
                    first => *first = json!([first.take(), value]),
                },
            }
        }
        let names: Vec<_> = settings.own.flags.iter().map(|flag| flag.name.as_str()).collect();
        let mut comment = format!("The program's own settings: {}", names.join(", "));
        if let Some(file) = settings.own.flags.iter().find(|flag| flag.is_file) {
            comment += &format!("; {} takes secretName and key of a Secret", camel(&file.name));
        }
        add(&comment, "settings", &own.into())?;
    }
    for flag in args::pod_flags() {
        let given = settings.given.get(flag.name);
        let value = match given {
            _ if flag.repeatable => {
                let texts = given.into_iter().flatten().flat_map(|text| text.split(','));
                texts.map(str::trim).collect::<Vec<_>>().into()
            }
            Some(texts) if flag.value == "N" => texts.last().and_then(|text| text.parse::<u64>().ok()).into(),
            Some(texts) => texts.last().cloned().into(),
            None => Value::Null,
        };
        add(flag.help, &name(flag), &value)?;
    }
    Ok(text)
}

/// `values.schema.json`.
pub(super) fn schema(has_crds: bool, own: &[OwnFlag]) -> Value {
    #[expect(clippy::expect_used, reason = "it is constant")]
    let mut properties: Value = serde_json::from_str(PROPERTIES).expect("the schemas are JSON");
    properties["metricsSecret"] = json!({"anyOf": [{"type": "string", "pattern": SUBDOMAIN}, {"type": "null"}]});
    if !own.is_empty() {
        let flags = own.iter().map(|flag| (flag.name.clone(), of_own(flag)));
        let files = own.iter().filter(|flag| flag.is_file).map(|flag| (camel(&flag.name), of_secret(flag)));
        let flags = flags.chain(files);
        let flags = Value::Object(flags.collect());
        properties["settings"] = json!({"type": "object", "additionalProperties": false, "properties": flags});
    }
    if has_crds {
        properties["crds"] = json!({"type": "boolean"});
        properties["aggregateRoles"] = json!({"type": "boolean"});
    }
    for flag in args::pod_flags() {
        let mut property = if flag.repeatable {
            json!({"type": "array", "items": of(flag.value)})
        } else {
            json!({"anyOf": [of(flag.value), {"type": "null"}]})
        };
        property["description"] = flag.help.into();
        properties[name(flag)] = property;
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object", "additionalProperties": false, "required": ["image"], "properties": properties,
    })
}

/// The schema of one of the program's own settings. Several values are a list.
fn of_own(flag: &OwnFlag) -> Value {
    let booleans = words_of(flag).into_iter().map(|(name, _)| json!({"const": name == "true"}));
    let one = match &flag.values[..] {
        _ if !flag.takes_values => json!({"type": "boolean"}),
        // A number would have another form than its text: 0644, 1.10 and 1e3.
        [] if flag.is_text => json!({"type": "string"}),
        [] => json!({"type": ["string", "number"]}),
        values => {
            let words = if flag.ignores_case { json!({"type": "string"}) } else { json!({"enum": values}) };
            json!({"anyOf": std::iter::once(words).chain(booleans).collect::<Vec<_>>()})
        }
    };
    json!({"description": flag.help, "anyOf": [one, {"type": "array", "items": one}, {"type": "null"}]})
}

/// The schema of a setting whose value is in a Secret.
fn of_secret(flag: &OwnFlag) -> Value {
    json!({"description": flag.help, "anyOf": [{"type": "null"}, {
        "type": "object", "additionalProperties": false, "required": ["secretName", "key"],
        "properties": {
            "secretName": {"type": "string", "pattern": SUBDOMAIN},
            "key": {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"},
        },
    }]})
}

/// The schema of a value, from its placeholder in `--help`. YAML reads `on` and
/// `off` as booleans.
fn of(placeholder: &str) -> Value {
    match placeholder {
        "N" => json!({"type": "integer", "minimum": 1, "maximum": u16::MAX}),
        "AUDIENCE" => json!({"type": "string", "pattern": "^\\S+$"}),
        "NAME" => json!({"type": "string", "pattern": LABEL}),
        "FILE" => json!({"type": "string", "pattern": "^/.+"}),
        "NAME@HASH" => json!({"type": "string", "pattern": "^[^@,\\s]+@[^@,\\s]+$"}),
        // Zero is refused.
        "DURATION" => json!({"type": "string", "pattern": DURATION, "not": {"pattern": "^[^1-9]*$"}}),
        "ADDR" => json!({"type": "string", "pattern": ADDRESS}),
        "DURATION|off" | "ADDR|off" => {
            json!({"anyOf": [of(placeholder.trim_end_matches("|off")), {"enum": ["off", false]}]})
        }
        "LEVEL" => json!({"anyOf": [{"type": "string", "minLength": 1}, {"const": false}]}),
        "on|off" => json!({"enum": ["on", "off", true, false]}),
        words if words.contains('|') => json!({"enum": words.split('|').collect::<Vec<_>>()}),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_of_run_is_a_value_with_a_schema() {
        let names: Vec<_> = args::pod_flags().map(name).collect();
        for expected in ["namespaces", "workers", "leaderElection", "drainTimeout", "logLevel", "instance"] {
            assert!(names.iter().any(|name| name == expected), "{expected} in {names:?}");
        }
        let schema = schema(true, &[]);
        let free = args::pod_flags().find(|flag| of(flag.value) == of("TEXT")).map(|flag| flag.name);
        assert_eq!(free, None, "each placeholder has a schema");
        assert!(names.iter().all(|name| schema["properties"][name].is_object()));
    }

    #[test]
    fn the_comment_on_who_may_read_the_metrics_has_the_default_of_the_chart() {
        let flag = args::pod_flags().find(|flag| flag.name == "metrics-auth").expect("it is a flag of `run`");
        assert!(flag.help.ends_with("[default: none, but token in manifests]"), "{}", flag.help);
    }

    #[test]
    fn a_boolean_is_the_word_of_a_setting_that_yaml_reads_as_one() {
        let flag = |name: &str, values: &[&str], ignores_case: bool| OwnFlag {
            name: name.to_owned(),
            help: String::new(),
            values: values.iter().copied().map(str::to_owned).collect(),
            ignores_case,
            takes_values: true,
            is_text: false,
            is_file: false,
        };
        let [music, tax] = [flag("music", &["On", "OFF", "low"], true), flag("tax", &["no", "low"], false)];
        assert_eq!(
            of_own(&music)["anyOf"][0],
            json!({"anyOf": [{"type": "string"}, {"const": false}, {"const": true}]})
        );
        assert_eq!(of_own(&tax)["anyOf"][0], json!({"anyOf": [{"enum": ["no", "low"]}, {"const": false}]}));
        let size = flag("size", &["small"], false);
        let expected = json!({"music": {"true": "On", "false": "OFF"}, "tax": {"false": "no"}});
        assert_eq!(words(&[music, tax, size]), expected);
    }
}
