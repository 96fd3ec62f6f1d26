//! Conversions of constants, which cel-go does before an expression is ever evaluated.

use super::functions;
use super::syntax::{Expr, Node};
use super::value::Value;

const CONVERSIONS: [&str; 9] = ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"];

/// The error of a conversion that can never succeed.
pub(super) fn check(expr: &Expr) -> Result<(), String> {
    match &expr.node {
        Node::Literal(_) | Node::Ident(_) | Node::Struct(_) => Ok(()),
        Node::Select { operand, .. } => check(operand),
        Node::Call { target, args, .. } => {
            target.iter().try_for_each(|target| check(target))?;
            args.iter().try_for_each(check)?;
            constant(expr).map_or(Ok(()), |value| value.map(drop))
        }
        Node::List(items) => items.iter().try_for_each(|item| check(&item.value)),
        Node::Map(entries) => entries.iter().try_for_each(|entry| check(&entry.key).and_then(|()| check(&entry.value))),
        Node::Fold(fold) => {
            check(&fold.range)?;
            fold.filter.iter().try_for_each(check)?;
            check(&fold.body)
        }
    }
}

/// The value of a constant or of its conversion.
fn constant(expr: &Expr) -> Option<Result<Value, String>> {
    match &expr.node {
        Node::Literal(value) => Some(Ok(value.clone())),
        Node::Call { target: None, name, args } if CONVERSIONS.contains(&name.as_str()) => match args.as_slice() {
            [arg] => Some(constant(arg)?.and_then(|value| functions::call(name, &[value]))),
            _ => None,
        },
        _ => None,
    }
}
