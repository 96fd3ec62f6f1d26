//! Protobuf as the JSON that it stands for, so that it is written and compared as any other body.

use std::borrow::Cow;

use kooper_protobuf::watch::{Event, LENGTH};
use kooper_protobuf::{CONTENT_TYPE, Envelope, Kind};
use serde_json::{Value, json};

use crate::case::Step;

/// The bytes of a request's body: an object in protobuf where the request has that type.
pub(crate) fn body(step: &Step) -> Vec<u8> {
    let object: Option<Value> = serde_json::from_str(&step.body).ok();
    let object = object.filter(|_| step.header("content-type") == Some(CONTENT_TYPE));
    let encoded = object.and_then(|object| {
        let kind = Kind::of(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
        Some(kind.encode(&object).expect("the case has an object of its kind"))
    });
    encoded.unwrap_or_else(|| step.body.clone().into_bytes())
}

/// The text of an answer: JSON where it is an object in protobuf.
pub(crate) fn text(bytes: &[u8]) -> String {
    object(bytes).map_or_else(|| String::from_utf8_lossy(bytes).into_owned(), |object| object.to_string())
}

/// The lines of a watch, of which frames have one each.
pub(crate) fn lines(bytes: &[u8]) -> Cow<'_, str> {
    // The length of a frame begins with a zero, and a line with a brace.
    if bytes.first() != Some(&0) {
        return String::from_utf8_lossy(bytes);
    }
    let (mut lines, mut rest) = (String::new(), bytes);
    while let Some((length, after)) = rest.split_at_checked(LENGTH) {
        let length = u32::from_be_bytes(length.try_into().expect("it has this length")) as usize;
        let Some((frame, after)) = after.split_at_checked(length) else { break };
        let event = Event::read(frame).expect("a frame is an event");
        let object = object(event.object).expect("an event has an object");
        lines += &json!({"type": event.kind, "object": object}).to_string();
        lines.push('\n');
        rest = after;
    }
    lines.into()
}

fn object(bytes: &[u8]) -> Option<Value> {
    let envelope = Envelope::open(bytes).ok()?;
    let kind = match envelope.api_version() {
        "" => Kind::of("v1", envelope.kind())?.without_version(),
        version => Kind::of(version, envelope.kind())?,
    };
    Some(kind.decode_value(envelope.raw()).expect("a server sends what can be decoded"))
}
