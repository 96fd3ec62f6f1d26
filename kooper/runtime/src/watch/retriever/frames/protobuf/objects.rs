//! From the protobuf of an object to the object.

use kooper_protobuf::{Envelope, JsonSink, Kind, Sink};

use super::KEPT;
use crate::object::scan::Frame;
use crate::object::{MalformedObject, Object};

/// Makes objects from their bytes.
#[derive(Default)]
pub(super) struct Objects {
    /// The text of the object that is read. Only its memory is kept.
    pub(super) text: Vec<u8>,
    /// The kind of the last object: all are of one kind, except bookmarks and errors.
    kind: Option<Kind>,
}

impl Objects {
    /// The kind in an envelope, if the table knows it.
    pub(super) fn kind(&mut self, envelope: &Envelope<'_>) -> Option<Kind> {
        let (api_version, name) = (envelope.api_version(), envelope.kind());
        let known = self.kind.filter(|kind| kind.name() == name && kind.api_version() == api_version);
        self.kind = known.or_else(|| Kind::of(api_version, name));
        self.kind
    }

    pub(super) fn read(&mut self, kind: Kind, raw: &[u8]) -> Result<Object, MalformedObject> {
        let object = match Object::from_protobuf(kind, raw, &mut self.text) {
            Some(object) => Ok(object),
            None => self.decode(kind, raw).and_then(|frame| Object::from_frame(&self.text, &frame)),
        };
        self.text.clear();
        self.text.shrink_to(KEPT);
        object
    }

    /// Puts the JSON of the object into `text`.
    pub(super) fn decode(&mut self, kind: Kind, raw: &[u8]) -> Result<Frame, MalformedObject> {
        self.text.clear();
        let mut sink = ObjectSink::new(std::mem::take(&mut self.text));
        kind.decode(raw, &mut sink).map_err(|error| MalformedObject::undecodable(&error, raw))?;
        let (json, frame) = sink.finish();
        self.text = json;
        Ok(frame)
    }
}

/// Writes the JSON of an object without `metadata.managedFields`, and records where
/// its identity is, so that the JSON is not scanned for it.
struct ObjectSink {
    json: JsonSink,
    frame: Frame,
    depth: usize,
    in_metadata: bool,
    /// The part that the next string is recorded as, if any.
    part: Option<Part>,
    /// Where the list of owners begins.
    owners: Option<usize>,
}

/// The strings of the metadata that are recorded.
#[derive(Clone, Copy)]
enum Part {
    Name,
    Namespace,
    Uid,
    Version,
    /// Its value does not matter.
    DeletionTimestamp,
}

/// The nesting depth within an object, and within its metadata.
const OBJECT: usize = 1;
const METADATA: usize = 2;

impl ObjectSink {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            json: JsonSink::new(bytes),
            frame: Frame::default(),
            depth: 0,
            in_metadata: false,
            part: None,
            owners: None,
        }
    }

    fn finish(mut self) -> (Vec<u8>, Frame) {
        let json = self.json.into_bytes();
        self.frame.whole = 0..json.len();
        (json, self.frame)
    }
}

impl Sink for ObjectSink {
    fn wants(&mut self, key: &str) -> bool {
        !(self.depth == METADATA && self.in_metadata && key == "managedFields")
    }

    fn begin_object(&mut self) {
        self.depth += 1;
        self.json.begin_object();
    }

    fn key(&mut self, key: &str) {
        self.json.key(key);
        match self.depth {
            OBJECT => self.in_metadata = key == "metadata",
            METADATA if self.in_metadata => {
                self.part = match key {
                    "name" => Some(Part::Name),
                    "namespace" => Some(Part::Namespace),
                    "uid" => Some(Part::Uid),
                    "resourceVersion" => Some(Part::Version),
                    "deletionTimestamp" => Some(Part::DeletionTimestamp),
                    _ => None,
                };
                self.owners = (key == "ownerReferences").then(|| self.json.bytes().len());
            }
            _ => {}
        }
    }

    fn end_object(&mut self) {
        self.depth -= 1;
        self.json.end_object();
    }

    fn begin_list(&mut self) {
        self.depth += 1;
        self.json.begin_list();
    }

    fn end_list(&mut self) {
        self.depth -= 1;
        self.json.end_list();
        if self.depth == METADATA
            && let Some(start) = self.owners.take()
        {
            self.frame.owners = Some(start..self.json.bytes().len());
        }
    }

    fn null(&mut self) {
        self.json.null();
    }

    fn bool(&mut self, value: bool) {
        self.json.bool(value);
    }

    fn int(&mut self, value: i64) {
        self.json.int(value);
    }

    fn float(&mut self, value: f64) {
        self.json.float(value);
    }

    fn string(&mut self, value: &str) {
        // Behind a key there is no comma, only a quote.
        let start = self.json.bytes().len() + 1;
        self.json.string(value);
        let Some(part) = self.part.take() else { return };
        let text = Some(start..self.json.bytes().len() - 1);
        match part {
            Part::Name => self.frame.name = text,
            Part::Namespace => self.frame.namespace = text,
            Part::Uid => self.frame.uid = text,
            Part::Version => self.frame.version = text,
            Part::DeletionTimestamp => self.frame.terminating = true,
        }
    }

    fn json(&mut self, value: &[u8]) -> Result<(), serde_json::Error> {
        self.json.json(value)
    }
}
