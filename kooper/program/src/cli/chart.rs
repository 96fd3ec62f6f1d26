//! The chart: the documents of `manifests`, with the program's settings as values.

mod hook;
mod roles;
mod values;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::args::Settings;
use super::invocation::Invocation;
use super::print::place;
use super::webhooks;
use crate::manifests::template::{expression, inline, render};
use crate::manifests::{self, Choices, INSTALLATION, Part, Ports, SURGE, Volumes, WEBHOOKS, Workload};
use crate::rbac;
use kooper_access::Controller;
use kooper_runtime::BoxError;

/// The files of the chart: paths and texts.
pub(super) fn files(
    invocation: &Invocation<'_>,
    choices: &Choices,
    crds: &[CustomResourceDefinition],
) -> Result<Vec<(String, String)>, BoxError> {
    // The values of a later installation are unknown, so only built-in settings count
    // here.
    let settings = &invocation.settings;
    let plain = Settings { own: settings.own.clone(), ..Settings::default() };
    let plain = invocation.with(plain);
    let builtin = plain.controllers()?;
    let name = invocation.installation().program;
    let most_replicas = manifests::most_replicas(&builtin);
    let has_webhooks = webhooks::has_any(&plain)?;
    let workload = workload(&name, &builtin, has_webhooks);
    let mut files = vec![
        ("Chart.yaml", chart(&name, invocation.app.version)?),
        (
            "values.yaml",
            values::yaml(settings, choices, &choices.settings_secret(&place(invocation)), !crds.is_empty())?,
        ),
        (
            "values.schema.json",
            serde_json::to_string_pretty(&values::schema(!crds.is_empty(), &settings.own.flags))? + "\n",
        ),
        ("templates/_settings.tpl", named(&name, &unelected(&plain)?, most_replicas, has_webhooks, settings)),
        ("templates/_roles.tpl", roles::named(&name, &plain)?),
        ("templates/roles.yaml", roles::own(&name)),
        ("templates/program.yaml", documents(&name, &workload)?),
        ("templates/metrics-reader.yaml", metrics_reader(&name)?),
    ];
    if !crds.is_empty() {
        files.push(("templates/crds.yaml", crd_template(crds)?));
        files.push(("templates/crd-roles.yaml", crd_roles(&name, &builtin)?));
    }
    if has_webhooks || builtin.iter().any(|one| one.finalizer().is_some()) {
        files.push(("templates/uninstall.yaml", hook::template(&name, &workload, has_webhooks)?));
    }
    Ok(files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect())
}

fn chart(name: &str, version: &str) -> Result<String, BoxError> {
    Ok(serde_saphyr::to_string(&json!({
        "apiVersion": "v2", "name": name, "version": version, "appVersion": version, "type": "application",
        "description": format!("Runs the Kubernetes controllers of {name}"),
    }))?)
}

/// A call of one of the chart's named templates.
fn include(name: &str, template: &str) -> String {
    format!("include \"{name}.{template}\" .")
}

/// The labels of a pod: those of this template, and those of the values.
fn pod_labels(name: &str, template: &str) -> Value {
    expression(&format!("merge (fromJson ({})) (.Values.podLabels | default dict) | toJson", include(name, template)))
}

