//! `install_crd` on a real API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kooper::Controller;
use kooper::Namespaced;
use kooper::prelude::*;
use kooper_tests::control_plane::ControlPlane;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fixture::Start;
use crate::live::{HandledStates, Live, configmap, connection, recorder};

/// Kinds with a size, each in a group of its own.
macro_rules! kinds {
    ($($spec:ident: $kind:tt, $plural:tt, $group:tt;)*) => {$(
        #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[kube(group = $group, version = "v1", kind = $kind, plural = $plural, namespaced)]
        struct $spec {
            size: i32,
        }
    )*};
}

kinds! {
    FreshSpec: "Fresh", "freshes", "fresh.example.com";
    KeptSpec: "Kept", "kepts", "kept.example.com";
    BrokenSpec: "Broken", "brokens", "broken.example.com";
    ForeignSpec: "Foreign", "foreigns", "foreign.example.com";
    TakenSpec: "Taken", "takens", "taken.example.com";
    LeavingSpec: "Leaving", "leavings", "leaving.example.com";
    AllowedSpec: "Allowed", "alloweds", "allowed.example.com";
    GoneSpec: "Gone", "gones", "gone.example.com";
    CleanedSpec: "Cleaned", "cleaneds", "cleaned.example.com";
    RenamedSpec: "Renamed", "renameds", "renamed.example.com";
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "limited.example.com", version = "v1", kind = "Limited", plural = "limiteds", namespaced)]
struct LimitedSpec {
    #[schemars(range(max = 5))]
    size: i32,
}

/// A controller that installs the CRD of its kind, and notes each object.
fn installer<K>(name: &str, namespace: &str, seen: &HandledStates) -> Controller
where
    K: Namespaced + CustomResourceExt + ResourceExt,
{
    Controller::builder::<K>(name)
        .namespaces([namespace])
        .install_crd()
        .state(seen.clone())
        .handler(async |object: Arc<K>, seen: State<HandledStates>| seen.note(object.name_any(), "seen"))
        .build()
        .unwrap()
}

fn crd(cluster: &ControlPlane, name: &str) -> Value {
    serde_json::from_str(&cluster.must(&["get", "crd", name, "--output=json", "--show-managed-fields"])).unwrap()
}

/// The CRD of a kind with another schema of `spec.size`.
fn with_size(crd: CustomResourceDefinition, size: Value) -> Value {
    let mut crd = serde_json::to_value(crd).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = size;
    crd
}

fn object(namespace: &str, kind: &str, group: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": kind,
        "metadata": {"namespace": namespace, "name": kind.to_lowercase()}, "spec": {"size": 1}
    })
}

/// The number of write requests for a CRD.
fn writes(cluster: &ControlPlane, name: &str) -> usize {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?");
    let is_write = |event: &&Value| {
        ["create", "patch", "update"].contains(&event["verb"].as_str().unwrap_or_default())
            && event["requestURI"].as_str().is_some_and(|uri| uri.starts_with(&path))
    };
    cluster.audit_log(name).iter().filter(is_write).count()
}

#[test]
fn a_crd_is_installed_once_and_not_written_again() {
    let namespace = "crds-fresh";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let seen = HandledStates::default();
    let live = Live::on(cluster, [installer::<Fresh>("fresh", namespace, &seen)]);
    live.wait_for_ready(true, &["ok"]);
    cluster.apply([object(namespace, "Fresh", "fresh.example.com")]);
    seen.wait_for(&[("fresh", "seen")]);
    live.stop();

    let before = crd(cluster, "freshes.fresh.example.com");
    let annotations = &before["metadata"]["annotations"];
    assert_eq!(annotations["kooper.rs/version"], "0.0.0");
    assert_eq!(annotations["kooper.rs/schema-hash"].as_str().map(str::len), Some(16));
    let sent = writes(cluster, "freshes.fresh.example.com");
    assert_ne!(sent, 0);
    // Two replicas at once, and both again.
    let replicas = [(); 2].map(|()| Live::on(cluster, [installer::<Fresh>("fresh", namespace, &seen)]));
    for replica in &replicas {
        replica.wait_for_ready(true, &["ok"]);
    }
    let after = crd(cluster, "freshes.fresh.example.com");
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(writes(cluster, "freshes.fresh.example.com"), sent, "not even a write that changes nothing");
    replicas.into_iter().for_each(Live::stop);
}

