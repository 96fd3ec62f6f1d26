//! The cost of macros, of which cel-go makes loops and bindings before it estimates them.

use super::path::Path;
use super::size::{Entry, Size, scaled};
use super::{Estimate, Estimator, LocalVariable, NEW_LIST, NEW_MAP, is_scalar};
use crate::cel::syntax::{Fold, FoldKind, Node};
use crate::cel::types::Type;

/// The empty list that a binding is written as a loop over.
const BINDING: u64 = NEW_LIST;
/// `accumulator + [element]` without the element: the call, the variable and the list.
const APPENDED: u64 = 2 + NEW_LIST;

impl<'a> Estimator<'a> {
    pub(super) fn fold(&mut self, fold: &Fold) -> Estimate {
        match fold.kind {
            FoldKind::OptMap | FoldKind::OptFlatMap => self.optional(fold),
            FoldKind::SortBy => self.sort_by(fold),
            _ => {
                let range = self.estimate(&fold.range);
                let of = self.type_of(&fold.range);
                self.repeat(fold, &range, |estimator| match &fold.range.node {
                    Node::Ident(name) => estimator.ident(name, of).size(),
                    Node::Select { .. } => estimator.size_of(&range.path, of).unwrap_or(Size::UNKNOWN),
                    _ => range.size(),
                })
            }
        }
    }

    /// A loop over this range, the size of which is asked when the body has been estimated: it may have changed the path.
    fn repeat(&mut self, fold: &Fold, range: &Estimate, size: impl Fn(&Self) -> Size) -> Estimate {
        let depth = self.locals.len();
        self.push_variables(fold, range);
        let filter = fold.filter.as_ref().map(|filter| self.estimate(filter).cost);
        let body = self.estimate(&fold.body);
        let item = match fold.kind {
            FoldKind::Filter => self.ident(&fold.var, self.element_type(fold)).size(),
            _ => body.size(),
        };
        self.locals.truncate(depth);
        let count = size(self);
        // The first value of the accumulator, each round, and the result.
        let (first, round, result) = match fold.kind {
            FoldKind::All => (0, body.cost.saturating_add(3), 1),
            FoldKind::Exists => (0, body.cost.saturating_add(4), 1),
            FoldKind::ExistsOne => (0, body.cost.saturating_add(2), 2),
            FoldKind::Filter => (NEW_LIST, body.cost.saturating_add(APPENDED + 1), 1),
            FoldKind::Map => (NEW_MAP, body.cost.saturating_add(3), 1),
            FoldKind::MapEntry => (NEW_MAP, body.cost.saturating_add(2), 1),
            _ => (NEW_LIST, body.cost.saturating_add(APPENDED), 1),
        };
        let round = round.saturating_add(filter.unwrap_or(0)).saturating_mul(count.most);
        let cost = range.cost.saturating_add(first + result).saturating_add(round);
        let (size, entry) = match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => (Size::exactly(1), None),
            FoldKind::Map | FoldKind::MapEntry => (count, None),
            _ => {
                let value = item.or(Size::exactly(0));
                (count, Some(Entry { is_list: true, key: Size::exactly(1), value }))
            }
        };
        Estimate { cost, size: Some(size), entry, path: Path::default() }
    }

    /// The type of a macro's single variable.
    fn element_type(&self, fold: &Fold) -> &'a Type {
        match self.type_of(&fold.range) {
            Type::List(of) | Type::Map(of, _) => of,
            _ => &Type::Dyn,
        }
    }

    fn push_variables(&mut self, fold: &Fold, range: &Estimate) {
        let is_list = range.entry.map_or(matches!(self.type_of(&fold.range), Type::List(_)), |entry| entry.is_list);
        let key = || LocalVariable {
            path: if is_list { range.path.indexes() } else { range.path.keys() },
            size: range.entry.map(|entry| entry.key),
            entry: None,
        };
        let value =
            || LocalVariable { path: range.path.values(), size: range.entry.map(|entry| entry.value), entry: None };
        match &fold.var2 {
            Some(second) => self.locals.extend([(fold.var.clone(), key()), (second.clone(), value())]),
            None => self.locals.push((fold.var.clone(), if is_list { value() } else { key() })),
        }
    }

    /// `target.hasValue() ? optional.of(body) : optional.none()`, in which the body has `target.value()` as its variable.
    fn optional(&mut self, fold: &Fold) -> Estimate {
        let target = self.estimate(&fold.range);
        let content = match self.type_of(&fold.range) {
            Type::Optional(of) => of,
            _ => &Type::Dyn,
        };
        let depth = self.locals.len();
        let size = is_scalar(content).then(|| Size::exactly(1));
        self.locals.push((fold.var.clone(), LocalVariable { size, ..LocalVariable::default() }));
        let body = self.estimate(&fold.body);
        self.locals.truncate(depth);
        let bound = target.cost.saturating_add(BINDING + 1).saturating_add(body.cost);
        let (made, size) = match fold.kind {
            FoldKind::OptMap => (bound.saturating_add(1), None),
            _ => (bound, body.size),
        };
        let own = if is_scalar(self.type_of(&fold.body)) { Size::exactly(1) } else { Size::UNKNOWN };
        let cost = target.cost.saturating_add(1).saturating_add(made);
        Estimate { cost, size: Some(size.unwrap_or(own).or(own)), ..Estimate::default() }
    }

    /// A binding of the list, which is sorted by another one that a loop makes of it.
    fn sort_by(&mut self, fold: &Fold) -> Estimate {
        let target = self.estimate(&fold.range);
        let list = Estimate { cost: 1, ..target.clone() };
        let keys =
            self.repeat(fold, &list, |estimator| list.path.size(estimator.root).or(list.size).unwrap_or(Size::UNKNOWN));
        let pairs = keys.size().times(keys.size());
        let factor = if matches!(self.type_of(&fold.body), Type::String | Type::Bytes | Type::Dyn) { 2.1 } else { 2.0 };
        let sorted = scaled(pairs.most, factor).saturating_add(1 + NEW_LIST).saturating_add(keys.cost);
        let cost = target.cost.saturating_add(BINDING + 1).saturating_add(sorted);
        Estimate { cost, size: Some(pairs), ..Estimate::default() }
    }
}
