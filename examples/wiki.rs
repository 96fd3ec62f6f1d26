//! Six kinds of children for each object: functions say what each of them is, and the attribute says in what order they
//! are applied. There is no code for order, readiness, pruning, conditions or deletion.
//!
//! The database gets its password first, and the migration of a version runs when the database is ready. The Service
//! follows, and an Ingress in front of it if the wiki has a host. `wiki graph` prints this order.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig, where you apply `wiki.yaml`:
//! `cargo run --bin wiki -- dev`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl wait --for=condition=Ready wiki/recipes`. Then
//! `kubectl patch wiki recipes --type=merge -p '{"spec": {"host": null}}'` prunes the Ingress, another `version` runs
//! another Job, and `kubectl delete wiki recipes` deletes the children in the reverse order.
//!
//! It is longer than other examples, because each of the six kinds has a function.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kooper::prelude::*;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json};

/// A wiki with its database.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Wiki", namespaced, status = "WikiStatus")]
struct WikiSpec {
    title: String,
    #[schemars(regex(pattern = "^[0-9]+$"))]
    version: String,
    /// Where it is reached from outside of the cluster.
    host: Option<String>,
}

#[derive(KubeSchema, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WikiStatus {
    url: Option<String>,
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

/// Reports where the wiki is.
#[kooper::controller(
    resource = Wiki, install_crd, samples = ["wiki.yaml"], deletion = ordered, finalizer = "example.com/wiki",
    children = [
        config, password(once), database(password), migration(config, after = database),
        service(after = migration), front(service),
    ],
)]
async fn wiki(wiki: Arc<Wiki>, children: Children<Wiki>) -> Result<Status<WikiStatus>> {
    let host = children.get(front)?.and(wiki.spec.host.as_ref());
    Ok(Status(WikiStatus { url: host.map(|host| format!("http://{host}")), ..WikiStatus::default() }))
}

fn config(wiki: &Wiki) -> Result<ConfigMap> {
    Ok(from_value(json!({"metadata": {"name": name(wiki, "config")}, "data": {"title": wiki.spec.title}}))?)
}

fn password(wiki: &Wiki) -> Result<Secret> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)?;
    let password: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(from_value(json!({"metadata": {"name": name(wiki, "password")}, "stringData": {"password": password}}))?)
}

fn database(wiki: &Wiki, password: &Secret) -> Result<StatefulSet> {
    let template = pod("database", "postgres:17", &json!([{"secretRef": {"name": password.name_any()}}]), wiki);
    Ok(from_value(json!({
        "metadata": {"name": name(wiki, "database")},
        "spec": {
            "serviceName": name(wiki, "database"), "selector": {"matchLabels": labels(wiki, "database")},
            "template": template,
        },
    }))?)
}

/// A Job for each version: the one of the version before is pruned when this one is complete.
fn migration(wiki: &Wiki, config: &ConfigMap) -> Result<Job> {
    let mut template =
        pod("migration", "example.com/wiki", &json!([{"configMapRef": {"name": config.name_any()}}]), wiki);
    template["spec"]["restartPolicy"] = "Never".into();
    let name = name(wiki, &format!("migration-{}", wiki.spec.version));
    Ok(from_value(json!({"metadata": {"name": name}, "spec": {"template": template}}))?)
}

fn service(wiki: &Wiki) -> Result<Service> {
    let spec = json!({"selector": labels(wiki, "web"), "ports": [{"port": 80}]});
    Ok(from_value(json!({"metadata": {"name": wiki.name_any()}, "spec": spec}))?)
}

/// None, and pruned, without a host.
fn front(wiki: &Wiki, service: &Service) -> Result<Option<Ingress>> {
    let Some(host) = &wiki.spec.host else { return Ok(None) };
    let backend = json!({"service": {"name": service.name_any(), "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    Ok(from_value(json!({
        "metadata": {"name": wiki.name_any()}, "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]},
    }))?)
}

fn name(wiki: &Wiki, part: &str) -> String {
    format!("{}-{part}", wiki.name_any())
}

fn labels(wiki: &Wiki, part: &str) -> Value {
    json!({"wiki": wiki.name_any(), "part": part})
}

