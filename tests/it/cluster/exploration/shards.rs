//! Explorations of controllers with shards.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::{Cluster, Exploration, Explored, Finding};
use serde_json::{from_value, json};

use super::{HISTORIES, runtime};
use crate::fixture::with_name;

/// Applies a child. With the mistake, it notes that a shard was taken over, as if a reason were an instruction.
async fn apply<const MISTAKEN: bool>(config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>, call: Call) -> Result<()> {
    let child = |name: &str| -> Result<Secret> {
        Ok(from_value(json!({"metadata": {"name": name, "namespace": config.namespace()}}))?)
    };
    secrets.apply_owned(&config, &child("child")?).await?;
    if MISTAKEN && call.reasons().to_string().contains("shard") {
        secrets.apply_owned(&config, &child("taken")?).await?;
    }
    Ok(())
}

fn explore<const MISTAKEN: bool>() -> Result<Explored, Finding> {
    let exploration = Exploration::of(|| {
        let builder = ConfigMap::controller("shared").labels("app=shop").shards(Shards::new(4)).resync(None);
        Ok(vec![builder.handler(apply::<MISTAKEN>).build()?])
    });
    // The mistake is in the histories of the first write.
    let exploration = if MISTAKEN { exploration } else { exploration.limit(HISTORIES) };
    exploration.seed(1).run(runtime, async |cluster: Cluster| {
        let mut config: ConfigMap = with_name("shop");
        config.metadata.labels = Some([("app".to_owned(), "shop".to_owned())].into());
        cluster.create(&config).await.map(drop)
    })
}

#[test]
fn an_exploration_hands_the_shards_over_after_each_write() {
    let explored = explore::<false>().unwrap_or_else(|finding| panic!("{finding}"));
    assert!(explored.possible() > HISTORIES, "{explored}");
    let finding = explore::<true>().expect_err("it has a mistake");
    let summary = finding.summary();
    drop(finding.file().map(std::fs::remove_file));
    let hand_over = "With all shards handed over to another process after the 1st `apply secrets default/child`";
    assert!(summary.starts_with(hand_over), "{summary}");
}
