//! Events and pages in protobuf. Objects are kept as they are, without
//! `managedFields`; nothing behind an [`Object`](crate::object::Object) knows how it was sent.

mod objects;

use bytes::Bytes;
use kooper_protobuf::watch::{Event as WatchEvent, LENGTH};
use kooper_protobuf::{DecodeError, Envelope, ListReader};
use serde_json::Value;

use super::{INITIAL_EVENTS_END, KEPT, LONGEST_LINE, change, too_long};
use crate::object::MalformedObject;
use crate::watch::retriever::status::status_error;
use crate::watch::retriever::{Event, Page, RetrieveError};
use objects::Objects;

/// Splits the body of a list into objects while it arrives.
#[derive(Default)]
pub(in crate::watch::retriever) struct ProtobufPage {
    reader: ListReader,
    page: Page,
    objects: Objects,
}

impl ProtobufPage {
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), RetrieveError> {
        let Self { reader, page, objects } = self;
        reader
            .push(chunk, |kind, item| page.objects.push(objects.read(kind, item)))
            .map_err(|error| invalid(&error))?;
        if reader.held() > LONGEST_LINE { Err(too_long("an object", LONGEST_LINE)) } else { Ok(()) }
    }

    pub(super) fn end(mut self) -> Result<Page, RetrieveError> {
        let metadata = self.reader.finish().map_err(|error| invalid(&error))?;
        self.page.version = metadata.version;
        self.page.continue_token = Some(metadata.continue_token).filter(|token| !token.is_empty());
        Ok(self.page)
    }
}

/// Splits the body of a watch into events. Only an event that arrives in several
/// parts is copied.
#[derive(Default)]
pub(in crate::watch::retriever) struct Frames {
    chunk: Bytes,
    /// The first part of an event whose rest has not arrived.
    part: Vec<u8>,
    objects: Objects,
}

impl Frames {
    /// Takes the next part of the body; the events of the last one were read.
    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// The next complete event.
    pub(super) fn next(&mut self) -> Option<Result<Event, RetrieveError>> {
        if !self.part.is_empty() {
            self.complete(LENGTH);
        }
        let head = if self.part.is_empty() { &self.chunk[..] } else { &self.part[..] };
        let Some(length) = head.first_chunk().map(|length| u32::from_be_bytes(*length) as usize) else {
            return self.keep();
        };
        if length > LONGEST_LINE {
            (self.chunk, self.part) = Default::default();
            return Some(Err(too_long("an object", LONGEST_LINE)));
        }
        let end = LENGTH + length;
        if self.part.is_empty() {
            if self.chunk.len() < end {
                self.part.reserve(end.min(KEPT));
                return self.keep();
            }
            let frame = self.chunk.split_to(end);
            return Some(event(&frame[LENGTH..], &mut self.objects));
        }
        self.complete(end);
        if self.part.len() < end {
            return None;
        }
        let event = event(&self.part[LENGTH..], &mut self.objects);
        self.part.clear();
        self.part.shrink_to(KEPT);
        Some(event)
    }

    /// Moves bytes from the chunk until the part has so many.
    fn complete(&mut self, length: usize) {
        let missing = length.saturating_sub(self.part.len()).min(self.chunk.len());
        self.part.extend_from_slice(&self.chunk.split_to(missing));
    }

    /// Keeps the rest of the chunk as the first part of an event.
    fn keep<T>(&mut self) -> Option<T> {
        self.part.extend_from_slice(&std::mem::take(&mut self.chunk));
        None
    }
}

fn event(frame: &[u8], objects: &mut Objects) -> Result<Event, RetrieveError> {
    let event = WatchEvent::read(frame).map_err(|error| invalid(&error))?;
    let envelope = match Envelope::open(event.object) {
        Ok(envelope) => envelope,
        // The frame has its length, so the events after it can be read.
        Err(error) if matches!(&*event.kind, "ADDED" | "MODIFIED" | "DELETED") => {
            return change(&event.kind, || Err(MalformedObject::new(error.to_string(), event.object)));
        }
        Err(error) => return Err(invalid(&error)),
    };
    let kind = objects.kind(&envelope).ok_or_else(|| {
        let (kind, version) = (envelope.kind(), envelope.api_version());
        RetrieveError::InvalidResponse(format!("it has an object of the unknown kind `{kind}` of `{version}`"))
    })?;
    match &*event.kind {
        "BOOKMARK" => bookmark(&kind.decode_value(envelope.raw()).map_err(|error| invalid(&error))?),
        "ERROR" => Err(status_error(event.object, None, None)),
        event_type => change(event_type, || objects.read(kind, envelope.raw())),
    }
}

fn bookmark(object: &Value) -> Result<Event, RetrieveError> {
    let metadata = &object["metadata"];
    Ok(Event::Bookmark {
        version: metadata["resourceVersion"].as_str().unwrap_or_default().to_owned(),
        initial_events_end: metadata["annotations"][INITIAL_EVENTS_END] == "true",
    })
}

fn invalid(error: &DecodeError) -> RetrieveError {
    RetrieveError::InvalidResponse(error.to_string())
}

#[cfg(test)]
mod tests;
