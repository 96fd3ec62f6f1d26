//! Paths of fields, such as `spec.replicas` and `metadata.labels['example.com/tier']`.

use std::error::Error;
use std::fmt;

/// One name of a path: a field, or the key of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where the name begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Where the next one begins.
    pub next: usize,
}

/// Checks a path.
///
/// # Errors
///
/// If it is not the path of a field.
pub fn check(path: &str) -> Result<(), FieldPathError> {
    let invalid = |problem| FieldPathError { path: path.to_owned(), problem };
    let mut at = 0;
    while let Some(segment) = segment(path.as_bytes(), at) {
        let name = path.get(segment.start..segment.end).unwrap_or_default();
        let is_key = segment.start != at;
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if name.is_empty() {
            return Err(invalid(Problem::Empty));
        }
        let (before, after) = (path.get(at..).unwrap_or_default(), path.get(segment.end..).unwrap_or_default());
        let after = after.strip_prefix("']").filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        if is_key && (at == 0 || !before.starts_with("['") || after.is_none()) {
            return Err(invalid(Problem::Key));
        }
        if !is_key && !is_name(name) {
            return Err(invalid(Problem::Name));
        }
        if segment.next == path.len() && path.ends_with('.') {
            return Err(invalid(Problem::Empty));
        }
        at = segment.next;
    }
    if at == 0 { Err(invalid(Problem::Empty)) } else { Ok(()) }
}

/// The names of a path, from the outermost.
pub fn names(path: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let segment = segment(path.as_bytes(), at)?;
        at = segment.next;
        path.get(segment.start..segment.end)
    })
}

/// The name that begins at `at`; `None` at the end.
#[must_use]
pub const fn segment(path: &[u8], at: usize) -> Option<Segment> {
    if at >= path.len() {
        return None;
    }
    let is_key = path[at] == b'[';
    let start = within(path, if is_key { at + 2 } else { at });
    let mut end = start;
    while end < path.len() {
        match (is_key, path[end]) {
            (true, b'\'') | (false, b'.' | b'[') => break,
            _ => end += 1,
        }
    }
    // Behind `']`, and behind a dot.
    let mut next = within(path, if is_key { end + 2 } else { end });
    if next < path.len() && path[next] == b'.' {
        next += 1;
    }
    Some(Segment { start, end, next })
}

const fn within(path: &[u8], at: usize) -> usize {
    if at < path.len() { at } else { path.len() }
}

/// A string that is not the path of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPathError {
    path: String,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    Empty,
    Key,
    Name,
}

impl Error for FieldPathError {}

impl fmt::Display for FieldPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, problem) = (&self.path, self.problem);
        match problem {
            Problem::Empty => write!(
                f,
                "the path {path:?} has an empty name: write names with dots between them, such as \"spec.replicas\""
            ),
            Problem::Key => write!(
                f,
                "the path {path:?} has invalid brackets: write the key of a map as in \"metadata.labels['example.com/tier']\", and a list without an index"
            ),
            Problem::Name => write!(
                f,
                "the path {path:?} is not the path of a field: write the names of the fields as in JSON, such as \"spec.replicas\""
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_names_and_keys() {
        for (path, expected) in [
            ("spec", vec!["spec"]),
            ("spec.replicas", vec!["spec", "replicas"]),
            ("metadata.labels['example.com/tier']", vec!["metadata", "labels", "example.com/tier"]),
            ("spec.nodes['a.b'].size", vec!["spec", "nodes", "a.b", "size"]),
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
            assert_eq!(names(path).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn other_strings_are_no_paths() {
        for (path, expected) in [
            ("", "has an empty name"),
            (".spec", "has an empty name"),
            ("spec.", "has an empty name"),
            ("spec..replicas", "has an empty name"),
            ("spec['']", "has an empty name"),
            ("spec.containers[0]", "has invalid brackets"),
            ("spec.containers[", "has"),
            ("metadata.labels['a", "has invalid brackets"),
            ("metadata.labels['a'", "has invalid brackets"),
            ("['spec']", "has invalid brackets"),
            ("metadata.labels['a']b", "has invalid brackets"),
            ("metadata.labels[xa']", "has invalid brackets"),
            ("metadata.labels.example.com/tier", "is not the path of a field"),
            ("spec replicas", "is not the path of a field"),
            ("$.spec", "is not the path of a field"),
        ] {
            let error = check(path).expect_err(path).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