/// The Deployment and what belongs to it, with expressions instead of values.
fn workload(name: &str, controllers: &[Controller], has_webhooks: bool) -> Workload {
    let of = |template: &str| expression(&include(name, template));
    let quoted = |text: &str| expression(&format!("{text} | quote"));
    let optional = |value: &str| Part::If(format!(".Values.{value}"));
    let field = |value: &str| optional(value).field(expression(&format!("toJson .Values.{value}")));
    Workload {
        name: quoted(&include(name, "name")),
        namespace: quoted(".Release.Namespace"),
        account: quoted(&include(name, "account")),
        labels: of("podLabels"),
        selector: json!({INSTALLATION: quoted(&include(name, "account"))}),
        container: name.to_owned(),
        image: quoted(".Values.image"),
        args: of("args"),
        replicas: of("replicas"),
        strategy: of("strategy"),
        grace: of("grace"),
        variables: of("variables"),
        ports: Ports {
            container: of("containerPorts"),
            probe: of("probePortName"),
            service: of("servicePorts"),
            ingress: of("ingress"),
            endpoint: of("endpoint"),
            has_any: if has_webhooks {
                Part::Always
            } else {
                Part::If(format!("or ({}) ({})", include(name, "port"), include(name, "probePort")))
            },
            has_metrics: Part::If(include(name, "port")),
            has_probes: Part::If(include(name, "probePortName")),
        },
        resources: of("resources"),
        user: field("runAsUser"),
        volumes: Volumes { volumes: of("volumes"), mounts: of("mounts"), any: Part::If(include(name, "volumes")) },
        webhook_service: has_webhooks.then(|| quoted(&format!("printf \"%s-webhooks\" ({})", include(name, "name")))),
        has_budget: Part::If(format!("gt (int ({})) 1", include(name, "replicas"))),
        has_network_policy: optional("networkPolicy"),
        has_service_monitor: optional("serviceMonitor"),
        has_alerts: optional("alerts"),
        alerts: manifests::installed_alerts(
            controllers,
            has_webhooks,
            &inline(".Release.Namespace"),
            &inline(&include(name, "name")),
            &quoted(&include(name, "account")),
        ),
        pod_labels: pod_labels(name, "podLabels"),
        pod_annotations: field("podAnnotations"),
        pod: ["imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations"]
            .map(|value| (value, field(value)))
            .into_iter()
            .chain([
                ("hostUsers", Part::If("eq (toString .Values.hostUsers) \"false\"".to_owned()).field(false.into())),
                // The pod of the hook may run beside those of the Deployment, which end only when it runs.
                (
                    "affinity",
                    Part::If("(.Values.affinity | default dict).nodeAffinity".to_owned())
                        .field(expression("pick .Values.affinity \"nodeAffinity\" | toJson")),
                ),
            ])
            .chain(manifests::host_network().map(|(field, value)| (field, optional("hostNetwork").field(value))))
            .collect(),
        placement: vec![
            ("affinity", of("affinity")),
            ("topologySpreadConstraints", optional("topologySpreadConstraints").field(of("spread"))),
        ],
    }
}

/// The template of documents, each under its condition.
fn documents(name: &str, workload: &Workload) -> Result<String, BoxError> {
    let mut text = String::new();
    for value in ["serviceMonitor", "alerts"] {
        text += &format!(
            "{{{{- if and .Values.{value} (not ({})) }}}}\n{{{{- fail \"{value} needs the metrics: remove `listen: off`, or \
             set `{value}: false`\" }}}}\n{{{{- end }}}}\n",
            include(name, "port")
        );
    }
    text += &format!(
        "{{{{- if and .Values.hostNetwork .Values.networkPolicy }}}}\n{{{{- fail \"a NetworkPolicy has no effect on pods in \
         the network of their nodes: set `hostNetwork: false`, or `networkPolicy: false`\" }}}}\n{{{{- end }}}}\n\
         {{{{- if and .Values.serviceMonitor .Values.metricsAudience ({reviews}) }}}}\n{{{{- fail \"a ServiceMonitor sends the \
         token of Prometheus' service account, which is for the API server: remove `metricsAudience`, or set \
         `serviceMonitor: false`\" }}}}\n{{{{- end }}}}\n\
         {{{{- if and (eq ({}) \"on\") ({}) (not ({reviews})) }}}}\n{{{{- fail \"anyone in the cluster could read the status \
         page: set `metricsAuth: token`, or `statusPage: off`\" }}}}\n{{{{- end }}}}\n",
        format_args!("include \"{name}.setting\" (list . \"statusPage\")"),
        include(name, "port"),
        reviews = include(name, "reviews"),
    );
    for (part, document) in workload.documents() {
        let document = render(&document)?;
        match part {
            Part::Always => text += &format!("---\n{document}"),
            Part::Never => {}
            Part::If(condition) => text += &format!("{{{{- if {condition} }}}}\n---\n{document}{{{{- end }}}}\n"),
        }
    }
    Ok(text)
}

