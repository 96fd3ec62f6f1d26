//! Values, and when two of them are equal or in order.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::address::Cidr;
use super::format::Format;
use super::semver::Semver;
use super::time::Time;
use super::url::Url;
use crate::quantity::Quantity;

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// In nanoseconds.
    Duration(i64),
    Timestamp(Time),
    List(Arc<List>),
    Map(Arc<BTreeMap<Key, Value>>),
    /// The name of a type.
    Type(Arc<str>),
    Optional(Option<Arc<Value>>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Quantity(Amount),
    Semver(Arc<Semver>),
    Format(&'static Format),
    /// A field that the schema does not know and preserves.
    Preserved(Arc<serde_json::Value>),
    /// Data that does not fit the schema: reading it is an error.
    Invalid(Arc<str>),
}

/// A quantity, and whether Kubernetes keeps it in units below one: then it is never an integer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    pub(super) amount: Quantity,
    pub(super) is_fine: bool,
}

/// A list, and which of its elements are the same ones.
#[derive(Debug, Clone)]
pub(crate) struct List {
    pub(crate) items: Vec<Value>,
    pub(crate) kind: ListKind,
}

/// The identity of elements, by `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    /// The keys by which elements are the same ones.
    Map(Arc<[String]>),
}

/// A key of a map. Numbers of both types are the same key.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

impl Key {
    pub(super) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Int(number) => Self::Int(*number),
            Value::Uint(number) => Self::Uint(*number),
            Value::String(text) => Self::String(Arc::clone(text)),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e18 => Self::Int(*number as i64),
            _ => return None,
        })
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::String(text) => Value::String(Arc::clone(text)),
        }
    }

    /// Numbers of both types, in a type that has them all; after them, the rest.
    fn rank(&self) -> (u8, i128, &str) {
        match self {
            Self::Int(number) => (0, i128::from(*number), ""),
            Self::Uint(number) => (0, i128::from(*number), ""),
            Self::Bool(flag) => (1, i128::from(*flag), ""),
            Self::String(text) => (2, 0, text),
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Key {}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List { items, kind: ListKind::Atomic }))
    }
}

impl Value {
    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(super) const NONE: Self = Self::Optional(None);

    pub(super) fn map(entries: BTreeMap<Key, Self>) -> Self {
        Self::Map(Arc::new(entries))
    }

    /// The name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Preserved(_) | Self::Invalid(_) => "unknown",
        }
    }

    /// Returns whether `optional.ofNonZeroValue` is empty for the value.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(flag) => !flag,
            Self::Int(number) | Self::Duration(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(data) => data.is_empty(),
            Self::List(list) => list.items.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Optional(content) => content.is_none(),
            Self::Timestamp(time) => time.is_zero(),
            _ => false,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        if let Some(order) = numbers(self, other) {
            return order == Some(Ordering::Equal);
        }
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::String(one), Self::String(other)) | (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Duration(one), Self::Duration(other)) => one == other,
            (Self::Timestamp(one), Self::Timestamp(other)) => one.compare(other) == Ordering::Equal,
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Map(one), Self::Map(other)) => one == other,
            (Self::Optional(one), Self::Optional(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => one == other,
            (Self::Ip(one), Self::Ip(other)) => one == other,
            (Self::Cidr(one), Self::Cidr(other)) => one == other,
            (Self::Quantity(one), Self::Quantity(other)) => one.amount.equals(other.amount),
            (Self::Semver(one), Self::Semver(other)) => one.compare(other) == Ordering::Equal,
            (Self::Format(one), Self::Format(other)) => std::ptr::eq(*one, *other),
            (Self::Preserved(one), Self::Preserved(other)) => one == other,
            _ => false,
        }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        match &self.kind {
            ListKind::Atomic => self.items == other.items,
            ListKind::Set => other.items.iter().all(|item| self.items.contains(item)),
            ListKind::Map(keys) => other.items.iter().all(|item| {
                let same = self.items.iter().rfind(|own| same_key(keys, own, item));
                same == Some(item)
            }),
        }
    }
}

/// Elements of a list of the type `map` are the same one if their keys are; the rest may differ.
fn same_key(keys: &[String], one: &Value, other: &Value) -> bool {
    let (Value::Map(one), Value::Map(other)) = (one, other) else { return false };
    keys.iter().all(|key| {
        let key = Key::String(key.as_str().into());
        one.get(&key) == other.get(&key)
    })
}

impl List {
    /// The elements of both: of lists of the types `set` and `map`, the same one is there once.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut items = self.items.clone();
        for item in &other.items {
            let same = match &self.kind {
                ListKind::Atomic => None,
                ListKind::Set => items.iter().position(|own| own == item),
                ListKind::Map(keys) => items.iter().position(|own| same_key(keys, own, item)),
            };
            match same.and_then(|index| items.get_mut(index)) {
                Some(own) => *own = item.clone(),
                None => items.push(item.clone()),
            }
        }
        Self { items, kind: self.kind.clone() }
    }
}

/// The order of two numbers, whatever their types; `None` where one is no number, and within where one is `NaN`.
fn numbers(one: &Value, other: &Value) -> Option<Option<Ordering>> {
    Some(match (one, other) {
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
        (Value::Uint(one), Value::Uint(other)) => Some(one.cmp(other)),
        (Value::Int(one), Value::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Value::Uint(one), Value::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Double(one), Value::Int(other)) => whole(*one, i128::from(*other)),
        (Value::Double(one), Value::Uint(other)) => whole(*one, i128::from(*other)),
        (Value::Int(one), Value::Double(other)) => whole(*other, i128::from(*one)).map(Ordering::reverse),
        (Value::Uint(one), Value::Double(other)) => whole(*other, i128::from(*one)).map(Ordering::reverse),
        _ => return None,
    })
}

/// The order of a float and a whole number.
fn whole(float: f64, number: i128) -> Option<Ordering> {
    let (least, most) = (f64::from(i32::MIN) * 4_294_967_296.0, 18_446_744_073_709_551_616.0);
    if float < least {
        Some(Ordering::Less)
    } else if float >= most {
        Some(Ordering::Greater)
    } else {
        float.partial_cmp(&(number as f64))
    }
}

/// The order of two values of a type that has one.
pub(super) fn compare(one: &Value, other: &Value) -> Result<Ordering, String> {
    if let Some(order) = numbers(one, other) {
        return order.ok_or_else(|| "NaN values cannot be ordered".to_owned());
    }
    Ok(match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bytes(one), Value::Bytes(other)) => one.cmp(other),
        (Value::Duration(one), Value::Duration(other)) => one.cmp(other),
        (Value::Timestamp(one), Value::Timestamp(other)) => one.compare(other),
        _ => return Err(super::NO_OVERLOAD.to_owned()),
    })
}
