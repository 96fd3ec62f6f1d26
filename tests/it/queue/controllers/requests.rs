//! Middleware around the requests of controllers.

use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::capability::PatchBody;
use kooper::kube::client::{Body, ClientBuilder};
use kooper::kube::{Client, ResourceExt};
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{BoxError, Controller, Patcher};
use serde_json::{Value, json};
use tower::layer::layer_fn;
use tower::util::BoxCloneService;
use tower::{ServiceExt, service_fn};

use crate::fixture::{eventually, run_edited};

/// One of two shards has the uids that end with 0 to 7.
fn is_ours(uid: &str) -> bool {
    uid.ends_with(|digit| ('0'..='7').contains(&digit))
}

/// A client that refuses writes of ConfigMaps of the other shard, until it has all of them.
fn sharded(client: Client, has_all: &Arc<AtomicBool>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let server = BoxCloneService::new(service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await.map_err(BoxError::from) }
    }));
    let fence = layer_fn(|server: BoxCloneService<Request<Body>, Response<Body>, BoxError>| {
        let has_all = has_all.clone();
        service_fn(move |request: Request<Body>| {
            let (server, has_all) = (server.clone(), has_all.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                if parts.method != "GET" && parts.uri.path().contains("/configmaps/") {
                    let object: Value = serde_json::from_slice(&body)?;
                    let uid = object["metadata"]["uid"].as_str().ok_or("a write without a uid")?;
                    if !has_all.load(Ordering::Relaxed) && !is_ours(uid) {
                        return Err("the object belongs to another shard".into());
                    }
                }
                server.oneshot(Request::from_parts(parts, Body::from(body))).await
            }
        })
    });
    ClientBuilder::new(server, namespace).with_layer(&fence).build()
}

#[kooper::test(start_paused = true)]
async fn a_layer_that_refuses_the_writes_of_a_shard_works_beside_the_fence_of_a_term(cluster: Cluster) -> Result<()> {
    async fn mark(config: Arc<ConfigMap>, patcher: Patcher<ConfigMap>) -> Result<()> {
        patcher.patch_object(&*config, PatchBody::merge(json!({"data": {"done": "yes"}}))).await?;
        Ok(())
    }
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    while ours.len() < 3 || others.len() < 3 {
        let name = format!("config-{}", ours.len() + others.len());
        let config = serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "shards"}}}))?;
        let created: ConfigMap = cluster.create(&config).await?;
        let shard = if is_ours(&created.uid().unwrap_or_default()) { &mut ours } else { &mut others };
        shard.push(name);
    }
    let controller = Controller::builder::<ConfigMap>("mark").labels("app=shards").resync(None);
    let controller = controller.leader_election(LeaderElection::default()).handler(mark).build()?;
    let has_all = Arc::new(AtomicBool::new(false));
    let client = sharded(cluster.client(), &has_all);
    let running = run_edited(Some(client), [controller], |operator| operator);
    let is_done = |config: &ConfigMap| config.data.is_some();
    for name in &ours {
        cluster.wait(name.as_str(), is_done).await;
    }
    let failed = "controller_runtime_reconcile_total{controller=\"mark\",result=\"error\"}";
    let least = others.len() as f64;
    eventually("the other ones fail", || running.metric(failed) >= Some(least)).await;
    for name in &others {
        assert!(!is_done(&cluster.get(name.as_str()).await?.ok_or("it exists")?));
    }
    has_all.store(true, Ordering::Relaxed);
    for name in &others {
        cluster.wait(name.as_str(), is_done).await;
    }
    running.stop().await?;
    Ok(())
}
