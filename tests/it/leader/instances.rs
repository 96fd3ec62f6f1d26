//! Several installations of one program, and a renamed program.

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::capability::Applier;
use kooper::controller::operator;
use kooper::kube::Client;
use kooper::kube::client::Body;
use kooper_tests::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::replica::{Replica, assert_one_at_a_time, cluster, prepare, quick, wait_for, writer};
use crate::fixture::Log;
use crate::live::connection;

/// A replica of the program `shop` in an installation. Its Lease is in the namespace `leases`.
fn installed(
    cluster: &ControlPlane,
    leases: &str,
    instance: Option<&str>,
    namespace: &str,
    who: &'static str,
    log: &Log,
) -> Replica {
    let controller = writer("web", namespace, who, log).leader_election(quick(leases)).build().unwrap();
    let named = |builder: operator::Builder, client: Client| {
        let builder = builder.client(client);
        instance.into_iter().fold(builder, operator::Builder::instance)
    };
    Replica::with(connection(cluster.kubeconfig(), None), [controller], named)
}

#[test]
fn two_instances_run_side_by_side_and_without_names_the_second_reports_why_it_does_not() {
    let (one, two) = ("leader-instance-one", "leader-instance-two");
    let Some(cluster) = cluster(one) else { return };
    prepare(cluster, two);
    let log = Log::default();
    let first = installed(cluster, one, None, one, "first", &log);
    wait_for(&log, "first wrote");
    let second = installed(cluster, one, None, two, "second", &log);
    second.wait_for_ready(
        true,
        &["which watches namespace leader-instance-one, not namespace leader-instance-two", "`--instance NAME`"],
    );
    second.stop();
    first.stop();

    let blue = installed(cluster, one, Some("blue"), one, "blue", &log);
    let green = installed(cluster, one, Some("green"), two, "green", &log);
    blue.wait_until_leads("shop-web.blue");
    green.wait_until_leads("shop-web.green");
    wait_for(&log, "blue wrote");
    wait_for(&log, "green wrote");
    blue.stop();
    green.stop();
}

#[test]
fn an_installation_with_an_instance_name_waits_for_the_one_without() {
    let namespace = "leader-gets-a-name";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let old = installed(cluster, namespace, None, namespace, "old", &log);
    wait_for(&log, "old wrote");
    let blue = installed(cluster, namespace, Some("blue"), namespace, "blue", &log);
    blue.wait_for_ready(true, &["the lease `shop-web` of the installation without an instance name is held by "]);
    old.stop();
    wait_for(&log, "blue wrote");
    blue.stop();
    assert_one_at_a_time(&log, &["old", "blue"]);
}

#[test]
fn a_renamed_program_or_one_that_gets_an_instance_name_waits_for_the_lease_and_takes_over_the_fields() {
    let namespace = "program-renamed";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let start = |program: &'static str, instance: Option<&str>, previous: Option<&str>, data: Value| {
        let (log, data) = (log.clone(), data.clone());
        let handler = move |configs: Applier<ConfigMap>| {
            let settings = json!({"metadata": {"name": "settings"}, "data": data});
            let (log, settings) = (log.clone(), serde_json::from_value::<ConfigMap>(settings).unwrap());
            async move {
                configs.apply(&settings).await?;
                log.note(format!("{program} applied"));
                Ok::<_, kooper::BoxError>(())
            }
        };
        let controller = Controller::builder::<ConfigMap>("web").namespaces([namespace]).fields("metadata.name=work");
        let controller = previous.into_iter().fold(controller, kooper::controller::Builder::previous_program);
        let controller = controller.leader_election(quick(namespace)).handler(handler).build().unwrap();
        let named = |builder: operator::Builder, client: Client| {
            instance.into_iter().fold(builder.program(program).client(client), operator::Builder::instance)
        };
        Replica::with(connection(cluster.kubeconfig(), None), [controller], named)
    };
    let applied_only_by = |manager: &str, data: Value| {
        let get = ["-n", namespace, "get", "configmap", "settings", "--show-managed-fields", "-o", "json"];
        let settings: Value = serde_json::from_str(&cluster.must(&get)).unwrap();
        assert_eq!(settings["data"], data);
        let managers: Vec<_> = settings["metadata"]["managedFields"].as_array().unwrap().iter().collect();
        assert_eq!(managers.iter().map(|entry| &entry["manager"]).collect::<Vec<_>>(), [manager]);
    };
    let stall = start("stall", None, None, json!({"kept": "1", "dropped": "1"}));
    wait_for(&log, "stall applied");
    let shop = start("shop", None, Some("stall"), json!({"kept": "2", "dropped": "2"}));
    shop.wait_for_ready(true, &["web: standby: the lease `stall-web` of a previous name is held by "]);
    stall.stop();
    wait_for(&log, "shop applied");
    shop.stop();
    applied_only_by("shop/web", json!({"kept": "2", "dropped": "2"}));
    let before = log.count();
    let blue = start("shop", Some("blue"), None, json!({"kept": "3"}));
    kooper_tests::wait::eventually("it has applied", || log.count() > before);
    blue.stop();
    applied_only_by("shop.blue/web", json!({"kept": "3"}));
}

#[test]
fn invalid_instance_and_previous_names_are_rejected() {
    let controller = || Controller::builder::<ConfigMap>("web").leader_election(quick("x")).handler(async || {});
    let build = |builder: operator::Builder| builder.program("shop").build().unwrap_err().to_string();
    let client = || {
        let service = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, kooper::BoxError>>()
        });
        Client::new(service, "default")
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _context = runtime.enter();
    let named = kooper::Operator::builder().client(client()).controller(controller().build().unwrap()).instance("Blue");
    let error = build(named);
    assert!(error.starts_with("the instance name: "), "{error}");
    let long = Controller::builder::<ConfigMap>("w".repeat(60)).handler(async || {}).build().unwrap();
    let named = kooper::Operator::builder().client(client()).controller(long).instance("x".repeat(60));
    let error = build(named);
    assert!(
        error.contains(&format!("`shop.{}/", "x".repeat(60))) && error.contains("choose a shorter name"),
        "{error}"
    );
    let itself = controller().previous_program("shop").build().unwrap();
    let error = build(kooper::Operator::builder().client(client()).controller(itself));
    assert_eq!(
        error,
        "controller `web`: previous_program: `shop` is the current name of the program: set a previous one"
    );
    let error = controller().previous_program("Old_Shop").build().unwrap_err().to_string();
    assert!(error.starts_with("controller `web`: previous_program: "), "{error}");
}
