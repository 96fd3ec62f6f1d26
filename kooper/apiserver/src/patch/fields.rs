//! Sets of fields: who owns what, and what a write changed.
//!
//! The rules are those of `Set` in structured-merge-diff's `fieldpath`. A
//! field can be a member without its parts, and its parts without itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;

use super::path::{Path, PathElement};
use super::schema::Node;

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// No entry is empty: it is a member, or something below it is.
    entries: BTreeMap<PathElement, Entry>,
}

/// Membership of a field and of the fields below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `true` if the field itself is a member.
    pub(crate) member: bool,
    /// Which of its parts are.
    pub(crate) below: FieldSet,
}

impl Entry {
    pub(crate) const MEMBER: Self = Self { member: true, below: FieldSet::EMPTY };

    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub(crate) const EMPTY: Self = Self { entries: BTreeMap::new() };

    /// The set without members.
    #[must_use]
    pub fn new() -> Self {
        Self::EMPTY
    }

    /// Returns `true` if the set has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a field, not what contains it. The object itself is never a member.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let entry = self.entries.entry(first.clone()).or_default();
        if rest.is_empty() {
            entry.member = true;
        } else {
            entry.below.insert(rest);
        }
    }

    /// Adds what is known of one field, unless that is nothing.
    pub(crate) fn put(&mut self, element: PathElement, entry: Entry) {
        if entry.is_empty() {
            return;
        }
        match self.entries.entry(element) {
            MapEntry::Vacant(vacant) => {
                vacant.insert(entry);
            }
            MapEntry::Occupied(mut present) => {
                let present = present.get_mut();
                present.member |= entry.member;
                present.below = std::mem::take(&mut present.below).union(&entry.below);
            }
        }
    }

    /// Returns `true` if the field at the path is a member.
    #[must_use]
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|below| below.contains(rest)),
        }
    }

    /// Returns `true` if the field itself is a member.
    pub(crate) fn has(&self, element: &PathElement) -> bool {
        self.entries.get(element).is_some_and(|entry| entry.member)
    }

    /// The members below a field; `None` if there are none.
    pub(crate) fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        self.entries.get(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&PathElement, &Entry)> {
        self.entries.iter()
    }

    /// The members of either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (element, theirs) in &other.entries {
            match self.entries.get_mut(element) {
                Some(ours) => {
                    ours.member |= theirs.member;
                    ours.below = std::mem::take(&mut ours.below).union(&theirs.below);
                }
                None => {
                    self.entries.insert(element.clone(), theirs.clone());
                }
            }
        }
        self
    }

    /// The members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) = if self.entries.len() <= other.entries.len() { (self, other) } else { (other, self) };
        few.filter_map(|element, ours| {
            let theirs = many.entries.get(element)?;
            Some(Entry { member: ours.member && theirs.member, below: ours.below.intersection(&theirs.below) })
        })
    }

    /// The members that the other set lacks.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.filter_map(|element, ours| match other.entries.get(element) {
            Some(theirs) => {
                Some(Entry { member: ours.member && !theirs.member, below: ours.below.difference(&theirs.below) })
            }
            None => Some(ours.clone()),
        })
    }

    /// The members that neither are in the other set nor have a parent there.
    #[must_use]
    pub fn difference_with_parts(&self, other: &Self) -> Self {
        self.filter_map(|element, ours| match other.entries.get(element) {
            Some(theirs) if theirs.member => None,
            Some(theirs) => Some(Entry { member: ours.member, below: ours.below.difference_with_parts(&theirs.below) }),
            None => Some(ours.clone()),
        })
    }

    /// The set, and each declared field that contains a member. A field such
    /// as `spec` is no member by itself; where it becomes empty, it has to go
    /// with its last member nevertheless.
    #[must_use]
    pub(crate) fn with_declared(&self, node: Option<&Node<'_>>) -> Self {
        self.filter_map(|element, entry| {
            let declared = match element {
                PathElement::Field(name) if !entry.below.is_empty() => node.is_some_and(|node| node.declares(name)),
                _ => false,
            };
            let child = match element {
                PathElement::Field(name) => node.and_then(|node| node.child(name)),
                PathElement::Key(_) => node.and_then(Node::item),
                PathElement::Value(_) | PathElement::Index(_) => None,
            };
            Some(Entry { member: entry.member || declared, below: entry.below.with_declared(child.as_ref()) })
        })
    }

    /// The members, those of a level before those below it.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Path>) {
        for (element, _) in self.entries.iter().filter(|(_, entry)| entry.member) {
            paths.push(Path([prefix, std::slice::from_ref(element)].concat()));
        }
        for (element, entry) in &self.entries {
            prefix.push(element.clone());
            entry.below.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    fn filter_map(&self, map: impl Fn(&PathElement, &Entry) -> Option<Entry>) -> Self {
        let entries = self.entries.iter().filter_map(|(element, entry)| {
            let entry = map(element, entry).filter(|entry| !entry.is_empty())?;
            Some((element.clone(), entry))
        });
        Self { entries: entries.collect() }
    }
}

impl<'p> FromIterator<&'p Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = &'p Path>>(paths: I) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&[&str]]) -> FieldSet {
        let paths: Vec<_> = paths.iter().map(|names| Path::of_fields(names)).collect();
        paths.iter().collect()
    }

    #[test]
    fn paths_of_a_level_come_before_those_below() {
        let paths = set(&[&["b"], &["a", "c"], &["a"]]).paths();
        let texts: Vec<_> = paths.iter().map(ToString::to_string).collect();
        assert_eq!(texts, [".a", ".b", ".a.c"]);
    }
}
