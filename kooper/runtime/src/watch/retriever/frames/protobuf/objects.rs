//! From the protobuf of an object to the object.

use kooper_protobuf::{Envelope, Kind};

use super::KEPT;
use crate::object::{MalformedObject, Object};

/// Makes objects from their bytes.
#[derive(Default)]
pub(super) struct Objects {
    /// The text of the object that is read. Only its memory is kept.
    text: Vec<u8>,
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
            None => kind
                .decode_json(raw)
                .map_err(|error| MalformedObject::new(error.to_string(), raw))
                .and_then(|json| Object::parse(&json)),
        };
        self.text.clear();
        self.text.shrink_to(KEPT);
        object
    }
}
