//! The names of fields in the code that `derive(Partial)` writes.

use kooper_grammar::field_name::letters;
use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

/// Reads which of these fields a name is.
///
/// The fields are named as in Rust, the name as in JSON: `pod_ips` is `podIPs`. No two fields of a type differ in
/// capitals and underscores only.
#[derive(Debug, Clone, Copy)]
pub struct FieldName(pub &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        let is = |field: &&str| letters(field).eq(letters(name));
        Ok(self.0.iter().position(is))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error as Found, StrDeserializer};

    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_in_json() {
        let fields = FieldName(&[
            "node_name",
            "pod_ips",
            "type_",
            "external_ips",
            "caBundle",
            "x_kubernetes_map_type",
            "schema",
        ]);
        let find = |name: &'static str| {
            let name: StrDeserializer<'_, Found> = name.into_deserializer();
            fields.deserialize(name).unwrap()
        };
        let names = ["nodeName", "podIPs", "type", "externalIPs", "caBundle", "x-kubernetes-map-type", "$schema"];
        assert_eq!(names.map(find), [0, 1, 2, 3, 4, 5, 6].map(Some));
        assert_eq!(["node_name", "nodename"].map(find), [Some(0); 2]);
        assert_eq!(["podIP", "nodeNames", "", "_"].map(find), [None; 4]);
    }
}
