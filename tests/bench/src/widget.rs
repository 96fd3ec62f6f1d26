//! The custom resource of the benchmark.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A database somebody wants to have.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(group = "bench.kooper.dev", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[serde(rename_all = "camelCase")]
pub struct WidgetSpec {
    /// The container image.
    pub image: String,
    /// Number of desired replicas.
    pub replicas: i32,
    /// Suspends reconciling.
    #[serde(default)]
    pub paused: bool,
    /// Labels of the pods that belong to it.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
    /// Settings of the database.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Ports it listens on.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// When and where it is saved.
    pub backup: Option<Backup>,
}

/// One setting.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// One port.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// Its number.
    pub port: i32,
    /// Its protocol.
    pub protocol: String,
}

/// The backups of a database.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// When, in cron's words.
    pub schedule: String,
    /// Where to.
    pub bucket: String,
    /// For how long a copy is kept.
    pub retention_days: i32,
}

/// The observed state of a database.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WidgetStatus {
    /// The generation this status is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Replicas that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Where clients find it.
    #[serde(default)]
    pub endpoint: String,
    /// Its conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// One condition.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// Since when.
    pub last_transition_time: String,
}
