//! The lines of a watch.

use bytes::BytesMut;

/// Appends one event of a watch: its type, and an object in JSON.
pub(crate) fn write_event(lines: &mut BytesMut, event: &str, object: &[u8]) {
    lines.reserve(object.len() + 32);
    lines.extend_from_slice(b"{\"type\":\"");
    lines.extend_from_slice(event.as_bytes());
    lines.extend_from_slice(b"\",\"object\":");
    lines.extend_from_slice(object);
    lines.extend_from_slice(b"}\n");
}
