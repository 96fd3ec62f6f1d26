use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use kooper::capability::{AccessError, OwnedApplier, owned_by};
use kooper::testing::{FakeCluster, Reply, Sent};

/// The field managers of the controller and of its edits.
const OURS: &str = "test/configmap";
const HEALER: &str = "test/configmap/heal";

fn managed(manager: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": if manager == OURS { "Apply" } else { "Update" }, "fieldsV1": fields})
}

/// A cluster with an owner and a child of it.
struct Fixture {
    cluster: FakeCluster,
    owner: Arc<ConfigMap>,
    /// The child on the server.
    live: Value,
}

impl Fixture {
    fn secret() -> Self {
        let cluster = FakeCluster::new();
        let owner = cluster.put(&named::<ConfigMap>("owner")).unwrap();
        let child = owned_by(&owner, named::<Secret>("child")).unwrap();
        let mut live = json!(*cluster.put(&child).unwrap());
        live["data"] = json!({"password": "c2VjcmV0", "extra": "MQ=="});
        live["metadata"]["managedFields"] = json!([
            managed(OURS, &json!({"f:data": {"f:password": {}}})),
            managed("kubectl-patch", &json!({"f:data": {"f:extra": {}}})),
        ]);
        Self { cluster, owner, live }
    }

    /// A Service in which the applied port has another number.
    fn service(controlled: bool) -> Self {
        let cluster = FakeCluster::new();
        let owner = cluster.put(&named::<ConfigMap>("owner")).unwrap();
        let child = named::<Service>("child");
        let child = if controlled { owned_by(&owner, child).unwrap() } else { child };
        let mut live = json!(*cluster.put(&child).unwrap());
        live["spec"] = json!({"ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]});
        let port = json!({"f:spec": {"f:ports": {"k:{\"port\":8080,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}});
        live["metadata"]["managedFields"] = json!([managed("kubectl-create", &port)]);
        Self { cluster, owner, live }
    }

    /// Reads return the live object; the functions answer an apply and an edit.
    fn answer(
        &self,
        apply: impl Fn(&Sent) -> Reply + Send + Sync + 'static,
        edit: impl Fn(&Sent) -> Reply + Send + Sync + 'static,
    ) {
        let live = self.live.clone();
        self.cluster.reply(move |sent| match sent.verb {
            "apply" => Some(apply(sent)),
            "patch" if sent.body.is_array() => Some(edit(sent)),
            "patch" => Some(Reply::object(&live)),
            _ => None,
        });
    }

    /// Each read returns a newer version of the live object; the function answers an edit.
    fn answer_with_new_versions(&self, edit: impl Fn(&Sent) -> Reply + Send + Sync + 'static) {
        let (live, reads) = (self.live.clone(), AtomicU64::new(0));
        self.cluster.reply(move |sent| match sent.verb {
            "apply" => Some(Reply::object(&live)),
            "patch" if sent.body.is_array() => Some(edit(sent)),
            "patch" => {
                let mut live = live.clone();
                live["metadata"]["resourceVersion"] = (3000 + reads.fetch_add(1, Ordering::Relaxed)).to_string().into();
                Some(Reply::object(&live))
            }
            _ => None,
        });
    }

    async fn apply_secret(&self) -> Result<Secret, AccessError> {
        let mut child: Secret = named("child");
        child.string_data = Some([("password".to_owned(), "secret".to_owned())].into());
        let secrets: OwnedApplier<Secret> = self.cluster.arguments(&self.owner).take();
        secrets.exclusive().apply_owned(&self.owner, &child).await
    }

    fn children(&self) -> (OwnedApplier<Service>, Service) {
        let child = json!({"metadata": {"name": "child"}, "spec": {"ports": [{"name": "http", "port": 80}]}});
        (self.cluster.arguments(&self.owner).take(), serde_json::from_value(child).unwrap())
    }

    /// The JSON patches that were sent.
    fn edits(&self) -> Vec<Value> {
        self.cluster.sent().into_iter().filter(|sent| sent.body.is_array()).map(|sent| sent.body).collect()
    }

    fn events(&self) -> Vec<String> {
        self.cluster.events().iter().map(ToString::to_string).collect()
    }
}

fn named<T: Default + ResourceExt>(name: &str) -> T {
    let mut object = T::default();
    object.meta_mut().name = Some(name.to_owned());
    object
}

/// The server's response to two ports of the same name.
fn duplicate() -> Reply {
    let cause =
        json!({"reason": "FieldValueDuplicate", "message": "Duplicate value: \"http\"", "field": "spec.ports[1].name"});
    let status = json!({
        "status": "Failure", "code": 422, "reason": "Invalid", "message": "Duplicate value: \"http\"",
        "details": {"name": "child", "kind": "services", "causes": [cause]},
    });
    Reply::status(&serde_json::from_value(status).unwrap())
}

fn without(live: &Value, path: &str, name: &str) -> Value {
    let mut live = live.clone();
    live["metadata"]["resourceVersion"] = "2000".into();
    live.pointer_mut(path).unwrap().as_object_mut().unwrap().remove(name);
    live
}

#[tokio::test]
async fn an_edit_of_an_exclusive_secret_keeps_the_keys_of_the_handler() {
    let fixture = Fixture::secret();
    let (applied, edited) = (fixture.live.clone(), without(&fixture.live, "/data", "extra"));
    fixture.answer(move |_| Reply::object(&applied), move |_| Reply::object(&edited));
    let secret = fixture.apply_secret().await.unwrap();
    let version = &fixture.live["metadata"]["resourceVersion"];
    let expected = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "remove", "path": "/data/extra"},
    ]);
    assert_eq!(fixture.edits(), [expected]);
    assert_eq!(secret.data.unwrap().keys().collect::<Vec<_>>(), ["password"]);
    let removed = "Warning ForeignEntryRemoved: `data.extra` of Secret `default/child` was set by `kubectl-patch`";
    assert!(fixture.events()[0].starts_with(removed), "{:?}", fixture.events());
}

#[tokio::test]
async fn fields_that_an_interrupted_edit_still_owns_are_released_by_the_next_call() {
    let mut fixture = Fixture::service(true);
    let port = json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}}}}});
    fixture.live["metadata"]["managedFields"] = json!([managed(OURS, &port), managed(HEALER, &port)]);
    fixture.live["spec"]["ports"][0]["port"] = 80.into();
    let live = fixture.live.clone();
    let applied = live.clone();
    fixture.answer(move |_| Reply::object(&applied), move |_| Reply::object(&live));
    let (services, child) = fixture.children();
    services.apply_owned(&fixture.owner, &child).await.unwrap();
    let [edit] = fixture.edits().try_into().unwrap();
    assert_eq!(edit[1], json!({"op": "remove", "path": "/metadata/managedFields/1"}));
    assert_eq!(fixture.events(), [""; 0]);
}

