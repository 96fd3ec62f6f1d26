//! Bodies of responses, read by their own Content-Type.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use kooper_protobuf as protobuf;

use super::protobuf::{Frames, ProtobufPage};
use super::{JsonPage, Lines, event};
use crate::watch::retriever::{Event, Page, RetrieveError};

/// Reads the body of a list while it arrives.
pub(in crate::watch::retriever) enum PageReader {
    Json(JsonPage),
    Protobuf(ProtobufPage),
}

/// Reads the body of a watch while it arrives.
pub(in crate::watch::retriever) enum EventReader {
    Json(Lines),
    Protobuf(Frames),
}

impl PageReader {
    pub(in crate::watch::retriever) fn of(headers: &HeaderMap) -> Self {
        if is_protobuf(headers) { Self::Protobuf(ProtobufPage::default()) } else { Self::Json(JsonPage::default()) }
    }

    pub(in crate::watch::retriever) fn push(&mut self, chunk: &[u8]) -> Result<(), RetrieveError> {
        match self {
            Self::Json(page) => page.push(chunk),
            Self::Protobuf(page) => page.push(chunk),
        }
    }

    pub(in crate::watch::retriever) fn end(self) -> Result<Page, RetrieveError> {
        match self {
            Self::Json(page) => page.end(),
            Self::Protobuf(page) => page.end(),
        }
    }
}

impl EventReader {
    pub(in crate::watch::retriever) fn of(headers: &HeaderMap) -> Self {
        if is_protobuf(headers) { Self::Protobuf(Frames::default()) } else { Self::Json(Lines::default()) }
    }

    /// Takes the next part of the body; the events of the last one were read.
    pub(in crate::watch::retriever) fn push(&mut self, chunk: Bytes) -> Result<(), RetrieveError> {
        match self {
            Self::Json(lines) => lines.push(chunk),
            Self::Protobuf(frames) => {
                frames.push(chunk);
                Ok(())
            }
        }
    }

    /// The next event that is complete.
    pub(in crate::watch::retriever) fn next(&mut self) -> Option<Result<Event, RetrieveError>> {
        match self {
            Self::Json(lines) => lines.next().map(event),
            Self::Protobuf(frames) => frames.next(),
        }
    }
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().is_some_and(|media| media.trim() == protobuf::CONTENT_TYPE)
}
