//! Sequences of writes, on the embedded API server.

use std::sync::atomic::{AtomicBool, Ordering};

use http::header::CONTENT_TYPE;
use http::{Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kooper_apiserver::ApiServer;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, Error, ResourceExt};
use serde_json::{from_value, json, to_value};
use tokio_util::sync::CancellationToken;

use super::*;
use kooper_access::{Applier, KindExt, Operator};
use kooper_runtime::internal::client::ClientStack;

/// A server, and clients that write to it, and that make dry runs.
struct Stage {
    _server: ApiServer,
    real: Client,
    client: Client,
    dry_run: Arc<DryRun>,
}

impl Stage {
    async fn start() -> Self {
        let server = ApiServer::start().await.expect("a server");
        let (real, dry_run) = (server.client(), Arc::new(DryRun::default()));
        let client = ClientStack::new(real.clone()).with([dry_run.layer()]).client();
        Self { _server: server, real, client, dry_run }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn stored(&self) -> Api<ConfigMap> {
        Api::namespaced(self.real.clone(), "default")
    }

    /// The names of what differs.
    fn differing(&self) -> Vec<String> {
        self.dry_run.differences().into_iter().map(|difference| difference.id.name).collect()
    }
}

fn map(name: &str, color: &str) -> ConfigMap {
    from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"color": color}},
        "data": {"color": color},
    }))
    .expect("a ConfigMap")
}

fn color(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("color")).map_or("none", String::as_str)
}

fn code(error: &Error) -> u16 {
    if let Error::Api(status) = error { status.code } else { 0 }
}

async fn apply(maps: &Api<ConfigMap>, manager: &str, map: &ConfigMap) -> ConfigMap {
    let params = PatchParams::apply(manager).force();
    maps.patch(&map.name_any(), &params, &Patch::Apply(map)).await.expect("applied")
}

#[tokio::test]
async fn a_controller_takes_back_what_the_file_says_otherwise_than_the_cluster() {
    let stage = Stage::start().await;
    apply(&stage.stored(), "controller", &map("a", "red")).await;
    let maps = stage.maps();
    assert_eq!(color(&apply(&maps, "kubectl", &map("a", "blue")).await), "blue");
    stage.dry_run.begin();
    assert_eq!(color(&apply(&maps, "controller", &map("a", "red")).await), "red");
    assert_eq!(color(&maps.get("a").await.expect("it exists")), "red");
    assert_eq!(stage.differing(), ["a"]);
}

#[tokio::test]
async fn lists_of_values_and_selectors_are_set_as_a_whole() {
    let stage = Stage::start().await;
    let pod = |args: [&str; 2], label: &str| -> Deployment {
        from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {"nodeSelector": {label: "yes"}, "containers": [{"name": "a", "image": "a", "args": args}]},
                },
            },
        }))
        .expect("a Deployment")
    };
    let spec = |one: &Deployment| {
        let spec = one.spec.clone().and_then(|spec| spec.template.spec).expect("a pod");
        (
            spec.containers[0].args.clone().unwrap_or_default(),
            spec.node_selector.unwrap_or_default().into_keys().collect(),
        )
    };
    let deployments = |client: &Client| Api::<Deployment>::namespaced(client.clone(), "default");
    let apply = async |api: Api<Deployment>, manager: &str, args, label| {
        let params = PatchParams::apply(manager).force();
        spec(&api.patch("a", &params, &Patch::Apply(pod(args, label))).await.expect("applied"))
    };
    let first = apply(deployments(&stage.real), "controller", ["x", "y"], "here").await;
    apply(deployments(&stage.client), "kubectl", ["y", "z"], "there").await;
    let again: (Vec<String>, Vec<String>) = apply(deployments(&stage.client), "controller", ["x", "y"], "here").await;
    assert_eq!(again, first);
}

#[tokio::test]
async fn strategic_merge_patches_one_after_the_other_do_what_they_do_in_the_cluster() {
    let stage = Stage::start().await;
    let deployments = |client: &Client| Api::<Deployment>::namespaced(client.clone(), "default");
    let deployment = from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "finalizers": ["example.com/a"]},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "containers": [{"name": "a", "image": "a", "args": ["1", "2"]}],
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                },
            },
        },
    }));
    deployments(&stage.real).create(&PostParams::default(), &deployment.expect("one")).await.expect("created");
    let b = json!({"name": "b", "image": "b", "ports": [{"containerPort": 1}], "env": [{"name": "B", "value": "1"}]});
    let more =
        json!({"name": "b", "ports": [{"containerPort": 1, "name": "web"}], "env": [{"name": "B", "value": null}]});
    let pods = [
        json!({"containers": [{"name": "a", "args": ["3"]}, b]}),
        json!({"containers": [{"name": "a", "args": ["4"]}, more], "tolerations": [{"key": "b", "operator": "Exists"}]}),
        json!({"containers": [{"name": "a", "$patch": "delete"}]}),
    ];
    let patches = pods.map(|pod| json!({"spec": {"template": {"spec": pod}}}));
    let patched = async |client: &Client| {
        let api = deployments(client);
        for patch in &patches {
            api.patch("a", &PatchParams::default(), &Patch::Strategic(patch)).await.expect("patched");
        }
        let freed = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
        api.patch("a", &PatchParams::default(), &Patch::Strategic(freed)).await.expect("patched");
        let read = api.get("a").await.expect("it exists");
        (read.spec, read.metadata.finalizers)
    };
    assert_eq!(patched(&stage.client).await, patched(&stage.real).await);
}

