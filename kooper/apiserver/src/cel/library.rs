//! The declarations of all functions, from `library.txt`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::{Mapping, Type};

/// One signature of a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// Then the first parameter is the receiver.
    pub(super) is_method: bool,
    pub(super) parameters: Vec<Type>,
    result: Type,
}

impl Overload {
    /// The parameters and the result of one call, in which each open type is a new one.
    pub(super) fn fresh(&self, mapping: &mut Mapping) -> (Vec<Type>, Type) {
        let mut names = HashMap::new();
        let parameters = self.parameters.iter().map(|of| renamed(of, mapping, &mut names)).collect();
        (parameters, renamed(&self.result, mapping, &mut names))
    }
}

fn renamed(of: &Type, mapping: &mut Mapping, names: &mut HashMap<usize, Type>) -> Type {
    let mut inner = |of: &Type| Box::new(renamed(of, mapping, names));
    match of {
        Type::Var(number) => names.entry(*number).or_insert_with(|| mapping.fresh()).clone(),
        Type::Type(of) => Type::Type(inner(of)),
        Type::List(of) => Type::List(inner(of)),
        Type::Optional(of) => Type::Optional(inner(of)),
        Type::Map(key, value) => {
            let key = inner(key);
            Type::Map(key, inner(value))
        }
        other => other.clone(),
    }
}

/// The signatures of the function of this name.
pub(super) fn overloads(name: &str) -> Option<&'static [Overload]> {
    static ALL: LazyLock<HashMap<&str, Vec<Overload>>> = LazyLock::new(read);
    ALL.get(name).map(Vec::as_slice)
}

/// The types that lists are ordered by, and those that they are summed up by.
const COMPARABLE: [&str; 8] = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];
const SUMMABLE: [&str; 4] = ["int", "uint", "double", "duration"];

fn read() -> HashMap<&'static str, Vec<Overload>> {
    let mut all: HashMap<&str, Vec<Overload>> = HashMap::new();
    for line in include_str!("library.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once('(') else { continue };
        let template = |letter: char| rest.split(['(', ')', ',', ';', ' ']).any(|word| word == letter.to_string());
        let of_each = |types: &[&str], letter: char| -> Vec<Overload> {
            types.iter().filter_map(|of| signature(&replaced(rest, letter, of))).collect()
        };
        let overloads = match (template('C'), template('S')) {
            (true, _) => of_each(&COMPARABLE, 'C'),
            (_, true) => of_each(&SUMMABLE, 'S'),
            _ => signature(rest).into_iter().collect(),
        };
        all.entry(name).or_default().extend(overloads);
    }
    for name in ["_<_", "_<=_", "_>_", "_>=_"] {
        all.insert(name, comparisons());
    }
    all
}

/// The signature with a type instead of a letter that stands alone.
fn replaced(text: &str, letter: char, of: &str) -> String {
    text.replace(&format!("({letter})"), &format!("({of})")).replace(&format!(" {letter}"), &format!(" {of}"))
}

/// Numbers of all types are compared with each other, and everything else with its own type.
fn comparisons() -> Vec<Overload> {
    let pairs = [
        (Type::Bool, Type::Bool),
        (Type::Int, Type::Int),
        (Type::Int, Type::Double),
        (Type::Int, Type::Uint),
        (Type::Uint, Type::Uint),
        (Type::Uint, Type::Double),
        (Type::Uint, Type::Int),
        (Type::Double, Type::Double),
        (Type::Double, Type::Int),
        (Type::Double, Type::Uint),
        (Type::String, Type::String),
        (Type::Bytes, Type::Bytes),
        (Type::Timestamp, Type::Timestamp),
        (Type::Duration, Type::Duration),
    ];
    let overload = |(one, other)| Overload { is_method: false, parameters: vec![one, other], result: Type::Bool };
    pairs.into_iter().map(overload).collect()
}

/// A signature behind its opening bracket.
fn signature(text: &str) -> Option<Overload> {
    let mut depth = 1;
    let end = text.find(|char| {
        depth += match char {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    let (inner, result) = (&text[..end], text[end + 1..].trim());
    let is_method = inner.contains(';');
    let parameters = split(&inner.replace(';', ",")).iter().map(|part| parsed(part)).collect();
    Some(Overload { is_method, parameters, result: parsed(result) })
}

/// The parts between the commas that are in no brackets.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for char in text.chars() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(last) if depth > 0 || char != ',' => last.push(char),
            _ => parts.push(String::new()),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn parsed(text: &str) -> Type {
    if let Some((name, inner)) = text.split_once('(') {
        let mut inner =
            split(inner.trim_end().strip_suffix(')').unwrap_or(inner)).into_iter().map(|part| parsed(&part));
        let mut next = || Box::new(inner.next().unwrap_or(Type::Dyn));
        return match name {
            "list" => Type::List(next()),
            "optional" => Type::Optional(next()),
            "type" => Type::Type(next()),
            _ => {
                let key = next();
                Type::Map(key, next())
            }
        };
    }
    match text {
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "url" => Type::object("kubernetes.URL"),
        "quantity" => Type::object("kubernetes.Quantity"),
        "semver" => Type::object("kubernetes.Semver"),
        "format" => Type::object("kubernetes.NamedFormat"),
        "dyn" => Type::Dyn,
        other => scalar(other)
            .unwrap_or_else(|| Type::Var(usize::from(other.as_bytes().first().copied().unwrap_or_default()))),
    }
}

/// The types that `library.txt` and expressions call the same.
fn scalar(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        _ => return None,
    })
}

/// The type that a name stands for in expressions such as `type(a) == int`.
pub(super) fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Type(Box::new(Type::Dyn)),
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        other => return scalar(other),
    })
}