#[tokio::test]
async fn an_entry_that_an_admission_webhook_adds_again_is_kept_and_reported_once() {
    let fixture = Fixture::secret();
    let applied = fixture.live.clone();
    // The entry of the webhook has no managed fields until another client writes it.
    let mut edited = fixture.live.clone();
    edited["metadata"]["managedFields"] = json!([]);
    let (live, reads) = (fixture.live.clone(), AtomicU64::new(0));
    fixture.cluster.reply(move |sent| match sent.verb {
        "apply" => Some(Reply::object(&applied)),
        "patch" if sent.body.is_array() => Some(Reply::object(&edited)),
        "patch" if reads.fetch_add(1, Ordering::Relaxed) == 1 => Some(Reply::object(&edited)),
        "patch" => Some(Reply::object(&live)),
        _ => None,
    });
    let secrets: OwnedApplier<Secret> = fixture.cluster.arguments(&fixture.owner).take();
    let mut child: Secret = named("child");
    child.string_data = Some([("password".to_owned(), "secret".to_owned())].into());
    for _ in 0..3 {
        secrets.exclusive().apply_owned(&fixture.owner, &child).await.unwrap();
    }
    assert_eq!(fixture.edits().len(), 1);
    let [kept] = fixture.events().try_into().unwrap();
    let expected = "Warning ForeignEntryKept: `data.extra` of Secret `default/child` was added again";
    assert!(kept.starts_with(expected), "{kept}");
}

