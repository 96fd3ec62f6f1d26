mod namespaces;
mod tasks;
mod warnings;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::core::metadata::PartialObjectMeta;
use kube::{Client, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;
use kooper::shards::Shards;
use kooper_access::capability::{All, Subset};
use kooper_access::{Getter, KindExt, OwnedApplier, Reader};
use kooper_children::declare;
use kooper_runtime::ObjectKey;
use kooper_runtime::leader::LeaderElection;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "rbac.example.com", version = "v1", kind = "Gadget", namespaced)]
struct GadgetSpec {
    colour: String,
}

fn place() -> Place {
    Place { lease_namespace: "leases".into(), ..Place::shop(None, "shops") }
}

fn controller(name: &str, namespaces: &[&str]) -> kooper_access::controller::Builder<Pod> {
    Controller::builder::<Pod>(name).namespaces(namespaces.iter().copied()).handler(async || {})
}

/// A line for each document, and one for each rule.
fn lines(controllers: &[Controller]) -> Vec<String> {
    lines_at(controllers, &place())
}

fn lines_at(controllers: &[Controller], place: &Place) -> Vec<String> {
    let account = place.account();
    let grants = grants(controllers, place).expect("every client has rules");
    let list = |value: &Value| {
        let items = value.as_array().into_iter().flatten().filter_map(|item| item.as_str());
        items.collect::<Vec<_>>().join(" ")
    };
    let mut lines = Vec::new();
    for document in documents(&grants, place) {
        let metadata = &document["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or("-");
        assert_eq!(metadata["name"], if namespace == "shops" { account.clone() } else { format!("shops:{account}") });
        assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "shop");
        assert_eq!(metadata["labels"]["app.kubernetes.io/instance"].as_str(), place.installation.instance.as_deref());
        lines.push(format!("{} {namespace}", document["kind"].as_str().unwrap_or_default()));
        for rule in document["rules"].as_array().into_iter().flatten() {
            let (groups, resources) = (list(&rule["apiGroups"]), list(&rule["resources"]));
            lines.push(format!("  {groups}/{resources} [{}] {}", list(&rule["resourceNames"]), list(&rule["verbs"])));
        }
        if let Some(subject) = document["subjects"].get(0) {
            assert_eq!((&subject["name"], &subject["namespace"]), (&account.as_str().into(), &"shops".into()));
            assert_eq!(document["roleRef"]["name"], metadata["name"]);
            assert_eq!(
                document["roleRef"]["kind"],
                document["kind"].as_str().unwrap_or_default().replace("Binding", "")
            );
        }
    }
    lines
}

#[test]
fn a_controller_of_the_operators_namespace_has_a_role_there() {
    let builder = Controller::builder::<Pod>("echo").own_namespace().handler(async || {});
    let mut controllers = [builder.build().expect("a controller")];
    controllers[0].set_own_namespace("shops");
    let roles = ["Role shops", "  /events [] create patch", "  /pods [] list watch", "RoleBinding shops"];
    assert_eq!(lines(&controllers)[1..], roles);
    // Before, it is not that of all namespaces.
    let unknown = Controller::builder::<Pod>("echo").own_namespace().handler(async || {}).build();
    assert!(unknown.is_ok_and(|unknown| unknown.namespaces() == ["default"]));
}

#[test]
fn each_namespace_has_a_role_and_cluster_scoped_kinds_have_a_cluster_role() {
    async fn handler(_: Arc<Pod>, _: Reader<Node>, _: Reader<ConfigMap>) {}
    let one = Controller::builder::<Pod>("one").namespaces(["b", "a"]).owns(Deployment::all()).handler(handler);
    assert_eq!(
        lines(&[one.build().expect("a controller")]),
        [
            "ServiceAccount shops",
            "ClusterRole -",
            "  /nodes [] list watch",
            "ClusterRoleBinding -",
            "Role a",
            "  /configmaps pods [] list watch",
            "  /events [] create patch",
            "  apps/deployments [] list watch",
            "RoleBinding a",
            "Role b",
            "  /configmaps pods [] list watch",
            "  /events [] create patch",
            "  apps/deployments [] list watch",
            "RoleBinding b",
        ]
    );
}

