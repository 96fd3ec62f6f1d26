//! The frames of a watch: a length, and an event that contains an object.

use std::borrow::Cow;

use crate::encode::ReverseWriter;
use crate::envelope::each;
use crate::error::DecodeError;
use crate::wire::Span;

/// The media type of a watch.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The size of a frame's length prefix, in bytes. The prefix is big-endian.
pub const LENGTH: usize = 4;

/// An event of a watch.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: Cow<'a, str>,
    /// The object with its envelope, see [`Envelope`](crate::Envelope).
    pub object: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads an event from a frame, which is given without its length.
    ///
    /// # Errors
    ///
    /// If the frame is not an event.
    pub fn read(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut event = Self { kind: "".into(), object: &[] };
        let mut object = Span::default();
        each("the event", Span { bytes: frame, offset: 0 }, |number, value| match number {
            1 => event.kind = value.text(),
            2 => object = value,
            _ => {}
        })?;
        each("the event.object", object, |number, value| {
            if number == 1 {
                event.object = value.bytes;
            }
        })?;
        Ok(event)
    }

    /// Appends the event with its length.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut bytes = ReverseWriter::default();
        bytes.bytes(1, self.object);
        bytes.length(2, 0);
        bytes.bytes(1, self.kind.as_bytes());
        write_frame(to, &bytes.into_bytes());
    }
}

/// Appends a frame with its length.
pub fn write_frame(to: &mut Vec<u8>, frame: &[u8]) {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(frame);
}