/// The CRDs. They outlive the release, with all objects.
fn crd_template(crds: &[CustomResourceDefinition]) -> Result<String, BoxError> {
    let mut text = "{{- if .Values.crds }}\n".to_owned();
    for crd in crds {
        let mut crd = crd.clone();
        crd.annotations_mut().insert("helm.sh/resource-policy".to_owned(), "keep".to_owned());
        text += &format!("---\n{}", render(&serde_json::to_value(crd)?)?);
    }
    Ok(text + "{{- end }}\n")
}

fn crd_roles(name: &str, controllers: &[Controller]) -> Result<String, BoxError> {
    let metadata = json!({"labels": {"app.kubernetes.io/name": name}});
    let documents = manifests::crd_roles(controllers, &metadata, &role(name));
    let documents: Result<String, BoxError> =
        documents.iter().map(|document: &Value| Ok(format!("---\n{}", render(document)?))).collect();
    Ok(format!("{{{{- if .Values.aggregateRoles }}}}\n{}{{{{- end }}}}\n", documents?))
}

/// The role of those that may read the metrics, if tokens are reviewed.
fn metrics_reader(name: &str) -> Result<String, BoxError> {
    let metadata = json!({"labels": expression(&include(name, "labels"))});
    let document = render(&rbac::metrics_reader(metadata, &role(name)))?;
    Ok(format!("{{{{- if {} }}}}\n{document}{{{{- end }}}}\n", include(name, "reviews")))
}

/// The beginning of the names of roles in the whole cluster.
fn role(name: &str) -> String {
    inline(&format!("printf \"%s:%s\" .Release.Namespace ({})", include(name, "account")))
}

/// The work that each of several replicas would do, and the settings to write instead, by the choice of leader election.
/// Where several replicas are allowed, there is none.
fn unelected(plain: &Invocation<'_>) -> Result<Map<String, Value>, BoxError> {
    let mut refused = Map::new();
    for (election, flag) in roles::ELECTIONS {
        let settings = Settings { leader_election: flag, ..plain.settings.clone() };
        let controllers = plain.with(settings).controllers_quietly()?;
        let Some(one) = manifests::unelected(&controllers) else { continue };
        let work =
            if one.is_task() { format!("run the task `{}`", one.name()) } else { "handle every object".to_owned() };
        let remedy = match flag {
            _ if !one.is_task() => "",
            None => "write `leader_election`, `shard_of` or `everywhere` in its attribute, or ",
            // The leader election of the attribute has no effect then.
            Some(_) => "write `shard_of` or `everywhere` in its attribute, or ",
        };
        refused.insert(election.to_owned(), format!("{work}: {remedy}set `leaderElection: \"on\"`").into());
    }
    Ok(refused)
}