#[test]
fn a_permission_of_the_cluster_role_is_not_repeated_in_a_role() {
    let everywhere = controller("everywhere", &[]).build().expect("a controller");
    let cleaning = controller("cleaning", &["a"]).cleanup("example.com/pod", async || {}).build();
    assert_eq!(
        lines(&[everywhere, cleaning.expect("a controller")]),
        [
            "ServiceAccount shops",
            "ClusterRole -",
            "  /events [] create patch",
            "  /pods [] list watch",
            "ClusterRoleBinding -",
            "Role a",
            "  /pods [] get patch",
            "RoleBinding a",
        ]
    );
}

#[test]
fn the_rule_for_a_crd_is_limited_to_its_name() {
    let gadgets = Controller::builder::<Gadget>("gadgets").install_crd().handler(async || {});
    assert_eq!(
        lines(&[gadgets.build().expect("a controller")]),
        [
            "ServiceAccount shops",
            "ClusterRole -",
            "  /events [] create patch",
            "  apiextensions.k8s.io/customresourcedefinitions [gadgets.rbac.example.com] create get patch watch",
            "  rbac.example.com/gadgets [] list watch",
            "ClusterRoleBinding -",
        ]
    );
}

#[test]
fn access_adds_rules_in_the_namespaces_of_the_controller() {
    async fn handler(_: Client) {}
    let rules = [
        "pods/log: get",
        "pods: get, delete",
        "nodes: get",
        "x.io/issuers (cluster): get",
        "x.io/certs: get",
        "apps/deployments: *",
        "apps/deployments: get",
    ];
    let one = Controller::builder::<Pod>("one").namespaces(["a"]).rbac(rules).handler(handler);
    assert_eq!(
        lines(&[one.build().expect("a controller")]),
        [
            "ServiceAccount shops",
            "ClusterRole -",
            "  /nodes [] get",
            "  x.io/issuers [] get",
            "ClusterRoleBinding -",
            "Role a",
            "  /events [] create patch",
            "  /pods [] delete get list watch",
            "  /pods/log [] get",
            "  apps/deployments [] *",
            "  x.io/certs [] get",
            "RoleBinding a",
        ]
    );
}

#[test]
fn a_client_without_access_is_an_error() {
    async fn handler(_: Client) {}
    let one = || Controller::builder::<Pod>("one");
    let error = grants(&[one().handler(handler).build().expect("a controller")], &place()).expect_err("no rules");
    assert_eq!(
        error.to_string(),
        "the controller `one` takes `Client`, whose permissions are unknown: list them with \
         `rbac(\"apps/deployments: get, patch\")`, or write `rbac()` if it needs none"
    );
    let nothing = one().rbac::<&str>([]).handler(handler).build().expect("a controller");
    assert!(grants(&[nothing], &place()).is_ok());
}

#[test]
fn rules_for_leases_are_limited_to_their_names_and_previous_ones_are_only_read() {
    let a = controller("a", &["x"]).leader_election(LeaderElection::new()).previous_names(["z"]);
    let a = a.cleanup("example.com/new", async || {}).previous_finalizers(["example.com/old"]).build();
    let b = controller("b", &["x"]).leader_election(LeaderElection::new()).build();
    assert_eq!(
        lines(&[a.expect("a controller"), b.expect("a controller")]),
        [
            "ServiceAccount shops",
            "Role leases",
            "  coordination.k8s.io/leases [shop-a shop-b] create get update watch",
            "  coordination.k8s.io/leases [shop-z] get",
            "  events.k8s.io/events [] create patch",
            "RoleBinding leases",
            "Role x",
            "  /events [] create patch",
            "  /pods [] get list patch watch",
            "RoleBinding x",
        ]
    );
}

fn blue() -> Place {
    Place { lease_namespace: "leases".into(), ..Place::shop(Some("blue"), "shops") }
}

