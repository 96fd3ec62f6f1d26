//! The changes of a function, as a JSON patch of the object that the API server sent.
//!
//! A type knows some fields of an object, and writes others than it read: defaults, nulls,
//! another form of a quantity. So the patch is not the difference of the raw object and the
//! result. [`rebase`] applies to the raw object what the function changed in its typed form;
//! [`operations`] are the difference of both.

mod operations;

use kooper_access::internal::rebase;
use serde_json::Value;

pub(crate) use operations::Patch;

/// Why there is no patch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The values belong to who applied them: if a webhook overwrites them, two clients that
    /// apply the same object conflict with each other.
    #[error(
        "`{function}` changed {}, which is already set: fill in only absent fields, or set `overwrite`",
        quoted(paths)
    )]
    Present { function: String, paths: Vec<String> },
    #[error("`{function}` changed {}, which no webhook may change", quoted(paths))]
    Reserved { function: String, paths: Vec<String> },
    #[error("the object is not a map")]
    NotAnObject,
}

/// The most paths that a message names.
const NAMED: usize = 5;

fn quoted(paths: &[String]) -> String {
    let named: Vec<_> = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
    let more = paths.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    named.join(", ") + &more
}

/// The fields that a patch never has: the server keeps the one, and the other has its own writers.
const RESERVED: [[&str; 2]; 2] = [["metadata", "managedFields"], ["status", ""]];

/// The patch of `raw` for what the function changed, from the typed object `before` to
/// `after`. With `overwrite` it may change and remove what is there.
pub(crate) fn patch(
    function: &str,
    before: &Value,
    after: &Value,
    raw: &Value,
    overwrite: bool,
) -> Result<Patch, PatchError> {
    let at = |value: &Value, path: [&str; 2]| match path {
        [field, ""] => value.get(field).cloned(),
        [field, inner] => value.get(field).and_then(|value| value.get(inner)).cloned(),
    };
    let reserved = RESERVED.into_iter().filter(|path| at(before, *path) != at(after, *path));
    let paths: Vec<_> = reserved.map(|path| path.join(".").trim_end_matches('.').to_owned()).collect();
    if !paths.is_empty() {
        return Err(PatchError::Reserved { function: function.to_owned(), paths });
    }
    if !raw.is_object() {
        return Err(PatchError::NotAnObject);
    }
    let (changed, paths) = rebase(before, after, raw);
    if !overwrite && !paths.is_empty() {
        return Err(PatchError::Present { function: function.to_owned(), paths });
    }
    Ok(operations::between(raw, &changed))
}

#[cfg(test)]
mod tests;
