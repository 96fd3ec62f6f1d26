//! The watches of each namespace: with several, a namespace that cannot be watched
//! does not stop the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::{join_all, select_all};

use crate::metrics::health::Probe;
use crate::watch::informer::WatchStatus;

/// The watches of a controller by namespace.
pub(super) struct Namespaces {
    controller: String,
    /// The watches that every key needs: those of the whole cluster, and of a
    /// single namespace.
    everywhere: Vec<RequiredWatch>,
    /// The watches that the keys of each of several namespaces need. Handlers read
    /// the caches: an object that is not listed yet must not seem to be absent.
    each: BTreeMap<String, Vec<RequiredWatch>>,
}

/// A watch that keys wait for.
pub(super) struct RequiredWatch {
    pub(super) watch: Arc<WatchStatus>,
    /// `true` if its namespace is its own, whichever the controller has: then every key needs it.
    pub(super) is_fixed: bool,
    /// `true` if keys are handled while the server does not serve the kind.
    pub(super) optional: bool,
}

impl RequiredWatch {
    fn is_synced(&self) -> bool {
        self.watch.is_listed(self.optional)
    }

    async fn wait_synced(&self) {
        self.watch.wait_listed(self.optional).await;
    }
}

impl Namespaces {
    pub(super) fn new(controller: &str, several: bool, watches: impl Iterator<Item = RequiredWatch>) -> Self {
        let mut namespaces =
            Self { controller: controller.to_owned(), everywhere: Vec::new(), each: BTreeMap::default() };
        for awaited in watches {
            let namespace = awaited.watch.namespace().filter(|_| several && !awaited.is_fixed);
            match namespace.map(str::to_owned) {
                Some(namespace) => namespaces.each.entry(namespace).or_default().push(awaited),
                None => {
                    awaited.watch.require_synced();
                    namespaces.everywhere.push(awaited);
                }
            }
        }
        namespaces
    }

    /// Returns `true` if there are several namespaces, which are handled separately.
    pub(super) fn are_several(&self) -> bool {
        !self.each.is_empty()
    }

    /// Returns `true` if the keys of a namespace may be handled.
    pub(super) fn is_synced(&self, namespace: Option<&str>) -> bool {
        let watches = namespace.and_then(|namespace| self.each.get(namespace));
        watches.is_none_or(|watches| watches.iter().all(RequiredWatch::is_synced))
    }

    /// The first list that every key waits for, if one is not complete.
    pub(super) fn unlisted(&self) -> Option<String> {
        let watch = &self.everywhere.iter().find(|awaited| !awaited.is_synced())?.watch;
        let problem = watch.problem().map(|problem| format!(": {problem}")).unwrap_or_default();
        Some(format!("the first list of {} is not complete{problem}", watch.place()))
    }

    /// Waits until the keys of a namespace may be handled.
    pub(super) async fn wait_synced(&self, namespace: &str) {
        join_all(self.each.get(namespace).into_iter().flatten().map(RequiredWatch::wait_synced)).await;
    }

    /// Waits until the first keys may be handled: of several namespaces each
    /// has been listed, or cannot be, and at least one is complete.
    pub(super) async fn wait_for_first(&self) {
        join_all(self.everywhere.iter().map(RequiredWatch::wait_synced)).await;
        join_all(self.each.values().flatten().map(|awaited| awaited.watch.wait_tried())).await;
        if self.are_several() {
            select_all(self.each.keys().map(|namespace| Box::pin(self.wait_synced(namespace)))).await;
        }
    }

    /// Returns `true` if the lists that the first keys wait for are complete.
    pub(super) fn has_first(&self) -> bool {
        let has_one = !self.are_several() || self.each.keys().any(|namespace| self.is_synced(Some(namespace.as_str())));
        has_one && self.everywhere.iter().all(RequiredWatch::is_synced)
    }

    /// Waits until each watch has been listed, or cannot be. Returns `true` if keys may be handled, and why lists failed.
    pub(super) async fn wait_tried(&self) -> (bool, Vec<String>) {
        let all = || self.everywhere.iter().chain(self.each.values().flatten());
        join_all(all().map(|awaited| awaited.watch.wait_tried())).await;
        let problems = all().filter(|awaited| !awaited.is_synced()).filter_map(|one| one.watch.unlisted());
        (self.everywhere.iter().all(RequiredWatch::is_synced), problems.collect())
    }

    /// Waits until the watches of a namespace have been listed, or cannot be. Returns
    /// whether its keys may be handled.
    pub(super) async fn wait_tried_in(&self, namespace: &str) -> bool {
        join_all(self.each.get(namespace).into_iter().flatten().map(|awaited| awaited.watch.wait_tried())).await;
        self.is_synced(Some(namespace))
    }
}

impl Probe for Namespaces {
    fn name(&self) -> String {
        format!("{}: namespaces", self.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let mut reasons = BTreeSet::new();
        for watches in self.each.values() {
            let left_out: Vec<String> = watches.iter().filter_map(|awaited| awaited.watch.left_out()).collect();
            if left_out.is_empty() {
                return Ok(None);
            }
            reasons.extend(left_out);
        }
        if reasons.is_empty() {
            return Ok(None);
        }
        let reasons: Vec<String> = reasons.into_iter().collect();
        Err(format!("{}: none of its namespaces can be watched: {}", self.controller, reasons.join("; ")))
    }
}
