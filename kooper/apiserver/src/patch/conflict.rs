//! Conflicts: fields that an applier would change and others own.
//!
//! Source: "Conflicts" of the server-side apply reference
//! (<https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts>)
//! and `managedfields/internal/conflict.go` of apimachinery.

use std::collections::BTreeMap;
use std::fmt;

use super::fields::FieldSet;
use super::format::quote;
use super::managed::{Manager, Operation};
use super::path::Path;

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its owner.
    pub manager: Manager,
    /// The field.
    pub path: Path,
}

impl Conflict {
    /// The message of its cause: `conflict with "kubectl" using apps/v1`.
    #[must_use]
    pub fn message(&self) -> String {
        format!("conflict with {}", shown(&self.manager))
    }
}

/// All conflicts of an apply, by owner and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// The conflicts with these fields of each owner; `None` if there are none.
    pub(crate) fn new(fields: BTreeMap<Manager, FieldSet>) -> Option<Self> {
        let mut owners: Vec<_> = fields.into_iter().collect();
        owners.sort_by_cached_key(|(manager, _)| manager.identifier());
        let conflicts = owners.into_iter().flat_map(|(manager, set)| {
            set.paths().into_iter().map(move |path| Conflict { manager: manager.clone(), path })
        });
        Some(Self(conflicts.collect())).filter(|conflicts| !conflicts.0.is_empty())
    }

    /// Each conflict.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }

    /// The conflicts about other fields; `None` if there are none.
    pub(crate) fn without(self, allowed: &FieldSet) -> Option<Self> {
        let rest: Vec<_> = self.0.into_iter().filter(|conflict| !allowed.contains(&conflict.path.0)).collect();
        (!rest.is_empty()).then_some(Self(rest))
    }
}

/// The message of the real server's 409.
impl fmt::Display for Conflicts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(formatter, "Apply failed with 1 conflict: {}: {}", only.message(), only.path);
        }
        write!(formatter, "Apply failed with {} conflicts: ", self.0.len())?;
        for (index, owned) in self.0.chunk_by(|left, right| left.manager == right.manager).enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(formatter, "{separator}conflicts with {}:", shown(&owned[0].manager))?;
            owned.iter().try_for_each(|conflict| write!(formatter, "\n- {}", conflict.path))?;
        }
        Ok(())
    }
}

/// A manager as messages show it.
fn shown(manager: &Manager) -> String {
    let mut shown = quote(&manager.name);
    if !manager.subresource.is_empty() {
        shown.push_str(&format!(" with subresource {}", quote(&manager.subresource)));
    }
    if manager.operation == Operation::Update {
        shown.push_str(&format!(" using {}", manager.api_version));
    }
    shown
}
