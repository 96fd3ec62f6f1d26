//! Elements of lists and maps, and the order of values.

use super::{Evaluated, no_overload, shown};
use crate::cel::value::{Key, Value, compare};

/// Data that does not fit its schema is an error as soon as it is read.
pub(in crate::cel) fn valid(value: Value) -> Evaluated {
    match value {
        Value::Invalid(why) => Err(why.to_string()),
        value => Ok(value),
    }
}

/// Indexing with `[…]` or `[?…]`.
pub(super) fn index(operand: &Value, at: &Value, optional: bool) -> Evaluated {
    let found = match operand {
        Value::Optional(None) => return Ok(Value::NONE),
        Value::Optional(Some(content)) => return index(content, at, true),
        Value::List(list) => {
            let number = match at {
                Value::Int(number) => i128::from(*number),
                Value::Uint(number) => i128::from(*number),
                Value::Double(number) if number.fract() == 0.0 => *number as i128,
                other => return Err(format!("unsupported index type '{}' in list", other.type_name())),
            };
            let found = usize::try_from(number).ok().and_then(|number| list.items.get(number));
            found.ok_or_else(|| format!("index out of bounds: {number}"))
        }
        Value::Map(map) => {
            let key = Key::of(at).ok_or_else(|| format!("unsupported key type: {}", at.type_name()))?;
            map.get(&key).ok_or_else(|| format!("no such key: {}", shown(at)))
        }
        _ => return no_overload(),
    };
    match (found, optional) {
        (Ok(value), true) => valid(value.clone()).map(Value::some),
        (Ok(value), false) => valid(value.clone()),
        (Err(_), true) => Ok(Value::NONE),
        (Err(why), false) => Err(why),
    }
}

/// The operator `in`: elements of a list, keys of a map.
pub(super) fn contains(container: &Value, element: &Value) -> Evaluated {
    match container {
        Value::List(list) => Ok(Value::Bool(list.items.contains(element))),
        Value::Map(map) => Ok(Value::Bool(Key::of(element).is_some_and(|key| map.contains_key(&key)))),
        _ => no_overload(),
    }
}

/// A comparison by an operator.
pub(super) fn ordered(operator: &str, one: &Value, other: &Value) -> Evaluated {
    let order = compare(one, other)?;
    Ok(Value::Bool(match operator {
        "_<_" => order.is_lt(),
        "_<=_" => order.is_le(),
        "_>_" => order.is_gt(),
        _ => order.is_ge(),
    }))
}