#[tokio::test]
async fn fields_of_a_previous_manager_are_given_up_and_the_others_stay() {
    let stage = Stage::start().await;
    let mut old = map("a", "red");
    old.data.get_or_insert_default().insert("dropped".to_owned(), "yes".to_owned());
    apply(&stage.stored(), "shop/web", &old).await;
    let maps = stage.maps();
    apply(&maps, "shop.blue/web", &map("a", "red")).await;
    let nothing: ConfigMap =
        from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})).expect("a ConfigMap");
    let left = apply(&maps, "shop/web", &nothing).await;
    assert_eq!(left.data, map("a", "red").data);
    assert_eq!(maps.get("a").await.expect("it exists").data, left.data);
}

#[tokio::test]
async fn an_object_that_was_deleted_here_loses_its_finalizer_and_is_gone() {
    let stage = Stage::start().await;
    let mut held = map("a", "red");
    held.metadata.finalizers = Some(vec!["example.com/a".to_owned()]);
    let held = stage.stored().create(&PostParams::default(), &held).await.expect("created");
    let maps = stage.maps();
    maps.delete("a", &DeleteParams::default()).await.expect("it is marked");
    assert!(maps.get("a").await.expect("it waits").metadata.deletion_timestamp.is_some());
    // One that has not seen the mark does not remove it.
    let mut seen = held.clone();
    seen.data = Some([("color".to_owned(), "blue".to_owned())].into());
    let replaced = maps.replace("a", &PostParams::default(), &seen).await.expect("replaced");
    assert!(replaced.metadata.deletion_timestamp.is_some() && color(&replaced) == "blue", "{replaced:?}");
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    let marked = maps.patch("a", &PatchParams::default(), &labelled).await.expect("patched");
    assert!(marked.metadata.deletion_timestamp.is_some() && marked.labels()["seen"] == "yes");
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("a", &PatchParams::default(), &released).await.expect("released");
    assert_eq!(maps.get_opt("a").await.expect("it was asked for"), None);
    let difference = stage.dry_run.differences().remove(0);
    assert!(difference.before.is_some() && difference.after.is_none());
    assert_eq!(
        stage.stored().get("a").await.expect("it exists").metadata.resource_version,
        held.metadata.resource_version
    );
}

#[tokio::test]
async fn an_object_that_is_created_again_is_another_one_with_what_a_server_adds() {
    let stage = Stage::start().await;
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "default");
    let secret: Secret = from_value(json!({"metadata": {"name": "a"}, "stringData": {"key": "b"}})).expect("a Secret");
    let stored: Api<Secret> = Api::namespaced(stage.real.clone(), "default");
    let first = stored.create(&PostParams::default(), &secret).await.expect("created");
    secrets.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(secrets.get_opt("a").await.expect("it was asked for"), None);
    let second = secrets.create(&PostParams::default(), &secret).await.expect("created again");
    assert_eq!((second.name_any(), second.namespace()), ("a".to_owned(), Some("default".to_owned())));
    assert_eq!((&second.data, &second.string_data, &second.type_), (&first.data, &None, &first.type_));
    assert_eq!(second.metadata.generate_name, None);
    assert_ne!(second.uid(), first.uid());
    assert_eq!(secrets.get("a").await.expect("it exists").uid(), second.uid());
    assert_eq!(stage.differing(), ["a"], "it is another object, although it has the same content");
    // An apply of one that was deleted is a creation, too, and so is another one after it.
    secrets.delete("a", &DeleteParams::default()).await.expect("deleted");
    let params = PatchParams::apply("shop").force();
    let stated = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"key": "b"}});
    for _ in 0..2 {
        let applied = secrets.patch("a", &params, &Patch::Apply(&stated)).await.expect("applied");
        assert_eq!((&applied.data, &applied.string_data, &applied.type_), (&first.data, &None, &first.type_));
    }
    // A refusal of the server is returned.
    secrets.delete("a", &DeleteParams::default()).await.expect("deleted");
    let invalid: Secret = from_value(json!({"metadata": {"name": "a"}, "data": {"no key": "Yg=="}})).expect("a Secret");
    let refused = secrets.create(&PostParams::default(), &invalid).await.expect_err("the key is invalid");
    assert_eq!(code(&refused), 422, "{refused}");
}

