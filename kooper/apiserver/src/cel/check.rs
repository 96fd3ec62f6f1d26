//! The types of an expression: what does not fit is refused before it is ever evaluated.

mod literals;

use std::collections::HashMap;

use super::library::{Overload, named_type, overloads};
use super::parse::{RESERVED, qualified};
use super::syntax::{Expr, Fold, FoldKind, Issue, Node, Select};
use super::types::{Mapping, Type, most_general};
use super::value::Value;

/// A checked expression.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) of: Type,
    pub(super) uses_old_self: bool,
    /// The sums of empty lists of other than integers, by the place of the call: at run time, no element tells the type.
    pub(super) zeros: HashMap<usize, Value>,
    /// The types of all parts of the expression, by their places, of which each has one of its own.
    pub(super) types: HashMap<usize, Type>,
    /// The signatures that a call may have, by its place.
    pub(super) overloads: HashMap<usize, Vec<&'static Overload>>,
}

/// Finds the type of an expression with these variables.
pub(super) fn check(expr: &Expr, variables: &[(&str, Type)]) -> Result<Checked, Vec<Issue>> {
    let scope = variables.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect();
    let mut checker = Checker {
        scope,
        outer: variables.len(),
        mapping: Mapping::default(),
        issues: Vec::new(),
        uses_old_self: false,
        zeros: HashMap::new(),
        types: HashMap::new(),
        overloads: HashMap::new(),
        formatted: 0,
    };
    let of = checker.check(expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    checker.literals(expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let Checker { mapping, uses_old_self, zeros, types, overloads, .. } = checker;
    let types = types.into_iter().map(|(at, of)| (at, mapping.substitute(&of, true))).collect();
    Ok(Checked { of: mapping.substitute(&of, true), uses_old_self, zeros, types, overloads })
}

struct Checker {
    /// The innermost last.
    scope: Vec<(String, Type)>,
    /// The number of those that macros have not made.
    outer: usize,
    mapping: Mapping,
    issues: Vec<Issue>,
    uses_old_self: bool,
    zeros: HashMap<usize, Value>,
    types: HashMap<usize, Type>,
    overloads: HashMap<usize, Vec<&'static Overload>>,
    /// Within the arguments of how many calls of `format` it is.
    formatted: usize,
}

impl Checker {
    fn report(&mut self, at: usize, message: impl Into<String>) -> Type {
        self.issues.push(Issue::new(at, message));
        Type::Error
    }

    fn mismatch(&mut self, at: usize, expected: &Type, found: &Type) -> Type {
        self.report(at, format!("expected type '{expected}' but found '{found}'"))
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.report(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn known(&self, of: &Type) -> Type {
        self.mapping.substitute(of, false)
    }

    fn ident(&mut self, name: &str) -> Option<Type> {
        if let Some(index) = self.scope.iter().rposition(|(known, _)| known == name) {
            self.uses_old_self |= index < self.outer && name == "oldSelf";
            return Some(self.scope[index].1.clone());
        }
        named_type(name).map(|of| Type::Type(Box::new(of)))
    }

    fn check(&mut self, expr: &Expr) -> Type {
        let of = self.find(expr);
        self.types.insert(expr.at, of.clone());
        of
    }

    fn find(&mut self, expr: &Expr) -> Type {
        match &expr.node {
            Node::Literal(value) => literal(value),
            Node::Ident(name) => self.ident(name).unwrap_or_else(|| self.undeclared(expr.at, name)),
            Node::Select { operand, field, how } => {
                let name = qualified(expr).filter(|name| name.contains('.'));
                if let Some(of) = name.and_then(|name| named_type(&name)) {
                    return Type::Type(Box::new(of));
                }
                self.select(expr.at, operand, field, *how)
            }
            Node::Call { target, name, args } => self.call(expr.at, target.as_deref(), name, args),
            Node::List(items) => {
                let mut joined = None;
                for item in items {
                    let of = self.check(&item.value);
                    let of = self.unwrapped(&item.value, of, item.optional);
                    joined = Some(self.join(&item.value, joined, of));
                }
                Type::list(joined.unwrap_or_else(|| self.mapping.fresh()))
            }
            Node::Map(entries) => {
                let (mut key, mut value) = (None, None);
                for entry in entries {
                    let of = self.check(&entry.key);
                    key = Some(self.join(&entry.key, key, of));
                    let of = self.check(&entry.value);
                    let of = self.unwrapped(&entry.value, of, entry.optional);
                    value = Some(self.join(&entry.value, value, of));
                }
                let key = key.unwrap_or_else(|| self.mapping.fresh());
                Type::map(key, value.unwrap_or_else(|| self.mapping.fresh()))
            }
            Node::Struct(name) if name.starts_with("google.protobuf.") => {
                self.report(expr.at, format!("{}: it has no messages", super::LIMIT))
            }
            Node::Struct(name) => match self.ident(name) {
                Some(Type::Type(of)) => self.report(expr.at, format!("'{of}' is not a message type")),
                Some(of) => self.report(expr.at, format!("'{of}' is not a type")),
                None => self.undeclared(expr.at, name),
            },
            Node::Fold(fold) => self.fold(expr.at, fold),
        }
    }

    /// The type of what an optional element adds.
    fn unwrapped(&mut self, expr: &Expr, of: Type, optional: bool) -> Type {
        if !optional {
            return of;
        }
        match self.known(&of) {
            Type::Optional(of) => *of,
            Type::Dyn => Type::Dyn,
            other => {
                self.mismatch(expr.at, &Type::optional(other.clone()), &other);
                other
            }
        }
    }

    fn join(&mut self, expr: &Expr, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.mapping.assign(&previous, &current) {
            return most_general(&previous, &current);
        }
        // Only what `format` gets may have elements of several types.
        if self.formatted == 0 {
            self.mismatch(expr.at, &previous, &current);
        }
        Type::Dyn
    }

    fn select(&mut self, at: usize, operand: &Expr, field: &str, how: Select) -> Type {
        let of = self.check(operand);
        let (target, wrapped) = match self.known(&of) {
            Type::Optional(of) => (*of, true),
            other => (other, false),
        };
        let result = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Struct(object) => match object.fields.get(field).or_else(|| object.fields.get(&reserved(field)?)) {
                Some(of) => of.clone(),
                None => self.report(at, format!("undefined field '{field}'")),
            },
            Type::Var(_) => {
                self.mapping.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            other if other.is_dyn_or_error() => Type::Dyn,
            other => {
                self.report(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        let result = self.known(&result);
        match how {
            Select::Test => Type::Bool,
            _ if wrapped || how == Select::Optional => Type::optional(result),
            _ => result,
        }
    }

    fn call(&mut self, at: usize, target: Option<&Expr>, name: &str, args: &[Expr]) -> Type {
        let formats = usize::from(name == "format" && target.is_some());
        self.formatted += formats;
        let mut types: Vec<_> = args.iter().map(|arg| self.check(arg)).collect();
        self.formatted -= formats;
        if matches!(name, "_&&_" | "_||_") {
            let mut result = Type::Bool;
            for (arg, of) in args.iter().zip(&types) {
                if !self.mapping.assign(of, &Type::Bool) {
                    let of = self.known(of);
                    result = self.mismatch(arg.at, &Type::Bool, &of);
                }
            }
            return result;
        }
        let Some(target) = target else {
            let Some(known) = overloads(name) else { return self.undeclared(at, name) };
            return self.resolve(at, known, false, name, &types);
        };
        let full = qualified(target).map(|prefix| format!("{prefix}.{name}"));
        if let Some((full, known)) = full.and_then(|full| overloads(&full).map(|known| (full, known))) {
            return self.resolve(at, known, false, &full, &types);
        }
        let of = self.check(target);
        let Some(known) = overloads(name) else { return self.undeclared(at, name) };
        types.insert(0, of);
        let result = self.resolve(at, known, true, name, &types);
        let zero = match &result {
            Type::Uint => Some(Value::Uint(0)),
            Type::Double => Some(Value::Double(0.0)),
            Type::Duration => Some(Value::Duration(0)),
            _ => None,
        };
        self.zeros.extend(zero.filter(|_| name == "sum").map(|zero| (at, zero)));
        result
    }

    fn resolve(
        &mut self,
        at: usize,
        overloads: &'static [Overload],
        is_method: bool,
        name: &str,
        args: &[Type],
    ) -> Type {
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.is_method == is_method) {
            let (parameters, of) = overload.fresh(&mut self.mapping);
            if !self.mapping.assign_all(args, &parameters) {
                continue;
            }
            self.overloads.entry(at).or_default().push(overload);
            let of = self.known(&of);
            result = Some(match result {
                None => of,
                Some(before) if before == Type::Dyn || before == of => before,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| {
            let shown: Vec<_> = args.iter().map(|of| self.mapping.substitute(of, true).to_string()).collect();
            let shown = match shown.split_first() {
                Some((receiver, rest)) if is_method => format!("{receiver}.({})", rest.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            self.report(at, format!("found no matching overload for '{name}' applied to '{shown}'"))
        })
    }

    /// The types of the variables of a macro.
    fn variables(&mut self, fold: &Fold) -> (Type, Type) {
        let range = self.check(&fold.range);
        let two = fold.var2.is_some();
        match self.known(&range) {
            Type::List(of) if two => (Type::Int, *of),
            Type::List(of) => (*of, Type::Dyn),
            Type::Map(key, value) => (*key, *value),
            open @ (Type::Dyn | Type::Error | Type::Var(_)) => {
                self.mapping.assign(&Type::Dyn, &open);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                let error = self.report(fold.range.at, why);
                (error.clone(), error)
            }
        }
    }

    fn fold(&mut self, at: usize, fold: &Fold) -> Type {
        if matches!(fold.kind, FoldKind::OptMap | FoldKind::OptFlatMap) {
            return self.opt_map(at, fold);
        }
        let (var, var2) = self.variables(fold);
        let depth = self.scope.len();
        self.scope.push((fold.var.clone(), var.clone()));
        if let Some(name) = &fold.var2 {
            self.scope.push((name.clone(), var2));
        }
        if let Some(filter) = &fold.filter {
            let of = self.check(filter);
            self.condition(at, &of, &Type::list(Type::Dyn));
        }
        let body = self.check(&fold.body);
        let result = match fold.kind {
            FoldKind::All | FoldKind::Exists => {
                if !self.mapping.assign(&body, &Type::Bool) {
                    let of = self.known(&body);
                    self.mismatch(fold.body.at, &Type::Bool, &of);
                }
                Type::Bool
            }
            FoldKind::ExistsOne => {
                self.condition(at, &body, &Type::Int);
                Type::Bool
            }
            FoldKind::Filter => {
                let list = Type::list(self.known(&var));
                self.condition(at, &body, &list);
                list
            }
            FoldKind::Map => Type::map(self.known(&var), body),
            FoldKind::MapEntry => {
                let (key, value) = (self.mapping.fresh(), self.mapping.fresh());
                let map = Type::map(key, value);
                if self.mapping.assign(&body, &map) {
                    self.known(&map)
                } else {
                    let of = self.mapping.substitute(&body, true);
                    let why =
                        format!("found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), {of})'");
                    self.report(at, why)
                }
            }
            FoldKind::SortBy => {
                let (keys, list) = (Type::list(self.known(&body)), Type::list(self.known(&var)));
                let sorts = overloads("isSorted").unwrap_or_default();
                let comparable = sorts.iter().any(|overload| {
                    let (parameters, _) = overload.fresh(&mut self.mapping);
                    self.mapping.assign_all(std::slice::from_ref(&keys), &parameters)
                });
                if comparable {
                    list
                } else {
                    let (list, keys) = (self.mapping.substitute(&list, true), self.mapping.substitute(&keys, true));
                    let why =
                        format!("found no matching overload for '@sortByAssociatedKeys' applied to '{list}.({keys})'");
                    self.report(at, why)
                }
            }
            FoldKind::List | FoldKind::OptMap | FoldKind::OptFlatMap => Type::list(self.known(&body)),
        };
        self.scope.truncate(depth);
        result
    }

    /// Checks the condition on which a macro goes on with a value.
    fn condition(&mut self, at: usize, of: &Type, value: &Type) {
        if !self.mapping.assign(of, &Type::Bool) {
            let (of, value) = (self.mapping.substitute(of, true), self.mapping.substitute(value, true));
            self.report(at, format!("found no matching overload for '_?_:_' applied to '({of}, {value}, {value})'"));
        }
    }

    fn opt_map(&mut self, at: usize, fold: &Fold) -> Type {
        let target = self.check(&fold.range);
        let content = self.mapping.fresh();
        if !self.mapping.assign(&target, &Type::optional(content.clone())) {
            let of = self.mapping.substitute(&target, true);
            self.report(at, format!("found no matching overload for 'hasValue' applied to '{of}.()'"));
            return self.report(at, format!("found no matching overload for 'value' applied to '{of}.()'"));
        }
        let content = self.known(&content);
        self.scope.push((fold.var.clone(), content));
        let body = self.check(&fold.body);
        self.scope.pop();
        if fold.kind == FoldKind::OptMap {
            return Type::optional(self.known(&body));
        }
        let none = Type::optional(self.mapping.fresh());
        if self.mapping.assign(&body, &none) {
            return self.known(&body);
        }
        let of = self.mapping.substitute(&body, true);
        let why = format!("found no matching overload for '_?_:_' applied to '(bool, {of}, optional_type(dyn))'");
        self.report(at, why)
    }
}

/// The name of a field that is a reserved word.
pub(super) fn reserved(field: &str) -> Option<String> {
    RESERVED.contains(&field).then(|| format!("__{field}__"))
}

fn literal(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Null,
    }
}
