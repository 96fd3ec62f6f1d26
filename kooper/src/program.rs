//! The controllers of a program, as generated code names them.

use serde::de::DeserializeOwned;

use crate::controller::{Builder, ConfigError, Controller, Kind};

/// What a generated type implements: it adds its controllers.
pub trait Definition {
    /// Adds the controllers to a program.
    fn define(program: &mut Program);
}

/// The controllers of a program, in the order of their definition.
#[derive(Debug, Default)]
pub struct Program {
    controllers: Vec<Result<Controller, ConfigError>>,
}

impl Program {
    /// Adds a controller; a mistake in it is told when all are known.
    pub fn add<K, O, S>(&mut self, builder: Builder<K, O, S>)
    where
        K: Kind,
        O: DeserializeOwned + Send + Sync + 'static,
        S: Send + Sync + 'static,
    {
        self.controllers.push(builder.build());
    }

    /// The controllers, or the first mistake in one.
    ///
    /// # Errors
    /// The first mistake.
    pub fn into_controllers(self) -> Result<Vec<Controller>, ConfigError> {
        self.controllers.into_iter().collect()
    }
}