#[tokio::test]
async fn objects_are_created_in_a_namespace_that_only_the_dry_run_has() {
    let stage = Stage::start().await;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let tenants: Api<ConfigMap> = Api::namespaced(stage.client.clone(), "tenant");
    let refused = tenants.create(&PostParams::default(), &map("a", "red")).await.expect_err("there is no namespace");
    assert_eq!(code(&refused), 404);
    let tenant: Namespace = from_value(json!({"metadata": {"name": "tenant"}})).expect("a Namespace");
    namespaces.create(&PostParams::default(), &tenant).await.expect("created");
    tenants.create(&PostParams::default(), &map("a", "red")).await.expect("created in it");
    for color_of_b in ["blue", "white"] {
        assert_eq!(color(&apply(&tenants, "shop", &map("b", color_of_b)).await), color_of_b);
    }
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/b"]}}));
    let held = tenants.patch("b", &PatchParams::default(), &held).await.expect("patched");
    assert_eq!((held.finalizers().len(), color(&held)), (1, "white"));
    let mut unnamed = map("", "green");
    unnamed.metadata.generate_name = Some("c-".to_owned());
    unnamed.metadata.name = None;
    let named = tenants.create(&PostParams::default(), &unnamed).await.expect("created with a name");
    let other = tenants.create(&PostParams::default(), &unnamed).await.expect("created with a name");
    assert!(named.name_any().starts_with("c-") && named.name_any() != other.name_any(), "{named:?}");
    let listed = tenants.list(&ListParams::default()).await.expect("listed");
    assert!(listed.items.iter().all(|one| one.namespace().as_deref() == Some("tenant")));
    assert_eq!(listed.items.len(), 4);
}

#[tokio::test]
async fn a_deletion_of_many_is_about_the_objects_as_they_are_here() {
    let stage = Stage::start().await;
    for (name, color) in [("kept", "red"), ("turns-red", "blue"), ("turns-blue", "red")] {
        stage.stored().create(&PostParams::default(), &map(name, color)).await.expect("created");
    }
    let maps = stage.maps();
    maps.create(&PostParams::default(), &map("new", "red")).await.expect("created here");
    apply(&maps, "shop", &map("turns-red", "red")).await;
    apply(&maps, "shop", &map("turns-blue", "blue")).await;
    let red = ListParams::default().labels("color=red");
    let names = |list: Vec<ConfigMap>| list.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let mut listed = names(maps.list(&red).await.expect("listed").items);
    listed.sort_unstable();
    assert_eq!(listed, ["kept", "new", "turns-red"]);
    maps.delete_collection(&DeleteParams::default(), &red).await.expect("deleted");
    assert_eq!(names(maps.list(&red).await.expect("listed").items), Vec::<String>::new());
    assert!(maps.get_opt("turns-blue").await.expect("it was asked for").is_some());
    assert_eq!(stage.stored().list(&red).await.expect("listed").items.len(), 2, "the cluster is as it was");
}

#[tokio::test]
async fn two_runs_show_the_same_of_objects_that_get_a_uid() {
    let server = ApiServer::start().await.expect("a server");
    let run = async || {
        let dry_run = Arc::new(DryRun::default());
        let client = ClientStack::new(server.client()).with([dry_run.layer()]).client();
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let owner = maps.create(&PostParams::default(), &map("owner", "red")).await.expect("an owner");
        let mut child = map("child", "blue");
        let bucket = bucket_of_owner(owner.metadata.uid.as_ref().expect("a uid"));
        child.labels_mut().insert(BUCKET.to_owned(), bucket);
        child.metadata.owner_references = Some(vec![
            from_value(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
            }))
            .expect("a reference"),
        ]);
        maps.create(&PostParams::default(), &child).await.expect("a child");
        // The API server selects the pods of a Job by labels with its uid.
        let job: Job = from_value(json!({
            "metadata": {"name": "backup"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
        }))
        .expect("a Job");
        Api::namespaced(client, "default").create(&PostParams::default(), &job).await.expect("a Job");
        let uid = owner.metadata.uid.expect("a uid");
        let shown: Vec<_> = dry_run.differences().into_iter().map(|one| one.after.expect("created")).collect();
        (uid, json!(shown))
    };
    let ((one, first), (other, second)) = (run().await, run().await);
    assert_ne!(one, other, "the uids are random");
    assert_eq!(first, second);
    let text = first.to_string();
    assert_eq!(text.matches("(uid of owner)").count(), 1, "{first:#}");
    assert_eq!(text.matches("(bucket of owner)").count(), 1, "{first:#}");
    assert!(text.contains("\"batch.kubernetes.io/controller-uid\":\"(uid of backup)\""), "{first:#}");
}

