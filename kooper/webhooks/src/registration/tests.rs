use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kooper_serving::FileCertificate;
use kooper_tests::responses;
use kube::CustomResource;
use kube::client::Body;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::authority::leaf::Leaf;
use crate::server::metrics::Metrics;
use crate::webhook::FailurePolicy;
use crate::{Admission, Webhook};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
struct ShopSpec {}

async fn check(_: Arc<ConfigMap>, _: Admission) {}

async fn check_shop(_: Arc<Shop>) {}

fn own() -> Certificates {
    Certificates::Own { secret: "shop--webhook-ca".to_owned(), leaf: Leaf::new(Vec::new()), known: Mutex::new(None) }
}

fn injected() -> Certificates {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let certificate = FileCertificate::load("the webhooks", certificate, key).expect("a certificate");
    Certificates::Injected { certificate, from: "shops/shop-webhooks".to_owned() }
}

fn registration(certificates: Certificates) -> Registration {
    let built = Webhook::validate::<ConfigMap>("check_all").failure(FailurePolicy::Fail).function(check).build();
    Registration {
        installation: Installation::new("shop", Some("blue".to_owned())),
        namespace: "shops".to_owned(),
        lease: "shop--webhooks.blue".to_owned(),
        target: Target::Service { name: "shop-webhooks".to_owned(), port: 443 },
        webhooks: vec![Arc::new(built.expect("a webhook"))],
        namespaces: vec!["north".to_owned()],
        deployment: None,
        roll_out: RollOut::default(),
        owner: None,
        is_local: false,
        ignores: false,
        shared: Arc::new(Shared::new(certificates, Metrics::new("shop.blue".to_owned()).expect("metrics"))),
        done: watch::channel(false).0,
    }
}

fn validating(registration: &Registration, rolled_out: bool) -> Configuration<'_> {
    Configuration { registration, mutates: false, rolled_out, owner: None }
}

/// The entry of a webhook that is the only one.
fn entry(built: Result<Webhook, crate::ConfigError>, is_local: bool) -> Value {
    let webhooks = vec![Arc::new(built.expect("a webhook"))];
    let registration = Registration { webhooks, is_local, ..registration(own()) };
    let mut desired = validating(&registration, true).desired("a bundle", &armed(&[]), &Value::Null);
    desired["webhooks"][0].take()
}

fn armed(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const ENTRY: &str = "check-all.shop.kooper.rs";

#[test]
fn a_configuration_has_an_entry_for_each_function_and_one_for_the_probe() {
    let registration = registration(own());
    let configuration = validating(&registration, true);
    let desired = configuration.desired("a bundle", &armed(&[]), &Value::Null);
    assert_eq!(desired["metadata"]["name"], "shop--webhooks.shops.blue");
    let expected = json!({
        "name": ENTRY, "admissionReviewVersions": ["v1"], "sideEffects": "None", "matchPolicy": "Equivalent",
        "clientConfig": {"caBundle": "YSBidW5kbGU=", "service": {
            "name": "shop-webhooks", "namespace": "shops", "port": 443, "path": "/validate--v1-configmap/check-all",
        }},
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"],
            "scope": "Namespaced",
        }],
        "failurePolicy": "Ignore", "timeoutSeconds": 5,
        "matchConditions": [{"name": "not-terminating", "expression": configuration::NOT_TERMINATING}],
        "namespaceSelector": {"matchExpressions": [{
            "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kube-node-lease", "shops"],
        }]},
    });
    assert_eq!(desired["webhooks"][0], expected);
    let probe = &desired["webhooks"][1];
    assert_eq!((&probe["name"], &probe["failurePolicy"]), (&json!("probe.shop.kooper.rs"), &json!("Ignore")));
    let condition = "has(request.dryRun) && request.dryRun && request.name == 'shop--webhooks.blue'";
    assert_eq!(probe["matchConditions"][0]["expression"], condition);
}

#[test]
fn an_entry_fails_when_it_was_armed_and_the_probe_never_does() {
    let registration = registration(own());
    let configuration = validating(&registration, true);
    let all = configuration.to_fail();
    assert_eq!(all, armed(&[ENTRY]));
    let desired = configuration.desired("a bundle", &all, &Value::Null);
    assert_eq!(
        (&desired["webhooks"][0]["failurePolicy"], &desired["webhooks"][1]["failurePolicy"]),
        (&json!("Fail"), &json!("Ignore"))
    );
    assert_eq!(configuration::armed(&desired), all);
}

