//! State of a server's fault injection.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::RequestAttributes;
use super::journal::Journal;
use super::outage::Outages;
use super::plan;
use super::rules::Rules;
use super::view::{View, Views};
use super::webhooks::WebhookFault;

/// The faults of a server. Before they are asked for, they cost nothing.
#[derive(Debug, Default)]
pub(crate) struct State {
    armed: AtomicBool,
    /// `true` if a test has requested the report, so that a failure does not
    /// print it again.
    pub(super) reported: AtomicBool,
    /// `true` if watch events are inspected.
    watching: AtomicBool,
    rules: Mutex<Rules>,
    pub(super) journal: Journal,
    pub(super) outages: Outages,
    pub(super) views: Views,
    /// The webhooks that fail.
    pub(super) webhooks: Mutex<HashMap<String, WebhookFault>>,
}

impl State {
    /// Counts requests from now on.
    pub(super) fn arm(&self) {
        if self.armed.load(Ordering::Acquire) {
            return;
        }
        let mut rules = self.rules();
        if self.armed.swap(true, Ordering::AcqRel) {
            return;
        }
        rules.seed = seed().unwrap_or_else(crate::random::number);
        if let Some(file) = std::env::var_os("KOOPER_FAULTS").map(PathBuf::from) {
            let text = std::fs::read_to_string(&file);
            let text = text.unwrap_or_else(|error| panic!("KOOPER_FAULTS={}: {error}", file.display()));
            let plan = plan::parse(&text).unwrap_or_else(|error| panic!("KOOPER_FAULTS={}: {error}", file.display()));
            rules.replay(plan);
            self.watch_events();
        }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Returns whether the user of a request is exempt from faults.
    pub(super) fn spares(&self, request: &RequestAttributes) -> bool {
        self.is_armed() && self.rules().spared.contains(&request.user)
    }

    /// Returns a request's view of the watch cache.
    pub(crate) fn view(&self, request: RequestAttributes) -> View {
        let spared = self.spares(&request);
        self.views.of(request, spared)
    }

    /// The fault of a webhook, by its name in the configuration, or by the first part of it: `check` of
    /// `check.shop.kooper.rs`.
    pub(crate) fn webhook(&self, webhook: &str) -> Option<WebhookFault> {
        let failing = self.webhooks.lock();
        let first = webhook.split('.').next().unwrap_or_default();
        failing.get(webhook).or_else(|| failing.get(first)).copied()
    }

    /// Looks at watch events from now on.
    pub(super) fn watch_events(&self) {
        self.watching.store(true, Ordering::Release);
    }

    pub(super) fn watches_events(&self) -> bool {
        self.watching.load(Ordering::Acquire)
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock()
    }
}

/// The seed of the environment.
fn seed() -> Option<u64> {
    let text = std::env::var("KOOPER_SEED").ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("KOOPER_SEED={text}: it is not a number from 0 to 2^64 - 1")))
}
