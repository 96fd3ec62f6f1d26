//! Types with some of the fields of a kind, which `derive(Partial)` writes the code of, and what protobuf has of them.

use serde::de::value::Error as Found;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

/// The name that such a type gives to its deserializer, if the table of protobuf has its fields.
const KNOWN: &str = "$kooper::Partial";

/// Returns `true` if protobuf loses no field of the type. The table has the fields of all
/// versions that k8s-openapi has types of, and those drop unknown fields in any encoding. Other
/// types, such as a user's own type of a built-in kind, may have fields that the table lacks.
pub(crate) fn has_known_fields<T: DeserializeOwned>() -> bool {
    std::any::type_name::<T>().starts_with("k8s_openapi::")
        || T::deserialize(NameOnly).is_err_and(|error| error.to_string() == KNOWN)
}

/// The name of a type with some of the fields of another one.
#[must_use]
pub fn name_of<Full: DeserializeOwned>() -> &'static str {
    if has_known_fields::<Full>() { KNOWN } else { "object" }
}

/// Fails with the name of the struct.
struct NameOnly;

impl<'de> Deserializer<'de> for NameOnly {
    type Error = Found;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found::custom(""))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Found> {
        Err(Found::custom(name))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, PodSpec};

    use super::*;

    #[test]
    fn a_part_of_a_known_type_is_known_and_a_part_of_another_is_not() {
        #[derive(serde::Deserialize)]
        struct Own {}
        assert!(has_known_fields::<Pod>() && has_known_fields::<PodSpec>());
        assert!(!has_known_fields::<Own>() && !has_known_fields::<serde_json::Value>());
        assert_eq!((name_of::<Pod>(), name_of::<Own>()), (KNOWN, "object"));
    }
}