#[test]
fn a_function_that_is_new_is_not_registered_while_an_old_replica_may_be_called() {
    let registration = registration(own());
    let before = validating(&registration, true).desired("a bundle", &armed(&[ENTRY]), &Value::Null);
    let configuration = validating(&registration, false);
    let first = configuration.desired("a bundle", &armed(&[]), &Value::Null);
    assert_eq!(first["webhooks"].as_array().map(Vec::len), Some(1), "the probe alone");
    assert!(!configuration.has_functions(&first) && configuration.has_functions(&before));
    assert_eq!(configuration.desired("a bundle", &armed(&[ENTRY]), &before), before, "it is registered already");
}

#[test]
fn a_function_of_another_version_is_known_by_its_name_and_removed_with_the_same_authority() {
    let (ours, mut theirs) = (registration(own()), registration(own()));
    let newer = Webhook::validate::<ConfigMap>("newer").failure(FailurePolicy::Fail).function(check).build();
    theirs.webhooks.push(Arc::new(newer.expect("a webhook")));
    let live = validating(&theirs, true).desired("a bundle", &armed(&[ENTRY]), &Value::Null);
    let (ours, theirs) = (validating(&ours, false), validating(&theirs, false));
    assert!(ours.has_unknown(&live));
    assert!(!theirs.has_unknown(&live) && !ours.has_unknown(&Value::Null));
    let left = ours.desired(&configuration::bundle(&live), &configuration::armed(&live), &live);
    assert_eq!(left, ours.desired("a bundle", &armed(&[ENTRY]), &live));
    assert!(!ours.has_unknown(&left));
}

#[test]
fn a_function_that_is_called_for_something_else_is_registered_so_once_all_replicas_expect_it() {
    let registration = registration(own());
    let (all, some) = (validating(&registration, true), validating(&registration, false));
    let current = all.desired("a bundle", &armed(&[ENTRY]), &Value::Null);
    let with = |change: fn(&mut Value)| {
        let mut live = current.clone();
        change(&mut live["webhooks"][0]);
        live
    };
    let fewer = with(|entry| entry["rules"][0]["operations"] = json!(["UPDATE", "DELETE"]));
    let left = some.desired("a bundle", &armed(&[ENTRY]), &fewer);
    assert_eq!(left["webhooks"][0]["rules"][0]["operations"], json!(["UPDATE"]), "what both versions expect");
    assert!(!some.has_unknown(&fewer));
    assert_eq!(all.desired("a bundle", &armed(&[ENTRY]), &fewer), current);

    let moved =
        with(|entry| entry["clientConfig"]["service"]["path"] = json!("/validate--v1beta1-configmap/check-all"));
    assert!(some.has_unknown(&moved), "replicas of this version answer there with 404");
    let left = some.desired("a bundle", &armed(&[ENTRY]), &moved);
    assert_eq!(left["webhooks"].as_array().map(Vec::len), Some(1), "the probe alone");
    assert_eq!(all.desired("a bundle", &armed(&[ENTRY]), &moved), current);
}

#[test]
fn a_configuration_is_written_if_it_lacks_something_or_has_an_entry_too_many() {
    let registration = registration(own());
    let desired = validating(&registration, true).desired("a bundle", &armed(&[]), &Value::Null);
    assert!(!configuration::is_as_desired(&desired, &Value::Null));
    let mut live = desired.clone();
    live["webhooks"][0]["objectSelector"] = json!({});
    assert!(configuration::is_as_desired(&desired, &live), "the server has added defaults");
    assert_eq!(configuration::published([&live, &Value::Null]), "a bundle");
    live["webhooks"][0]["failurePolicy"] = "Fail".into();
    assert!(!configuration::is_as_desired(&desired, &live));
    let none = json!({"metadata": {"name": "shop"}, "webhooks": []});
    assert!(configuration::is_as_desired(&none, &json!({"metadata": {"name": "shop"}})), "the server omits the list");
    assert!(!configuration::is_as_desired(&none, &desired));
    let mut more = desired.clone();
    more["webhooks"].as_array_mut().expect("a list").push(json!({"name": "gone.shop.kooper.rs"}));
    assert!(!configuration::is_as_desired(&desired, &more));
    assert_eq!(configuration::published([&desired, &more]), "", "one entry has none");
}

#[test]
fn a_webhook_is_called_in_all_namespaces_again_when_the_program_is_no_longer_limited_to_some() {
    let limited_to = |namespaces: &[&str]| {
        let built = Webhook::validate::<Shop>("check").function(check_shop).build();
        let webhooks = vec![Arc::new(built.expect("a webhook"))];
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let registration = Registration { webhooks, namespaces, ..registration(own()) };
        validating(&registration, true).desired("a bundle", &armed(&[]), &Value::Null)
    };
    let (mut live, desired) = (limited_to(&["north"]), limited_to(&[]));
    assert!(!configuration::is_as_desired(&desired, &live));
    live["webhooks"][0]["namespaceSelector"] = json!({});
    assert!(configuration::is_as_desired(&desired, &live), "the server omits the empty list");
}

