//! The fields of built-in kinds, by their names in JSON.

use crate::table::{Place, field_of, message_of};

/// A place in the schema of a built-in kind. It can be found while a program is compiled.
///
/// ```
/// use kooper_protobuf::Schema;
///
/// const POD: Schema = Schema::of("v1", "Pod").expect("it is built in");
/// const SPEC: Schema = POD.field(b"spec").expect("pods have it");
/// assert!(SPEC.field(b"nodeName").is_some() && SPEC.field(b"node").is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Schema(Place);

impl Schema {
    /// The schema of a kind; `None` if the table does not have the kind.
    #[must_use]
    pub const fn of(api_version: &str, kind: &str) -> Option<Self> {
        match message_of(api_version.as_bytes(), kind.as_bytes()) {
            Some(message) => Some(Self(Place::Message(message))),
            None => None,
        }
    }

    /// The field of this name. A map has each key, and free JSON has each field; a list and a single value have none.
    #[must_use]
    pub const fn field(self, name: &[u8]) -> Option<Self> {
        match self.0 {
            Place::Message(message) => match field_of(message, name) {
                Some(place) => Some(Self(place)),
                None => None,
            },
            Place::Free => Some(self),
            Place::Value => None,
        }
    }
}
