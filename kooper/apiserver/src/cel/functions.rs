//! Functions, methods and operators.

mod access;
mod convert;
mod lists;
mod net;
mod numbers;
mod strings;
mod text;
mod times;
mod written;

use super::value::Value;
use super::{NO_OVERLOAD, regex};

pub(super) use self::access::valid;
pub(super) use self::lists::sorted;
pub(super) use self::text::{Part, parts, shown, unfit};

type Evaluated = Result<Value, String>;

fn no_overload() -> Evaluated {
    Err(NO_OVERLOAD.to_owned())
}

/// Calls a function; the receiver of a method is its first argument.
pub(super) fn call(name: &str, args: &[Value]) -> Evaluated {
    match (name, args) {
        ("!_", [Value::Bool(flag)]) => Ok(Value::Bool(!flag)),
        ("_==_", [one, other]) => Ok(Value::Bool(one == other)),
        ("_!=_", [one, other]) => Ok(Value::Bool(one != other)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) => access::ordered(name, one, other),
        ("@in", [element, container]) => access::contains(container, element),
        ("_[_]", [operand, at]) => access::index(operand, at, false),
        ("_[?_]", [operand, at]) => access::index(operand, at, true),
        ("-_" | "_+_" | "_-_" | "_*_" | "_/_" | "_%_", args) => numbers::calculate(name, args),
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Value::Type(value.type_name().into())),
        ("bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint", [value]) => {
            convert::convert(name, value)
        }
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Ok(Value::NONE),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::some(value.clone())),
        ("optional.none", []) => Ok(Value::NONE),
        ("hasValue", [Value::Optional(content)]) => Ok(Value::Bool(content.is_some())),
        ("value", [Value::Optional(content)]) => {
            content.as_deref().cloned().ok_or_else(|| "optional.none() dereference".to_owned())
        }
        ("matches", [Value::String(text), Value::String(pattern)]) => {
            Ok(Value::Bool(regex::compile(pattern)?.is_match(text)))
        }
        ("find", [Value::String(text), Value::String(pattern)]) => {
            let regex = regex::compile(pattern).map_err(|why| format!("Illegal regex: {why}"))?;
            Ok(regex.find(text).map_or("", |found| found.as_str()).into())
        }
        ("findAll", [Value::String(text), Value::String(pattern), rest @ ..]) => {
            let regex = regex::compile(pattern).map_err(|why| format!("Illegal regex: {why}"))?;
            let most = match rest {
                [] => usize::MAX,
                [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => return no_overload(),
            };
            let found: Vec<_> = regex.find_iter(text).take(most).map(|found| Value::from(found.as_str())).collect();
            Ok(found.into())
        }
        _ if name.starts_with("get") && matches!(args.first(), Some(Value::Timestamp(_) | Value::Duration(_))) => {
            times::part(name, args)
        }
        (_, [Value::String(text), rest @ ..]) => strings::call(name, text, rest),
        (_, [Value::List(list), rest @ ..]) => lists::call(name, list, rest),
        ("lists.range", [Value::Int(length)]) => Ok((0..*length).map(Value::Int).collect::<Vec<_>>().into()),
        ("size", [Value::Bytes(data)]) => Ok(Value::Int(data.len() as i64)),
        ("size", [Value::Map(map)]) => Ok(Value::Int(map.len() as i64)),
        _ => net::call(name, args),
    }
}
