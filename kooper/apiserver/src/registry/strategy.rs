//! What a kind may do differently from others.

use serde_json::Value;

use super::row::Row;
use crate::kinds::Kind;
use crate::status::Refusal;
use crate::validate::Write;
use crate::validate::at::At;

/// A kind's part in writing and showing its objects. A method that a kind leaves out does nothing.
pub(crate) trait Strategy: Sync {
    /// Readies a new object.
    fn prepare_for_create(&self, _kind: &Kind, _object: &mut Value, _allocation: Allocation) -> Result<(), Refusal> {
        Ok(())
    }

    /// Readies the next state of an object.
    fn prepare_for_update(&self, _kind: &Kind, _object: &mut Value, _update: Update<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Adds what reads show of an object that an update has left out, once it is known to be valid.
    fn complete(&self, _object: &mut Value) {}

    /// The rules of an object, in a write that is not one of its status.
    fn validate(&self, _object: &At<'_>, _write: Write<'_>) {}

    /// The rules of a write of the status.
    fn validate_status(&self, _object: &At<'_>, _present: &Value) {}

    /// The warnings about a new object, or the next state of one: what has no effect or a surprising one.
    fn warnings(&self, _object: &Value, _present: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// The object that a row of a table shows, where that is another one.
    fn printed(&self, _object: &Value) -> Option<Value> {
        None
    }

    /// The cells of a row, where they are more than a name and a time.
    fn cells(&self, _row: Row<'_>) -> Option<Vec<Value>> {
        None
    }

    /// The conditions of a row.
    fn conditions(&self, _row: Row<'_>) -> Option<Value> {
        None
    }
}

/// A kind without anything of its own.
pub(super) struct Plain;

impl Strategy for Plain {}

/// What becomes of the addresses and ports of nodes that a new object needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    Made,
    /// By a dry run, which may have what others have.
    Tried,
    /// It gets none.
    None,
}

/// An update that a kind prepares for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update<'a> {
    pub(crate) present: &'a Value,
    /// It writes the status.
    pub(crate) status: bool,
    pub(crate) dry_run: bool,
}
