//! The validation of a controller's settings.

use std::fmt::Display;

use kooper_grammar::selector::{FieldSelector, Selector};
use kooper_grammar::{field_path, name};
use kooper_runtime::Changed;
use kooper_runtime::internal::controller::Config;
use kooper_sharding::Shards;

use super::error::{ConfigError, ConfigErrorKind};

/// Returns an error for the first invalid setting; the name is checked first.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    if config.name.is_empty() {
        return Err(ConfigError::new(
            config,
            "name",
            ConfigErrorKind::Missing,
            "it is missing: give the controller a name, such as `echo`",
        ));
    }
    name::label(&config.name).map_err(malformed(config, "name"))?;
    if config.workers == 0 {
        return Err(out_of_range(config, "workers", "a controller needs workers: set 1 or more"));
    }
    let queue = &config.queue;
    for (field, value) in [("resync", queue.resync), ("timeout", config.timeout), ("debounce", queue.debounce)] {
        if value.is_some_and(|value| value.is_zero()) {
            return Err(out_of_range(
                config,
                field,
                "the duration must be longer than 0: set a longer one, or `None` for off",
            ));
        }
    }
    if queue.backoff.initial.is_zero() || queue.backoff.max < queue.backoff.initial {
        return Err(out_of_range(config, "backoff", "the initial delay must be above 0 and not above the maximum"));
    }
    if queue.retry_rate.0 == 0 || queue.retry_rate.1 == 0 {
        return Err(out_of_range(config, "retry_rate", "the rate and the burst must be 1 or more"));
    }
    for namespace in &config.namespaces {
        name::label(namespace).map_err(malformed(config, "namespaces"))?;
    }
    if let Some(labels) = &config.namespace_selector {
        Selector::parse(labels).map_err(malformed(config, "namespaces"))?;
        selects(config, "namespaces", labels)?;
        if !config.namespaces.is_empty() {
            let problem = "namespaces are selected by their labels or listed by their names: remove one of the two";
            return Err(ConfigError::new(config, "namespaces", ConfigErrorKind::Conflict, problem));
        }
    }
    if let Some(labels) = &config.labels {
        Selector::parse(labels).map_err(malformed(config, "labels"))?;
        selects(config, "labels", labels)?;
    }
    if let Some(fields) = &config.fields {
        FieldSelector::parse(fields).map_err(malformed(config, "fields"))?;
        selects(config, "fields", fields)?;
    }
    for (field, name) in [("pause", &config.annotations.pause), ("reconcile_now", &config.annotations.reconcile_now)] {
        name.iter().try_for_each(|name| name::qualified(name).map_err(malformed(config, field)))?;
    }
    if config.annotations.pause.is_some() && config.annotations.pause == config.annotations.reconcile_now {
        let problem = "the same annotation pauses an object: choose two";
        return Err(ConfigError::new(config, "reconcile_now", ConfigErrorKind::Conflict, problem));
    }
    if config.changed.is_empty() {
        return Err(out_of_range(
            config,
            "changed",
            "the list is empty, so no change would call the handler: add one, or `Changed::Any`",
        ));
    }
    if config.metadata_only && config.changed.contains(&Changed::Status) {
        let problem = "with `metadata_only` the status is not fetched: remove `Changed::Status`";
        return Err(ConfigError::new(config, "changed", ConfigErrorKind::Conflict, problem));
    }
    for path in config.changed_fields() {
        field_path::check(path).map_err(malformed(config, "changed"))?;
        if config.metadata_only && field_path::names(path).next() != Some("metadata") {
            let problem = format!("with `metadata_only` `{path}` is not fetched: remove it");
            return Err(ConfigError::new(config, "changed", ConfigErrorKind::Conflict, problem));
        }
    }
    if let Some(election) = &config.leader {
        election.check().map_err(|problem| out_of_range(config, "leader_election", problem))?;
    }
    if let Some(finalizer) = &config.finalizer {
        name::finalizer(finalizer).map_err(malformed(config, "cleanup"))?;
        if config.while_deleting {
            let problem = "`cleanup` is called instead of the handler for an object that is being deleted: remove \
                           one of the two";
            return Err(ConfigError::new(config, "while_deleting", ConfigErrorKind::Conflict, problem));
        }
    }
    for previous in &config.previous_names {
        name::label(previous).map_err(malformed(config, "previous_names"))?;
        if *previous == config.name {
            let problem = format!("\"{previous}\" is the current name: list only earlier ones");
            return Err(ConfigError::new(config, "previous_names", ConfigErrorKind::Conflict, problem));
        }
    }
    for previous in &config.previous_finalizers {
        name::finalizer(previous).map_err(malformed(config, "previous_finalizers"))?;
        if config.finalizer.as_ref() == Some(previous) {
            let problem = format!("\"{previous}\" is the current finalizer: list only earlier ones");
            return Err(ConfigError::new(config, "previous_finalizers", ConfigErrorKind::Conflict, problem));
        }
        if config.finalizer.is_none() {
            let problem = format!(
                "the previous finalizer \"{previous}\" is removed by `cleanup`: set `cleanup` with the current finalizer, \
                 or leave the previous one out"
            );
            return Err(ConfigError::new(config, "previous_finalizers", ConfigErrorKind::Conflict, problem));
        }
    }
    if let Some(program) = &config.previous_program {
        name::label(program).map_err(malformed(config, "previous_program"))?;
    }
    Ok(())
}

