//! Literals that can never be right: arguments that are no duration, time, regular expression or format, and lists and
//! maps of several types.

use super::Checker;
use crate::cel::syntax::{Expr, Issue, Node};
use crate::cel::types::Type;
use crate::cel::value::Value;
use crate::cel::{LIMIT, functions, regex};

impl Checker {
    /// Literals that are never a duration, a time or a regular expression.
    pub(super) fn literals(&mut self, expr: &Expr) {
        match &expr.node {
            Node::Literal(_) | Node::Ident(_) | Node::Struct(_) => {}
            Node::Select { operand, .. } => self.literals(operand),
            Node::Call { target, name, args } => {
                let formats = usize::from(name == "format");
                self.formatted += formats;
                target.iter().for_each(|target| self.literals(target));
                args.iter().for_each(|arg| self.literals(arg));
                self.formatted -= formats;
                self.literal_argument(expr.at, target.as_deref(), name, args);
            }
            Node::List(items) => {
                items.iter().for_each(|item| self.literals(&item.value));
                let mut different = self.different(items.iter().map(|item| (&item.value, item.optional)));
                different.truncate(1);
                self.issues.extend(different);
            }
            Node::Map(entries) => {
                for entry in entries {
                    self.literals(&entry.key);
                    self.literals(&entry.value);
                }
                let keys = self.different(entries.iter().map(|entry| (&entry.key, false)));
                let values = self.different(entries.iter().map(|entry| (&entry.value, entry.optional)));
                self.issues.extend(keys.into_iter().chain(values));
            }
            Node::Fold(fold) => {
                self.literals(&fold.range);
                fold.filter.iter().for_each(|filter| self.literals(filter));
                self.literals(&fold.body);
            }
        }
    }

    /// The elements that are not of the type of the first one: not even `dyn` may stand for it.
    fn different<'e>(&self, elements: impl Iterator<Item = (&'e Expr, bool)>) -> Vec<Issue> {
        if self.formatted > 0 {
            return Vec::new();
        }
        let typed = elements.map(|(element, optional)| {
            let of = self.mapping.substitute(self.types.get(&element.at).unwrap_or(&Type::Dyn), true);
            match of {
                Type::Optional(of) if optional => (element.at, *of),
                of => (element.at, of),
            }
        });
        let mut typed = typed.peekable();
        let Some((_, first)) = typed.peek().cloned() else { return Vec::new() };
        let others = typed.filter(|(_, of)| *of != first);
        others.map(|(at, of)| Issue::new(at, format!("expected type '{first}' but found '{of}'"))).collect()
    }

    fn literal_argument(&mut self, at: usize, target: Option<&Expr>, name: &str, args: &[Expr]) {
        let arg = match (name, target, args) {
            ("duration" | "timestamp", None, [arg]) | ("matches", Some(_), [arg]) => arg,
            ("matches", None, [_, arg]) => arg,
            ("find" | "findAll", Some(_), [arg, ..]) => arg,
            ("format", Some(format), [list]) => return self.format(at, format, list),
            _ => return,
        };
        let Node::Literal(literal) = &arg.node else { return };
        match (name, literal) {
            ("duration" | "timestamp", _) => {
                let of_text = name == "timestamp" || matches!(literal, Value::String(_));
                if !of_text || functions::call(name, std::slice::from_ref(literal)).is_err() {
                    self.report(arg.at, format!("invalid {name} argument"));
                }
            }
            (_, Value::String(pattern)) => {
                if let Err(error) = regex::compile(pattern) {
                    let limit = error.starts_with(LIMIT);
                    self.report(arg.at, if limit { error } else { format!("invalid {name} argument") });
                }
            }
            _ => {}
        }
    }

    /// Compares a literal format with the values of a literal list. A list that is computed is compared at run time.
    fn format(&mut self, at: usize, format: &Expr, list: &Expr) {
        let (Node::Literal(Value::String(text)), Node::List(items)) = (&format.node, &list.node) else { return };
        let parts = match functions::parts(text, items.len()) {
            Ok(parts) => parts,
            Err(why) => {
                self.report(at, why);
                return;
            }
        };
        let mut used = 0;
        for part in parts {
            let functions::Part::Clause { verb, .. } = part else { continue };
            let Some(item) = items.get(used) else { break };
            used += 1;
            if let Some((at, of)) = self.unfit(verb, &item.value) {
                self.report(at, functions::unfit(verb, &of));
                return;
            }
        }
        if items.len() > used {
            let why = format!("too many arguments supplied to string.format (expected {used}, got {})", items.len());
            self.report(at, why);
        }
    }

    /// The part of a value that a verb is not for, and its type.
    fn unfit(&mut self, verb: char, value: &Expr) -> Option<(usize, String)> {
        let of = self.known(self.types.get(&value.at).unwrap_or(&Type::Dyn));
        let fits = match verb {
            _ if of == Type::Dyn => true,
            'd' | 'o' => matches!(of, Type::Int | Type::Uint),
            'f' | 'e' => matches!(of, Type::Double | Type::String),
            'b' => matches!(of, Type::Int | Type::Uint | Type::Bool),
            'x' | 'X' => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
            _ => !matches!(of, Type::Optional(_) | Type::Opaque(_) | Type::Struct(_)),
        };
        if !fits {
            return Some((value.at, runtime_name(&of)));
        }
        match (&value.node, verb) {
            (Node::List(items), 's') => items.iter().find_map(|item| self.unfit(verb, &item.value)),
            (Node::Map(entries), 's') => {
                entries.iter().find_map(|entry| self.unfit(verb, &entry.key).or_else(|| self.unfit(verb, &entry.value)))
            }
            _ => None,
        }
    }
}

/// The name of a type when an expression is evaluated.
fn runtime_name(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Type(_) => "type".to_owned(),
        Type::List(_) => "list".to_owned(),
        Type::Map(..) => "map".to_owned(),
        Type::Optional(_) => "optional_type".to_owned(),
        other => other.to_string(),
    }
}
