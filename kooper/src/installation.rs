//! An installation of a program: what its leases, its account and its roles
//! are named after.

use std::fmt;

/// A program's name, and the instance that tells this installation of it from
/// others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installation {
    /// As Kubernetes takes names.
    pub(crate) program: String,
    pub(crate) instance: Option<String>,
}

impl Installation {
    /// What this installation has under a name that all of them would share.
    /// A dot is in no other part of the name, so that no two of them are the
    /// same.
    pub(crate) fn name(&self, shared: &str) -> String {
        match &self.instance {
            Some(instance) => format!("{shared}.{instance}"),
            None => shared.to_owned(),
        }
    }

    /// The same instance of a program of another name.
    pub(crate) fn of(&self, program: &str) -> Self {
        Self { program: program.to_owned(), instance: self.instance.clone() }
    }
}

/// `shop`, or `shop.blue` with an instance name.
impl fmt::Display for Installation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name(&self.program))
    }
}