/// Checks that a task is not declared both for each replica and for one, or in two ways for one.
pub(super) fn check_replicas(everywhere: bool, in_shard: bool, config: &Config) -> Result<(), ConfigError> {
    if everywhere && (config.leader.is_some() || in_shard) {
        let other = if in_shard { "shard_of" } else { "leader_election" };
        let problem = format!(
            "`everywhere` and `{other}` exclude each other: a task runs in each replica or in one. Remove one of the two"
        );
        return Err(ConfigError::new(config, "everywhere", ConfigErrorKind::Conflict, problem));
    }
    if in_shard && config.leader.is_some() {
        let problem = "`shard_of` and `leader_election` exclude each other: a task runs in the replica that owns its \
                       shard, or in the leader. Remove one of the two";
        return Err(ConfigError::new(config, "shard_of", ConfigErrorKind::Conflict, problem));
    }
    Ok(())
}

/// Checks the settings of shards.
pub(super) fn check_shards(shards: Option<&Shards>, config: &Config) -> Result<(), ConfigError> {
    let Some(shards) = shards else { return Ok(()) };
    if config.leader.is_some() {
        let problem =
            "`shards` and `leader_election` exclude each other: with shards every replica works. Remove one of the two";
        return Err(ConfigError::new(config, "shards", ConfigErrorKind::Conflict, problem));
    }
    if config.namespace_selector.is_some() {
        let problem = "shards and a selector for namespaces exclude each other: remove one of the two";
        return Err(ConfigError::new(config, "shards", ConfigErrorKind::Conflict, problem));
    }
    shards.check().map_err(|problem| ConfigError::new(config, "shards", ConfigErrorKind::OutOfRange, problem))
}

fn malformed<E: Display>(config: &Config, field: &'static str) -> impl Fn(E) -> ConfigError {
    move |error| ConfigError::new(config, field, ConfigErrorKind::Malformed, error)
}

fn out_of_range(config: &Config, field: &'static str, problem: impl Display) -> ConfigError {
    ConfigError::new(config, field, ConfigErrorKind::OutOfRange, problem)
}

/// Returns an error for a selector that is empty, such as a constant without a value.
fn selects(config: &Config, field: &'static str, selector: &str) -> Result<(), ConfigError> {
    if selector.trim().is_empty() {
        return Err(out_of_range(config, field, "the selector is empty and selects everything: remove it"));
    }
    Ok(())
}
