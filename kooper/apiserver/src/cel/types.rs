//! Types, and which of them stand for others.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::enum_variant_names, reason = "CEL calls the type of types `type`")]
pub(crate) enum Type {
    /// Anything, known only when it is evaluated.
    Dyn,
    /// Of something wrong, which was reported.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    Type(Box<Type>),
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    /// `net.IP` and `net.CIDR`
    Opaque(&'static str),
    Struct(Arc<Struct>),
    /// To be found out.
    Var(usize),
}

/// An object with fields.
#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, Type>,
}

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    pub(crate) fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    pub(crate) fn optional(of: Self) -> Self {
        Self::Optional(Box::new(of))
    }

    /// A type of one of Kubernetes' libraries.
    pub(super) fn object(name: &str) -> Self {
        Self::Struct(Arc::new(Struct { name: name.to_owned(), fields: BTreeMap::new() }))
    }

    fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::Type(of) | Self::List(of) | Self::Optional(of) => vec![of],
            Self::Map(key, value) => vec![key, value],
            _ => Vec::new(),
        }
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Struct(object) => f.write_str(&object.name),
            Self::Var(number) => write!(f, "_var{number}"),
        }
    }
}

/// The types that have been found for variables, by the algorithm of cel-go.
#[derive(Debug, Clone, Default)]
pub(super) struct Mapping {
    known: HashMap<usize, Type>,
    next: usize,
}

impl Mapping {
    pub(super) fn fresh(&mut self) -> Type {
        self.next += 1;
        Type::Var(self.next - 1)
    }

    /// The type with all that is known; what is not may become `dyn`.
    pub(super) fn substitute(&self, of: &Type, to_dyn: bool) -> Type {
        let inner = |of: &Type| Box::new(self.substitute(of, to_dyn));
        match of {
            Type::Var(number) => match self.known.get(number) {
                Some(known) => self.substitute(known, to_dyn),
                None if to_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::Type(of) => Type::Type(inner(of)),
            Type::List(of) => Type::List(inner(of)),
            Type::Optional(of) => Type::Optional(inner(of)),
            Type::Map(key, value) => Type::Map(inner(key), inner(value)),
            other => other.clone(),
        }
    }

    /// Makes both the same type, if they can be; variables are bound only then.
    pub(super) fn assign(&mut self, one: &Type, other: &Type) -> bool {
        let mut next = self.clone();
        let fits = next.fits(one, other);
        if fits {
            *self = next;
        }
        fits
    }

    pub(super) fn assign_all(&mut self, ones: &[Type], others: &[Type]) -> bool {
        let mut next = self.clone();
        let fits = ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| next.fits(one, other));
        if fits {
            *self = next;
        }
        fits
    }

    fn fits(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Var(number) = other {
            let known = self.known.contains_key(number) || one == other;
            if self.stands_for(one, *number) {
                return true;
            }
            if known {
                return false;
            }
        }
        if let Type::Var(number) = one {
            return self.stands_for(other, *number);
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        match (one, other) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null | Type::Optional(_) | Type::Opaque(_) | Type::Struct(_) | Type::Duration | Type::Timestamp
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.fits(one, other)
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.fits(key, other_key) && self.fits(value, other_value)
            }
            _ => one == other,
        }
    }

    fn stands_for(&mut self, of: &Type, number: usize) -> bool {
        if *of == Type::Var(number) {
            return true;
        }
        if let Some(known) = self.known.get(&number).cloned() {
            if *of == known {
                return true;
            }
            let fits = self.fits(of, &known);
            if fits {
                let general = most_general(of, &known);
                if self.is_free_of(number, &general) {
                    self.known.insert(number, general);
                }
            }
            return fits;
        }
        let free = self.is_free_of(number, of);
        if free {
            self.known.insert(number, of.clone());
        }
        free
    }

    fn is_free_of(&self, number: usize, within: &Type) -> bool {
        match within {
            Type::Var(other) if *other == number => false,
            Type::Var(other) => self.known.get(other).is_none_or(|known| self.is_free_of(number, known)),
            _ => within.parameters().into_iter().all(|part| self.is_free_of(number, part)),
        }
    }
}

pub(super) fn most_general(one: &Type, other: &Type) -> Type {
    if is_as_general(one, other) { one.clone() } else { other.clone() }
}

fn is_as_general(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
            is_as_general(one, other)
        }
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            is_as_general(key, other_key) && is_as_general(value, other_value)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => one == other,
    }
}