#[tokio::test]
async fn a_pass_handles_the_objects_of_the_namespaces_that_match() {
    async fn handler(_: Arc<ConfigMap>, applier: Applier<ConfigMap>) -> kooper_runtime::Result<()> {
        let mut other = map("made", "red");
        other.metadata.namespace = Some("theirs".to_owned());
        applier.apply(&other).await?;
        Ok(())
    }
    let stage = Stage::start().await;
    for (name, team) in [("ours", "a"), ("theirs", "b")] {
        let namespace = from_value(json!({"metadata": {"name": name, "labels": {"team": team}}}));
        let namespaces = Api::<Namespace>::all(stage.real.clone());
        namespaces.create(&PostParams::default(), &namespace.expect("a namespace")).await.expect("created");
        let maps = Api::namespaced(stage.real.clone(), name);
        maps.create(&PostParams::default(), &map("one", "red")).await.expect("created");
    }
    let controller = ConfigMap::controller("ours").labels("color=red").namespace_selector("team=a").handler(handler);
    let pass = Arc::new(DryRunPass::new(stage.dry_run.clone(), None));
    let operator = pass.attach(Operator::builder().client(stage.real.clone()));
    let operator = operator.controller(controller.build().expect("a controller")).build().expect("an operator");
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator.run(stop.clone()));
    pass.over().await;
    let results = pass.results();
    assert_eq!((results.handled, results.failed.len(), results.problems.len()), (1, 0, 0), "{results:?}");
    assert_eq!(stage.differing(), ["made"]);
    stop.cancel();
    drop(running.await);
}

const DENIED: &str = "admission webhook \"a.io\" denied the request: frozen";

/// A dry run on a server that responds like this to a request, by its method and the type of its body. A message is an error.
fn on(
    answer: impl Fn(&str, &str) -> Result<(), (u16, &'static str)> + Send + 'static,
) -> (Api<ConfigMap>, Arc<DryRun>) {
    let mut stored = map("a", "red");
    stored.metadata.namespace = Some("default".to_owned());
    let stored = to_value(stored).expect("JSON");
    let service = tower::service_fn(move |request: Request<Body>| {
        let content = request.headers().get(CONTENT_TYPE).and_then(|content| content.to_str().ok());
        let (code, body) = match answer(request.method().as_str(), content.unwrap_or_default()) {
            Ok(()) => (200, stored.clone()),
            Err((code, message)) => {
                (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
            }
        };
        async move {
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).expect("a response"))
        }
    });
    let dry_run = Arc::new(DryRun::default());
    let client = ClientStack::new(Client::new(service, "default")).with([dry_run.layer()]).client();
    (Api::namespaced(client, "default"), dry_run)
}

#[tokio::test]
async fn an_object_that_may_not_be_read_and_that_a_webhook_protects_is_not_taken_for_a_missing_one() {
    for (message, exists) in [(DENIED, true), ("configmaps \"a\" not found", false)] {
        let (maps, dry_run) = on(move |method, content| match (method, content) {
            ("GET", _) => Err((403, "configmaps \"a\" is forbidden: User \"shop\" cannot get resource")),
            (_, "application/merge-patch+json") => Err((404, message)),
            _ => Ok(()),
        });
        apply(&maps, "controller", &map("a", "red")).await;
        let differences: Vec<_> = dry_run.differences().into_iter().map(|one| (one.id.name, one.blind)).collect();
        assert_eq!(differences, [("a".to_owned(), exists)], "{message}");
    }
}

#[tokio::test]
async fn a_webhook_that_rejects_a_created_object_is_not_taken_for_a_missing_permission() {
    for (message, is_rejected) in [(DENIED, true), ("configmaps is forbidden: User \"shop\" cannot create", false)] {
        let is_first = AtomicBool::new(true);
        let (maps, _) = on(move |method, _| match method {
            "POST" if is_first.swap(false, Ordering::Relaxed) => Ok(()),
            _ => Err((403, message)),
        });
        maps.create(&PostParams::default(), &map("a", "red")).await.expect("created");
        let blue = Patch::Merge(json!({"data": {"color": "blue"}}));
        let patched = maps.patch("a", &PatchParams::default(), &blue).await;
        assert_eq!(patched.is_err(), is_rejected, "{message}");
    }
}
