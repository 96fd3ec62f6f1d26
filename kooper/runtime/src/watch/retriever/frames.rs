//! Parses events and pages from bytes.

mod body;
mod json_page;
mod protobuf;

use std::ops::Range;

use bytes::Bytes;

use super::{Event, RetrieveError};
use crate::object::scan::{Cursor, ObjectRanges, ScanError};
use crate::object::{MalformedObject, Object, head};
pub(super) use body::{EventReader, PageReader};
use json_page::JsonPage;

/// The annotation of the bookmark that ends a streaming list; its value is checked.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A longer line is not an object: the API server rejects objects of 3 MiB.
const LONGEST_LINE: usize = 64 << 20;

/// Memory beyond this is not kept for the next object.
const KEPT: usize = 64 << 10;

/// Cuts a body into lines. Only a line that arrives in several parts is copied.
#[derive(Default)]
pub(super) struct Lines {
    chunk: Bytes,
    /// The position in the chunk of the next line, or of its rest.
    start: usize,
    /// The first part of a line whose rest has not arrived.
    part: Vec<u8>,
    /// `true` if `part` is a complete line that was returned.
    returned: bool,
}

impl Lines {
    /// Takes the next part of the body; the lines of the last one were read.
    fn push(&mut self, chunk: Bytes) -> Result<(), RetrieveError> {
        self.clear();
        (self.chunk, self.start) = (chunk, 0);
        if self.part.len() + self.chunk.len() > LONGEST_LINE {
            return Err(too_long("a line", LONGEST_LINE));
        }
        Ok(())
    }

    /// The next complete line.
    fn next(&mut self) -> Option<&[u8]> {
        self.clear();
        loop {
            let rest = self.chunk.get(self.start..)?;
            let Some(length) = memchr::memchr(b'\n', rest) else {
                self.part.extend_from_slice(rest);
                self.start = self.chunk.len();
                return None;
            };
            let line = self.start..self.start + length;
            self.start = line.end + 1;
            if !self.part.is_empty() {
                self.part.extend_from_slice(self.chunk.get(line)?);
                self.returned = true;
                return Some(&self.part);
            }
            if !line.is_empty() {
                return self.chunk.get(line);
            }
        }
    }

    /// Forgets the line that was returned.
    fn clear(&mut self) {
        if std::mem::take(&mut self.returned) {
            self.part.clear();
            self.part.shrink_to(KEPT);
        }
    }
}

/// Parses one line of a watch.
fn event(line: &[u8]) -> Result<Event, RetrieveError> {
    let mut kind = None;
    let mut ranges = None;
    let mut cursor = Cursor::new(line);
    cursor.space();
    cursor
        .members(|cursor, key| {
            match key {
                b"type" => kind = cursor.string_value()?,
                b"object" if cursor.peek() == Some(b'{') => {
                    let found = ObjectRanges::scan(line, cursor.at)?;
                    cursor.at = found.whole.end;
                    ranges = Some(found);
                }
                _ => cursor.skip()?,
            }
            Ok(())
        })
        .map_err(|broken| broken_line(broken, line))?;
    let kind = kind.and_then(|range| line.get(range)).unwrap_or_default();
    let ranges = ranges.ok_or_else(|| broken_line(ScanError("it has no object"), line))?;
    match kind {
        b"BOOKMARK" => Ok(bookmark(line, &ranges)),
        b"ERROR" => Err(super::status::status_error(line.get(ranges.whole).unwrap_or_default(), None, None)),
        kind => change(&String::from_utf8_lossy(kind), || Object::from_ranges(line, &ranges)),
    }
}

/// The event of this type about an object.
fn change(kind: &str, object: impl FnOnce() -> Result<Object, MalformedObject>) -> Result<Event, RetrieveError> {
    Ok(match kind {
        "ADDED" => object().map_or_else(Event::Malformed, Event::Added),
        "MODIFIED" => object().map_or_else(Event::Malformed, Event::Modified),
        "DELETED" => object().map_or_else(Event::MalformedDeletion, Event::Deleted),
        _ => {
            return Err(RetrieveError::InvalidResponse(format!("it has a watch event of the unknown type `{kind}`")));
        }
    })
}

fn bookmark(line: &[u8], ranges: &ObjectRanges) -> Event {
    let text = |range: &Option<Range<usize>>| range.clone().and_then(|range| line.get(range)).unwrap_or_default();
    let end = serde_json::from_slice::<std::collections::BTreeMap<String, String>>(text(&ranges.annotations))
        .is_ok_and(|annotations| annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"));
    Event::Bookmark { version: String::from_utf8_lossy(text(&ranges.version)).into_owned(), initial_events_end: end }
}

fn too_long(what: &str, limit: usize) -> RetrieveError {
    RetrieveError::InvalidResponse(format!("it has {what} of more than {} MiB", limit >> 20))
}

fn broken_line(broken: ScanError, text: &[u8]) -> RetrieveError {
    let (bytes, head) = (text.len(), head(text));
    RetrieveError::InvalidResponse(format!("{}; it has {bytes} bytes and begins with {head:?}", broken.0))
}

#[cfg(test)]
mod tests;