#[test]
fn an_instance_has_an_account_roles_and_leases_of_its_own() {
    let a = controller("a", &["x"]).leader_election(LeaderElection::new()).build();
    assert_eq!(
        lines_at(&[a.expect("a controller")], &blue()),
        [
            "ServiceAccount shops",
            "Role leases",
            "  coordination.k8s.io/leases [shop-a] get",
            "  coordination.k8s.io/leases [shop-a.blue] create get update watch",
            "  events.k8s.io/events [] create patch",
            "RoleBinding leases",
            "Role x",
            "  /events [] create patch",
            "  /pods [] list watch",
            "RoleBinding x",
        ]
    );
}

#[test]
fn a_lease_with_a_name_of_its_own_is_one_for_each_instance() {
    let own = LeaderElection::new().lease("mine");
    let one = controller("a", &["x"]).leader_election(own).build();
    let lines = lines_at(&[one.expect("a controller")], &blue());
    assert_eq!(
        lines[2..4],
        ["  coordination.k8s.io/leases [mine] get", "  coordination.k8s.io/leases [mine.blue] create get update watch",]
    );
}

#[test]
fn the_leases_of_a_previous_program_and_of_previous_names_are_read_with_and_without_the_instance() {
    let a =
        controller("a", &["x"]).leader_election(LeaderElection::new()).previous_names(["z"]).previous_program("stall");
    let a = [a.build().expect("a controller")];
    let read = |place: &Place| lines_at(&a, place).into_iter().find(|line| line.ends_with("] get")).expect("a rule");
    assert_eq!(read(&place()), "  coordination.k8s.io/leases [shop-z stall-a stall-z] get");
    assert_eq!(
        read(&blue()),
        "  coordination.k8s.io/leases [shop-a shop-z shop-z.blue stall-a stall-a.blue stall-z stall-z.blue] get"
    );
}

#[test]
fn a_rule_has_the_setting_that_requires_it() {
    let a = controller("a", &["x"]).leader_election(LeaderElection::new()).previous_program("stall").build();
    let grants = grants(&[a.expect("a controller")], &blue()).expect("no clients");
    let of = |name: &str| {
        let found = grants.iter().find(|(grant, _)| grant.name.as_deref() == Some(name) && grant.verb == "get");
        found.and_then(|(_, because)| because.first()).map(String::as_str)
    };
    assert_eq!(of("shop-a"), Some("--instance of the controller `a`"));
    assert_eq!(of("stall-a"), Some("previous_program of the controller `a`"));
    assert_eq!(of("shop-a.blue"), Some("leader_election of the controller `a`"));
}

#[test]
fn a_lease_with_a_name_and_a_namespace_of_its_own_keeps_them() {
    let own = LeaderElection::new().lease("mine").namespace("there");
    let one = controller("a", &["x"]).leader_election(own).build();
    let lines = lines(&[one.expect("a controller")]);
    assert_eq!(lines[1..3], ["Role there", "  coordination.k8s.io/leases [mine] create get update watch"]);
}

#[test]
fn the_leases_of_shards_are_named_after_that_of_the_map_in_each_instance() {
    let of = |shards: Shards, place: &Place| {
        let one = controller("a", &["x"]).shards(shards).build();
        let lines = lines_at(&[one.expect("a controller")], place);
        let leases = lines.windows(2).find(|pair| pair[1].contains("/leases")).expect("a rule").to_vec();
        assert_eq!(lines.iter().filter(|line| line.contains("/leases")).count(), 1, "{lines:#?}");
        leases
    };
    let shards = || Shards::new(16).members(2);
    let rule = |names: &str| format!("  coordination.k8s.io/leases [{names}] create get update watch");
    assert_eq!(of(shards(), &place()), ["Role leases".to_owned(), rule("shop-a shop-a--0 shop-a--1")]);
    let named = shards().lease("mine").namespace("there");
    assert_eq!(of(named, &blue()), ["Role there".to_owned(), rule("mine--0.blue mine--1.blue mine.blue")]);
}

/// One Secret, in a namespace of its own.
struct Certificate;

impl Subset for Certificate {
    type Object = Secret;

    fn select(all: All<Secret>) -> All<Secret> {
        all.names(["tls"]).namespaces(["certificates"])
    }
}

