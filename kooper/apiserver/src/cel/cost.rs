//! The cost of an expression. That of a call is known when it is made; before that, it is estimated by the algorithm of
//! cel-go, which kube-apiserver applies to each new rule.
//!
//! An estimate depends on sizes: of literals, of what functions make of them, and of the values that a
//! schema allows. Some of the estimates are odd, such as those of elements of literal lists, which have the size of
//! `self`; rules are refused by them all the same.

mod calls;
mod folds;
mod path;
mod size;
mod spent;

use self::path::Path;
use self::size::{Entry, Size};
pub(super) use self::spent::{sorted, spent};
use super::check::Checked;
use super::extent::Extent;
use super::library::named_type;
use super::parse::qualified;
use super::syntax::{Expr, Node, Select};
use super::types::Type;

pub(super) const NEW_LIST: u64 = 10;
pub(super) const NEW_MAP: u64 = 30;
/// The cost of reading a character.
const CHARACTER: f64 = 0.1;
/// The cost of a character of a regular expression, for each of a text.
const REGEX: f64 = 0.25;
/// The length of the regular expressions behind named formats.
const FORMAT: f64 = 128.0;
/// The bytes of an address.
const ADDRESS: u64 = 16;

/// The most that the evaluation of an expression may cost, with `self` of this extent.
pub(super) fn cost(expr: &Expr, checked: &Checked, extent: &Extent) -> u64 {
    Estimator { checked, root: extent, locals: Vec::new() }.estimate(expr).cost
}

struct Estimator<'a> {
    checked: &'a Checked,
    root: &'a Extent,
    /// The variables of macros, the innermost last.
    locals: Vec<(String, LocalVariable)>,
}

#[derive(Clone, Default)]
struct LocalVariable {
    path: Path,
    size: Option<Size>,
    entry: Option<Entry>,
}

/// An expression with its cost. Its size may be unknown, and so may those of its elements.
#[derive(Clone, Default)]
struct Estimate {
    cost: u64,
    size: Option<Size>,
    entry: Option<Entry>,
    path: Path,
}

impl Estimate {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// Values of these types have no size of their own, and count as one.
fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Duration | Type::Timestamp => true,
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}

impl<'a> Estimator<'a> {
    fn type_of(&self, expr: &Expr) -> &'a Type {
        self.checked.types.get(&expr.at).unwrap_or(&Type::Dyn)
    }

    /// The size of what is no literal.
    fn size_of(&self, path: &Path, of: &Type) -> Option<Size> {
        path.size(self.root).or_else(|| is_scalar(of).then(|| Size::exactly(1)))
    }

    fn estimate(&mut self, expr: &Expr) -> Estimate {
        match &expr.node {
            Node::Literal(value) => Estimate { size: Some(Size::of(value)), ..Estimate::default() },
            Node::Ident(name) => self.ident(name, self.type_of(expr)),
            Node::Select { operand, field, how } => self.select(expr, operand, field, *how),
            Node::Call { target, name, args } => self.call(expr, target.as_deref(), name, args),
            Node::List(items) => {
                let items: Vec<_> = items.iter().map(|item| self.estimate(&item.value)).collect();
                let entry = Entry { is_list: true, key: Size::exactly(1), value: Size::of_all(&items) };
                let size = Some(Size::exactly(items.len() as u64));
                Estimate { cost: sum(&items).saturating_add(NEW_LIST), size, entry: Some(entry), path: Path::default() }
            }
            Node::Map(entries) => {
                let (keys, values): (Vec<_>, Vec<_>) =
                    entries.iter().map(|entry| (self.estimate(&entry.key), self.estimate(&entry.value))).unzip();
                let entry = Entry { is_list: false, key: Size::of_all(&keys), value: Size::of_all(&values) };
                let cost = sum(&keys).saturating_add(sum(&values)).saturating_add(NEW_MAP);
                let size = Some(Size::exactly(entries.len() as u64));
                Estimate { cost, size, entry: Some(entry), path: Path::default() }
            }
            Node::Struct(_) => Estimate::default(),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn ident(&self, name: &str, of: &Type) -> Estimate {
        let found = self.locals.iter().rev().find(|(known, _)| known == name);
        let local = found.map_or_else(
            || LocalVariable { path: Path::variable(), ..LocalVariable::default() },
            |(_, local)| local.clone(),
        );
        let size = self.size_of(&local.path, of).or(local.size);
        Estimate { cost: 1, size, entry: local.entry, path: local.path }
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, how: Select) -> Estimate {
        let of = self.type_of(expr);
        if qualified(expr).and_then(|name| named_type(&name)).is_some() {
            return self.ident("", of);
        }
        let from = self.estimate(operand);
        let (cost, path) = match how {
            // Presence costs nothing, for the sake of rules that are older than its cost in cel-go.
            Select::Test => (from.cost, Path::default()),
            Select::Optional => (from.cost.saturating_add(1), Path::default()),
            Select::Field => {
                let reads = matches!(self.type_of(operand), Type::Map(..) | Type::Struct(_));
                (from.cost.saturating_add(u64::from(reads)), from.path.field(field))
            }
        };
        let of = if how == Select::Test { &Type::Bool } else { of };
        Estimate { cost, size: self.size_of(&path, of), entry: None, path }
    }
}

fn sum(all: &[Estimate]) -> u64 {
    all.iter().fold(0, |sum, one| sum.saturating_add(one.cost))
}
