//! The command line of operators that are written with [Kooper](https://github.com/kooper-rs/kooper),
//! and the listener for metrics, probes and the status page. Depend on the crate `kooper`, which
//! re-exports the public items.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cli")]
pub(crate) mod alerts;
mod block_on;
#[cfg(feature = "cli")]
pub(crate) mod cli;
#[cfg(feature = "cli")]
pub mod client;
#[cfg(feature = "cli")]
pub(crate) mod dashboard;
#[cfg(feature = "cli")]
mod dry_run;
pub mod http;
#[cfg(feature = "cli")]
pub(crate) mod manifests;
pub mod metrics;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod process;
#[cfg(feature = "cli")]
pub(crate) mod query;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod rbac;
mod settings;

use serde::de::DeserializeOwned;

use kooper_access::controller::Builder;
use kooper_access::internal::GivenSettings;
use kooper_access::{ConfigError, ConfigErrorKind, Controller};
use kooper_runtime::Kind;
#[cfg(feature = "webhooks")]
use kooper_webhooks::Webhook;

#[cfg(feature = "cli")]
pub use cli::app::App;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use cli::main;
#[doc(hidden)]
pub use settings::{Declared, ProgramSettings};
#[cfg(feature = "cli")]
pub(crate) use settings::{SettingsType, check};

/// A type that adds its controllers or its webhook to a [`Program`]. Generated code implements it.
#[doc(hidden)]
pub trait Definition {
    /// Adds them to a program.
    fn define(program: &mut Program);

    /// Adds the type of the program's settings, if the attribute names it.
    fn declare(_declared: &mut Declared) {}
}

/// The controllers and webhooks of a program, in the order of their definition.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Program {
    controllers: Vec<Result<Controller, ConfigError>>,
    #[cfg(feature = "webhooks")]
    webhooks: Vec<Result<Webhook, kooper_webhooks::ConfigError>>,
    settings: GivenSettings,
}

impl Program {
    /// Adds a controller. An error in it is returned after all were added.
    pub fn add<K, O, S>(&mut self, builder: Builder<K, O, S>)
    where
        K: Kind,
        O: DeserializeOwned + Send + Sync + 'static,
        S: Send + Sync + 'static,
    {
        self.controllers.push(builder.build());
    }

    /// Adds a webhook. An error in it is returned after all were added.
    #[cfg(feature = "webhooks")]
    pub fn add_webhook<K, M, S>(&mut self, builder: kooper_webhooks::Builder<K, M, S>)
    where
        K: Kind,
        M: 'static,
        S: Send + Sync + 'static,
    {
        self.webhooks.push(builder.build());
    }

    /// Sets the program's own settings, as a test does.
    pub fn give<T: Send + Sync + 'static>(&mut self, settings: T) {
        self.settings.give(settings);
    }

    /// The settings that were set.
    #[cfg(feature = "apiserver")]
    #[must_use]
    pub fn given_settings(&self) -> GivenSettings {
        self.settings.clone()
    }

    /// The controllers of a generated type.
    pub fn all<D: Definition>() -> Result<Vec<Controller>, ConfigError> {
        let mut program = Self::default();
        D::define(&mut program);
        program.into_controllers()
    }

    /// The controller of a generated type of one kind.
    pub fn only<D: Definition>() -> Result<Controller, ConfigError> {
        let none = || ConfigError {
            controller: std::any::type_name::<D>().to_owned(),
            field: "resource",
            kind: ConfigErrorKind::Missing,
            problem: "it has no kind".to_owned(),
        };
        Self::all::<D>()?.pop().ok_or_else(none)
    }

    /// The webhook of a generated type.
    #[cfg(feature = "webhooks")]
    pub fn webhook<D: Definition>() -> Result<Webhook, kooper_webhooks::ConfigError> {
        let mut program = Self::default();
        D::define(&mut program);
        let none = || kooper_webhooks::ConfigError {
            webhook: std::any::type_name::<D>().to_owned(),
            problem: "it is the type of a controller".to_owned(),
        };
        program.take_webhooks()?.pop().ok_or_else(none)
    }

    /// Takes the webhooks, or returns the first error in one of them.
    #[cfg(feature = "webhooks")]
    pub fn take_webhooks(&mut self) -> Result<Vec<Webhook>, kooper_webhooks::ConfigError> {
        std::mem::take(&mut self.webhooks).into_iter().collect()
    }

    /// The controllers, or the first error in one of them.
    pub fn into_controllers(self) -> Result<Vec<Controller>, ConfigError> {
        self.controllers.into_iter().collect()
    }
}
