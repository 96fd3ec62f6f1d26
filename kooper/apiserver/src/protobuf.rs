//! Protobuf at the wall: inside, everything is JSON.

use kooper_protobuf::watch::{Event, write_frame};
use kooper_protobuf::{EncodeError, Envelope};
use serde_json::{Value, json};

use crate::status::StatusError;

pub(crate) use kooper_protobuf::watch::CONTENT_TYPE as WATCH;
pub(crate) use kooper_protobuf::{CONTENT_TYPE, Kind, List};

/// Error in the body of a request.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// It is not an object of any kind.
    Unrecognized(String),
    /// It is not an object of the kind that it names, which is the message's beginning.
    Kind { kind: String, version: String, why: String },
}

/// The object of a body; `kind` and `api_version` are what it is where it does not say so.
///
/// An object of a kind that has no messages is only its kind. Nothing is an object of a `custom` kind.
pub(crate) fn read(body: &[u8], api_version: &str, kind: &str, custom: bool) -> Result<Value, BodyError> {
    if body.is_empty() {
        return Err(BodyError::Unrecognized("empty data".to_owned()));
    }
    if !Envelope::is(body) {
        let why = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
        return Err(BodyError::Unrecognized(why.to_owned()));
    }
    let envelope = Envelope::open(body).map_err(|error| BodyError::Unrecognized(error.to_string()))?;
    let or = |found: &'_ str, default: &str| if found.is_empty() { default.to_owned() } else { found.to_owned() };
    let (api_version, kind) = (or(envelope.api_version(), api_version), or(envelope.kind(), kind));
    let decoded = match Kind::of(&api_version, &kind) {
        _ if custom => Err("Object 'Kind' is missing in 'object has no kind field '".to_owned()),
        Some(of) => of.decode_value(envelope.raw()).map_err(|error| error.to_string()),
        None => Ok(json!({"apiVersion": api_version, "kind": kind})),
    };
    let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
    decoded.map_err(|why| BodyError::Kind { kind, version, why })
}

/// The kind of an object, if it has an encoding.
fn kind_of(object: &Value) -> Option<Kind> {
    let kind = object["kind"].as_str()?;
    match object["apiVersion"].as_str() {
        Some(version) => Kind::of(version, kind),
        // The discovery of the oldest group.
        None => Kind::of("v1", kind).map(Kind::without_version),
    }
}

/// An answer's body; `None` where it has no encoding and stays what it is.
pub(crate) fn write(body: &[u8]) -> Option<Result<Vec<u8>, StatusError>> {
    let object: Value = serde_json::from_slice(body).ok()?;
    Some(kind_of(&object)?.encode(&object).map_err(|error| refusal(&error)))
}

/// The refusal of an object that cannot be encoded.
pub(crate) fn refusal(error: &EncodeError) -> StatusError {
    StatusError::internal(format!("the object cannot be encoded in protobuf: {error}"))
}

/// Makes frames of the lines of a watch.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Frames {
    /// The frames of a part.
    pub(crate) fn push(&mut self, part: &[u8]) -> Vec<u8> {
        let mut frames = Vec::with_capacity(part.len());
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if self.rest.ends_with(b"\n") {
                frame(&mut frames, &self.rest);
                self.rest.clear();
            }
        }
        frames
    }

    /// Returns the incomplete frame of a line that is cut off.
    pub(crate) fn cut(&mut self) -> Vec<u8> {
        let mut frame = Vec::new();
        write_frame(&mut frame, &self.rest);
        frame.truncate(self.rest.len());
        self.rest.clear();
        frame
    }
}

fn frame(to: &mut Vec<u8>, line: &[u8]) {
    let event: Option<(Value, Kind)> = serde_json::from_slice(line).ok().and_then(|event: Value| {
        let kind = kind_of(&event["object"])?;
        Some((event, kind))
    });
    let Some((event, kind)) = event else {
        // A line that a fault has corrupt is a corrupt frame.
        return write_frame(to, line);
    };
    let of = event["type"].as_str().unwrap_or_default();
    match kind.encode(&event["object"]) {
        Ok(object) => Event { kind: of.into(), object: &object }.write(to),
        Err(error) => {
            let status = refusal(&error).to_value();
            let object = kind_of(&status).and_then(|kind| kind.encode(&status).ok()).unwrap_or_default();
            Event { kind: "ERROR".into(), object: &object }.write(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use kooper_protobuf::watch::{Event, LENGTH};
    use kooper_protobuf::{Envelope, Kind};
    use serde_json::json;

    use super::{BodyError, Frames, read};

    fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some((length, rest)) = bytes.split_at_checked(LENGTH) {
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
            let (frame, rest) = rest.split_at(length);
            frames.push(frame.to_vec());
            bytes = rest;
        }
        frames
    }

    #[test]
    fn each_line_is_a_frame_however_it_is_cut() {
        let line = |name: &str| {
            let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}});
            json!({"type": "ADDED", "object": object}).to_string() + "\n"
        };
        let lines = line("a") + &line("b");
        for at in 0..lines.len() {
            let mut cutter = Frames::default();
            let (one, other) = lines.as_bytes().split_at(at);
            let bytes = [cutter.push(one), cutter.push(other)].concat();
            let found: Vec<_> = frames(&bytes)
                .iter()
                .map(|frame| {
                    let event = Event::read(frame).unwrap();
                    assert_eq!(event.kind, "ADDED");
                    let envelope = Envelope::open(event.object).unwrap();
                    let object = Kind::of("v1", "ConfigMap").unwrap().decode_value(envelope.raw()).unwrap();
                    object["metadata"]["name"].as_str().unwrap().to_owned()
                })
                .collect();
            assert_eq!(found, ["a", "b"]);
        }
    }

    #[test]
    fn an_object_that_has_no_encoding_ends_the_watch_with_an_error() {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "immutable": "yes"});
        let line = json!({"type": "ADDED", "object": object}).to_string() + "\n";
        let frames = frames(&Frames::default().push(line.as_bytes()));
        let event = Event::read(&frames[0]).unwrap();
        assert_eq!(event.kind, "ERROR");
        let status = Kind::of("v1", "Status").unwrap();
        let status = status.decode_value(Envelope::open(event.object).unwrap().raw()).unwrap();
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("io.k8s.api.core.v1.ConfigMap.immutable"), "{message}");
    }

    #[test]
    fn what_is_garbled_stays_garbled() {
        let mut cutter = Frames::default();
        assert_eq!(cutter.push(b"{\"type\n"), b"\0\0\0\x07{\"type\n");
        assert!(cutter.push(b"{\"type\":").is_empty());
        assert_eq!(cutter.cut(), b"\0\0\0\x08{\"ty");
    }

    #[test]
    fn the_kind_of_a_body_is_by_default_that_of_the_path() {
        let kind = Kind::of("v1", "ConfigMap").unwrap();
        let body = kind.encode(&json!({"data": {"a": "1"}})).unwrap();
        assert_eq!(read(&body, "v1", "Secret", false).unwrap()["kind"], "ConfigMap");
        let bare = b"k8s\0\x12\x0c\x12\x0a\x0a\x03key\x12\x03val";
        assert_eq!(read(bare, "v1", "ConfigMap", false).unwrap()["data"], json!({"key": "val"}));
        assert!(matches!(read(b"{}", "v1", "ConfigMap", false), Err(BodyError::Unrecognized(_))));
        assert!(matches!(read(b"k8s\0\x12\x01\x0a", "v1", "ConfigMap", false), Err(BodyError::Kind { .. })));
    }
}
