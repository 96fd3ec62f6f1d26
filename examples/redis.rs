//! An operator for a small database: each Redis has a generated password, a
//! Service and a StatefulSet, and when it is deleted its data are, too.
//!
//! The tests below run it on an API server in their own process:
//! `cargo test -p kooper-examples --bin redis`
//!
//! Run it without a cluster; or without `dev` in the cluster of your kubeconfig, and then apply a Redis:
//! `cargo run --bin redis -- dev`
//! ```yaml
//! apiVersion: example.com/v1
//! kind: Redis
//! metadata: {name: sessions}
//! spec: {replicas: 1}
//! ```

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::prelude::*;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

/// The most replicas of a Redis.
const MOST: i32 = 9;

/// A Redis of this many replicas.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Redis", plural = "redises", namespaced, status = "RedisStatus")]
struct RedisSpec {
    #[schemars(range(min = 1, max = MOST))]
    replicas: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
struct RedisStatus {
    ready_replicas: i32,
    conditions: Vec<Condition>,
}

/// Applies what a Redis consists of, then shows how much of it is ready.
#[kooper::controller(
    resource = Redis,
    cleanup = delete_data,
    finalizer = "example.com/redis-data",
    leader_election,
    install_crd
)]
async fn redis(
    redis: Arc<Redis>,
    passwords: Getter<Secret>,
    secrets: OwnedApplier<Secret>,
    services: OwnedApplier<Service>,
    sets: OwnedApplier<StatefulSet>,
    statuses: StatusWriter<Redis>,
) -> Result<()> {
    let name = redis.name_any();
    // A password is generated once, and kept.
    if passwords.fetch(&key(&redis, &format!("{name}-password"))).await?.is_none() {
        secrets.apply_owned(&redis, &password(&redis)?).await?;
    }
    services.apply_owned(&redis, &service(&redis)?).await?;
    let set = sets.apply_owned(&redis, &stateful_set(&redis)?).await?;

    let before = redis.status.clone().unwrap_or_default();
    let mut conditions = Conditions::of(&redis, &before.conditions);
    let ready = set.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    match ready >= redis.spec.replicas {
        true => conditions.ready("Serving", "all replicas are ready"),
        false => conditions.not_ready("Starting", format!("{ready} of {} replicas are ready", redis.spec.replicas)),
    };
    let status = RedisStatus { ready_replicas: ready, conditions: conditions.into_vec() };
    statuses.apply_status(&redis, &status).await?;
    Ok(())
}

/// A StatefulSet leaves the volumes of its pods behind, also when it is scaled down.
async fn delete_data(redis: Arc<Redis>, claims: Deleter<PersistentVolumeClaim>) -> Result<()> {
    for replica in 0..MOST {
        claims.delete(&key(&redis, &format!("data-{}-{replica}", redis.name_any()))).await?;
    }
    Ok(())
}

fn key(redis: &Redis, name: &str) -> ObjectKey {
    ObjectKey::new(redis.namespace().as_deref(), name)
}

fn password(redis: &Redis) -> Result<Secret> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(from_value(json!({
        "metadata": {"name": format!("{}-password", redis.name_any())},
        "stringData": {"password": password},
    }))?)
}

fn service(redis: &Redis) -> Result<Service> {
    Ok(from_value(json!({
        "metadata": {"name": redis.name_any()},
        "spec": {"clusterIP": "None", "selector": labels(redis), "ports": [{"name": "redis", "port": 6379}]},
    }))?)
}

