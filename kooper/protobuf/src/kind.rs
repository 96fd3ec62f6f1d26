//! A kind that the table knows.

use serde_json::Value;

use crate::canonical::is_canonical;
use crate::decode::Decoder;
use crate::encode;
use crate::envelope::MAGIC;
use crate::error::{DecodeError, EncodeError, Problem};
use crate::json::JsonSink;
use crate::table::{Message, Row, Version};
use crate::wire::Span;

/// A kind of one group and version that has an encoding in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    row: Row,
    /// `None` if the envelope has no version.
    version: Option<Version>,
}

impl Kind {
    /// The kind of these names, such as `apps/v1` and `Deployment`; `None` if the table does not have it.
    ///
    /// Lists are kinds of their own: `DeploymentList`. Custom resources have no encoding;
    /// their metadata has one, as `PartialObjectMetadata` of `meta.k8s.io/v1`.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let version = Version::of(api_version)?;
        Some(Self { row: version.kind(kind)?, version: Some(version) })
    }

    pub(crate) fn message(self) -> Message {
        self.row.message()
    }

    /// This kind without group and version in the envelope, as a Kubernetes API server answers `/api` and `/api/v1`.
    #[must_use]
    pub fn without_version(self) -> Self {
        Self { version: None, ..self }
    }

    /// The group and version, such as `apps/v1`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        self.version.map_or("", Version::name)
    }

    /// The name of the kind, such as `Deployment`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row.name()
    }

    /// Decodes an object, as [`Envelope::raw`](crate::Envelope::raw) has it, into JSON.
    ///
    /// # Errors
    ///
    /// If the bytes are not an object of this kind.
    pub fn decode_json(self, raw: &[u8]) -> Result<Vec<u8>, DecodeError> {
        // JSON is about a third longer.
        let mut sink = JsonSink::new(Vec::with_capacity(raw.len() + raw.len() / 2));
        let span = Span { bytes: raw, offset: 0 };
        Decoder::new(&mut sink).object(self.message(), self.api_version(), self.name(), span)?;
        Ok(sink.into_bytes())
    }

    /// Decodes an object into a tree of JSON.
    ///
    /// # Errors
    ///
    /// If the bytes are not an object of this kind.
    pub fn decode_value(self, raw: &[u8]) -> Result<Value, DecodeError> {
        // Numbers of such an object are not written as text and read again.
        if self.is_canonical(raw) {
            return self.deserialize(raw);
        }
        let json = self.decode_json(raw)?;
        serde_json::from_slice(&json).map_err(|error| DecodeError::at(self.message().into(), Problem::Json(error), 0))
    }

    /// Returns `true` if the bytes are an object of this kind as Kubernetes encodes it: the fields of each message are in
    /// the order of their numbers, and those that are no list and no map occur once. Such an object can be decoded.
    #[must_use]
    pub fn is_canonical(self, raw: &[u8]) -> bool {
        is_canonical(self.message(), raw, 0)
    }

    /// Encodes an object with its envelope. Members that the kind does not have are left out.
    ///
    /// # Errors
    ///
    /// If a member has a value of the wrong type.
    pub fn encode(self, object: &Value) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = encode::ReverseWriter::default();
        let end = bytes.len();
        encode::message(&mut bytes, self.message(), object)?;
        bytes.length(2, end);
        let mut whole = self.head();
        whole.extend(bytes.into_bytes());
        whole.extend_from_slice(TAIL);
        Ok(whole)
    }

    /// The envelope before the object.
    pub(crate) fn head(self) -> Vec<u8> {
        let mut bytes = encode::ReverseWriter::default();
        let end = bytes.len();
        bytes.bytes(2, self.name().as_bytes());
        bytes.bytes(1, self.api_version().as_bytes());
        bytes.length(1, end);
        let mut head = MAGIC.to_vec();
        head.extend(bytes.into_bytes());
        head
    }
}

/// The envelope after the object: its content encoding and type, which are empty.
pub(crate) const TAIL: &[u8] = &[0x1a, 0, 0x22, 0];
