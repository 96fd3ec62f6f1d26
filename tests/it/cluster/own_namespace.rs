//! Controllers of the namespace in which the operator runs.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kooper::Controller;
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde_json::json;

use crate::fixture::{self, Log, eventually};

fn noted(log: &Log) -> Result<Controller> {
    let note = log.noting(|config: Arc<ConfigMap>| config.namespace().unwrap_or_default());
    Ok(ConfigMap::controller("noted").labels("noted=yes").own_namespace().handler(note).build()?)
}

#[kooper::test(start_paused = true)]
async fn an_operator_watches_the_namespace_of_its_client_only(cluster: Cluster) -> Result<()> {
    for name in ["shop", "mall"] {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        cluster.create(&namespace).await?;
    }
    for namespace in ["mall", "default", "shop"] {
        let metadata = json!({"name": "one", "namespace": namespace, "labels": {"noted": "yes"}});
        cluster.create(&serde_json::from_value::<ConfigMap>(json!({"metadata": metadata}))?).await?;
    }
    let log = Log::default();
    let client = cluster.client();
    let send = tower::service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await }
    });
    let running = fixture::run_with(Some(Client::new(send, "shop")), [noted(&log)?]);
    eventually("the own namespace is handled", || log.count() > 0).await;
    // All others are listed with the first.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(BTreeSet::from_iter(log.lines()), BTreeSet::from(["shop".to_owned()]));
    Ok(running.stop().await?)
}

#[test]
fn the_command_line_overrides_the_own_namespace() -> Result<()> {
    let mut controller = noted(&Log::default())?;
    assert!(controller.set_namespaces(vec!["mall".to_owned()]));
    controller.set_own_namespace("shop");
    assert_eq!(controller.namespaces(), ["mall"]);
    Ok(())
}
