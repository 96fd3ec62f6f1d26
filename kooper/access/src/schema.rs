//! Fields of built-in kinds that exist, which the attribute checks while a program is compiled.

use std::marker::PhantomData;

use kooper_grammar::field_path::segment;
use kooper_runtime::internal::protobuf::Schema;

/// The group and version of a kind, and its name.
type Names<'a> = (&'a str, &'a str);

/// A kind of the attribute.
#[derive(Debug)]
pub struct KindOf<K>(PhantomData<K>);

impl<K: k8s_openapi::Resource> KindOf<K> {
    /// The names of a type of `k8s_openapi`, which has the fields of its kind.
    pub const BUILT_IN: Option<Names<'static>> = Some((K::API_VERSION, K::KIND));
}

/// The same for other types: the compiler takes the constant of [`KindOf`] itself if there is one.
pub trait OtherKind {
    /// No names.
    const BUILT_IN: Option<Names<'static>> = None;
}

impl<K> OtherKind for KindOf<K> {}

/// Returns `false` if a kind is known and has no field with this path.
#[must_use]
pub const fn may_have_field(kind: Option<Names<'_>>, path: &str) -> bool {
    let Some((api_version, kind)) = kind else { return true };
    let Some(mut schema) = Schema::of(api_version, kind) else { return true };
    let path = path.as_bytes();
    let mut at = 0;
    while let Some(segment) = segment(path, at) {
        let Some(field) = schema.field(path.split_at(segment.end).0.split_at(segment.start).1) else { return false };
        schema = field;
        at = segment.next;
    }
    true
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    const POD: Option<Names<'static>> = KindOf::<Pod>::BUILT_IN;

    #[test]
    fn the_fields_of_a_built_in_kind_are_known() {
        for path in [
            "metadata",
            "metadata.labels",
            "metadata.labels['example.com/tier']",
            "spec.nodeName",
            "spec.containers",
            "spec.securityContext.seLinuxOptions.level",
            "status.podIPs",
        ] {
            assert!(may_have_field(POD, path), "{path}");
        }
        let no_fields =
            ["spec.nodename", "spec.containers.image", "status.phase.name", "data", "metadata.labels2", "spec.''"];
        for path in no_fields {
            assert!(!may_have_field(POD, path), "{path}");
        }
        for (path, exists) in [("spec.nfs.server", true), ("spec.persistentVolumeSource", false), ("spec.nfs.x", false)]
        {
            assert_eq!(may_have_field(Some(("v1", "PersistentVolume")), path), exists, "{path}");
        }
    }

    #[test]
    fn every_field_of_another_kind_may_exist() {
        assert_eq!(KindOf::<String>::BUILT_IN, None);
        assert!(may_have_field(None, "spec.any") && may_have_field(Some(("example.com/v1", "Shop")), "spec.any"));
    }
}
