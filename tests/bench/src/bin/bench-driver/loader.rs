//! Writes the objects and changes them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use kooper_bench::{Kind, SENT, Widget};
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::cluster::Cluster;
use crate::document::{NAMESPACES, name, namespace, object, status};

/// Requests under way at a time.
const CONNECTIONS: usize = 32;
/// The field manager of creations and touches. It is one, so that a touch doesn't grow the object.
const CREATOR: &str = "kube-controller-manager";
/// The field manager of statuses.
const REPORTER: &str = "kubelet";
/// Touches come in steps of this prime: scattered, and no object twice before all had their turn.
const STEP: usize = 7_919;

/// Writes objects of one kind.
#[derive(Clone)]
pub(crate) struct Loader {
    client: Client,
    kind: Kind,
    objects: usize,
    turn: Arc<AtomicUsize>,
}

impl Loader {
    /// Makes the namespaces and the definition of the custom resource.
    pub(crate) async fn new(cluster: &Cluster, kind: Kind, objects: u32) -> Result<Self> {
        let turn = Arc::default();
        let loader = Self { client: cluster.client().await?, kind, objects: objects as usize, turn };
        for index in 0..NAMESPACES {
            let body = json!({ "metadata": { "name": namespace(index) } });
            loader.send(Method::POST, "/api/v1/namespaces", &body).await?;
        }
        if kind == Kind::Crs {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            loader.send(Method::POST, path, &serde_json::to_value(Widget::crd())?).await?;
            loader.await_served().await?;
        }
        Ok(loader)
    }

    /// How many objects there are.
    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    /// Which kind they are.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Creates all objects.
    pub(crate) async fn load(&self) -> Result<Loaded> {
        let started = Instant::now();
        stream::iter(0..self.objects)
            .map(Ok)
            .try_for_each_concurrent(CONNECTIONS, |index| self.create(index, 0))
            .await?;
        let took = started.elapsed();
        let sample = self.send(Method::GET, &self.path(self.objects / 2), &Value::Null).await?;
        let sample: Value = serde_json::from_str(&sample)?;
        let managed = sample.pointer("/metadata/managedFields").map_or(0, |fields| fields.to_string().len());
        Ok(Loaded { objects: self.objects, took, bytes: sample.to_string().len(), managed })
    }

    /// Writes the time into the annotation of the next object.
    pub(crate) async fn touch(&self) -> Result<()> {
        let path = format!("{}?fieldManager={CREATOR}", self.path(self.next()));
        let body = json!({ "metadata": { "annotations": { SENT: now().to_string() } } });
        self.send(Method::PATCH, &path, &body).await.map(drop)
    }

    /// Deletes the next object and creates it again.
    async fn replace(&self) -> Result<()> {
        let index = self.next();
        let body = json!({ "gracePeriodSeconds": 0 });
        self.send(Method::DELETE, &self.path(index), &body).await?;
        self.create(index, now()).await
    }

    /// Touches `count` objects as fast as the server takes it.
    pub(crate) async fn touch_all(&self, count: usize) -> Result<()> {
        stream::iter(0..count).map(Ok).try_for_each_concurrent(CONNECTIONS, |_| self.touch()).await
    }

    /// Touches objects at a steady rate, or at the server's when that is lower.
    pub(crate) async fn touch_at(&self, rate: u32, count: usize) -> Result<()> {
        self.at_rate(rate, count, |_| false).await
    }

    /// As [`Loader::touch_at`], but every fifth object is replaced.
    pub(crate) async fn churn_at(&self, rate: u32, count: usize) -> Result<()> {
        self.at_rate(rate, count, |turn| turn % 5 == 0).await
    }

    async fn at_rate(&self, rate: u32, count: usize, replaces: fn(usize) -> bool) -> Result<()> {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let mut ticks = interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut writes = tokio::task::JoinSet::new();
        for turn in 0..count {
            ticks.tick().await;
            let permit = permits.clone().acquire_owned().await?;
            let loader = self.clone();
            writes.spawn(async move {
                let written = if replaces(turn) { loader.replace().await } else { loader.touch().await };
                drop(permit);
                written
            });
            while let Some(written) = writes.try_join_next() {
                written??;
            }
        }
        while let Some(written) = writes.join_next().await {
            written??;
        }
        Ok(())
    }

    /// The newest resource version.
    pub(crate) async fn version(&self) -> Result<String> {
        let list = self.send(Method::GET, &format!("{}?limit=1", self.collection()), &Value::Null).await?;
        let list: Value = serde_json::from_str(&list)?;
        let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        Ok(version.context("a list without version")?.to_owned())
    }

    /// Makes sure that a watch from this version is answered with 410.
    pub(crate) async fn expect_expired(&self, version: &str) -> Result<()> {
        let path = format!("{}?watch=1&timeoutSeconds=2&resourceVersion={version}", self.collection());
        match self.send(Method::GET, &path, &Value::Null).await {
            // As an event of the watch, or as its answer.
            Ok(body) if body.contains("\"code\":410") => Ok(()),
            Err(error) if format!("{error:#}").contains("410") => Ok(()),
            Ok(_) => bail!("the server still knows version {version}"),
            Err(error) => Err(error),
        }
    }

    /// Waits until the server lists the kind from its watch cache.
    pub(crate) async fn await_served(&self) -> Result<()> {
        let path = format!("{}?limit=1&resourceVersion=0", self.collection());
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.send(Method::GET, &path, &Value::Null).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn create(&self, index: usize, sent: u64) -> Result<()> {
        let path = format!("{}?fieldManager={CREATOR}", self.collection_of(index));
        self.send(Method::POST, &path, &object(self.kind, index, sent)).await?;
        let path = format!("{}/status?fieldManager={REPORTER}", self.path(index));
        self.send(Method::PATCH, &path, &status(self.kind, index)).await?;
        Ok(())
    }

    fn next(&self) -> usize {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        turn.wrapping_mul(STEP) % self.objects
    }

    fn collection(&self) -> &'static str {
        match self.kind {
            Kind::Pods => "/api/v1/pods",
            Kind::Crs => "/apis/bench.kooper.dev/v1/widgets",
        }
    }

    fn collection_of(&self, index: usize) -> String {
        let namespace = namespace(index);
        match self.kind {
            Kind::Pods => format!("/api/v1/namespaces/{namespace}/pods"),
            Kind::Crs => format!("/apis/bench.kooper.dev/v1/namespaces/{namespace}/widgets"),
        }
    }

    fn path(&self, index: usize) -> String {
        format!("{}/{}", self.collection_of(index), name(index))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<String> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(path).header("content-type", media).body(body)?;
        self.client.request_text(request).await.context(what)
    }
}

/// What was loaded.
pub(crate) struct Loaded {
    objects: usize,
    took: Duration,
    bytes: usize,
    managed: usize,
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objects, took, bytes, managed } = self;
        write!(
            f,
            "{objects} objects of {bytes} bytes of JSON, {managed} of them managedFields; loaded in {:.0} s.",
            took.as_secs_f64()
        )
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
