//! Leader election: handlers run in one replica only.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use crate::metrics::MetricsRecorder;

/// The settings of a leader election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    pub(crate) lease: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
}

impl Default for LeaderElection {
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period] = [15, 10, 2].map(Duration::from_secs);
        Self { lease: None, namespace: None, lease_duration, renew_deadline, retry_period }
    }
}

impl LeaderElection {
    pub(crate) fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Whether handlers may run now.
#[derive(Debug, Clone)]
pub struct Leadership {}

impl Leadership {
    pub(crate) fn always() -> Self {
        Self {}
    }
    pub(crate) fn none() -> Self {
        Self {}
    }
    /// Whether it is held.
    pub fn is_held(&self) -> bool {
        true
    }
    pub(crate) fn fence(&self, client: Client) -> Client {
        client
    }
}

pub(crate) struct ElectorOptions {
    pub(crate) controller: Arc<str>,
    pub(crate) program: String,
    pub(crate) lease: String,
    pub(crate) namespace: String,
    pub(crate) identity: String,
    pub(crate) election: LeaderElection,
    pub(crate) former: Vec<String>,
    pub(crate) client: Client,
    pub(crate) metrics: Arc<dyn MetricsRecorder>,
    pub(crate) leadership: Leadership,
    pub(crate) told: Arc<dyn Fn(()) + Send + Sync>,
}
pub(crate) struct Elector;
impl Elector {
    pub(crate) fn new(_: ElectorOptions) -> Self {
        Self
    }
    pub(crate) async fn campaign(&mut self) {}
    pub(crate) async fn hold(&mut self) -> String {
        std::future::pending().await
    }
    pub(crate) async fn release(&mut self) {}
}
pub(crate) fn identity() -> String {
    String::new()
}
