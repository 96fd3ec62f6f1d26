use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::*;
use kooper_access::controller::Task;
use kooper_runtime::leader::LeaderElection;
use kooper_sharding::Shards;

/// Where the expected documents are.
const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/manifests/tests");

fn place(instance: Option<&str>) -> Place {
    Place::shop(instance, "shops")
}

fn choices() -> Choices {
    Choices {
        image: "example.com/shop:1".into(),
        replicas: None,
        args: vec!["--tea=green".into()],
        secrets: Vec::new(),
        settings_secret: None,
        variables: vec![("KOOPER_WORKERS".into(), "2".into())],
        listen: "[::]:8080".parse().ok(),
        probes: None,
        security: Security::default(),
        webhooks: None,
        host_network: false,
        has_chosen_auth: false,
        has_status_page: false,
        aggregate_roles: false,
        drain: Duration::from_millis(20_500),
        network_policy: true,
        service_monitor: true,
        alerts: false,
    }
}

fn controllers(elected: bool) -> [Controller; 1] {
    let builder = Controller::builder::<Pod>("pods").handler(async || {});
    let builder = if elected { builder.leader_election(LeaderElection::default()) } else { builder };
    [builder.build().expect("a controller")]
}

fn kinds(elected: bool, place: &Place, choices: &Choices) -> Vec<String> {
    let documents = documents(&controllers(elected), &[], place, choices).expect("documents");
    documents.iter().map(|document| document["kind"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Compares the documents with a file; `KOOPER_BLESS=1` writes it.
#[test]
fn the_documents_are_those_of_the_snapshots() {
    let alone = Choices { variables: Vec::new(), args: Vec::new(), ..choices() };
    let secured = Choices {
        probes: Some("[::]:8081".parse().ok()),
        security: Security {
            reviews_tokens: true,
            has_certificate: true,
            secret: Some("shop-metrics".into()),
            ..Security::default()
        },
        secrets: vec!["password".into()],
        ..choices()
    };
    let usual = Choices {
        probes: Some("[::]:8081".parse().ok()),
        security: Security { reviews_tokens: true, ..Security::default() },
        ..choices()
    };
    for (file, elected, instance, choices) in
        [("alone", false, None, alone), ("secured", true, Some("blue"), secured), ("usual", true, None, usual)]
    {
        let place = Place { reviews_tokens: choices.security.reviews_tokens, ..place(instance) };
        let documents = documents(&controllers(elected), &[], &place, &choices).expect("documents");
        let text: Vec<_> = documents.iter().map(|one| serde_saphyr::to_string(one).expect("YAML")).collect();
        let (text, path) = (text.join("---\n"), format!("{EXPECTED}/{file}.yaml"));
        if std::env::var_os("KOOPER_BLESS").is_some() {
            std::fs::write(&path, &text).expect("the file can be written");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("the file exists"), text, "{path}");
    }
}

#[test]
fn alerts_are_for_the_metrics_of_their_installation() {
    let choices = Choices { alerts: true, ..choices() };
    let documents = documents(&controllers(true), &[], &place(Some("blue")), &choices).expect("documents");
    let rule = documents.iter().find(|one| one["kind"] == "PrometheusRule").expect("alerts");
    let group = &rule["spec"]["groups"][0];
    assert_eq!((&rule["metadata"]["name"], &group["name"]), (&"shop--blue".into(), &"shop.blue".into()));
    for rule in group["rules"].as_array().expect("rules") {
        let expression = rule["expr"].as_str().unwrap_or_default();
        assert!(expression.contains(r#"{namespace="shops", job="shop--blue""#), "{expression}");
    }
}

#[test]
fn a_single_replica_with_leader_election_has_no_budget() {
    let kinds = kinds(true, &place(None), &Choices { replicas: Some(1), ..choices() });
    assert!(!kinds.contains(&"PodDisruptionBudget".to_owned()), "it would protect nothing");
}

#[test]
fn webhooks_have_a_service_an_open_port_and_a_replica_that_always_answers() {
    let choices = Choices { webhooks: Some(10250), listen: None, service_monitor: false, ..choices() };
    let documents = documents(&controllers(true), &[], &place(Some("blue")), &choices).expect("documents");
    let of = |kind: &str| documents.iter().find(|document| document["kind"] == kind).expect(kind);
    let service = of("Service");
    assert_eq!(service["metadata"]["name"], "shop--blue-webhooks");
    let port = json!([{"name": "webhooks", "port": 443, "targetPort": "webhooks", "protocol": "TCP"}]);
    assert_eq!(service["spec"]["ports"], port);
    let spec = &of("Deployment")["spec"];
    assert_eq!(service["spec"]["selector"], spec["selector"]["matchLabels"]);
    assert_eq!((&spec["replicas"], &spec["strategy"]["rollingUpdate"]["maxUnavailable"]), (&2.into(), &0.into()));
    let pod = &spec["template"]["spec"];
    let ports = json!([{"name": "webhooks", "containerPort": 10250, "protocol": "TCP"}]);
    assert_eq!(pod["containers"][0]["ports"], ports);
    assert_eq!(pod["terminationGracePeriodSeconds"], 51);
    let open = json!([{"ports": [{"port": "webhooks", "protocol": "TCP"}]}]);
    assert_eq!(of("NetworkPolicy")["spec"]["ingress"], open, "API servers have no pods that could be selected");
    of("PodDisruptionBudget");
    assert!(!documents.iter().any(|one| one["kind"].as_str().is_some_and(|kind| kind.ends_with("Configuration"))));
}

#[test]
fn in_the_network_of_a_node_webhooks_have_another_port_than_the_kubelet() {
    let usual = Choices { webhooks: Some(10250), host_network: true, ..choices() };
    let refused = documents(&controllers(true), &[], &place(None), &usual).expect_err("the kubelet's port").to_string();
    assert!(refused.contains("such as `--webhook-port 9443`"), "{refused}");
    let refused = |webhooks: u16| {
        let choices = Choices { webhooks: Some(webhooks), network_policy: webhooks == 9443, ..usual.clone() };
        documents(&controllers(true), &[], &place(None), &choices).expect_err("refused").to_string()
    };
    assert!(refused(9443).contains("remove `network-policy` or `host-network`"));
    assert!(refused(443).contains("cannot bind port 443"));
    assert!(refused(8080).contains("metrics or probes use port 8080"));
    let moved = Choices { webhooks: Some(9443), network_policy: false, ..usual };
    let documents = documents(&controllers(true), &[], &place(None), &moved).expect("documents");
    let deployment = documents.iter().find(|document| document["kind"] == "Deployment").expect("a Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!((&pod["hostNetwork"], &pod["dnsPolicy"]), (&true.into(), &"ClusterFirstWithHostNet".into()));
    assert!(pod["containers"][0]["ports"].to_string().contains("9443"), "{pod}");
    assert!(!documents.iter().any(|document| document["kind"] == "NetworkPolicy"));
}

#[test]
fn webhooks_need_leader_election_and_some_time_to_end() {
    let webhooks = Choices { webhooks: Some(10250), ..choices() };
    let refused = documents(&controllers(false), &[], &place(None), &webhooks).expect_err("one replica alone");
    assert!(refused.to_string().contains("the controller `pods` has neither leader election nor shards"), "{refused}");
    let short = Choices { drain: Duration::from_secs(1), ..webhooks.clone() };
    let documents = documents(&controllers(true), &[], &place(None), &short).expect("documents");
    let deployment = documents.iter().find(|document| document["kind"] == "Deployment").expect("a Deployment");
    assert_eq!(deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 45);
    let long = place(Some(&"x".repeat(50)));
    let refused = super::documents(&controllers(true), &[], &long, &webhooks).expect_err("too long").to_string();
    assert!(refused.contains("-webhooks` of the Service would have 65 characters"), "{refused}");
}

#[test]
fn a_task_allows_several_replicas_with_leader_election_or_in_a_shard_or_everywhere() {
    let sharded = || Controller::builder::<Pod>("pods").shards(Shards::new(32)).handler(async || {}).build();
    let task = || Task::builder("sweep", Duration::from_secs(600)).handler(async || {});
    let replicas = |task: Controller, choices: &Choices| {
        let controllers = [sharded().expect("a controller"), task];
        let documents = documents(&controllers, &[], &place(None), choices)?;
        let deployment = documents.into_iter().find(|one| one["kind"] == "Deployment").expect("a Deployment");
        Ok::<_, ManifestError>(deployment["spec"]["replicas"].clone())
    };
    let everywhere = || task().everywhere().build().expect("a task");
    let elected = task().leader_election(LeaderElection::default()).build().expect("a task");
    let alone = || task().build().expect("a task");
    let three = Choices { replicas: Some(3), ..choices() };
    let webhooks = Choices { webhooks: Some(10250), ..choices() };
    assert_eq!(replicas(everywhere(), &choices()).expect("documents"), 2);
    assert_eq!(replicas(everywhere(), &three).expect("documents"), 3);
    assert_eq!(replicas(everywhere(), &webhooks).expect("documents"), 2);
    assert_eq!(replicas(elected, &choices()).expect("documents"), 2);
    let in_shard = task().shard_of("pods").build().expect("a task");
    assert_eq!(replicas(in_shard, &choices()).expect("documents"), 2);
    assert_eq!(replicas(alone(), &choices()).expect("documents"), 1);
    for refused in [&three, &webhooks] {
        let refused = replicas(alone(), refused).expect_err("several replicas would run the task").to_string();
        assert!(refused.contains("would all run the task `sweep`") || refused.contains("webhooks need"), "{refused}");
        assert!(refused.contains("write `leader_election` or `shard_of` in its attribute"), "{refused}");
        assert!(refused.contains("or `everywhere` to run it in each"), "{refused}");
    }
}

fn shared(name: &str, members: u8) -> Controller {
    let shards = Shards::new(32).members(members);
    Controller::builder::<Pod>(name).shards(shards).handler(async || {}).build().expect("a controller")
}

#[test]
fn a_program_with_shards_has_several_replicas_a_budget_and_a_role_for_its_leases_alone() {
    let place = Place { lease_namespace: "leases".into(), ..place(Some("blue")) };
    let documents = documents(&[shared("pods", 3)], &[], &place, &choices()).expect("documents");
    let of = |kind: &str| documents.iter().find(|document| document["kind"] == kind).expect(kind);
    let spec = &of("Deployment")["spec"];
    assert_eq!((&spec["replicas"], &spec["strategy"]["type"]), (&2.into(), &"RollingUpdate".into()));
    assert_eq!(of("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], spec["selector"]["matchLabels"]);
    let role = documents.iter().find(|one| one["kind"] == "Role" && one["metadata"]["namespace"] == "leases");
    let rules = json!([{
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
        "resourceNames": ["shop-pods--0.blue", "shop-pods--1.blue", "shop-pods--2.blue", "shop-pods.blue"],
        "verbs": ["create", "get", "update", "watch"],
    }]);
    assert_eq!(role.expect("a role")["rules"], rules);
}

#[test]
fn replicas_that_find_no_place_among_the_members_during_a_roll_out_are_an_error() {
    let of = |controllers: &[Controller], replicas: Option<u32>| {
        documents(controllers, &[], &place(None), &Choices { replicas, ..choices() })
    };
    let controllers = [shared("many", 8), shared("few", 4), shared("some", 5)];
    assert!(of(&controllers, Some(3)).is_ok(), "with one more there are four");
    let refused = of(&controllers, Some(4)).expect_err("with one more there are five").to_string();
    let expected = "4 replicas and those of a roll-out are more than the 4 that share the shards of the controller `few`: \
                    write `shards(count = …, members = 5)`, or fewer replicas";
    assert_eq!(refused, expected);
    assert!(of(&controllers, Some(u32::MAX)).is_err());
    let two = [shared("two", 2)];
    assert!(of(&two, Some(1)).is_ok());
    let refused = of(&two, None).expect_err("two are usual").to_string();
    assert!(refused.starts_with("2 replicas and those of a roll-out are more than the 2 that"), "{refused}");
}

#[test]
fn the_container_gets_a_dollar_sign_as_it_is_written() {
    let variables = vec![("KOOPER_LABELS".into(), "a=$5".into())];
    let priced = Choices { args: vec!["--tea=$(PRICE)".into(), "--milk=$$".into()], variables, ..choices() };
    let documents = documents(&controllers(false), &[], &place(None), &priced).expect("documents");
    let deployment = documents.iter().find(|one| one["kind"] == "Deployment").expect("a Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    // Kubernetes reads two dollar signs as one, and `$(PRICE)` as a variable.
    assert_eq!(container["args"], json!(["run", "--tea=$$(PRICE)", "--milk=$$$$"]));
    assert_eq!(container["env"], json!([{"name": "KOOPER_LABELS", "value": "a=$$5"}]));
}

#[test]
fn without_a_listener_there_are_no_probes_and_no_service() {
    let off = Choices { listen: None, service_monitor: false, ..choices() };
    let kinds = kinds(false, &place(None), &off);
    assert!(!kinds.contains(&"Service".to_owned()) && kinds.contains(&"NetworkPolicy".to_owned()), "{kinds:?}");
    assert!(!kinds.contains(&"ServiceMonitor".to_owned()), "{kinds:?}");
    let documents = documents(&controllers(false), &[], &place(None), &off).expect("documents");
    let text = documents.iter().map(Value::to_string).collect::<String>();
    assert!(!text.contains("readyz") && !text.contains("null"), "{text}");
}

#[test]
fn an_installation_with_roles_alone_says_who_may_read_the_metrics() {
    let builder = Controller::builder::<Pod>("pods").handler(async || {});
    let mut controller = builder.build().expect("a controller");
    assert!(controller.set_namespaces(vec!["shops".into()]));
    let controllers = [controller];
    let of = |reviews_tokens, has_chosen_auth| {
        let place = Place { reviews_tokens, ..place(None) };
        let probes = Some("[::]:8081".parse().ok());
        let security = Security { reviews_tokens, ..Security::default() };
        let choices = Choices { probes, security, has_chosen_auth, ..choices() };
        documents(&controllers, &[], &place, &choices).map(|documents| {
            documents
                .iter()
                .any(|document| document["kind"] == "ClusterRole" && !document["rules"][0]["resources"].is_null())
        })
    };
    let refused = of(true, false).expect_err("nobody asked for a ClusterRole").to_string();
    assert!(refused.contains("write `--metrics-auth none` for Roles only"), "{refused}");
    assert!(of(true, true).expect("it was asked for"), "it has a ClusterRole");
    assert!(!of(false, true).expect("without tokens"), "it has none");
}

#[test]
fn a_status_page_is_printed_for_those_with_a_token_only() {
    let open = Choices { has_status_page: true, ..choices() };
    let refused = documents(&controllers(false), &[], &place(None), &open).expect_err("everyone could read it");
    assert!(refused.to_string().contains("write `--metrics-auth token`"), "{refused}");
}

#[test]
fn no_label_of_one_installation_selects_pods_of_another() {
    let selector = |instance: Option<&str>| {
        let documents = documents(&controllers(false), &[], &place(instance), &choices()).expect("documents");
        let deployment = documents.into_iter().find(|one| one["kind"] == "Deployment").expect("a Deployment");
        let (selector, labels) =
            (&deployment["spec"]["selector"], &deployment["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(selector["matchLabels"][INSTALLATION], labels[INSTALLATION]);
        selector.clone()
    };
    assert_ne!(selector(None), selector(Some("blue")));
    assert_ne!(selector(None), selector(Some("shop")));
}
