//! A change of an object.

use std::sync::{Arc, OnceLock};

use crate::object::key::ObjectKey;
use crate::object::{DecodeError, Metadata, Object};

/// A change of an object: its old and new state.
///
/// All controllers that watch the kind receive the same change. The metadata
/// that they all need is decoded once, on first use.
#[derive(Debug, Default)]
pub struct Change {
    /// The object before.
    pub old: Option<Arc<Object>>,
    /// The object after.
    pub new: Option<Arc<Object>>,
    parsed: [Parsed; 2],
}

type Parsed = OnceLock<Box<Result<Metadata, DecodeError>>>;

impl Change {
    pub(crate) fn new(old: Option<Arc<Object>>, new: Option<Arc<Object>>) -> Self {
        Self { old, new, parsed: Default::default() }
    }

    /// The new state of the object, or the last one of a deleted object.
    pub(crate) fn last(&self) -> Option<&Arc<Object>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    pub(crate) fn key(&self) -> Option<&ObjectKey> {
        self.last().map(|object| object.key())
    }

    /// The metadata of the old object.
    pub fn old_metadata(&self) -> Option<Result<&Metadata, &DecodeError>> {
        let [parsed, _] = &self.parsed;
        self.old.as_deref().map(|object| metadata(object, parsed))
    }

    /// The metadata of the new object.
    pub fn new_metadata(&self) -> Option<Result<&Metadata, &DecodeError>> {
        let [_, parsed] = &self.parsed;
        self.new.as_deref().map(|object| metadata(object, parsed))
    }
}

fn metadata<'a>(object: &Object, parsed: &'a Parsed) -> Result<&'a Metadata, &'a DecodeError> {
    (**parsed.get_or_init(|| Box::new(object.metadata()))).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_decoded_once_for_all_readers() {
        let object = |label: &str| {
            let json = format!(r#"{{"metadata":{{"name":"a","labels":{{"l":"{label}"}}}}}}"#);
            Some(Arc::new(Object::parse(json.as_bytes()).unwrap()))
        };
        let change = Change::new(object("before"), object("after"));
        let (old, new) = (change.old_metadata().unwrap().unwrap(), change.new_metadata().unwrap().unwrap());
        assert_eq!((old.labels["l"].as_str(), new.labels["l"].as_str()), ("before", "after"));
        assert!(std::ptr::eq(new, change.new_metadata().unwrap().unwrap()), "it is not decoded twice");
        assert!(Change::new(None, object("new")).old_metadata().is_none());
    }
}
