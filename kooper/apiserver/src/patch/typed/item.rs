//! Identification of the items of a merged list.

use serde_json::Value;

use super::super::format;
use super::super::literal::Literal;
use super::super::path::PathElement;
use super::super::schema::Node;
use super::super::types::ListKind;

/// The step from a set or a list map to an item of it. An absent key has the
/// default of its field; keys that are absent without a default are left out.
///
/// # Errors
///
/// The message of the real server if the item can't be distinguished from others.
pub(crate) fn path_element(list: &Node<'_>, item: &Value) -> Result<PathElement, String> {
    match list.list_kind() {
        ListKind::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListKind::Set => set_element(item),
        ListKind::Map(names) if names.is_empty() => set_element(item),
        ListKind::Map(names) => key_element(list, names, item),
    }
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        value => Ok(PathElement::Value(Literal(value.clone()))),
    }
}

fn key_element(list: &Node<'_>, names: &[Box<str>], item: &Value) -> Result<PathElement, String> {
    let map = match item {
        Value::Object(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let node = list.item();
    let mut keys = Vec::with_capacity(names.len());
    for name in names {
        let default = || node.as_ref().and_then(|node| node.field(name)).and_then(|field| field.default.as_ref());
        if let Some(value) = map.get(&**name).or_else(default) {
            keys.push((name.clone(), Literal(value.clone())));
        }
    }
    if keys.is_empty() {
        let names = names.iter().map(|name| format::quote(name)).collect::<Vec<_>>().join(" ");
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{names}] (and doesn't have default values for any key fields)"
        ));
    }
    keys.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(PathElement::Key(keys))
}
