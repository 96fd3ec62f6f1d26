use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::call::capability::{AccessError, OwnedApplier, owned_by};
use crate::testing::{FakeCluster, Reply, Sent};

/// The field manager of the controller, and that of its edits.
const OURS: &str = "test/configmap";
const HEALER: &str = "test/configmap/heal";

fn managed(manager: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": if manager == OURS { "Apply" } else { "Update" }, "fieldsV1": fields})
}

/// A cluster with an owner and a child of it.
struct Stand {
    cluster: FakeCluster,
    owner: Arc<ConfigMap>,
    /// The child as the server has it.
    live: Value,
}

impl Stand {
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

    /// A Service in which the port of ours has another number.
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

    /// Reads return the live object; an apply and an edit are answered so.
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

/// As the server refuses two ports of one name.
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
async fn an_edit_of_an_exclusive_secret_leaves_the_keys_of_the_handler_alone() {
    let stand = Stand::secret();
    let (applied, edited) = (stand.live.clone(), without(&stand.live, "/data", "extra"));
    stand.answer(move |_| Reply::object(&applied), move |_| Reply::object(&edited));
    let secret = stand.apply_secret().await.unwrap();
    let version = &stand.live["metadata"]["resourceVersion"];
    let expected = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "remove", "path": "/data/extra"},
    ]);
    assert_eq!(stand.edits(), [expected]);
    assert_eq!(secret.data.unwrap().keys().collect::<Vec<_>>(), ["password"]);
    let removed = "Warning ForeignEntryRemoved: `data.extra` of Secret `default/child` was set by `kubectl-patch`";
    assert!(stand.events()[0].starts_with(removed), "{:?}", stand.events());
}

#[tokio::test]
async fn fields_that_an_interrupted_edit_still_owns_are_released_in_the_next_pass() {
    let mut stand = Stand::service(true);
    let port = json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}}}}});
    stand.live["metadata"]["managedFields"] = json!([managed(OURS, &port), managed(HEALER, &port)]);
    stand.live["spec"]["ports"][0]["port"] = 80.into();
    let live = stand.live.clone();
    let applied = live.clone();
    stand.answer(move |_| Reply::object(&applied), move |_| Reply::object(&live));
    let (services, child) = stand.children();
    services.apply_owned(&stand.owner, &child).await.unwrap();
    let [edit] = stand.edits().try_into().unwrap();
    assert_eq!(edit[1], json!({"op": "remove", "path": "/metadata/managedFields/1"}));
    assert_eq!(stand.events(), [""; 0]);
}

#[tokio::test]
async fn an_entry_that_an_admission_webhook_adds_again_is_left_and_reported_once() {
    let stand = Stand::secret();
    let applied = stand.live.clone();
    // The entry of the webhook has no managed fields, until somebody else writes it.
    let mut edited = stand.live.clone();
    edited["metadata"]["managedFields"] = json!([]);
    let (live, reads) = (stand.live.clone(), AtomicU64::new(0));
    stand.cluster.reply(move |sent| match sent.verb {
        "apply" => Some(Reply::object(&applied)),
        "patch" if sent.body.is_array() => Some(Reply::object(&edited)),
        "patch" if reads.fetch_add(1, Ordering::Relaxed) == 1 => Some(Reply::object(&edited)),
        "patch" => Some(Reply::object(&live)),
        _ => None,
    });
    let secrets: OwnedApplier<Secret> = stand.cluster.arguments(&stand.owner).take();
    let mut child: Secret = named("child");
    child.string_data = Some([("password".to_owned(), "secret".to_owned())].into());
    for _ in 0..3 {
        secrets.exclusive().apply_owned(&stand.owner, &child).await.unwrap();
    }
    assert_eq!(stand.edits().len(), 1);
    let [kept] = stand.events().try_into().unwrap();
    let expected = "Warning ForeignEntryKept: `data.extra` of Secret `default/child` was added again";
    assert!(kept.starts_with(expected), "{kept}");
}

#[tokio::test]
async fn where_an_edit_is_refused_the_refusal_of_the_apply_is_returned() {
    let stand = Stand::service(true);
    stand.answer(|_| duplicate(), |_| Reply::refused(422, "Invalid", "a policy denies it"));
    let (services, child) = stand.children();
    let refused = services.apply_owned(&stand.owner, &child).await.unwrap_err();
    assert!(refused.to_string().contains("Duplicate value"), "{refused}");
    assert_eq!(stand.edits().len(), 1, "what is refused is not sent again");
    assert_eq!(stand.events(), [""; 0]);
}