#[test]
fn a_newer_crd_and_an_equal_one_are_kept() {
    let namespace = "crds-kept";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let mut newer = with_size(Kept::crd(), json!({"type": "integer", "format": "int64"}));
    newer["metadata"]["annotations"] = json!({"kooper.rs/version": "7.0.0"});
    cluster.apply([newer]);
    let seen = HandledStates::default();
    let live = Live::on(cluster, [installer::<Kept>("kept", namespace, &seen)]);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
    let there = crd(cluster, "kepts.kept.example.com");
    assert_eq!(there["metadata"]["annotations"]["kooper.rs/version"], "7.0.0");
    assert_eq!(there["metadata"]["generation"], 1);

    cluster.apply([serde_json::to_value(Kept::crd()).unwrap()]);
    let before = crd(cluster, "kepts.kept.example.com");
    let live = Live::on(cluster, [installer::<Kept>("kept", namespace, &seen)]);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
    let after = crd(cluster, "kepts.kept.example.com");
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

#[test]
fn an_incompatible_or_foreign_crd_is_not_replaced_and_other_controllers_work() {
    let namespace = "crds-refused";
    let Some(cluster) = ControlPlane::shared_in(namespace, [configmap(namespace, "settings", "1")]) else { return };
    cluster.apply([
        with_size(Broken::crd(), json!({"type": "string"})),
        with_size(Foreign::crd(), json!({"type": "integer", "format": "int32", "maximum": 7})),
    ]);
    let seen = HandledStates::default();
    let live = Live::on(
        cluster,
        [
            installer::<Broken>("broken", namespace, &seen),
            installer::<Foreign>("foreign", namespace, &seen),
            recorder("configs", namespace, &seen),
        ],
    );
    seen.wait_for(&[("settings", "1")]);
    live.wait_for_ready(
        false,
        &[
            "broken: `install_crd` failed: the CRD `brokens.broken.example.com` in the cluster is not replaced",
            "`spec.size` (v1) changes its type from string to integer",
            "foreign: `install_crd` failed: the CRD `foreigns.foreign.example.com` differs and is not replaced, \
             because it belongs to `kubectl-client-side-apply` (`.spec.versions`)",
        ],
    );
    assert!(live.is_alive());
    // The controller works with the existing CRD, for all objects that decode.
    cluster.apply([object(namespace, "Foreign", "foreign.example.com")]);
    seen.wait_for(&[("foreign", "seen")]);
    live.wait_for_ready(false, &["foreign: `install_crd` failed"]);

    // After it is resolved by hand, no restart is needed.
    cluster.apply([Broken::crd(), Foreign::crd()].map(|crd| serde_json::to_value(crd).unwrap()));
    live.wait_for_ready(true, &["ok"]);
    cluster.apply([object(namespace, "Broken", "broken.example.com")]);
    seen.wait_for(&[("broken", "seen")]);
    live.stop();
}

#[test]
fn a_renamed_program_takes_over_the_crd_that_it_applied_under_its_previous_name() {
    let namespace = "crds-renamed";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let described = json!({"type": "integer", "format": "int32", "description": "as the previous program had it"});
    let before = with_size(Renamed::crd(), described).to_string();
    cluster.apply_text(&["--server-side", "--validate=false", "--field-manager=previous-shop"], &before);

    let controller = Controller::builder::<Renamed>("renamed").namespaces([namespace]).install_crd();
    let live = controller.previous_program("previous-shop").handler(async |_: Arc<Renamed>| {}).start_on(cluster);
    live.wait_for_ready(true, &["ok"]);
    live.stop();

    let there = crd(cluster, "renameds.renamed.example.com");
    let size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size";
    assert_eq!(there.pointer(size), Some(&json!({"type": "integer", "format": "int32"})), "{there}");
    let managers = there["metadata"]["managedFields"].as_array().unwrap().iter().map(|entry| &entry["manager"]);
    assert!(!managers.clone().any(|manager| manager == "previous-shop"), "{:?}", managers.collect::<Vec<_>>());
}

#[test]
fn a_crd_whose_names_are_taken_is_reported_and_retried() {
    let namespace = "crds-taken";
    // Another kind of the group has the list's name.
    let mut other = serde_json::to_value(Taken::crd()).unwrap();
    other["metadata"]["name"] = json!("others.taken.example.com");
    other["spec"]["names"] = json!({"kind": "Other", "plural": "others", "listKind": "TakenList"});
    let Some(cluster) = ControlPlane::shared_in(namespace, [other]) else { return };
    cluster.must(&["wait", "--for=condition=established", "crd/others.taken.example.com", "--timeout=60s"]);
    let seen = HandledStates::default();
    let live = Live::on(cluster, [installer::<Taken>("taken", namespace, &seen)]);
    live.wait_for_ready(
        false,
        &["the CRD `takens.taken.example.com` is not established: ", "already in use", "delete the other CRD"],
    );
    cluster.must(&["delete", "crd", "others.taken.example.com"]);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
}

#[test]
fn a_crd_that_is_being_deleted_is_awaited_and_installed_again() {
    let namespace = "crds-leaving";
    let leaving = serde_json::to_value(Leaving::crd()).unwrap();
    let Some(cluster) = ControlPlane::shared_in(namespace, [leaving]) else { return };
    cluster.must(&["wait", "--for=condition=established", "crd/leavings.leaving.example.com", "--timeout=60s"]);
    let mut held = object(namespace, "Leaving", "leaving.example.com");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    cluster.apply([held]);
    let old = crd(cluster, "leavings.leaving.example.com");
    cluster.must(&["delete", "crd", "leavings.leaving.example.com", "--wait=false"]);
    let live = Live::on(cluster, [installer::<Leaving>("leaving", namespace, &HandledStates::default())]);
    live.wait_for_ready(false, &["the CRD `leavings.leaving.example.com` is being deleted: it is removed when"]);
    let here = format!("--namespace={namespace}");
    let free = r#"{"metadata": {"finalizers": null}}"#;
    cluster.must(&["patch", "leavings.leaving.example.com", "leaving", &here, "--type=merge", "--patch", free]);
    live.wait_for_ready(true, &["ok"]);
    assert_ne!(crd(cluster, "leavings.leaving.example.com")["metadata"]["uid"], old["metadata"]["uid"]);
    live.stop();
}

#[test]
fn an_incompatible_change_is_applied_with_consent_for_exactly_this_change() {
    let namespace = "crds-allowed";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let name = "alloweds.allowed.example.com";
    let mut old = serde_json::to_value(Allowed::crd()).unwrap();
    let spec = &mut old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["old"] = json!({"type": "string"});
    cluster.apply_text(&["--server-side", "--validate=false", "--field-manager=it"], &old.to_string());
    cluster.must(&["wait", "--for=condition=established", "crd", name, "--timeout=60s"]);
    let seen = HandledStates::default();
    let start = |consent: &str| {
        let controllers = [installer::<Allowed>("allowed", namespace, &seen)];
        Live::start_edited(connection(cluster.kubeconfig(), None), controllers, |builder| {
            builder.program("it").allow_crd_change(consent)
        })
    };
    // Consent for another change of the same CRD.
    let live = start("alloweds.allowed.example.com@0000000000000000");
    live.wait_for_ready(false, &["`spec.old` (v1) is removed", "`.allow_crd_change(\"alloweds.allowed.example.com@"]);
    cluster.apply([object(namespace, "Allowed", "allowed.example.com")]);
    seen.wait_for(&[("allowed", "seen")]);
    let reason = live.readiness();
    live.stop();
    let consent = reason.split("allow_crd_change(\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let live = start(consent);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
    let there = crd(cluster, name);
    let schema = &there["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(schema["old"], Value::Null);
    assert_eq!(
        consent,
        format!("{name}@{}", there["metadata"]["annotations"]["kooper.rs/schema-hash"].as_str().unwrap())
    );
}

#[test]
fn a_limit_is_tightened_because_the_server_keeps_accepting_stored_values() {
    let namespace = "crds-limited";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let name = "limiteds.limited.example.com";
    let old = with_size(Limited::crd(), json!({"type": "integer", "format": "int32"})).to_string();
    // The program of the test uses the same field manager.
    let manager = format!("--field-manager={}", std::env::args().next().map(|path| program(&path)).unwrap());
    cluster.apply_text(&["--server-side", "--validate=false", &manager], &old);
    cluster.must(&["wait", "--for=condition=established", "crd", name, "--timeout=60s"]);
    let mut large = object(namespace, "Limited", "limited.example.com");
    large["spec"]["size"] = json!(9);
    cluster.apply([large]);
    let seen = HandledStates::default();
    let live = Live::on(cluster, [installer::<Limited>("limited", namespace, &seen)]);
    live.wait_for_ready(true, &["ok"]);
    seen.wait_for(&[("limited", "seen")]);
    live.stop();
    let schema = &crd(cluster, name)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(schema["properties"]["size"]["maximum"], json!(5));
    let here = format!("--namespace={namespace}");
    let create = || {
        let mut another = object(namespace, "Limited", "limited.example.com");
        another["metadata"]["name"] = json!("another");
        another["spec"]["size"] = json!(9);
        let args = ["create", "--dry-run=server", "--validate=false", "--filename=-"];
        cluster.kubectl_with(&args, &another.to_string())
    };
    kooper_tests::wait::eventually("the server takes no other object beyond the limit", || !create().success);
    cluster.must(&["label", "limiteds.limited.example.com", "limited", &here, "still=written"]);
}

/// The name of a program's file as a valid Kubernetes name.
fn program(path: &str) -> String {
    std::path::Path::new(path).file_stem().unwrap().to_str().unwrap().replace('_', "-")
}

#[test]
fn a_crd_deleted_while_the_program_runs_makes_it_not_ready_until_it_exists_again() {
    let namespace = "crds-gone";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let name = "gones.gone.example.com";
    let seen = HandledStates::default();
    let live = Live::on(cluster, [installer::<Gone>("gone", namespace, &seen)]);
    live.wait_for_ready(true, &["ok"]);
    let installed = writes(cluster, name);
    cluster.must(&["delete", "crd", name]);
    live.wait_for_ready(false, &["gone: gones.gone.example.com in crds-gone: no longer served: ", "apply its CRD"]);
    assert!(live.is_alive());
    assert_eq!(writes(cluster, name), installed, "only a start installs it");
    cluster.apply([serde_json::to_value(Gone::crd()).unwrap()]);
    live.wait_for_ready(true, &["ok"]);
    cluster.apply([object(namespace, "Gone", "gone.example.com")]);
    seen.wait_for(&[("gone", "seen")]);
    live.stop();
}

#[test]
fn objects_that_delay_the_deletion_of_their_crd_are_cleaned_up_by_a_program_that_starts_meanwhile() {
    let namespace = "crds-cleaned";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let name = "cleaneds.cleaned.example.com";
    cluster.apply([serde_json::to_value(Cleaned::crd()).unwrap()]);
    cluster.must(&["wait", "--for=condition=established", "crd", name, "--timeout=60s"]);
    let mut held = object(namespace, "Cleaned", "cleaned.example.com");
    held["metadata"]["finalizers"] = json!(["cleaned.example.com/it"]);
    cluster.apply([held]);
    let old = crd(cluster, name);
    cluster.must(&["delete", "crd", name, "--wait=false"]);
    let seen = HandledStates::default();
    let live = Controller::builder::<Cleaned>("cleaned")
        .namespaces([namespace])
        .install_crd()
        .state(seen.clone())
        .cleanup("cleaned.example.com/it", async |object: Arc<Cleaned>, seen: State<HandledStates>| {
            seen.note(object.name_any(), "cleaned up");
        })
        .handler(async || {})
        .start_on(cluster);
    seen.wait_for(&[("cleaned", "cleaned up")]);
    live.wait_for_ready(true, &["ok"]);
    assert_ne!(crd(cluster, name)["metadata"]["uid"], old["metadata"]["uid"]);
    live.stop();
}
