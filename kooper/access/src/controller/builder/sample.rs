//! Objects for the command `dev`.

use kooper_runtime::Kind;
use serde::de::DeserializeOwned;

use super::Builder;

/// A file with objects in YAML or JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The name of the file, for error messages.
    pub name: &'static str,
    /// Its content.
    pub text: &'static str,
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Adds objects in YAML or JSON that the command `dev` applies if it gets no
    /// `-f`. Error messages contain the name. Without samples, `dev` creates one
    /// object of the kind.
    ///
    /// Other commands ignore samples.
    pub fn sample(mut self, name: &'static str, text: &'static str) -> Self {
        self.common.description.samples.push(Sample { name, text });
        self
    }
}