fn stateful_set(redis: &Redis) -> Result<StatefulSet> {
    let name = redis.name_any();
    let password = json!({"secretKeyRef": {"name": format!("{name}-password"), "key": "password"}});
    Ok(from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": redis.spec.replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels(redis)},
            "template": {
                "metadata": {"labels": labels(redis)},
                "spec": {"containers": [{
                    "name": "redis",
                    "image": "redis:8",
                    "args": ["--requirepass", "$(PASSWORD)"],
                    "env": [{"name": "PASSWORD", "valueFrom": password}],
                    "ports": [{"containerPort": 6379}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    }))?)
}

fn labels(redis: &Redis) -> serde_json::Value {
    json!({"app.kubernetes.io/name": "redis", "app.kubernetes.io/instance": redis.name_any()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use kooper::apiserver::faults::{Requests, Verb};
    use kooper::testing::{Cluster, FakeCluster};

    fn sessions() -> Redis {
        Redis::new("sessions", RedisSpec { replicas: 2 })
    }

    fn is_ready(redis: &Redis) -> bool {
        redis
            .status
            .iter()
            .flat_map(|status| &status.conditions)
            .any(|one| one.type_ == "Ready" && one.status == "True")
    }

    #[tokio::test]
    async fn a_call_applies_the_children_of_a_redis() -> Result<()> {
        let cluster = FakeCluster::new();
        let sessions = cluster.put(&sessions())?;
        let call = cluster.arguments(&sessions);
        redis(sessions.clone(), call.take(), call.take(), call.take(), call.take(), call.take()).await?;
        assert_eq!(
            cluster.summary(),
            [
                "get secrets default/sessions-password",
                "apply secrets default/sessions-password",
                "apply services default/sessions",
                "apply statefulsets.apps default/sessions",
                "apply redises.example.com/status default/sessions",
            ]
        );
        Ok(())
    }

    #[kooper::test(redis)]
    async fn a_redis_is_ready_when_its_pods_are(cluster: Cluster) -> Result<()> {
        // The cluster of a test runs the pods of the StatefulSet, without containers.
        cluster.create(&sessions()).await?;
        let ready = cluster.wait("sessions", is_ready).await;
        assert_eq!(ready.status.map(|status| status.ready_replicas), Some(2));
        Ok(())
    }

    #[kooper::test(redis)]
    async fn a_password_is_generated_once(cluster: Cluster) -> Result<()> {
        let sessions = cluster.create(&sessions()).await?;
        let first = cluster.wait("sessions-password", |secret: &Secret| secret.data.is_some()).await;
        cluster.patch(&sessions, json!({"spec": {"replicas": 3}})).await?;
        let scaled = |set: &StatefulSet| set.spec.as_ref().is_some_and(|spec| spec.replicas == Some(3));
        cluster.wait("sessions", scaled).await;
        let now: Option<Secret> = cluster.get("sessions-password").await?;
        assert_eq!(now.and_then(|secret| secret.data), first.data);
        Ok(())
    }

    #[kooper::test(redis)]
    async fn its_data_are_deleted_before_it_is(cluster: Cluster) -> Result<()> {
        let sessions = cluster.create(&sessions()).await?;
        cluster.wait("sessions", is_ready).await;
        let claims: Vec<PersistentVolumeClaim> = cluster.list().await?;
        assert_eq!(claims.len(), 2);
        cluster.patch(&sessions, json!({"spec": {"replicas": 1}})).await?;
        let has_one = |redis: &Redis| redis.status.as_ref().is_some_and(|status| status.ready_replicas == 1);
        cluster.wait("sessions", has_one).await;
        cluster.delete(&sessions).await?;
        cluster.wait_deleted(&sessions).await;
        for claim in claims {
            cluster.wait_deleted(&claim).await;
        }
        Ok(())
    }

    #[kooper::test(redis)]
    async fn no_error_of_the_server_keeps_it_from_being_ready(cluster: Cluster) -> Result<()> {
        let faults = cluster.faults();
        faults.on(Requests::writes().of("secrets")).nth(1).lose_answer();
        faults.on(Verb::Patch.of("services")).nth(1).reply(503);
        faults.on(Verb::Patch.of("statefulsets")).nth(1).reset();
        faults.on(Verb::Patch.of("redises/status")).nth(1).reply(409);
        cluster.create(&sessions()).await?;
        cluster.wait("sessions", is_ready).await;
        Ok(())
    }
}