#[test]
fn a_selection_limits_the_rules_to_its_names_and_namespaces() {
    async fn handler(_: Getter<Secret, Certificate>, _: Reader<Secret, Certificate>) {}
    let wakes = |_: &ConfigMap| Vec::new();
    let one = Controller::builder::<Pod>("one")
        .fields("metadata.name=lamp,status.phase=Running")
        .watches_only(ConfigMap::all().names(["b", "a"]), wakes)
        .owns(Node::all().fields("metadata.name=here"))
        .events(false)
        .handler(handler);
    assert_eq!(
        lines(&[one.build().expect("a controller")]),
        [
            "ServiceAccount shops",
            "ClusterRole -",
            "  /configmaps [a b] list watch",
            "  /nodes [here] list watch",
            "  /pods [lamp] list watch",
            "ClusterRoleBinding -",
            "Role certificates",
            "  /secrets [tls] get list watch",
            "RoleBinding certificates",
        ]
    );
}

#[test]
fn readers_read_what_reads_selects_wherever_it_is_written() {
    async fn handler(_: Reader<Secret>, _: Getter<Secret>, _: Reader<PartialObjectMeta<Secret>>) {}
    async fn end(_: Reader<ConfigMap>) {}
    let secrets = || Secret::all().names(["tls"]).namespaces(["certificates"]);
    let of = || Controller::builder::<Pod>("one").events(false);
    let maps = || ConfigMap::all().fields("metadata.name=end");
    fn wakes(_: &Node, _: &Reader<Pod>) -> Vec<ObjectKey> {
        Vec::new()
    }
    let before = of().reads(secrets()).reads(maps()).handler(handler).cleanup("example.com/end", end);
    let after = of().handler(handler).cleanup("example.com/end", end).reads(maps()).reads(secrets());
    for builder in [before, after] {
        let builder = builder.watches::<Node, _, _>(wakes).reads(Pod::all().names(["a"]));
        assert_eq!(
            lines(&[builder.build().expect("a controller")]),
            [
                "ServiceAccount shops",
                "ClusterRole -",
                "  /configmaps [end] list watch",
                "  /nodes [] list watch",
                "  /pods [] get list patch watch",
                "  /secrets [] get list watch",
                "ClusterRoleBinding -",
            ]
        );
    }
    async fn reads(_: Reader<Secret>) {}
    assert_eq!(
        lines(&[of().handler(reads).reads(secrets()).build().expect("a controller")])[4..],
        ["Role certificates", "  /secrets [tls] list watch", "RoleBinding certificates"]
    );
}

#[test]
fn a_child_that_left_the_selection_needs_get_and_a_selection_of_metadata_does_not() {
    async fn handler(_: Arc<Pod>, _: OwnedApplier<ConfigMap>) {}
    let of = |children: All<PartialObjectMeta<ConfigMap>>| {
        let one = Controller::builder::<Pod>("one").owns(children).handler(handler);
        lines(&[one.build().expect("a controller")])
            .into_iter()
            .find(|line| line.contains("configmaps"))
            .expect("a rule")
    };
    let all = || ConfigMap::all().metadata_only();
    assert_eq!(of(all()), "  /configmaps [] create list patch watch");
    assert_eq!(of(all().labels("app=shop")), "  /configmaps [] create get list patch watch");
}

#[test]
fn a_child_of_an_owner_in_another_shard_needs_get() {
    async fn handler(_: Arc<Pod>, _: OwnedApplier<ConfigMap>) {}
    let one = Controller::builder::<Pod>("one").shards(Shards::new(8)).handler(handler).build().expect("a controller");
    assert!(lines(&[one]).contains(&"  /configmaps [] create get list patch watch".to_owned()));
}

#[test]
fn the_objects_to_clean_up_are_watched_whatever_their_name() {
    let one = controller("one", &[]).fields("metadata.name=lamp").cleanup("example.com/pod", async || {}).build();
    let lines = lines(&[one.expect("a controller")]);
    assert!(lines.contains(&"  /pods [] get list patch watch".to_owned()), "{lines:#?}");
}

