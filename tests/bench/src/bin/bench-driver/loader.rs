//! Writes the objects and changes them.
//!
//! The first object of each workload goes through the API; the others are made from it and put into the API
//! server's storage.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use kooper_bench::document::{WORKLOADS, name, namespace, stored};
use kooper_bench::{Api, Etcd, Kind, now};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Requests under way at a time.
const CONNECTIONS: usize = 32;
/// Touches come in steps of this prime: scattered, and no object twice before all had their turn.
const STEP: usize = 7_919;
/// Maximum number of objects in the sample for the average size.
const SAMPLE: usize = 97;
/// One in so many writes of the churn replaces an object.
const REPLACED: usize = 5;

/// Writes objects of one kind.
#[derive(Clone)]
pub(crate) struct Loader {
    shared: Arc<Shared>,
}

/// State shared by concurrent writes.
struct Shared {
    kind: Kind,
    etcd: Etcd,
    /// The first object of each workload as the API server stores it; the others are made from it.
    templates: Vec<Value>,
    /// Number of times that each object was deleted and created again.
    incarnations: Box<[AtomicU32]>,
    turn: AtomicUsize,
}

impl Loader {
    /// Makes the first object of each workload.
    pub(crate) async fn new(api: &Api, etcd: Etcd, objects: u32) -> Result<Self> {
        let first = (objects as usize).min(WORKLOADS);
        let templates =
            stream::iter(0..first).map(|index| api.create(index)).buffered(CONNECTIONS).try_collect().await?;
        let incarnations = (0..objects).map(|_| AtomicU32::new(0)).collect();
        let shared = Shared { kind: api.kind, etcd, templates, incarnations, turn: AtomicUsize::new(0) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the number of objects.
    pub(crate) fn objects(&self) -> usize {
        self.shared.incarnations.len()
    }

    /// Writes the objects with these indices.
    pub(crate) async fn write_all(&self, indices: Range<usize>) -> Result<()> {
        stream::iter(indices).map(Ok).try_for_each_concurrent(CONNECTIONS, |index| self.write(index, 0)).await
    }

    /// Writes all objects.
    pub(crate) async fn load(&self, api: &Api) -> Result<Loaded> {
        let (started, objects) = (Instant::now(), self.objects());
        self.write_all(0..objects).await?;
        let took = started.elapsed();
        let (mut bytes, mut managed) = (0, 0);
        for index in (0..objects).step_by(objects.div_ceil(SAMPLE)) {
            let sample = api.get(index).await?;
            bytes += sample.to_string().len();
            managed += sample.pointer("/metadata/managedFields").map_or(0, |fields| fields.to_string().len());
        }
        let samples = (0..objects).step_by(objects.div_ceil(SAMPLE)).count();
        let (bytes, managed) = (bytes / samples, managed / samples);
        Ok(Loaded { objects, took, bytes, managed })
    }

    /// Touches `count` objects as fast as etcd takes it.
    pub(crate) async fn touch_all(&self, count: usize) -> Result<()> {
        stream::iter(0..count).map(Ok).try_for_each_concurrent(CONNECTIONS, |_| self.touch()).await
    }

    /// Touches objects at a steady rate, or at etcd's when that is lower.
    pub(crate) async fn touch_at(&self, rate: u32, count: usize) -> Result<()> {
        self.at_rate(rate, count, |_| false).await
    }

    /// As [`Loader::touch_at`], but some objects are replaced.
    pub(crate) async fn churn_at(&self, rate: u32, count: usize) -> Result<()> {
        self.at_rate(rate, count, |turn| turn % REPLACED == 0).await
    }

    async fn at_rate(&self, rate: u32, count: usize, replaces: fn(usize) -> bool) -> Result<()> {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let mut ticks = interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut writes = JoinSet::new();
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

    /// Writes the time into the annotation of the next object.
    async fn touch(&self) -> Result<()> {
        self.write(self.next(), now()).await
    }

    /// Deletes the next object and creates it again.
    async fn replace(&self) -> Result<()> {
        let index = self.next();
        self.shared.etcd.delete(&self.key(index)).await?;
        if let Some(incarnation) = self.shared.incarnations.get(index) {
            incarnation.fetch_add(1, Ordering::Relaxed);
        }
        self.write(index, now()).await
    }

    async fn write(&self, index: usize, sent: u64) -> Result<()> {
        let Shared { kind, etcd, templates, incarnations, .. } = &*self.shared;
        let template = templates.get(index % WORKLOADS).context("no such object")?;
        let incarnation = incarnations.get(index).map_or(0, |incarnation| incarnation.load(Ordering::Relaxed));
        etcd.put(&self.key(index), &stored(template, *kind, index, incarnation, sent)).await
    }

    fn next(&self) -> usize {
        let turn = self.shared.turn.fetch_add(1, Ordering::Relaxed);
        turn.wrapping_mul(STEP) % self.objects()
    }

    /// The key of an object in the API server's storage.
    fn key(&self, index: usize) -> String {
        let (namespace, name) = (namespace(index), name(index));
        match self.shared.kind {
            Kind::Pods => format!("/registry/pods/{namespace}/{name}"),
            Kind::Crs => format!("/registry/bench.kooper.dev/widgets/{namespace}/{name}"),
        }
    }
}

/// Statistics of a load.
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
            "{objects} objects of {bytes} bytes of JSON on average, {managed} of them managedFields; loaded in {:.0} s.",
            took.as_secs_f64()
        )
    }
}
