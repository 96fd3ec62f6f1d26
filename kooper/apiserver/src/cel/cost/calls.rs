//! The cost of functions, methods and operators.

use super::path::Path;
use super::size::{Size, scaled};
use super::{ADDRESS, CHARACTER, Estimate, Estimator, FORMAT, NEW_LIST, REGEX, sum};
use crate::cel::library::{self, Overload};
use crate::cel::parse::qualified;
use crate::cel::syntax::{Expr, Node};
use crate::cel::types::Type;
use crate::cel::value::Value;

/// The receiver and the arguments of a call.
struct CallOperands<'e> {
    target: Option<(&'e Expr, Estimate)>,
    args: Vec<(&'e Expr, Estimate)>,
}

impl CallOperands<'_> {
    fn target(&self) -> Size {
        self.target.as_ref().map_or(Size::UNKNOWN, |(_, target)| target.size())
    }

    fn arg(&self, index: usize) -> Size {
        self.args.get(index).map_or(Size::UNKNOWN, |(_, arg)| arg.size())
    }

    /// The value of a literal number.
    fn number(&self, index: usize) -> Option<i64> {
        match self.args.get(index).map(|(arg, _)| &arg.node) {
            Some(Node::Literal(Value::Int(number))) => Some(*number),
            _ => None,
        }
    }
}

/// The cost of reading a text.
fn read(size: Size) -> u64 {
    scaled(size.most, CHARACTER)
}

/// The cost of matching a text with a regular expression; an empty text is not free.
fn matched(text: Size, pattern: Size) -> u64 {
    read(text.plus(Size::exactly(1))).saturating_mul(scaled(pattern.most, REGEX))
}

/// The cost of a function that makes a list, by the steps that it takes, and their number as cel-go's size of the list.
fn list(steps: Size, factor: f64) -> (u64, Option<Size>) {
    (scaled(steps.most, factor).saturating_add(1 + NEW_LIST), Some(steps))
}

impl<'a> Estimator<'a> {
    pub(super) fn call(&mut self, expr: &Expr, target: Option<&Expr>, name: &str, args: &[Expr]) -> Estimate {
        let full = target.and_then(qualified).map(|prefix| format!("{prefix}.{name}"));
        let full = full.filter(|full| library::overloads(full).is_some());
        let args: Vec<_> = args.iter().map(|arg| (arg, self.estimate(arg))).collect();
        let target = if full.is_some() { None } else { target };
        let called = CallOperands { target: target.map(|target| (target, self.estimate(target))), args };
        let estimates: Vec<_> = called.args.iter().map(|(_, arg)| arg.clone()).collect();
        let (name, given) = (full.as_deref().unwrap_or(name), sum(&estimates));
        match (name, estimates.as_slice()) {
            ("dyn", [arg]) => {
                return Estimate { cost: arg.cost.saturating_add(1), path: Path::default(), ..arg.clone() };
            }
            ("_&&_" | "_||_", _) => {
                return Estimate { cost: given, size: Some(Size::exactly(1)), ..Estimate::default() };
            }
            ("_?_:_", [condition, yes, no]) => {
                return Estimate {
                    cost: condition.cost.saturating_add(yes.cost.max(no.cost)),
                    size: Some(yes.size().or(no.size())),
                    entry: yes.entry.zip(no.entry).map(|(yes, no)| yes.or(no)),
                    path: Path::default(),
                };
            }
            _ => {}
        }
        let of = self.type_of(expr);
        let (mut cost, mut size, mut entry, mut path) = (0, None::<Size>, None, Path::default());
        // Of what is known only when it is evaluated, several overloads may be called.
        for overload in self.checked.overloads.get(&expr.at).into_iter().flatten() {
            let (own, result) = self.function(name, overload, &called);
            cost = cost.max(own);
            size = size.map_or(result, |size| Some(result.map_or(size, |result| size.or(result))));
            match (name, overload.parameters.as_slice(), estimates.as_slice()) {
                ("_[_]", [Type::List(_) | Type::Map(..), _], [container, ..]) => {
                    size = container.entry.map(|entry| entry.value);
                    path = container.path.values();
                }
                ("_+_", [Type::String | Type::Bytes | Type::List(_), _], [one, other]) => {
                    entry = one.entry.zip(other.entry).map(|(one, other)| one.or(other));
                }
                _ => {}
            }
            size = size.or_else(|| self.size_of(&path, of));
        }
        let before = called.target.as_ref().map_or(0, |(_, target)| target.cost);
        Estimate { cost: before.saturating_add(given).saturating_add(cost), size, entry, path }
    }

