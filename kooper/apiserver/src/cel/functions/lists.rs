//! Functions of lists.

use std::cmp::Ordering;

use super::{Evaluated, no_overload, numbers, shown};
use crate::cel::value::{List, Value, compare};

/// Calls a function whose first argument is a list.
pub(super) fn call(name: &str, list: &List, args: &[Value]) -> Evaluated {
    let items = &list.items;
    match (name, args) {
        ("size", []) => Ok(Value::Int(items.len() as i64)),
        ("isSorted", []) => {
            for pair in items.windows(2) {
                if compare(&pair[0], &pair[1])? == Ordering::Greater {
                    return Ok(Value::Bool(false));
                }
            }
            Ok(Value::Bool(true))
        }
        ("sum", []) => {
            let zero = match items.first() {
                Some(Value::Uint(_)) => Value::Uint(0),
                Some(Value::Double(_)) => Value::Double(0.0),
                Some(Value::Duration(_)) => Value::Duration(0),
                _ => Value::Int(0),
            };
            items.iter().try_fold(zero, |sum, item| numbers::plus(&sum, item))
        }
        ("min", []) => best(name, items, Ordering::Greater),
        ("max", []) => best(name, items, Ordering::Less),
        ("indexOf", [item]) => Ok(position(items.iter().position(|own| own == item))),
        ("lastIndexOf", [item]) => Ok(position(items.iter().rposition(|own| own == item))),
        ("first", []) => Ok(items.first().cloned().map_or(Value::NONE, Value::some)),
        ("last", []) => Ok(items.last().cloned().map_or(Value::NONE, Value::some)),
        ("optional.unwrap" | "unwrapOpt", []) => {
            let content = |item: &Value| match item {
                Value::Optional(content) => content.as_deref().cloned(),
                other => Some(other.clone()),
            };
            Ok(items.iter().filter_map(content).collect::<Vec<_>>().into())
        }
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(items, *start, *end),
        ("flatten", []) => flattened(items, 1),
        ("flatten", [Value::Int(depth)]) => flattened(items, *depth),
        ("sort", []) => sorted(items.iter().map(|item| (item.clone(), item.clone())).collect()),
        ("reverse", []) => Ok(items.iter().rev().cloned().collect::<Vec<_>>().into()),
        ("distinct", []) => {
            let mut distinct: Vec<Value> = Vec::new();
            for item in items {
                if !distinct.contains(item) {
                    distinct.push(item.clone());
                }
            }
            Ok(distinct.into())
        }
        ("join", []) => join(items, ""),
        ("join", [Value::String(separator)]) => join(items, separator),
        ("sets.contains", [Value::List(other)]) => Ok(Value::Bool(has_all(items, &other.items))),
        ("sets.equivalent", [Value::List(other)]) => {
            Ok(Value::Bool(has_all(items, &other.items) && has_all(&other.items, items)))
        }
        ("sets.intersects", [Value::List(other)]) => {
            Ok(Value::Bool(other.items.iter().any(|item| items.contains(item))))
        }
        _ => no_overload(),
    }
}

fn has_all(items: &[Value], others: &[Value]) -> bool {
    others.iter().all(|item| items.contains(item))
}

fn position(index: Option<usize>) -> Value {
    Value::Int(index.map_or(-1, |index| index as i64))
}

/// The first element to which no other one is preferred.
fn best(name: &str, items: &[Value], prefers: Ordering) -> Evaluated {
    let (first, rest) = items.split_first().ok_or_else(|| format!("{name} called on empty list"))?;
    let mut best = first;
    for item in rest {
        if compare(best, item)? == prefers {
            best = item;
        }
    }
    Ok(best.clone())
}

fn slice(items: &[Value], start: i64, end: i64) -> Evaluated {
    let why = if start < 0 || end < 0 {
        "negative indexes not supported".to_owned()
    } else if start > end {
        "start index must be less than or equal to end index".to_owned()
    } else {
        format!("list is length {}", items.len())
    };
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    match range.and_then(|(start, end)| items.get(start..end)) {
        Some(part) => Ok(part.to_vec().into()),
        None => Err(format!("cannot slice({start}, {end}), {why}")),
    }
}

fn flattened(items: &[Value], depth: i64) -> Evaluated {
    fn add(items: &[Value], depth: i64, to: &mut Vec<Value>) {
        for item in items {
            match item {
                Value::List(inner) if depth > 0 => add(&inner.items, depth - 1, to),
                other => to.push(other.clone()),
            }
        }
    }
    if depth < 0 {
        return Err("level must be non-negative".to_owned());
    }
    let mut flat = Vec::new();
    add(items, depth, &mut flat);
    Ok(flat.into())
}

/// The values in the order of their keys.
pub(in crate::cel) fn sorted(mut keyed: Vec<(Value, Value)>) -> Evaluated {
    for pair in keyed.windows(2) {
        if pair[0].0.type_name() != pair[1].0.type_name() {
            return Err("list elements must have the same type".to_owned());
        }
        compare(&pair[0].0, &pair[1].0).map_err(|_| "list elements must be comparable".to_owned())?;
    }
    keyed.sort_by(|(one, _), (other, _)| compare(one, other).unwrap_or(Ordering::Equal));
    Ok(keyed.into_iter().map(|(_, value)| value).collect::<Vec<_>>().into())
}

fn join(items: &[Value], separator: &str) -> Evaluated {
    let texts = items.iter().map(|item| match item {
        Value::String(text) => Ok(&**text),
        other => Err(format!("join: invalid input: {}", shown(other))),
    });
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join(separator).into())
}
