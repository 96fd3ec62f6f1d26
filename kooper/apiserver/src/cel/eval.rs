//! The value of an expression that has been checked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::check::reserved;
use super::cost::{NEW_LIST, NEW_MAP, sorted, spent};
use super::functions::{self, valid};
use super::parse::qualified;
use super::syntax::{Expr, Fold, FoldKind, Node, Select};
use super::value::{Key, Value};
use super::{CANCELLED, NO_OVERLOAD, library};

#[derive(Debug)]
pub(super) struct Scope<'a> {
    /// The values of the variables, the innermost last.
    variables: Vec<(String, Value)>,
    /// The sums of empty lists, whose types no element tells, by the place of the call.
    zeros: &'a HashMap<usize, Value>,
    cost: u64,
}

/// An evaluation that costs more is cancelled.
const LIMIT: u64 = 1_000_000;

type Evaluated = Result<Value, String>;

impl<'a> Scope<'a> {
    pub(super) fn new(variables: Vec<(String, Value)>, zeros: &'a HashMap<usize, Value>) -> Self {
        Self { variables, zeros, cost: 0 }
    }
}

impl Scope<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The value of an expression, unless it costs too much, and what it has cost.
    pub(super) fn run(mut self, expr: &Expr) -> (Evaluated, u64) {
        let result = self.evaluate(expr);
        // Operators that overlook errors do not overlook this one.
        (self.charge(0).and(result), self.cost)
    }

    fn charge(&mut self, cost: u64) -> Result<(), String> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > LIMIT { Err(CANCELLED.to_owned()) } else { Ok(()) }
    }

    fn evaluate(&mut self, expr: &Expr) -> Evaluated {
        let cost = match &expr.node {
            Node::Ident(_) | Node::Select { how: Select::Field | Select::Optional, .. } => 1,
            // cel-go makes constants of them.
            Node::List(_) | Node::Map(_) if is_constant(expr) => 0,
            Node::List(_) => NEW_LIST,
            Node::Map(_) => NEW_MAP,
            _ => 0,
        };
        self.charge(cost)?;
        match &expr.node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Ident(name) => match self.get(name) {
                Some(value) => valid(value.clone()),
                None => type_named(name).ok_or_else(|| format!("no such attribute(s): {name}")),
            },
            Node::Select { operand, field, how } => {
                if let Some(name) = qualified(expr).and_then(|name| type_named(&name)) {
                    return Ok(name);
                }
                let operand = self.evaluate(operand)?;
                select(operand, field, *how)
            }
            Node::Call { target, name, args } => self.call(expr.at, target.as_deref(), name, args),
            Node::List(items) => {
                let mut all = Vec::with_capacity(items.len());
                for item in items {
                    match self.evaluate(&item.value)? {
                        Value::Optional(content) if item.optional => all.extend(content.map(|value| (*value).clone())),
                        value => all.push(value),
                    }
                }
                Ok(all.into())
            }
            Node::Map(entries) => {
                let mut map = BTreeMap::new();
                for entry in entries {
                    let key = self.evaluate(&entry.key)?;
                    let value = match self.evaluate(&entry.value)? {
                        Value::Optional(None) if entry.optional => continue,
                        Value::Optional(Some(value)) if entry.optional => (*value).clone(),
                        value => value,
                    };
                    let of = key.type_name();
                    let key = Key::of(&key).ok_or_else(|| format!("unsupported key type: {of}"))?;
                    map.insert(key, value);
                }
                Ok(Value::map(map))
            }
            Node::Struct(name) => Err(format!("unknown type '{name}'")),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn call(&mut self, at: usize, target: Option<&Expr>, name: &str, args: &[Expr]) -> Evaluated {
        match (name, args, target) {
            ("_&&_", [left, right], _) => return self.logic(left, right, false),
            ("_||_", [left, right], _) => return self.logic(left, right, true),
            ("_?_:_", [condition, yes, no], _) => {
                return match self.evaluate(condition)? {
                    Value::Bool(true) => self.evaluate(yes),
                    Value::Bool(false) => self.evaluate(no),
                    _ => Err(NO_OVERLOAD.to_owned()),
                };
            }
            // The alternative is evaluated where it is needed.
            ("or" | "orValue", [alternative], Some(target)) => {
                return match self.evaluate(target)? {
                    Value::Optional(None) => self.evaluate(alternative),
                    Value::Optional(Some(value)) if name == "orValue" => Ok((*value).clone()),
                    some @ Value::Optional(Some(_)) => Ok(some),
                    _ => Err(NO_OVERLOAD.to_owned()),
                };
            }
            _ => {}
        }
        let full = target.and_then(qualified).map(|prefix| format!("{prefix}.{name}"));
        let full = full.filter(|full| library::overloads(full).is_some());
        let mut values = Vec::with_capacity(args.len() + 1);
        if full.is_none()
            && let Some(target) = target
        {
            values.push(self.evaluate(target)?);
        }
        for arg in args {
            values.push(self.evaluate(arg)?);
        }
        if name == "sum"
            && let [Value::List(list)] = values.as_slice()
            && list.items.is_empty()
            && let Some(zero) = self.zeros.get(&at)
        {
            return Ok(zero.clone());
        }
        let name = full.as_deref().unwrap_or(name);
        // Of a constant list cel-go makes a set.
        if name != "@in" || !args.last().is_some_and(is_constant) {
            self.charge(spent(name, &values))?;
        }
        functions::call(name, &values).and_then(valid)
    }

    /// `&&` or `||`: what one side decides counts, even if the other one is an error.
    fn logic(&mut self, left: &Expr, right: &Expr, decides: bool) -> Evaluated {
        let left = self.evaluate(left);
        if matches!(left, Ok(Value::Bool(value)) if value == decides) {
            return Ok(Value::Bool(decides));
        }
        match (left, self.evaluate(right)) {
            (_, Ok(Value::Bool(value))) if value == decides => Ok(Value::Bool(decides)),
            (Err(why), _) | (Ok(Value::Bool(_)), Err(why)) => Err(why),
            (Ok(Value::Bool(_)), Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            _ => Err(NO_OVERLOAD.to_owned()),
        }
    }

    fn fold(&mut self, fold: &Fold) -> Evaluated {
        let range = self.evaluate(&fold.range)?;
        if let FoldKind::OptMap | FoldKind::OptFlatMap = fold.kind {
            let Value::Optional(content) = &range else { return Err(NO_OVERLOAD.to_owned()) };
            self.charge(3)?;
            let Some(content) = content else { return Ok(Value::NONE) };
            let value = self.with(fold, (**content).clone(), None, &fold.body)?;
            return Ok(if fold.kind == FoldKind::OptMap { Value::some(value) } else { value });
        }
        let pairs = pairs(&range, fold.var2.is_some())?;
        // The result; that of `exists_one` is compared.
        self.charge(if fold.kind == FoldKind::ExistsOne { 2 } else { 1 })?;
        match fold.kind {
            FoldKind::All => self.quantify(fold, pairs, false),
            FoldKind::Exists => self.quantify(fold, pairs, true),
            FoldKind::SortBy => {
                let mut keyed = Vec::new();
                for (value, _) in pairs {
                    self.charge(NEW_LIST + 2)?;
                    keyed.push((self.with(fold, value.clone(), None, &fold.body)?, value));
                }
                self.charge(sorted(keyed.first().map(|(key, _)| key), keyed.len() as u64))?;
                functions::sorted(keyed)
            }
            _ => self.collect(fold, pairs),
        }
    }

    /// Evaluates an expression with the variables of a macro.
    fn with(&mut self, fold: &Fold, value: Value, second: Option<Value>, body: &Expr) -> Evaluated {
        let depth = self.variables.len();
        self.variables.push((fold.var.clone(), value));
        if let (Some(name), Some(second)) = (&fold.var2, second) {
            self.variables.push((name.clone(), second));
        }
        let result = self.evaluate(body);
        self.variables.truncate(depth);
        result
    }

    fn quantify(&mut self, fold: &Fold, pairs: Vec<(Value, Option<Value>)>, decides: bool) -> Evaluated {
        let mut failed = None;
        // The accumulator is read for the condition and for each step.
        let round = if decides { 4 } else { 3 };
        for (value, second) in pairs {
            self.charge(round)?;
            match self.with(fold, value, second, &fold.body) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or_else(|| Some(NO_OVERLOAD.to_owned())),
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn holds(&mut self, fold: &Fold, value: &Value, second: Option<&Value>, condition: &Expr) -> Result<bool, String> {
        match self.with(fold, value.clone(), second.cloned(), condition)? {
            Value::Bool(holds) => Ok(holds),
            _ => Err(NO_OVERLOAD.to_owned()),
        }
    }

    fn collect(&mut self, fold: &Fold, pairs: Vec<(Value, Option<Value>)>) -> Evaluated {
        let (mut list, mut map) = (Vec::new(), BTreeMap::new());
        for (value, second) in pairs {
            self.charge(1)?;
            let admitted = match &fold.filter {
                Some(filter) => self.holds(fold, &value, second.as_ref(), filter)?,
                None => true,
            };
            if !admitted {
                continue;
            }
            match fold.kind {
                FoldKind::Filter | FoldKind::ExistsOne => {
                    if self.holds(fold, &value, second.as_ref(), &fold.body)? {
                        self.charge(if fold.kind == FoldKind::Filter { NEW_LIST + 2 } else { 1 })?;
                        list.push(value);
                    }
                }
                FoldKind::Map => {
                    self.charge(2)?;
                    let body = self.with(fold, value.clone(), second, &fold.body)?;
                    insert(&mut map, &value, body)?;
                }
                FoldKind::MapEntry => match self.with(fold, value, second, &fold.body)? {
                    Value::Map(entries) => {
                        for (key, value) in entries.iter() {
                            insert(&mut map, &key.value(), value.clone())?;
                        }
                    }
                    _ => return Err(NO_OVERLOAD.to_owned()),
                },
                _ => {
                    self.charge(NEW_LIST + 1)?;
                    list.push(self.with(fold, value, second, &fold.body)?);
                }
            }
        }
        Ok(match fold.kind {
            FoldKind::ExistsOne => Value::Bool(list.len() == 1),
            FoldKind::Map | FoldKind::MapEntry => Value::map(map),
            _ => list.into(),
        })
    }
}

/// A literal, or a list or map of them.
fn is_constant(expr: &Expr) -> bool {
    match &expr.node {
        Node::Literal(_) => true,
        Node::List(items) => items.iter().all(|item| !item.optional && is_constant(&item.value)),
        Node::Map(entries) => {
            entries.iter().all(|entry| !entry.optional && is_constant(&entry.key) && is_constant(&entry.value))
        }
        _ => false,
    }
}

fn insert(map: &mut BTreeMap<Key, Value>, key: &Value, value: Value) -> Result<(), String> {
    let known = Key::of(key).ok_or_else(|| format!("unsupported key type: {}", key.type_name()))?;
    match map.insert(known, value) {
        None => Ok(()),
        Some(_) => Err(format!("insert failed: key {} already exists", functions::shown(key))),
    }
}

/// The variables of a macro for each element. A single variable of a map is its key, of a list its element.
fn pairs(range: &Value, two: bool) -> Result<Vec<(Value, Option<Value>)>, String> {
    Ok(match range {
        Value::List(list) if two => {
            let with_index = |(index, value): (usize, &Value)| (Value::Int(index as i64), Some(value.clone()));
            list.items.iter().enumerate().map(with_index).collect()
        }
        Value::List(list) => list.items.iter().map(|value| (value.clone(), None)).collect(),
        Value::Map(map) => map.iter().map(|(key, value)| (key.value(), two.then(|| value.clone()))).collect(),
        _ => return Err(NO_OVERLOAD.to_owned()),
    })
}

fn type_named(name: &str) -> Option<Value> {
    library::named_type(name).map(|_| Value::Type(Arc::from(name)))
}

fn select(operand: Value, field: &str, how: Select) -> Evaluated {
    match operand {
        Value::Optional(content) => {
            let found = content.map(|content| select((*content).clone(), field, Select::Optional));
            let found = found.unwrap_or(Ok(Value::NONE))?;
            Ok(if how == Select::Test { Value::Bool(found != Value::NONE) } else { found })
        }
        Value::Map(map) => {
            let found = map.get(&Key::String(field.into()));
            let found = found.or_else(|| map.get(&Key::String(reserved(field)?.into())));
            match (how, found) {
                (Select::Test, found) => Ok(Value::Bool(found.is_some())),
                (Select::Optional, None) => Ok(Value::NONE),
                (Select::Optional, Some(value)) => valid(value.clone()).map(Value::some),
                (Select::Field, Some(value)) => valid(value.clone()),
                (Select::Field, None) => Err(format!("no such key: {field}")),
            }
        }
        Value::Null if how == Select::Optional => Ok(Value::NONE),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}
