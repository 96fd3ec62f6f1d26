//! The cost of a call that is made, by the sizes of what it gets.

use super::size::scaled;
use super::{ADDRESS, CHARACTER, FORMAT, NEW_LIST, REGEX};
use crate::cel::value::Value;

/// The cost of calling a function besides that of its arguments; the receiver of a method is the first of them.
pub(in crate::cel) fn spent(name: &str, args: &[Value]) -> u64 {
    let size = |index: usize| args.get(index).map_or(1, size);
    let read = |characters: u64| scaled(characters, CHARACTER);
    let matched = |text: u64, pattern: u64| read(text.saturating_add(1)).saturating_mul(scaled(pattern, REGEX));
    let list = |steps: u64, factor: f64| scaled(steps, factor).saturating_add(1 + NEW_LIST);
    match (name, args) {
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", [value, ..]) => traversed(value),
        ("url" | "lowerAscii" | "upperAscii" | "substring" | "trim", _)
        | ("cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver", _)
        | ("startsWith" | "endsWith" | "format" | "strings.quote", _)
        | ("ip", [Value::String(_)])
        | ("bytes", [Value::String(_)])
        | ("string", [Value::Bytes(_)]) => read(size(0)),
        ("replace" | "split" | "ip.isCanonical", _) => scaled(size(0), 2.0 * CHARACTER),
        ("join", [Value::List(list), rest @ ..]) => {
            let texts: u64 = list.items.iter().map(self::size).sum();
            let separators = rest.first().map_or(0, self::size) * (list.items.len() as u64).saturating_sub(1);
            scaled(texts + separators, 2.0 * CHARACTER)
        }
        ("find" | "findAll" | "matches", _) => matched(size(0), size(1)),
        ("validate", _) => matched(size(1), FORMAT as u64),
        ("contains", _) => read(size(0)).saturating_mul(read(size(1))),
        ("containsIP" | "containsCIDR", _) => {
            let masked = if name == "containsIP" { 0 } else { read(ADDRESS) + 1 };
            let parsed = if matches!(args.get(1), Some(Value::String(_))) { read(size(1)) } else { 0 };
            read(2 * ADDRESS) + masked + parsed
        }
        ("_==_", [Value::Quantity(_) | Value::Ip(_) | Value::Cidr(_) | Value::Url(_) | Value::Semver(_), _]) => 1,
        ("_==_" | "_!=_", _) => read(size(0).min(size(1))),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [Value::String(_) | Value::Bytes(_), _]) => read(size(0).min(size(1))),
        ("_+_", [Value::String(_) | Value::Bytes(_), _]) => read(size(0).saturating_add(size(1))),
        ("@in", [_, Value::List(list)]) => list.items.len() as u64,
        ("sets.contains" | "sets.intersects", _) => size(0).saturating_mul(size(1)).saturating_add(1),
        ("sets.equivalent", _) => scaled(size(0).saturating_mul(size(1)), 2.0).saturating_add(1),
        ("slice", [_, Value::Int(start), Value::Int(end)]) => {
            list(end.saturating_sub(*start).try_into().unwrap_or(0), 1.0)
        }
        ("lists.range", [Value::Int(length)]) => list((*length).try_into().unwrap_or(0), 1.0),
        ("reverse", _) => list(size(0), 1.0),
        ("flatten", [_, Value::Int(depth)]) => list(size(0), *depth as f64),
        ("flatten", _) => list(size(0), 1.0),
        ("distinct" | "sort", [Value::List(keys)]) => sorted(keys.items.first(), size(0)),
        _ => 1,
    }
}

/// The cost of sorting a list with such keys.
pub(in crate::cel) fn sorted(first: Option<&Value>, length: u64) -> u64 {
    let text = matches!(first, Some(Value::String(_) | Value::Bytes(_)));
    let factor = if text { 2.0 + CHARACTER } else { 2.0 };
    scaled(length.saturating_mul(length), factor).saturating_add(1 + NEW_LIST)
}

fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Bytes(data) => data.len() as u64,
        Value::List(list) => list.items.len() as u64,
        Value::Map(map) => map.len() as u64,
        Value::Optional(Some(content)) => size(content),
        _ => 1,
    }
}

/// The cost of reading all that is in a value.
fn traversed(value: &Value) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * CHARACTER) as u64,
        Value::Bytes(data) => (data.len() as f64 * CHARACTER) as u64,
        Value::List(list) => list.items.iter().map(traversed).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| traversed(&key.value()) + traversed(value)).sum(),
        _ => 1,
    }
}
