//! Objects of any kind: how they are requested, and how they are named in a line.

use std::fmt::Display;

use kube::Resource;
use kube::core::ApiResource;

use kooper_runtime::internal::object::kind::KindInfo;

/// Maximum number of objects in a page of a list.
pub(super) const PAGE: u32 = 500;

/// Maximum number of objects that a line names.
pub(super) const NAMED: usize = 10;

/// The resource of a kind.
pub(super) fn resource(kind: &KindInfo) -> ApiResource {
    ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.plural.clone(),
    }
}

/// The resource of a built-in kind of which few fields are read. Decoding all of them, as `Api<K>` does, would be
/// compiled into each program: for a Deployment, these are 150 types.
pub(super) fn untyped<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// The first names of objects, and how many more there are.
pub(super) fn named(names: &[String], count: usize) -> String {
    let more = if count > names.len() { format!(" and {} more", count - names.len()) } else { String::new() };
    names.join(", ") + &more
}

/// A number with its noun: `1 object`, `2 objects`.
pub(super) fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_has_no_plural() {
        assert_eq!([0_i64, 1, 2].map(|count| counted(count, "object")), ["0 objects", "1 object", "2 objects"]);
    }
}