#[test]
fn entries_and_conditions_that_an_apply_would_keep_are_deleted() {
    let registration = registration(own());
    let desired = validating(&registration, true).desired("a bundle", &armed(&[]), &Value::Null);
    assert!(configuration::surplus(&desired, &desired).is_empty());
    let mut live = desired.clone();
    let entries = live["webhooks"].as_array_mut().expect("a list");
    let conditions = entries[0]["matchConditions"].as_array_mut().expect("a list");
    conditions.push(json!({"name": "never", "expression": "false"}));
    entries.push(json!({"name": "more.shop.kooper.rs"}));
    let condition = json!({"name": ENTRY, "matchConditions": [{"name": "never", "$patch": "delete"}]});
    let entry = json!({"name": "more.shop.kooper.rs", "$patch": "delete"});
    assert_eq!(configuration::surplus(&desired, &live), [condition, entry]);
}

#[test]
fn entries_that_others_have_added_are_ignored() {
    let registration = registration(own());
    let configuration = validating(&registration, true);
    let desired = configuration.desired("a bundle", &armed(&[]), &Value::Null);
    let mut live = desired.clone();
    let others = [json!({"name": "check.bookshop.kooper.rs"}), json!({"name": "shop.kooper.rs"})];
    live["webhooks"].as_array_mut().expect("a list").extend(others);
    configuration.forget_others(&mut live);
    assert_eq!(live, desired);
    let mut none = Value::Null;
    configuration.forget_others(&mut none);
    assert_eq!(none, Value::Null);
}

#[test]
fn expressions_that_a_cloud_adds_to_a_selector_are_left_and_the_own_ones_with_the_same_label_are_kept() {
    let of_cloud = [
        json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]}),
        json!({"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]}),
    ];
    for selector in ["tier=gold", "!control-plane"] {
        let builder = Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Fail).namespace_selector(selector);
        let desired = entry(builder.function(check).build(), false);
        let mut live = desired.clone();
        let expressions = live["namespaceSelector"]["matchExpressions"].as_array_mut().expect("a list");
        expressions.extend(of_cloud.clone());
        assert!(configuration::has(&desired, &live), "{selector}");
        live["namespaceSelector"]["matchExpressions"] = json!(of_cloud);
        assert!(!configuration::has(&desired, &live), "{selector}");
    }
}

#[test]
fn cert_manager_is_asked_to_write_its_authority_and_none_is_written_beside_it() {
    let registration = registration(injected());
    let desired = validating(&registration, true).desired("", &armed(&[]), &Value::Null);
    assert_eq!(desired["metadata"]["annotations"]["cert-manager.io/inject-ca-from"], "shops/shop-webhooks");
    assert_eq!(desired["webhooks"][0]["clientConfig"].get("caBundle"), None);
}

#[test]
fn a_webhook_of_a_custom_resource_is_called_for_what_users_state_in_the_namespaces_of_the_controllers() {
    let built = Webhook::validate::<Shop>("check_all").function(check_shop).build();
    let entry = entry(built, false);
    let differs = "request.operation != 'UPDATE' || !has(object.spec) || object.?spec != oldObject.?spec || \
                   object.metadata.?labels != oldObject.metadata.?labels || object.metadata.?annotations != \
                   oldObject.metadata.?annotations";
    assert_eq!(entry["matchConditions"][1]["expression"], differs);
    assert_eq!(entry["namespaceSelector"]["matchExpressions"][0]["values"], json!(["north"]));
}

#[test]
fn a_webhook_of_namespaces_is_not_called_for_those_that_the_cluster_and_the_program_start_in() {
    async fn check_namespace(_: Arc<Namespace>) {}
    let built = Webhook::validate::<Namespace>("check").failure(FailurePolicy::Fail).function(check_namespace).build();
    let selector = &entry(built, false)["namespaceSelector"]["matchExpressions"][0];
    assert_eq!(selector["operator"], "NotIn");
    assert_eq!(selector["values"], json!(["kube-system", "kube-node-lease", "shops"]));
}

