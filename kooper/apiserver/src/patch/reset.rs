//! Fields that a write through some path can't change.

use super::fields::{Entry, FieldSet};
use super::path::PathElement;

/// Which fields the server puts back after a write, so that the write owns
/// none of them: the status for writes of the object, the spec for writes of the
/// status (`GetResetFields` of the real server's strategies).
#[derive(Clone, Debug)]
pub enum Reset {
    /// These fields and all their parts.
    Fields(FieldSet),
    /// All but the fields below these paths, where `None` is any step:
    /// `pods/resize` keeps only `spec.containers[*].resources` and the like.
    AllBut(Vec<Vec<Option<PathElement>>>),
}

impl Reset {
    /// The writer may change any field.
    pub const NOTHING: Self = Self::Fields(FieldSet::EMPTY);

    /// The members that a write can change.
    pub(crate) fn filter(&self, set: FieldSet) -> FieldSet {
        match self {
            Self::Fields(fields) if fields.is_empty() => set,
            Self::Fields(fields) => set.difference_with_parts(fields),
            Self::AllBut(patterns) => {
                let patterns: Vec<_> = patterns.iter().map(Vec::as_slice).collect();
                below(&set, &patterns)
            }
        }
    }
}

fn below(set: &FieldSet, patterns: &[&[Option<PathElement>]]) -> FieldSet {
    let mut kept = FieldSet::new();
    for (element, entry) in set.entries() {
        let matching = patterns.iter().filter_map(|pattern| match pattern.split_first() {
            Some((None, rest)) => Some(rest),
            Some((Some(step), rest)) if step == element => Some(rest),
            _ => None,
        });
        let rest: Vec<_> = matching.collect();
        if rest.iter().any(|rest| rest.is_empty()) {
            kept.put(element.clone(), entry.clone());
        } else if !rest.is_empty() {
            let below = below(&entry.below, &rest);
            kept.put(element.clone(), Entry { member: entry.member, below });
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fields_v1::{decode, encode};
    use super::super::path::Path;
    use super::*;

    #[test]
    fn fields_that_are_reset_are_not_owned() {
        let set = decode(&json!({
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:resources": {"f:limits": {}}}}},
            "f:status": {"f:phase": {}},
        }));
        let set = set.expect("it is valid");
        let status: FieldSet = [&Path::of_fields(&["status"])].into_iter().collect();
        assert!(encode(&Reset::Fields(status).filter(set.clone())).get("f:status").is_none());

        let field = |name| Some(PathElement::field(name));
        let resize = Reset::AllBut(vec![vec![field("spec"), field("containers"), None, field("resources")]]);
        let kept =
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:resources": {"f:limits": {}}}}}});
        assert_eq!(encode(&resize.filter(set)), kept);
    }
}