#[tokio::test]
async fn an_exclusive_child_whose_edit_is_refused_is_applied_all_the_same() {
    let stand = Stand::secret();
    let applied = stand.live.clone();
    stand.answer(move |_| Reply::object(&applied), |_| Reply::refused(403, "Forbidden", "a policy denies it"));
    assert_eq!(stand.apply_secret().await.unwrap().name_any(), "child");
    assert_eq!(stand.edits().len(), 1);
    let [kept] = stand.events().try_into().unwrap();
    assert!(kept.starts_with("Warning ForeignEntryKept: ") && kept.contains("a policy denies it"), "{kept}");
}

#[tokio::test]
async fn an_edit_is_made_again_from_a_version_that_came_meanwhile() {
    let stand = Stand::secret();
    let (live, reads) = (stand.live.clone(), AtomicU64::new(0));
    let edited = without(&live, "/data", "extra");
    stand.cluster.reply(move |sent| match sent.verb {
        "apply" => Some(Reply::object(&live)),
        "patch" if sent.body.is_array() && sent.body[0]["value"] == "3001" => Some(Reply::object(&edited)),
        "patch" if sent.body.is_array() => Some(Reply::refused(422, "Invalid", "the test failed")),
        "patch" => {
            let mut live = live.clone();
            live["metadata"]["resourceVersion"] = (3000 + reads.fetch_add(1, Ordering::Relaxed)).to_string().into();
            Some(Reply::object(&live))
        }
        _ => None,
    });
    assert!(!stand.apply_secret().await.unwrap().data.unwrap().contains_key("extra"));
    assert_eq!(stand.edits().len(), 2);
}

#[tokio::test]
async fn an_object_that_keeps_changing_is_left_to_the_next_pass() {
    let stand = Stand::secret();
    let (live, reads) = (stand.live.clone(), AtomicU64::new(0));
    stand.cluster.reply(move |sent| match sent.verb {
        "apply" => Some(Reply::object(&live)),
        "patch" if sent.body.is_array() => Some(Reply::refused(422, "Invalid", "the test failed")),
        "patch" => {
            let mut live = live.clone();
            live["metadata"]["resourceVersion"] = (3000 + reads.fetch_add(1, Ordering::Relaxed)).to_string().into();
            Some(Reply::object(&live))
        }
        _ => None,
    });
    assert_eq!(stand.apply_secret().await.unwrap().name_any(), "child");
    assert_eq!(stand.edits().len(), 3);
    assert_eq!(stand.events(), [""; 0], "nothing was removed, and nothing is given up");
}

#[tokio::test]
async fn an_object_with_a_colliding_entry_is_adopted() {
    let stand = Stand::service(false);
    let versions = Arc::new(Mutex::new(Vec::new()));
    let (seen, live) = (versions.clone(), stand.live.clone());
    let edited = live.clone();
    let apply = move |sent: &Sent| {
        let mut seen = seen.lock().unwrap();
        seen.push(sent.body["metadata"]["resourceVersion"].clone());
        if seen.len() == 1 { duplicate() } else { Reply::object(&live) }
    };
    stand.answer(apply, move |_| Reply::object(&edited));
    let (services, child) = stand.children();
    services.adopt(&stand.owner, &child).await.unwrap();
    let known = stand.live["metadata"]["resourceVersion"].clone();
    assert_eq!(
        *versions.lock().unwrap(),
        [known, Value::Null],
        "only the first apply is for the version that is known"
    );
    let edit = &stand.edits()[0];
    assert_eq!(edit[1], json!({"op": "replace", "path": "/spec/ports", "value": [{"name": "http", "port": 80}]}));
}

#[tokio::test]
async fn an_object_that_another_owner_has_adopted_meanwhile_is_not_edited() {
    let mut stand = Stand::service(false);
    stand.live["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other", "controller": true}]);
    stand.answer(|_| duplicate(), |_| Reply::refused(500, "InternalError", "it is edited"));
    let (services, child) = stand.children();
    let refused = services.adopt(&stand.owner, &child).await.unwrap_err();
    assert!(refused.to_string().contains("Duplicate value"), "{refused}");
    assert_eq!(stand.edits(), [Value::Null; 0]);
}