#[test]
fn conditions_and_namespaces_of_the_user_replace_the_usual_ones_and_those_of_the_controllers_stay() {
    let conditions = [("not-a-test", "!object.metadata.name.startsWith('test')")];
    let own = Webhook::validate::<Shop>("check").match_conditions(conditions).namespace_selector("tier=gold,!legacy");
    let own = entry(own.subresources(["status"]).function(check_shop).build(), false);
    let expected = json!([{"name": "not-a-test", "expression": "!object.metadata.name.startsWith('test')"}]);
    assert_eq!(own["matchConditions"], expected);
    assert_eq!(own["rules"][0]["resources"], json!(["shops", "shops/status"]));
    let name = |values: Value| json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": values});
    let legacy = json!({"key": "legacy", "operator": "DoesNotExist"});
    let tier = json!({"key": "tier", "operator": "In", "values": ["gold"]});
    assert_eq!(own["namespaceSelector"]["matchExpressions"], json!([legacy, tier, name(json!(["north"]))]));

    let foreign = || {
        let builder =
            Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Ignore).namespace_selector("tier=gold");
        builder.function(check).build()
    };
    assert_eq!(entry(foreign(), false)["namespaceSelector"]["matchExpressions"], json!([tier]));
    let local = entry(foreign(), true);
    assert_eq!(
        local["namespaceSelector"]["matchExpressions"],
        json!([tier, name(json!(["north"]))]),
        "never elsewhere"
    );
}

#[test]
fn a_write_of_a_subresource_is_checked_though_it_changes_no_spec() {
    let built = Webhook::validate::<Shop>("check").subresources(["status"]).function(check_shop).build();
    let changed = &entry(built, false)["matchConditions"][1]["expression"];
    let begins = |text: &str| text.starts_with("has(request.subResource) || request.operation != 'UPDATE' || ");
    assert!(changed.as_str().is_some_and(begins), "{changed}");
}

#[tokio::test]
async fn a_probe_that_another_webhook_rejects_has_its_reason_and_one_after_a_renewal_is_repeated() {
    let probed = async |code: u16, message: &'static str| {
        let client = responses::client("shops", move |request| {
            if request.method() == Method::GET {
                (200, json!({"metadata": {"name": "shop--webhooks.blue", "resourceVersion": "7"}}))
            } else {
                responses::rejection(code, message)
            }
        });
        probe::is_reached(&client, &registration(own()), false).await.map_err(|error| error.to_string())
    };
    for (code, message) in [
        (400, "admission webhook \"a.io\" does not support dry run"),
        (409, "admission webhook \"a.io\" denied the request: frozen"),
    ] {
        let error = probed(code, message).await.expect_err("it is rejected");
        assert!(error.starts_with("the Lease `shop--webhooks.blue` cannot") && error.contains(message), "{error}");
    }
    assert_eq!(probed(409, "the object has been modified").await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn an_entry_does_not_fail_before_its_authority_is_injected_though_that_of_the_probe_is() {
    let registration = registration(injected());
    let configuration = || validating(&registration, true);
    let with_authority = |entries: &[usize]| {
        let mut live = configuration().desired("", &armed(&[]), &Value::Null);
        entries.iter().for_each(|at| live["webhooks"][*at]["clientConfig"]["caBundle"] = "YQ==".into());
        live
    };
    let (some, all) = (with_authority(&[1]), with_authority(&[0, 1]));
    // From the configuration before the probe and the one after it: the result, and the number of patches.
    let arm = async |before: &Value, after: &Value| {
        let (patches, after) = (Arc::new(AtomicUsize::new(0)), after.clone());
        let patched = Arc::clone(&patches);
        let server = tower::service_fn(move |request: Request<Body>| {
            patched.fetch_add(usize::from(request.method() == Method::PATCH), Ordering::Relaxed);
            let lease = json!({"metadata": {"name": "shop--webhooks.blue", "resourceVersion": "7"}});
            let object = if request.uri().path().contains("/leases/") { &lease } else { &after };
            let reached = "299 - \"kooper: the validating webhooks are reached\"";
            let response = Response::builder().header("warning", reached);
            ready(response.body(Body::from(object.to_string().into_bytes())))
        });
        let written = WrittenConfiguration { configuration: configuration(), armed: armed(&[]), live: before.clone() };
        let done = registration.arm(&Client::new(server, "shops"), &written, "", false).await;
        (done, patches.load(Ordering::Relaxed))
    };
    assert!(matches!(arm(&all, &all).await, (Ok(()), 1)));
    assert!(matches!(arm(&some, &all).await, (Err(RegisterError::Changed { .. }), 0)), "it begins again");
    assert!(matches!(arm(&some, &some).await, (Err(RegisterError::Untrusted { .. }), 0)), "it has been reached");
}
