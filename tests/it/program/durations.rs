//! Durations in custom resources, as an API server sees them.

use kooper::GoDuration;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kube::core::DynamicObject;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Backup", namespaced)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.keep) || self.keep > self.every", "keep must be longer than every"))]
struct BackupSpec {
    #[x_kube(validation = ("self >= duration('1m')", "must be at least 1m"))]
    every: GoDuration,
    keep: Option<GoDuration>,
}

#[kooper::controller(resource = Backup, main = false)]
async fn backups(_backup: Arc<Backup>) -> Result<()> {
    Ok(())
}

#[kooper::test(backups)]
async fn the_server_accepts_what_the_type_reads_and_cel_compares_durations(cluster: Cluster) -> Result<()> {
    let backups = kube::Api::<DynamicObject>::namespaced_with(
        cluster.client(),
        cluster.namespace(),
        &kube::core::ApiResource::erase::<Backup>(&()),
    );
    let create = async |spec: serde_json::Value| {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "example.com/v1",
            "kind": "Backup",
            "metadata": {"generateName": "nightly-"},
            "spec": spec,
        }))
        .expect("an object");
        backups.create(&kube::api::PostParams::default(), &object).await
    };
    for every in ["1m", "1h30m", "90.5s", "24h", "3600000ms"] {
        create(json!({"every": every})).await?;
        every.parse::<GoDuration>()?;
    }
    create(json!({"every": "1h", "keep": "1h1s"})).await?;

    for (spec, message) in [
        (json!({"every": "59s"}), "must be at least 1m"),
        (json!({"every": "1h", "keep": "60m"}), "keep must be longer than every"),
        (json!({"every": "3 days"}), "should match"),
        (json!({"every": "-5m"}), "should match"),
        (json!({"every": "5"}), "should match"),
    ] {
        let error = create(spec.clone()).await.expect_err(&spec.to_string()).to_string();
        assert!(error.contains(message), "{spec}: {error}");
    }
    Ok(())
}
