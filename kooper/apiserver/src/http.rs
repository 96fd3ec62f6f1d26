//! The outer walls: what a request asks, what an answer carries.

pub(crate) mod accept;
mod answer;
mod query;
mod request;
pub(crate) mod syntax;
mod warnings;

use bytes::BytesMut;

pub(crate) use self::answer::Answer;
pub use self::answer::Body;
pub(crate) use self::query::Query;
pub(crate) use self::request::Request;

/// Appends one event of a watch: its type, and an object in JSON.
pub(crate) fn write_event(lines: &mut BytesMut, event: &str, object: &[u8]) {
    lines.reserve(object.len() + 32);
    lines.extend_from_slice(b"{\"type\":\"");
    lines.extend_from_slice(event.as_bytes());
    lines.extend_from_slice(b"\",\"object\":");
    lines.extend_from_slice(object);
    lines.extend_from_slice(b"}\n");
}