#[tokio::test]
async fn if_an_edit_is_rejected_the_error_of_the_apply_is_returned() {
    let fixture = Fixture::service(true);
    fixture.answer(|_| duplicate(), |_| Reply::rejected(422, "Invalid", "a policy denies it"));
    let (services, child) = fixture.children();
    let refused = services.apply_owned(&fixture.owner, &child).await.unwrap_err();
    assert!(kooper_runtime::error::chain(&refused).contains("Duplicate value"), "{refused:?}");
    assert_eq!(fixture.edits().len(), 1, "a rejected edit is not sent again");
    assert_eq!(fixture.events(), [""; 0]);
}

#[tokio::test]
async fn an_exclusive_child_whose_edit_is_rejected_is_applied_nevertheless() {
    let fixture = Fixture::secret();
    let applied = fixture.live.clone();
    fixture.answer(move |_| Reply::object(&applied), |_| Reply::rejected(403, "Forbidden", "a policy denies it"));
    assert_eq!(fixture.apply_secret().await.unwrap().name_any(), "child");
    assert_eq!(fixture.edits().len(), 1);
    let [kept] = fixture.events().try_into().unwrap();
    assert!(kept.starts_with("Warning ForeignEntryKept: ") && kept.contains("a policy denies it"), "{kept}");
}

#[tokio::test]
async fn an_edit_is_repeated_for_a_newer_version_of_the_object() {
    let fixture = Fixture::secret();
    let edited = without(&fixture.live, "/data", "extra");
    fixture.answer_with_new_versions(move |edit| match edit.body[0]["value"] == "3001" {
        true => Reply::object(&edited),
        false => Reply::rejected(422, "Invalid", "the test failed"),
    });
    assert!(!fixture.apply_secret().await.unwrap().data.unwrap().contains_key("extra"));
    assert_eq!(fixture.edits().len(), 2);
}

#[tokio::test]
async fn an_object_that_keeps_changing_is_left_to_the_next_call() {
    let fixture = Fixture::secret();
    fixture.answer_with_new_versions(|_| Reply::rejected(422, "Invalid", "the test failed"));
    assert_eq!(fixture.apply_secret().await.unwrap().name_any(), "child");
    assert_eq!(fixture.edits().len(), 3);
    assert_eq!(fixture.events(), [""; 0], "nothing was removed, and nothing is reported as kept");
}

#[tokio::test]
async fn an_object_with_a_colliding_entry_is_adopted() {
    let fixture = Fixture::service(false);
    let versions = Arc::new(Mutex::new(Vec::new()));
    let (seen, live) = (versions.clone(), fixture.live.clone());
    let edited = live.clone();
    let apply = move |sent: &Sent| {
        let mut seen = seen.lock();
        seen.push(sent.body["metadata"]["resourceVersion"].clone());
        if seen.len() == 1 { duplicate() } else { Reply::object(&live) }
    };
    fixture.answer(apply, move |_| Reply::object(&edited));
    let (services, child) = fixture.children();
    services.adopt(&fixture.owner, &child).await.unwrap();
    let known = fixture.live["metadata"]["resourceVersion"].clone();
    assert_eq!(*versions.lock(), [known, Value::Null], "only the first apply requires the known version");
    let edit = &fixture.edits()[0];
    assert_eq!(edit[1], json!({"op": "replace", "path": "/spec/ports", "value": [{"name": "http", "port": 80}]}));
}

#[tokio::test]
async fn an_object_that_another_owner_has_adopted_meanwhile_is_not_edited() {
    let mut fixture = Fixture::service(false);
    fixture.live["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other", "controller": true}]);
    fixture.answer(|_| duplicate(), |_| Reply::rejected(500, "InternalError", "it is edited"));
    let (services, child) = fixture.children();
    let refused = services.adopt(&fixture.owner, &child).await.unwrap_err();
    assert!(kooper_runtime::error::chain(&refused).contains("Duplicate value"), "{refused:?}");
    assert_eq!(fixture.edits(), [Value::Null; 0]);
}
