//! The types of an expression: what does not fit is refused before it is ever evaluated.

use std::collections::HashMap;

use super::library::{named_type, overloads};
use super::parse::{RESERVED, qualified};
use super::syntax::{Expr, Fold, FoldKind, Issue, Node, Select};
use super::types::{Mapping, Type, most_general};
use super::value::Value;
use super::{functions, regex};

/// What an expression was found to be.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) of: Type,
    pub(super) uses_old_self: bool,
    /// What the sum of an empty list is, for each place where lists of other than integers are summed up.
    pub(super) zeros: HashMap<usize, Value>,
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
    let Checker { mapping, uses_old_self, zeros, .. } = checker;
    Ok(Checked { of: mapping.substitute(&of, true), uses_old_self, zeros })
}

struct Checker {
    /// The innermost last.
    scope: Vec<(String, Type)>,
    /// How many of them are not those of macros.
    outer: usize,
    mapping: Mapping,
    issues: Vec<Issue>,
    uses_old_self: bool,
    zeros: HashMap<usize, Value>,
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
        overloads: &[super::library::Overload],
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

    /// Literals that are never a duration, a time or a regular expression.
    fn literals(&mut self, expr: &Expr) {
        match &expr.node {
            Node::Literal(_) | Node::Ident(_) | Node::Struct(_) => {}
            Node::Select { operand, .. } => self.literals(operand),
            Node::Call { target, name, args } => {
                target.iter().for_each(|target| self.literals(target));
                args.iter().for_each(|arg| self.literals(arg));
                self.literal_argument(expr.at, target.as_deref(), name, args);
            }
            Node::List(items) => items.iter().for_each(|item| self.literals(&item.value)),
            Node::Map(entries) => {
                for entry in entries {
                    self.literals(&entry.key);
                    self.literals(&entry.value);
                }
            }
            Node::Fold(fold) => {
                self.literals(&fold.range);
                fold.filter.iter().for_each(|filter| self.literals(filter));
                self.literals(&fold.body);
            }
        }
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
                    let limit = error.starts_with(super::LIMIT);
                    self.report(arg.at, if limit { error } else { format!("invalid {name} argument") });
                }
            }
            _ => {}
        }
    }

    /// Whether a format that is a literal fits the values that are written behind it.
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
        self.formatted += 1;
        let of = self.check(value);
        self.formatted -= 1;
        let of = self.known(&of);
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

/// The name of a field that is a reserved word.
pub(super) fn reserved(field: &str) -> Option<String> {
    RESERVED.contains(&field).then(|| format!("__{field}__"))
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