/// The named templates of the settings.
fn named(
    name: &str,
    unelected: &Map<String, Value>,
    most_replicas: Option<(u32, &Controller)>,
    has_webhooks: bool,
    settings: &Settings,
) -> String {
    let (most, limits) = most_replicas.map_or((0, ""), |(most, controller)| (most, controller.name()));
    // As a string of a template.
    let unelected = Value::from(json!(unelected).to_string()).to_string();
    let certificate = Volumes::new(Some(""), "", &[]);
    let files = Volumes::new(None, "", &[String::new()]);
    let (port, number) = WEBHOOKS;
    let (after, least) = manifests::grace(has_webhooks);
    SETTINGS
        .replace("PROGRAM", name)
        .replace("INSTALLATION", INSTALLATION)
        .replace("AFFINITY", &manifests::affinity(&json!({INSTALLATION: "ACCOUNT"})).to_string())
        .replace("ROLLING", &manifests::strategy(true, has_webhooks).to_string())
        .replace("RECREATE", &manifests::strategy(false, has_webhooks).to_string())
        .replace("REPLICAS_ELECTED", &manifests::usual_replicas(true).to_string())
        .replace("REPLICAS_ALONE", &manifests::usual_replicas(false).to_string())
        .replace("UNELECTED", &unelected)
        .replace("HAS_SHARDS", if most_replicas.is_some() { "true" } else { "false" })
        .replace("MOST_REPLICAS", &most.to_string())
        .replace("MEMBERS", &(most + SURGE).to_string())
        .replace("SURGE", &SURGE.to_string())
        .replace("CONTROLLER", limits)
        .replace("HAS_WEBHOOKS", if has_webhooks { "true" } else { "false" })
        .replace("WEBHOOK_PORT", &number.to_string())
        .replace("OPEN_PORTS", &format!("(list \"probes\" \"{port}\")"))
        .replace("GRACE_AFTER", &after.to_string())
        .replace("GRACE_LEAST", &least.to_string())
        .replace("LONGEST", &manifests::longest_name(has_webhooks).to_string())
        .replace("TOKEN_FILE", manifests::TOKEN_FILE)
        .replace("SETTING_FILES", &values::files(&settings.own.flags).to_string())
        .replace("SETTING_WORDS", &values::words(&settings.own.flags).to_string())
        .replace("SETTING_PATH", &manifests::setting_file("%s"))
        .replace("CERTIFICATE_MOUNT", &certificate.mounts[0].to_string())
        .replace("SETTING_MOUNT", &files.mounts[0].to_string())
        .replace("CERTIFICATE_VARIABLES", &values::certificate_variables())
        .replace("VARIABLES", &values::variables())
}

/// The values that follow from the settings, as the command line computes them.
const SETTINGS: &str = include_str!("chart/settings.tpl");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;
    use kooper_access::controller::Task;
    use kooper_runtime::leader::LeaderElection;
    use kooper_sharding::Shards;

    use super::*;
    use crate::Program;
    use crate::cli::app::App;

    fn refused(define: fn(&mut Program)) -> Value {
        let app = App::new("shop", "1.0.0").defined(define);
        json!(unelected(&Invocation { app: &app, settings: Settings::default() }).expect("controllers"))
    }

    #[test]
    fn shards_and_what_runs_everywhere_allow_several_replicas_also_without_leader_election() {
        fn shared(program: &mut Program) {
            program.add(Controller::builder::<Pod>("pods").shards(Shards::new(32)).handler(async || {}));
            program.add(Task::builder("refresh", Duration::from_secs(600)).everywhere().handler(async || {}));
        }
        fn elected(program: &mut Program) {
            shared(program);
            program.add(Controller::builder::<Pod>("one").leader_election(LeaderElection::new()).handler(async || {}));
        }
        fn alone(program: &mut Program) {
            shared(program);
            program.add(Controller::builder::<Pod>("one").handler(async || {}));
        }
        let all = "handle every object: set `leaderElection: \"on\"`";
        assert_eq!(refused(shared), json!({}));
        assert_eq!(refused(elected), json!({"off": all}));
        assert_eq!(refused(alone), json!({"": all, "off": all}));
    }

    #[test]
    fn a_refusal_because_of_a_task_says_what_to_write() {
        fn task(program: &mut Program) {
            program.add(Task::builder("sweep", Duration::from_secs(600)).handler(async || {}));
        }
        let expected = json!({
            "": "run the task `sweep`: write `leader_election`, `shard_of` or `everywhere` in its attribute, or set \
                 `leaderElection: \"on\"`",
            "off": "run the task `sweep`: write `shard_of` or `everywhere` in its attribute, or set `leaderElection: \"on\"`",
        });
        assert_eq!(refused(task), expected);
    }
}
