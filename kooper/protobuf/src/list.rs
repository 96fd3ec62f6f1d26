//! Lists, which are encoded item by item.

use serde_json::Value;

use crate::encode::{self, ReverseWriter};
use crate::error::EncodeError;
use crate::kind::{Kind, TAIL};

/// A list that is encoded item by item, so that it is never in memory as JSON.
#[derive(Debug)]
pub struct List {
    kind: Kind,
    items: Vec<Vec<u8>>,
}

impl List {
    /// An empty list, of a kind such as `PodList`.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, items: Vec::new() }
    }

    /// Appends an item; its `kind` and `apiVersion` are not encoded.
    ///
    /// # Errors
    ///
    /// If a member has a value of the wrong type.
    pub fn push(&mut self, item: &Value) -> Result<(), EncodeError> {
        const ITEMS: u32 = 2;
        let mut bytes = ReverseWriter::default();
        if let Some(field) = self.kind.message().field(ITEMS) {
            encode::message(&mut bytes, field.message(), item)?;
        }
        bytes.length(ITEMS, 0);
        self.items.push(bytes.into_bytes());
        Ok(())
    }

    /// The whole list in parts, with the metadata of the list.
    ///
    /// # Errors
    ///
    /// If the metadata has a value of the wrong type.
    pub fn finish(self, metadata: &Value) -> Result<impl Iterator<Item = Vec<u8>> + Send + use<>, EncodeError> {
        let mut bytes = ReverseWriter::default();
        if let Some(field) = self.kind.message().field(1) {
            encode::message(&mut bytes, field.message(), metadata)?;
        }
        bytes.length(1, 0);
        let length = bytes.len() + self.items.iter().map(Vec::len).sum::<usize>();
        bytes.tag(2, length);
        let mut head = self.kind.head();
        head.extend(bytes.into_bytes());
        Ok(std::iter::once(head).chain(self.items).chain(std::iter::once(TAIL.to_vec())))
    }
}
