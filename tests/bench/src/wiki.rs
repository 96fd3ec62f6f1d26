//! A wiki with six declared children: the operator of the benchmark of children.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::children::{Declared, PlanSlot, SlotExt, declare};
use kooper::{OwnedApplier, Result};
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json};

/// A wiki with its database.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(group = "bench.kooper.dev", version = "v1", kind = "Wiki", namespaced, status = "WikiStatus")]
pub struct WikiSpec {
    /// Its title.
    pub title: String,
    /// The version of its program.
    pub version: String,
    /// Where it is reached.
    pub host: String,
}

/// The state of a wiki.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WikiStatus {
    /// Its conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The generation that they are about.
    pub observed_generation: Option<i64>,
}

impl Wiki {
    /// One of many.
    #[must_use]
    pub fn numbered(number: usize) -> Self {
        let (title, host) = (format!("Wiki {number}"), format!("wiki-{number}.example.com"));
        Self::new(&format!("wiki-{number}"), WikiSpec { title, version: "1".to_owned(), host })
    }

    /// `true` once all children are ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
    }
}

/// The children of a wiki.
#[must_use]
pub fn wiki_children() -> Declared<Wiki, (), impl PlanSlot<Wiki, ()> + 'static> {
    let children = declare()
        .child(config)
        .child(password.slot().once())
        .child(database.with((password,)))
        .child(migration.with((config,)).after(database))
        .child(service.slot().after(migration))
        .child(front.with((service,)))
        .status(|status: &mut WikiStatus, fields| {
            fields.conditions(&mut status.conditions).observed_generation(&mut status.observed_generation);
        });
    children.build().expect("the slots are right")
}

/// Applies the same children from a handler, without labels, as a version before [`wiki_children`] would.
pub async fn apply_by_hand(
    wiki: Arc<Wiki>,
    configs: OwnedApplier<ConfigMap>,
    secrets: OwnedApplier<Secret>,
    databases: OwnedApplier<StatefulSet>,
    migrations: OwnedApplier<Job>,
    services: OwnedApplier<Service>,
    ingresses: OwnedApplier<Ingress>,
) -> Result<()> {
    let config = configs.apply_owned(&wiki, &config(&wiki)?).await?;
    let password = secrets.apply_owned(&wiki, &password(&wiki)?).await?;
    databases.apply_owned(&wiki, &database(&wiki, &password)?).await?;
    migrations.apply_owned(&wiki, &migration(&wiki, &config)?).await?;
    let service = services.apply_owned(&wiki, &service(&wiki)?).await?;
    ingresses.apply_owned(&wiki, &front(&wiki, &service)?).await?;
    Ok(())
}

fn config(wiki: &Wiki) -> Result<ConfigMap> {
    Ok(from_value(json!({"metadata": {"name": name(wiki, "config")}, "data": {"title": wiki.spec.title}}))?)
}

fn password(wiki: &Wiki) -> Result<Secret> {
    let data = json!({"password": "open sesame"});
    Ok(from_value(json!({"metadata": {"name": name(wiki, "password")}, "stringData": data}))?)
}

fn database(wiki: &Wiki, password: &Secret) -> Result<StatefulSet> {
    let template = pod(wiki, "database", "postgres:17", &json!([{"secretRef": {"name": password.name_any()}}]));
    Ok(from_value(json!({
        "metadata": {"name": name(wiki, "database")},
        "spec": {
            "serviceName": name(wiki, "database"), "selector": {"matchLabels": labels(wiki, "database")},
            "template": template,
        },
    }))?)
}

fn migration(wiki: &Wiki, config: &ConfigMap) -> Result<Job> {
    let env = json!([{"configMapRef": {"name": config.name_any()}}]);
    let mut template = pod(wiki, "migration", "example.com/wiki", &env);
    template["spec"]["restartPolicy"] = "Never".into();
    let name = name(wiki, &format!("migration-{}", wiki.spec.version));
    Ok(from_value(json!({"metadata": {"name": name}, "spec": {"template": template}}))?)
}

fn service(wiki: &Wiki) -> Result<Service> {
    let spec = json!({"selector": labels(wiki, "web"), "ports": [{"port": 80}]});
    Ok(from_value(json!({"metadata": {"name": name(wiki, "web")}, "spec": spec}))?)
}

fn front(wiki: &Wiki, service: &Service) -> Result<Ingress> {
    let backend = json!({"service": {"name": service.name_any(), "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    let rule = json!({"host": wiki.spec.host, "http": {"paths": [path]}});
    Ok(from_value(json!({"metadata": {"name": name(wiki, "front")}, "spec": {"rules": [rule]}}))?)
}

fn name(wiki: &Wiki, part: &str) -> String {
    format!("{}-{part}", wiki.name_any())
}

fn labels(wiki: &Wiki, part: &str) -> Value {
    json!({"wiki": wiki.name_any(), "part": part})
}

fn pod(wiki: &Wiki, part: &str, image: &str, env: &Value) -> Value {
    let containers = json!([{"name": part, "image": image, "envFrom": env}]);
    json!({"metadata": {"labels": labels(wiki, part)}, "spec": {"containers": containers}})
}
