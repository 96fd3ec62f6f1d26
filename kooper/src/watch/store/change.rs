//! One object's step from one state to the next.

use std::sync::{Arc, OnceLock};

use crate::object::key::ObjectKey;
use crate::object::{DecodeError, Metadata, Object};

/// One object's step from one state to the next.
///
/// Every controller that watches the kind is given the same change. What they
/// all need of it is parsed once, when the first of them asks.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) old: Option<Arc<Object>>,
    pub(crate) new: Option<Arc<Object>>,
    parsed: [Parsed; 2],
}

type Parsed = OnceLock<Box<Result<Metadata, DecodeError>>>;

impl Change {
    pub(crate) fn new(old: Option<Arc<Object>>, new: Option<Arc<Object>>) -> Self {
        Self { old, new, parsed: Default::default() }
    }

    /// The object as it is now, or was last.
    pub(crate) fn last(&self) -> Option<&Arc<Object>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    pub(crate) fn key(&self) -> Option<&ObjectKey> {
        self.last().map(|object| object.key())
    }

    /// The metadata of the old object.
    pub(crate) fn old_metadata(&self) -> Option<Result<&Metadata, &DecodeError>> {
        let [parsed, _] = &self.parsed;
        self.old.as_deref().map(|object| metadata(object, parsed))
    }

    /// The metadata of the new object.
    pub(crate) fn new_metadata(&self) -> Option<Result<&Metadata, &DecodeError>> {
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
    fn each_version_is_parsed_once_however_many_ask() {
        let object = |label: &str| {
            let json = format!(r#"{{"metadata":{{"name":"a","labels":{{"l":"{label}"}}}}}}"#);
            Some(Arc::new(Object::parse(json.as_bytes()).unwrap()))
        };
        let change = Change::new(object("before"), object("after"));
        let (old, new) = (change.old_metadata().unwrap().unwrap(), change.new_metadata().unwrap().unwrap());
        assert_eq!((old.labels["l"].as_str(), new.labels["l"].as_str()), ("before", "after"));
        assert!(std::ptr::eq(new, change.new_metadata().unwrap().unwrap()), "the second time it is there");
        assert!(Change::new(None, object("new")).old_metadata().is_none());
    }
}
