//! Parses events and pages from bytes.

mod body;
mod cutter;
mod protobuf;

use std::ops::Range;

use super::{Event, RetrieveError};
use crate::object::scan::{Cursor, Frame, ScanError};
use crate::object::{Object, head};
pub(super) use body::{EventReader, PageReader};
use cutter::Cutter;

/// The annotation of the bookmark that ends a streaming list; its value is checked.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A longer line is not an object: the API server rejects objects of 3 MiB.
const LONGEST_LINE: usize = 64 << 20;

/// Cuts a body into lines without copying a byte twice.
#[derive(Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// The start of the next line.
    start: usize,
    /// The position up to which no end of line was found.
    searched: usize,
}

impl Lines {
    fn push(&mut self, chunk: &[u8]) -> Result<(), RetrieveError> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.len() + chunk.len() > LONGEST_LINE {
            return Err(RetrieveError::InvalidResponse(format!(
                "it has a line of more than {} MiB",
                LONGEST_LINE >> 20
            )));
        }
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// The next complete line.
    fn next(&mut self) -> Option<&[u8]> {
        loop {
            let rest = self.buffer.get(self.searched..)?;
            let Some(found) = memchr::memchr(b'\n', rest) else {
                self.searched = self.buffer.len();
                return None;
            };
            let line = self.start..self.searched + found;
            self.searched = line.end + 1;
            self.start = self.searched;
            if !line.is_empty() {
                return self.buffer.get(line);
            }
        }
    }
}

/// Parses one line of a watch.
fn event(line: &[u8]) -> Result<Event, RetrieveError> {
    let mut kind = None;
    let mut frame = None;
    let mut cursor = Cursor::new(line);
    cursor.space();
    cursor
        .members(|cursor, key| {
            match key {
                b"type" => kind = cursor.string_value()?,
                b"object" if cursor.peek() == Some(b'{') => {
                    let found = Frame::scan(line, cursor.at)?;
                    cursor.at = found.whole.end;
                    frame = Some(found);
                }
                _ => cursor.skip()?,
            }
            Ok(())
        })
        .map_err(|broken| broken_line(broken, line))?;
    let kind = kind.and_then(|range| line.get(range)).unwrap_or_default();
    let frame = frame.ok_or_else(|| broken_line(ScanError("it has no object"), line))?;
    let object = || Object::from_frame(line, &frame);
    let event = match kind {
        b"ADDED" => object().map(Event::Added),
        b"MODIFIED" => object().map(Event::Modified),
        b"DELETED" => object().map(Event::Deleted),
        b"BOOKMARK" => return Ok(bookmark(line, &frame)),
        b"ERROR" => return Err(super::status::status_error(line.get(frame.whole).unwrap_or_default(), None, None)),
        other => {
            let kind = String::from_utf8_lossy(other);
            return Err(RetrieveError::InvalidResponse(format!("it has a watch event of the unknown type `{kind}`")));
        }
    };
    Ok(event.unwrap_or_else(Event::Malformed))
}

fn bookmark(line: &[u8], frame: &Frame) -> Event {
    let text = |range: &Option<Range<usize>>| range.clone().and_then(|range| line.get(range)).unwrap_or_default();
    let end = serde_json::from_slice::<std::collections::BTreeMap<String, String>>(text(&frame.annotations))
        .is_ok_and(|annotations| annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"));
    Event::Bookmark { version: String::from_utf8_lossy(text(&frame.version)).into_owned(), initial_events_end: end }
}

fn broken_line(broken: ScanError, text: &[u8]) -> RetrieveError {
    let (bytes, head) = (text.len(), head(text));
    RetrieveError::InvalidResponse(format!("{}; it has {bytes} bytes and begins with {head:?}", broken.0))
}

#[cfg(test)]
mod tests;