/// The template of a pod with the environment.
fn pod(part: &str, image: &str, env: &Value, wiki: &Wiki) -> Value {
    let containers = json!([{"name": part, "image": image, "envFrom": env}]);
    json!({"metadata": {"labels": labels(wiki, part)}, "spec": {"containers": containers}})
}

#[cfg(test)]
mod tests {
    use kooper::testing::Cluster;

    use super::*;

    fn recipes(version: &str, host: Option<&str>) -> Wiki {
        let (title, version) = ("Recipes".to_owned(), version.to_owned());
        Wiki::new("recipes", WikiSpec { title, version, host: host.map(str::to_owned) })
    }

    fn is_ready(wiki: &Wiki) -> bool {
        let conditions = wiki.status.iter().flat_map(|status| &status.conditions);
        let is_now = |one: &&Condition| one.observed_generation == wiki.metadata.generation;
        conditions.filter(is_now).any(|one| one.type_ == "Ready" && one.status == "True")
    }

    /// The resources that were written with this verb, in their order.
    fn written(cluster: &Cluster, verb: &str) -> Vec<String> {
        let children =
            ["configmaps", "secrets", "statefulsets.apps", "jobs.batch", "services", "ingresses.networking.k8s.io"];
        let requests = cluster.requests();
        let of_verb = requests.iter().filter(|one| one.verb() == verb && children.contains(&one.resource()));
        let mut resources: Vec<_> = of_verb.map(|one| one.resource().to_owned()).collect();
        resources.dedup();
        resources
    }

    #[kooper::test(wiki, start_paused = true)]
    async fn children_are_created_in_order_and_the_wiki_is_ready_when_all_are(cluster: Cluster) -> Result<()> {
        cluster.create(&recipes("1", Some("recipes.example.com"))).await?;
        let wiki = cluster.wait("recipes", is_ready).await;
        assert_eq!(wiki.status.and_then(|status| status.url).as_deref(), Some("http://recipes.example.com"));
        let order = written(&cluster, "patch");
        let place = |resource: &str| order.iter().position(|one| one == resource).expect("it was created");
        let places =
            ["secrets", "statefulsets.apps", "jobs.batch", "services", "ingresses.networking.k8s.io"].map(place);
        assert!(places.is_sorted(), "{order:?}");
        Ok(())
    }

    #[kooper::test(wiki, start_paused = true)]
    async fn what_is_no_longer_wanted_is_pruned(cluster: Cluster) -> Result<()> {
        let wiki = cluster.create(&recipes("1", Some("recipes.example.com"))).await?;
        let before = cluster.wait("recipes-migration-1", |_: &Job| true).await;
        cluster.wait("recipes", is_ready).await;
        cluster.patch(&wiki, json!({"spec": {"version": "2", "host": null}})).await?;
        cluster.wait("recipes", is_ready).await;
        cluster.wait_deleted(&before).await;
        cluster.settle().await;
        assert!(cluster.get::<Job>("recipes-migration-2").await?.is_some());
        assert!(cluster.get::<Ingress>("recipes").await?.is_none());
        let wiki: Wiki = cluster.get("recipes").await?.ok_or("it is gone")?;
        assert_eq!(wiki.status.and_then(|status| status.url), None);
        Ok(())
    }

    #[kooper::test(wiki, start_paused = true)]
    async fn children_are_deleted_in_the_reverse_order(cluster: Cluster) -> Result<()> {
        let wiki = cluster.create(&recipes("1", Some("recipes.example.com"))).await?;
        cluster.wait("recipes", is_ready).await;
        cluster.delete(&wiki).await?;
        cluster.wait_deleted(&wiki).await;
        let order = written(&cluster, "delete");
        let front = ["ingresses.networking.k8s.io", "services", "jobs.batch", "statefulsets.apps"];
        assert!(order.starts_with(&front.map(str::to_owned)), "{order:?}");
        Ok(())
    }

    #[kooper::explore(wiki, states = [recipes("1", Some("a.example.com")), recipes("2", None)], limit = 6, seed = 1)]
    async fn whatever_goes_wrong_a_wiki_is_what_it_should_be(_: Cluster) {}
}
