//! The tree of an expression, and what is wrong with one.

use super::value::Value;

/// A part of an expression.
#[derive(Debug, Clone)]
pub(super) struct Expr {
    /// The character of the source that errors point at.
    pub(super) at: usize,
    pub(super) node: Node,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Literal(Value),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        how: Select,
    },
    /// A function, a method or an operator; operators have the names that cel-go gives them, such as `_+_`.
    Call {
        target: Option<Box<Expr>>,
        name: String,
        args: Vec<Expr>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    /// A message literal, of which Kubernetes has no types.
    Struct(String),
    Fold(Box<Fold>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Select {
    /// `a.b`
    Field,
    /// `a.?b`
    Optional,
    /// `has(a.b)`
    Test,
}

/// An element of a list.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) value: Expr,
    /// Left out if it is `optional.none()`.
    pub(super) optional: bool,
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    /// Left out if the value is `optional.none()`.
    pub(super) optional: bool,
}

/// A macro that evaluates an expression for the elements of a list or map, or the content of an optional.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) kind: FoldKind,
    pub(super) range: Expr,
    pub(super) var: String,
    pub(super) var2: Option<String>,
    pub(super) filter: Option<Expr>,
    pub(super) body: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// `map` and `transformList`
    List,
    /// `transformMap`
    Map,
    /// `transformMapEntry`
    MapEntry,
    SortBy,
    OptMap,
    OptFlatMap,
}

/// Something that is wrong with an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Issue {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// The issues in the form that cel-go gives them.
pub(super) fn report(source: &str, mut issues: Vec<Issue>) -> String {
    issues.sort_by_key(|issue| issue.at);
    let shown: Vec<_> = issues.iter().map(|issue| display(source, issue)).collect();
    shown.join("\n")
}

fn display(source: &str, issue: &Issue) -> String {
    let before: String = source.chars().take(issue.at).collect();
    let (line, column) = (before.matches('\n').count(), before.chars().rev().take_while(|char| *char != '\n').count());
    let text = source.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
    let mut pointer = String::new();
    let mut chars = text.chars();
    for char in chars.by_ref().take(column) {
        pointer.push(if char.is_ascii() { '.' } else { '．' });
    }
    pointer.push(if chars.next().is_none_or(|char| char.is_ascii()) { '^' } else { '＾' });
    let (line, column, message) = (line + 1, column + 1, &issue.message);
    format!("ERROR: <input>:{line}:{column}: {message}\n | {text}\n | {pointer}")
}