#[test]
fn a_mistake_in_a_selection_is_an_error_of_its_setting() {
    struct Wrong;
    impl Subset for Wrong {
        type Object = Secret;
        fn select(all: All<Secret>) -> All<Secret> {
            all.labels("app=shop,")
        }
    }
    struct Labelled;
    impl Subset for Labelled {
        type Object = Secret;
        fn select(all: All<Secret>) -> All<Secret> {
            all.labels("app=shop")
        }
    }
    async fn reads(_: Reader<Secret, Wrong>) {}
    async fn gets(_: Getter<Secret, Labelled>) {}
    async fn plain(_: Reader<Secret>) {}
    let of = || Controller::builder::<Pod>("one");
    let wakes = |_: &Secret| Vec::new();
    let some = || Secret::all().labels("app=shop");
    let key: fn(&Pod) -> Secret = |_| Secret::default();
    let children = declare().child(key).build().expect("a slot");
    for (builder, field, problem) in [
        (of().handler(reads), "handler", "the selector \"app=shop,\" ends too early"),
        (of().handler(gets), "handler", "Getter<Secret, Labelled> gets objects by their names"),
        (of().owns(Secret::all().labels("=")).handler(async || {}), "owns", "the selector \"=\""),
        (of().watches_only(Secret::all().fields("type"), wakes).handler(async || {}), "watches", "the field selector"),
        (of().reads(Secret::all().labels("=")).handler(plain), "reads", "the selector \"=\""),
        (of().reads(Secret::all()).handler(plain), "reads", "a `Reader<Secret>` reads all objects anyway"),
        (of().reads(some()).handler(async || {}), "reads", "no function takes a `Reader<Secret>`"),
        (
            of().reads(some().metadata_only()).handler(plain),
            "reads",
            "no function takes a `Reader<PartialObjectMeta<Se",
        ),
        (of().reads(some()).handler(children.handler(plain)), "reads", "children of the kind Secret"),
        (of().reads(some()).reads(some().names(["a"])).handler(plain), "reads", "there are two selections"),
    ] {
        let error = builder.build().expect_err(problem);
        assert_eq!(error.field, field, "{error}");
        assert!(error.problem.starts_with(problem), "{error}");
    }
}

#[test]
fn a_grant_is_printed_as_a_rule() {
    let controllers = [controller("echo", &["a"]).events(false).build().expect("a controller")];
    let grants = grants(&controllers, &place()).expect("no clients");
    let (grant, because) = grants.first_key_value().expect("one");
    assert_eq!(grant.to_string(), "pods: list");
    assert_eq!(grant.role(&place()), "the Role `shops:shop` in namespace `a`");
    let inside = Grant { namespace: Some("shops".into()), ..grant.clone() };
    assert_eq!(inside.role(&place()), "the Role `shop` in namespace `shops`");
    let everywhere = Grant { namespace: None, ..grant.clone() };
    assert_eq!(everywhere.role(&place()), "the ClusterRole `shops:shop`");
    assert_eq!(because.first().map(String::as_str), Some("resource = Pod of the controller `echo`"));
    let named =
        Grant { group: "x.y".into(), subresource: Some("status".into()), name: Some("n".into()), ..grant.clone() };
    assert_eq!(named.to_string(), "x.y/pods/status: list (resourceNames: n)");
}

#[test]
fn the_rules_of_reviews_are_for_the_whole_cluster_also_if_the_program_watches_one_namespace() {
    let place = Place { reviews_tokens: true, ..place() };
    let controller = Controller::builder::<Pod>("pods").namespaces(["a"]).handler(async || {}).build().expect("one");
    let documents = documents(&grants(&[controller], &place).expect("rules"), &place);
    let find = |kind: &str, name: &str| {
        let found = documents.iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{kind} {name} in {documents:#?}"))
    };
    let role = place.role(None);
    assert_eq!(
        find("ClusterRole", &role)["rules"],
        json!([
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ])
    );
    find("ClusterRoleBinding", &role);
    let reader = find("ClusterRole", &format!("{role}:metrics-reader"));
    assert_eq!(reader["rules"], json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
}
