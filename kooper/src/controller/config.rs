//! What can be set on a controller, and which values make sense.

use std::time::Duration;

use kooper_grammar::name;
use kooper_grammar::selector::{FieldSelector, Selector};

use crate::backoff::Backoff;
use crate::object::Changed;

/// A controller that cannot be built as it was described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("controller `{controller}`: {field}: {problem}")]
pub struct ConfigError {
    /// The controller's name, as it was given.
    pub controller: String,
    /// What is wrong or missing: the name of the builder's method.
    pub field: &'static str,
    /// What is wrong with it and what to write.
    pub problem: String,
}

/// How a failure that will be retried counts in
/// `kooper_controller_processed_event_duration_seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsCompat {
    /// As `success="true"`: what Kooper for Go does, and what rules made for
    /// it rely on.
    Go,
    /// As `success="false"`.
    Truth,
}

/// The settings of a controller.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) resync: Option<Duration>,
    pub(crate) workers: usize,
    pub(crate) retries: Option<u32>,
    pub(crate) backoff: Backoff,
    pub(crate) retry_rate: (u32, u32),
    pub(crate) timeout: Option<Duration>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    pub(crate) metadata_only: bool,
    pub(crate) changed: Vec<Changed>,
    pub(crate) metrics_compat: Option<MetricsCompat>,
    pub(crate) stuck_after: Duration,
}

impl Config {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            resync: Some(Duration::from_secs(180)),
            workers: 3,
            retries: None,
            backoff: Backoff::default(),
            retry_rate: (10, 100),
            timeout: Some(Duration::from_secs(300)),
            namespaces: Vec::new(),
            labels: None,
            fields: None,
            metadata_only: false,
            changed: vec![Changed::Any],
            metrics_compat: None,
            stuck_after: Duration::from_secs(30),
        }
    }

    pub(crate) fn error(&self, field: &'static str, problem: impl std::fmt::Display) -> ConfigError {
        ConfigError { controller: self.name.clone(), field, problem: problem.to_string() }
    }

    /// Says the first setting that makes no sense; the name goes first.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.name.is_empty() {
            return Err(self.error("name", "it is missing: give the controller a name, such as `echo`"));
        }
        name::label(&self.name).map_err(|error| self.error("name", error))?;
        if self.workers == 0 {
            return Err(self.error("workers", "0 workers handle nothing: set 1 or more"));
        }
        for (field, value) in [("resync", self.resync), ("timeout", self.timeout)] {
            if value.is_some_and(|value| value.is_zero()) {
                return Err(self.error(field, "a duration of 0 makes no sense: set a longer one, or `None` for off"));
            }
        }
        if self.backoff.first.is_zero() || self.backoff.longest < self.backoff.first {
            return Err(self.error("backoff", "the first delay must be above 0 and not above the longest"));
        }
        if self.retry_rate.0 == 0 || self.retry_rate.1 == 0 {
            return Err(self.error("retry_rate", "the rate and the burst must be 1 or more"));
        }
        for namespace in &self.namespaces {
            name::label(namespace).map_err(|error| self.error("namespaces", error))?;
        }
        if let Some(labels) = &self.labels {
            Selector::parse(labels).map_err(|error| self.error("labels", error))?;
        }
        if let Some(fields) = &self.fields {
            FieldSelector::parse(fields).map_err(|error| self.error("fields", error))?;
        }
        if self.changed.is_empty() {
            return Err(self.error("changed", "no change would wake the handler: name one, or `Changed::Any`"));
        }
        if self.metadata_only && self.changed.contains(&Changed::Status) {
            return Err(
                self.error("changed", "with `metadata_only` the status is not fetched: remove `Changed::Status`")
            );
        }
        Ok(())
    }
}
