//! An operator for a small database. The functions in `children` return the password of a Redis, which is generated
//! once, its Service and its StatefulSet. When a Redis is deleted, its children are deleted in the reverse order, and
//! then its data.
//!
//! The tests below run the operator on an API server in the process of the tests:
//! `cargo test -p kooper-examples --bin redis`
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig, where you apply a Redis:
//! `cargo run --bin redis -- dev`
//! ```yaml
//! apiVersion: example.com/v1
//! kind: Redis
//! metadata: {name: hello}
//! spec: {replicas: 1}
//! ```
//!
//! Try, with the KUBECONFIG that it prints, `kubectl get secrets,services,statefulsets,pods,pvc`: it shows the objects of
//! the Redis `hello`. After `kubectl patch redis hello --type merge -p '{"spec": {"replicas": 2}}'`, there are a second
//! pod and a second volume. After `kubectl delete redis hello`, all of them are deleted.
//!
//! It is longer than other examples, because the manifests of the children take half of the lines.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, Service};
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
    observed_generation: Option<i64>,
}

/// Reports how many replicas are ready. The children are applied before each call, and the conditions are set after it.
#[kooper::controller(
    resource = Redis,
    children = [password(once), service, stateful_set(password)],
    deletion = ordered,
    cleanup = delete_data,
    finalizer = "example.com/redis-data",
    leader_election,
    install_crd
)]
async fn redis(children: Children<Redis>) -> Result<Status<RedisStatus>> {
    let set = children.get(stateful_set)?;
    let ready_replicas = set.and_then(|set| set.status.as_ref()?.ready_replicas).unwrap_or_default();
    Ok(Status(RedisStatus { ready_replicas, ..RedisStatus::default() }))
}

/// Called when the children are deleted. A StatefulSet leaves the volumes of its pods behind, also when it is scaled
/// down.
async fn delete_data(
    redis: Arc<Redis>,
    sets: Getter<StatefulSet>,
    claims: Deleter<PersistentVolumeClaim>,
) -> Result<()> {
    let (key, name) = (ObjectKey::of(&redis), redis.name_any());
    if sets.fetch(&key).await?.is_some() {
        return Ok(()); // It has another owner, and so have its volumes.
    }
    for replica in 0..MOST {
        claims.delete(&key.with_name(&format!("data-{name}-{replica}"))).await?;
    }
    Ok(())
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

fn stateful_set(redis: &Redis, password: &Secret) -> Result<StatefulSet> {
    let name = redis.name_any();
    let password = json!({"secretKeyRef": {"name": password.name_any(), "key": "password"}});
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
    use k8s_openapi::api::core::v1::Pod;
    use kooper::apiserver::faults::{Requests, Verb};
    use kooper::testing::{Cluster, FakeCluster};

    fn sessions() -> Redis {
        sized(2)
    }

    fn sized(replicas: i32) -> Redis {
        Redis::new("sessions", RedisSpec { replicas })
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
        cluster.put(&sessions())?;
        let key = ObjectKey::namespaced("default", "sessions");
        assert_eq!(cluster.reconcile(&redis::controller()?, &key).await?, Action::done());
        assert_eq!(
            cluster.summary(),
            [
                "patch redises.example.com default/sessions",
                "apply secrets default/sessions-password",
                "apply services default/sessions",
                "apply statefulsets.apps default/sessions",
                // The replicas and the conditions at once.
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
        faults.on(Requests::writes().of("secrets")).nth(1).drop_response();
        faults.on(Verb::Patch.of("services")).nth(1).reply(503);
        faults.on(Verb::Patch.of("statefulsets")).nth(1).reset();
        faults.on(Verb::Patch.of("redises/status")).nth(1).reply(409);
        cluster.create(&sessions()).await?;
        cluster.wait("sessions", is_ready).await;
        Ok(())
    }

    #[kooper::test(redis)]
    async fn the_data_of_another_owner_are_kept(cluster: Cluster) -> Result<()> {
        let password = cluster.create(&password(&sessions())?).await?;
        cluster.create(&stateful_set(&sessions(), &password)?).await?;
        cluster.wait("data-sessions-1", |_: &PersistentVolumeClaim| true).await;
        let sessions = cluster.create(&sessions()).await?;
        cluster.wait("sessions", |redis: &Redis| !redis.finalizers().is_empty()).await;
        cluster.delete(&sessions).await?;
        cluster.wait_deleted(&sessions).await;
        let claims: Vec<PersistentVolumeClaim> = cluster.list().await?;
        assert_eq!(claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()).count(), 2);
        Ok(())
    }

    // A StatefulSet keeps the claims of replicas that it no longer has, and they keep their volumes.
    #[kooper::explore(
        redis,
        states = [sized(1), sized(3)],
        ignore = ["PersistentVolumeClaim", "PersistentVolume"],
        limit = 8,
        seed = 1
    )]
    async fn whatever_goes_wrong_a_redis_is_what_it_should_be(_: Cluster) {}

    #[kooper::explore(redis, limit = 8, seed = 1)]
    async fn whatever_goes_wrong_a_redis_that_grows_keeps_its_password(cluster: Cluster) -> Result<()> {
        let sessions = cluster.create(&sessions()).await?;
        cluster.settle().await;
        let password =
            async || Ok::<_, kube::Error>(cluster.get::<Secret>("sessions-password").await?.map(|it| it.data));
        let before = password().await?;
        cluster.patch(&sessions, json!({"spec": {"replicas": 3}})).await?;
        cluster.settle().await;
        if password().await? != before { Err("its password has changed".into()) } else { Ok(()) }
    }

    #[kooper::explore(redis, limit = 8, seed = 1)]
    async fn whatever_goes_wrong_a_redis_that_is_deleted_while_it_starts_leaves_nothing(
        cluster: Cluster,
    ) -> Result<()> {
        // The other finalizer keeps it for longer than its data.
        let mut sessions = sessions();
        sessions.finalizers_mut().push("example.com/other".to_owned());
        let sessions = cluster.create(&sessions).await?;
        cluster.settle().await;
        second_pod_is_ready(&cluster, false).await?;
        cluster.patch(&sessions, json!({"spec": {"replicas": 4}})).await?;
        cluster.settle().await;

        cluster.delete(&sessions).await?;
        cluster.wait("sessions", |redis: &Redis| redis.finalizers() == ["example.com/other"]).await;
        second_pod_is_ready(&cluster, true).await?;
        cluster.settle().await;
        cluster.patch(&sessions, json!({"metadata": {"finalizers": null}})).await?;
        cluster.wait_deleted(&sessions).await;
        cluster.settle().await;
        none_is_left::<PersistentVolumeClaim>(&cluster).await?;
        none_is_left::<Service>(&cluster).await?;
        none_is_left::<Secret>(&cluster).await
    }

    /// Without the owner reference or the cleanup, the object would be left over in all histories.
    async fn none_is_left<K: Kind>(cluster: &Cluster) -> Result<()> {
        match cluster.list::<K>().await?.into_iter().find(|object| object.name_any().contains("sessions")) {
            Some(object) => Err(format!("the {} `{}` is left over", K::kind(&()), object.name_any()).into()),
            None => Ok(()),
        }
    }

    /// The StatefulSet waits for the second pod before it creates others.
    async fn second_pod_is_ready(cluster: &Cluster, is_ready: bool) -> Result<()> {
        if let Some(pod) = cluster.get::<Pod>("sessions-1").await? {
            let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
            cluster.patch_status(&pod, json!({"status": {"conditions": [ready]}})).await?;
        }
        Ok(())
    }
}