    /// The cost of an overload besides that of its arguments, and the size of its result, if it is known.
    fn function(&self, name: &str, overload: &Overload, called: &CallOperands<'_>) -> (u64, Option<Size>) {
        let (target, arg) = (called.target(), |index| called.arg(index));
        let is_method = called.target.is_some();
        let parameters = overload.parameters.as_slice();
        match name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" if is_method => {
                (self.traversed(called), None)
            }
            "url" => (read(arg(0)), Some(arg(0))),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => (read(target), Some(target)),
            "replace" => (scaled(target.most, 2.0 * CHARACTER), Some(replaced(target, arg(0), arg(1)))),
            "split" => {
                let most = called.number(1).map_or(target.most, |most| most as u64);
                (scaled(target.most, 2.0 * CHARACTER), Some(Size::up_to(most)))
            }
            "join" => {
                let size = self.joined(called);
                (read(size), Some(size))
            }
            "find" | "findAll" => (matched(target, arg(0)), Some(Size::up_to(target.most))),
            "ip" if is_method => (1, None),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                (read(arg(0)), None)
            }
            "ip.isCanonical" => (scaled(arg(0).most, 2.0 * CHARACTER), None),
            "containsIP" | "containsCIDR" => {
                let compared = scaled(2 * ADDRESS, CHARACTER);
                let masked = if name == "containsIP" { 0 } else { scaled(ADDRESS, CHARACTER) + 1 };
                let parsed = if parameters.get(1) == Some(&Type::String) { read(arg(0)) } else { 0 };
                ((compared + masked).saturating_add(parsed), None)
            }
            "validate" => (scaled(read(arg(0)), FORMAT * REGEX), None),
            "sets.contains" | "sets.intersects" => (arg(0).times(arg(1)).most.saturating_add(1), None),
            "sets.equivalent" => (scaled(arg(0).times(arg(1)).most, 2.0).saturating_add(1), None),
            "slice" => {
                let bound = |index, default| called.number(index).map_or(default, |at| u64::try_from(at).unwrap_or(0));
                list(Size::exactly(bound(1, target.most).wrapping_sub(bound(0, 0))), 1.0)
            }
            "flatten" => {
                let depth = if called.args.is_empty() { Some(1) } else { called.number(0) };
                list(target, depth.map_or(u64::MAX, |depth| u64::try_from(depth).unwrap_or(0)) as f64)
            }
            "lists.range" => {
                let length = called.number(0).map_or(u64::MAX, |length| u64::try_from(length).unwrap_or(0));
                list(Size::exactly(length), 1.0)
            }
            "reverse" => list(target, 1.0),
            "distinct" => list(target.times(target), 2.0),
            "sort" => {
                let text = matches!(parameters, [Type::List(of)] if matches!(**of, Type::String | Type::Bytes));
                list(target.times(target), if text { 2.0 + CHARACTER } else { 2.0 })
            }
            "format" => (read(target), None),
            "strings.quote" => {
                let Size { least, most } = arg(0);
                let size = Size { least: least.wrapping_add(2), most: most.wrapping_mul(2).wrapping_add(2) };
                (read(arg(0)), Some(size))
            }
            "bytes" if matches!(parameters, [Type::String]) => {
                let Size { least, most } = arg(0);
                (read(arg(0)), Some(Size { least, most: most.wrapping_mul(4) }))
            }
            "string" if matches!(parameters, [Type::Bytes]) => {
                let Size { least, most } = arg(0);
                (read(arg(0)), Some(Size { least: least / 4, most }))
            }
            "startsWith" | "endsWith" => (read(arg(0)), None),
            "@in" if matches!(parameters, [_, Type::List(_)]) => (arg(1).most, None),
            "matches" if is_method => (matched(target, arg(0)), None),
            "contains" => (read(target).saturating_mul(read(arg(0))), None),
            "_+_" => match parameters.first() {
                Some(Type::String | Type::Bytes) => {
                    let size = arg(0).plus(arg(1));
                    (read(size), Some(size))
                }
                Some(Type::List(_)) => (1, Some(arg(0).plus(arg(1)))),
                _ => (1, None),
            },
            "_==_" => (self.equality(called).unwrap_or_else(|| compared(called)), None),
            "_!=_" => (compared(called), None),
            "_<_" | "_<=_" | "_>_" | "_>=_" if matches!(parameters.first(), Some(Type::String | Type::Bytes)) => {
                (compared(called), None)
            }
            _ => (1, None),
        }
    }

    /// The size of the elements of the receiver.
    fn elements(&self, called: &CallOperands<'_>) -> Size {
        let known = called.target.as_ref().and_then(|(_, target)| target.path.size_of_values(self.root));
        known.unwrap_or(Size::UNKNOWN)
    }

    /// The cost of a method that reads each element of a list, or a text.
    fn traversed(&self, called: &CallOperands<'_>) -> u64 {
        match called.target.as_ref().map(|(target, _)| self.type_of(target)) {
            Some(Type::List(of)) => {
                let text = matches!(**of, Type::String | Type::Bytes);
                let each = if text { read(self.elements(called)).saturating_add(1) } else { 1 };
                called.target().most.saturating_mul(each)
            }
            _ => read(called.target()),
        }
    }

    fn joined(&self, called: &CallOperands<'_>) -> Size {
        let items = called.target();
        let is_list = called.target.as_ref().is_some_and(|(target, _)| matches!(self.type_of(target), Type::List(_)));
        let texts = if is_list { items.times(self.elements(called)) } else { Size::exactly(0) };
        if called.args.is_empty() {
            return texts;
        }
        let separators = Size { least: items.least.saturating_sub(1), most: items.most.saturating_sub(1) };
        texts.plus(called.arg(0).times(separators))
    }

    /// The cost of comparing two values of a type of Kubernetes.
    fn equality(&self, called: &CallOperands<'_>) -> Option<u64> {
        let [(one, _), (other, _)] = called.args.as_slice() else { return None };
        let (of, other) = (self.type_of(one), self.type_of(other));
        let name = match of {
            Type::Opaque(name) => *name,
            Type::Struct(object) => object.name.as_str(),
            _ => return None,
        };
        if of != other {
            return None;
        }
        match name {
            "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => Some(1),
            "kubernetes.NamedFormat" => Some(scaled(64, CHARACTER)),
            "kubernetes.URL" => Some(called.args[1].1.size.map_or(1, read)),
            _ => None,
        }
    }
}

/// The cost of comparing two values: that of reading the smaller one.
fn compared(called: &CallOperands<'_>) -> u64 {
    scaled(called.arg(0).most.min(called.arg(1).most), CHARACTER)
}

/// The size of a text in which a part is replaced as often as it may be there.
fn replaced(text: Size, part: Size, by: Size) -> Size {
    let often = |text: u64, part: u64| (text as f64 / part as f64).ceil() as u64;
    // An empty part is between all characters.
    let (most, kept_most) = if part.least == 0 {
        (text.most.saturating_add(1), text.most)
    } else if by.most <= part.least {
        (0, text.most)
    } else {
        (often(text.most, part.least), 0)
    };
    let (least, kept_least) = if part.most == 0 {
        (text.least.saturating_add(1), text.least)
    } else if part.most <= by.least {
        (0, text.least)
    } else {
        (often(text.least, part.most), 0)
    };
    Size { least, most }.times(by).plus(Size { least: kept_least, most: kept_most })
}
