//! Names and namespaces that do not fit into the path of a request.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kooper::Controller;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper_tests::control_plane::ControlPlane;

use crate::fixture::{Start, with_name};
use crate::live::{HandledStates, configmap};

/// An error with its sources, without those that only repeat it.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source()).map(ToString::to_string);
    sources.fold(
        error.to_string(),
        |text, source| if text.ends_with(&source) { text } else { format!("{text}: {source}") },
    )
}

/// Applies and gets a ConfigMap of this name, and returns both results.
async fn config(applier: &Applier<ConfigMap>, getter: &Getter<ConfigMap>, namespace: &str, name: &str) -> [String; 2] {
    let mut config = ConfigMap::default();
    config.metadata.namespace = Some(namespace.to_owned());
    config.metadata.name = Some(name.to_owned());
    let applied = applier.apply(&config).await.map_err(|error| chain(&error));
    let got = getter.fetch(&ObjectKey::namespaced(namespace, name)).await.map_err(|error| chain(&error));
    [format!("{:?}", applied.map(|_| ())), format!("{:?}", got.map(|found| found.is_some()))]
}

/// The same for a role, whose name may have any character but two; it is deleted last.
async fn role(
    applier: &Applier<ClusterRole>,
    getter: &Getter<ClusterRole>,
    deleter: &Deleter<ClusterRole>,
    name: &str,
) -> [String; 3] {
    let role: ClusterRole = with_name(name);
    let key = ObjectKey::cluster_scoped(name);
    let applied = applier.apply(&role).await.map_err(|error| chain(&error));
    let got = getter.fetch(&key).await.map_err(|error| chain(&error));
    let deleted = deleter.delete(&key).await.map_err(|error| chain(&error));
    let applied = applied.map(|role| role.metadata.name.unwrap_or_default());
    [format!("{applied:?}"), format!("{:?}", got.map(|found| found.is_some())), format!("{:?}", deleted.is_ok())]
}

/// Each case, in lines that are the same on every API server.
async fn cases(
    namespace: &str,
    (configs, config_getter): (Applier<ConfigMap>, Getter<ConfigMap>),
    (roles, role_getter, role_deleter): (Applier<ClusterRole>, Getter<ClusterRole>, Deleter<ClusterRole>),
) -> String {
    let mut lines = Vec::new();
    for (namespace, name) in [
        (namespace, "My Shop"),
        (namespace, "a?dryRun=All"),
        (namespace, "50%"),
        (namespace, "web/status"),
        (namespace, ".."),
        ("My Shop", "web"),
    ] {
        lines.extend(config(&configs, &config_getter, namespace, name).await);
    }
    for name in ["a role: 50 é", "web/status"] {
        lines.extend(role(&roles, &role_getter, &role_deleter, name).await);
    }
    lines.join("\n")
}

fn expected(namespace: &str) -> String {
    let rejected = |name: &str, rule: &str| {
        format!(
            "Err(\"cannot apply ConfigMap `{namespace}/{name}`: ConfigMap \\\"{name}\\\" is invalid: metadata.name: Invalid value: \\\"{name}\\\": {rule}\")\nOk(false)"
        )
    };
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let impossible = |object: &str| {
        format!(
            "Err(\"{object} has an invalid `metadata.name`: a name cannot contain `/` or `%`, and cannot be `.` or \
             `..`\")"
        )
    };
    let twice = |error: String| format!("{error}\n{error}");
    [
        rejected("My Shop", subdomain),
        rejected("a?dryRun=All", subdomain),
        twice(impossible(&format!("ConfigMap `{namespace}/50%`"))),
        twice(impossible(&format!("ConfigMap `{namespace}/web/status`"))),
        twice(impossible(&format!("ConfigMap `{namespace}/..`"))),
        twice("Err(\"ConfigMap `My Shop/web` has an invalid `metadata.namespace`: \\\"My Shop\\\" is not a DNS label: write lower-case letters, digits and `-`, beginning and ending with a letter or digit\")".to_owned()),
        "Ok(\"a role: 50 é\")\nOk(true)\ntrue".to_owned(),
        impossible("ClusterRole `web/status`"),
        "Err(\"ClusterRole `web/status` has a namespace, but its kind is cluster-scoped: clear `metadata.namespace`, or use \
         `ObjectKey::cluster_scoped`\")\nfalse".to_owned(),
    ]
    .join("\n")
}

#[test]
fn an_error_names_the_object_whose_name_is_invalid() {
    let namespace = "invalid-names";
    let Some(cluster) = ControlPlane::shared_in(namespace, [configmap(namespace, "one", "1")]) else { return };
    let seen = HandledStates::default();
    let handler = move |configs: Applier<ConfigMap>,
                        config_getter: Getter<ConfigMap>,
                        roles: Applier<ClusterRole>,
                        role_getter: Getter<ClusterRole>,
                        role_deleter: Deleter<ClusterRole>,
                        seen: State<HandledStates>| async move {
        let lines = cases(namespace, (configs, config_getter), (roles, role_getter, role_deleter)).await;
        seen.note("one", lines);
    };
    let controller = Controller::builder::<ConfigMap>("names").namespaces([namespace]).fields("metadata.name=one");
    let live = controller.state(seen.clone()).handler(handler).start_on(cluster);
    seen.wait_for(&[("one", &*expected(namespace))]);
    live.stop();
}

#[kooper::test]
async fn an_error_names_the_object_whose_name_is_invalid_in_a_test(cluster: Cluster) -> Result<()> {
    let namespace = cluster.namespace().to_owned();
    let config: ConfigMap = with_name("one");
    let config = Arc::new(cluster.create(&config).await?);
    let arguments = cluster.arguments(&config);
    let configs = (arguments.take().await, arguments.take().await);
    let roles = (arguments.take().await, arguments.take().await, arguments.take().await);
    assert_eq!(cases(&namespace, configs, roles).await, expected(&namespace));
    Ok(())
}
