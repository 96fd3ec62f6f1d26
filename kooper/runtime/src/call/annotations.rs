//! The annotations by which users steer the calls for an object.

use crate::object::sections::Changed;
use crate::object::{Object, differs};

/// The names of the annotations; `None` for those that a controller does not have.
#[derive(Debug, Clone, Default)]
pub struct Annotations {
    /// Pauses an object while its value is `true`.
    pub pause: Option<String>,
    /// Each change of its value calls the handler.
    pub reconcile_now: Option<String>,
}

impl Annotations {
    /// The annotation by which an object is paused. One that cannot be read is not paused.
    #[must_use]
    pub fn paused_by(&self, object: &Object) -> Option<&str> {
        self.pause.as_deref().filter(|name| object.annotation(name).as_deref() == Some("true"))
    }

    pub(crate) fn is_paused(&self, object: &Object) -> bool {
        self.paused_by(object).is_some()
    }

    /// Why a controller does not reconcile a paused object, and how to resume it.
    #[must_use]
    pub fn explain(&self, controller: &str) -> String {
        let name = self.pause.as_deref().unwrap_or_default();
        format!(
            "the annotation `{name}` is `true`: `{controller}` does not reconcile the object until the annotation is \
             removed"
        )
    }

    /// Returns whether a change asks for a call, and whether it pauses or resumes an object.
    pub(crate) fn compare(&self, old: &Object, new: &Object) -> (bool, bool) {
        let has_any = self.pause.is_some() || self.reconcile_now.is_some();
        // Most changes are others.
        if !has_any || !differs(old, new, &[Changed::Annotations]) {
            return (false, false);
        }
        let asks = |name: &String| old.annotation(name) != new.annotation(name);
        (self.reconcile_now.as_ref().is_some_and(asks), self.is_paused(old) != self.is_paused(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_paused_by_its_annotation_however_that_is_written() {
        let annotations = Annotations { pause: Some("shop.io/pause".to_owned()), reconcile_now: None };
        let is_paused = |name: &str| {
            let json = format!(r#"{{"metadata":{{"name":"a","annotations":{{"{name}":"true"}}}}}}"#);
            annotations.is_paused(&Object::parse(json.as_bytes()).unwrap())
        };
        for name in ["shop.io/pause", r"shop.io\/pause", r"shop.io/\u0070ause"] {
            assert!(is_paused(name), "{name}");
        }
        for name in ["shop.io/other", "shop.io/paused", r"shop.io\/other"] {
            assert!(!is_paused(name), "{name}");
        }
    }
}
