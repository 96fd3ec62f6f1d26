//! Arithmetic.

use std::sync::Arc;

use super::{Evaluated, no_overload};
use crate::cel::value::Value;

const INT: &str = "integer overflow";
const UINT: &str = "unsigned integer overflow";
const DURATION: &str = INT;

fn checked<T>(number: Option<T>, why: &str, value: fn(T) -> Value) -> Evaluated {
    number.map(value).ok_or_else(|| why.to_owned())
}

/// The result of an operator.
pub(super) fn calculate(operator: &str, args: &[Value]) -> Evaluated {
    match (operator, args) {
        ("-_", [Value::Int(number)]) => checked(number.checked_neg(), INT, Value::Int),
        ("-_", [Value::Double(number)]) => Ok(Value::Double(-number)),
        (_, [Value::Int(one), Value::Int(other)]) => int(operator, *one, *other),
        (_, [Value::Uint(one), Value::Uint(other)]) => uint(operator, *one, *other),
        ("_+_", [Value::Double(one), Value::Double(other)]) => Ok(Value::Double(one + other)),
        ("_-_", [Value::Double(one), Value::Double(other)]) => Ok(Value::Double(one - other)),
        ("_*_", [Value::Double(one), Value::Double(other)]) => Ok(Value::Double(one * other)),
        ("_/_", [Value::Double(one), Value::Double(other)]) => Ok(Value::Double(one / other)),
        ("_+_", [one, other]) => plus(one, other),
        ("_-_", [Value::Duration(one), Value::Duration(other)]) => {
            checked(one.checked_sub(*other), DURATION, Value::Duration)
        }
        ("_-_", [Value::Timestamp(one), Value::Duration(other)]) => one.minus(*other).map(Value::Timestamp),
        ("_-_", [Value::Timestamp(one), Value::Timestamp(other)]) => one.since(*other).map(Value::Duration),
        _ => no_overload(),
    }
}

/// The arithmetic of a type of whole numbers.
macro_rules! whole {
    ($name:ident, $number:ty, $value:path, $overflow:expr) => {
        fn $name(operator: &str, one: $number, other: $number) -> Evaluated {
            let result = match operator {
                "_+_" => one.checked_add(other),
                "_-_" => one.checked_sub(other),
                "_*_" => one.checked_mul(other),
                "_/_" if other == 0 => return Err("division by zero".to_owned()),
                "_/_" => one.checked_div(other),
                "_%_" if other == 0 => return Err("modulus by zero".to_owned()),
                "_%_" => one.checked_rem(other),
                _ => return no_overload(),
            };
            checked(result, $overflow, $value)
        }
    };
}

whole!(int, i64, Value::Int, INT);
whole!(uint, u64, Value::Uint, UINT);

pub(super) fn plus(one: &Value, other: &Value) -> Evaluated {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => checked(one.checked_add(*other), INT, Value::Int),
        (Value::Uint(one), Value::Uint(other)) => checked(one.checked_add(*other), UINT, Value::Uint),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one + other)),
        (Value::String(one), Value::String(other)) => Ok(Value::from(format!("{one}{other}"))),
        (Value::Bytes(one), Value::Bytes(other)) => Ok(Value::Bytes([&**one, &**other].concat().into())),
        (Value::List(one), Value::List(other)) => Ok(Value::List(Arc::new(one.plus(other)))),
        (Value::Duration(one), Value::Duration(other)) => checked(one.checked_add(*other), DURATION, Value::Duration),
        (Value::Duration(duration), Value::Timestamp(time)) | (Value::Timestamp(time), Value::Duration(duration)) => {
            time.plus(*duration).map(Value::Timestamp)
        }
        _ => no_overload(),
    }
}
