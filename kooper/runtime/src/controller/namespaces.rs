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
    everywhere: Vec<Arc<WatchStatus>>,
    /// The watches that the keys of each of several namespaces need. Handlers read
    /// the caches: an object that is not listed yet must not seem to be absent.
    each: BTreeMap<String, Vec<Arc<WatchStatus>>>,
}

impl Namespaces {
    /// `watches` has each watch, and whether its namespace is its own, whichever the
    /// controller has: then every key needs it.
    pub(super) fn new(
        controller: &str,
        several: bool,
        watches: impl Iterator<Item = (bool, Arc<WatchStatus>)>,
    ) -> Self {
        let mut namespaces =
            Self { controller: controller.to_owned(), everywhere: Vec::new(), each: BTreeMap::default() };
        for (fixed, watch) in watches {
            match watch.namespace().filter(|_| several && !fixed) {
                Some(namespace) => namespaces.each.entry(namespace.to_owned()).or_default().push(watch),
                None => {
                    watch.require_synced();
                    namespaces.everywhere.push(watch);
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
        watches.is_none_or(|watches| watches.iter().all(|watch| watch.is_synced()))
    }

    /// The first list that every key waits for, if one is not complete.
    pub(super) fn unlisted(&self) -> Option<String> {
        let watch = self.everywhere.iter().find(|watch| !watch.is_synced())?;
        let problem = watch.problem().map(|problem| format!(": {problem}")).unwrap_or_default();
        Some(format!("the first list of {} is not complete{problem}", watch.place()))
    }

    /// Waits until the keys of a namespace may be handled.
    pub(super) async fn wait_synced(&self, namespace: &str) {
        join_all(self.each.get(namespace).into_iter().flatten().map(|watch| watch.wait_synced())).await;
    }

    /// Waits until the first keys may be handled: of several namespaces each
    /// has been listed, or cannot be, and at least one is complete.
    pub(super) async fn wait_for_first(&self) {
        join_all(self.everywhere.iter().map(|watch| watch.wait_synced())).await;
        join_all(self.each.values().flatten().map(|watch| watch.wait_tried())).await;
        if self.are_several() {
            select_all(self.each.keys().map(|namespace| Box::pin(self.wait_synced(namespace)))).await;
        }
    }
}

/// The result of the first lists of a pass.
pub(super) struct Tried {
    /// `true` if keys may be handled.
    pub(super) complete: bool,
    /// The lists that failed.
    pub(super) problems: Vec<String>,
}

impl Namespaces {
    /// Waits until each watch has been listed, or cannot be.
    pub(super) async fn wait_tried(&self) -> Tried {
        let all = || self.everywhere.iter().chain(self.each.values().flatten());
        join_all(all().map(|watch| watch.wait_tried())).await;
        Tried {
            complete: self.everywhere.iter().all(|watch| watch.is_synced()),
            problems: all().filter_map(|watch| watch.unlisted()).collect(),
        }
    }

    /// Waits until the watches of a namespace have been listed, or cannot be. Returns
    /// whether its keys may be handled.
    pub(super) async fn wait_tried_in(&self, namespace: &str) -> bool {
        join_all(self.each.get(namespace).into_iter().flatten().map(|watch| watch.wait_tried())).await;
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
            let left_out: Vec<String> = watches.iter().filter_map(|watch| watch.left_out()).collect();
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
