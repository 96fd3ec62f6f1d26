//! The end state that histories without faults have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::children::slot;
use super::difference::{Difference, Divergence};
use super::end::{EndState, GeneratedNames};
use super::expected::{Expected, PartialField};
use super::text::agreed;

/// The fields that say which object it is, and not what is in it.
const IDENTITY: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];

/// The common parts of the end states of histories without faults.
pub(super) struct Common {
    drawn: GeneratedNames,
    /// The objects of each name, which may be several where it was generated.
    objects: BTreeMap<String, Named>,
}

/// The objects of one name.
struct Named {
    /// The number of objects, if it is the same in all histories.
    number: Option<usize>,
    /// Their slot, if they are declared children.
    slot: Option<String>,
    /// The expected objects in order. If their number varies, a single item for all of them.
    each: Vec<Expected>,
}

/// A field that is compared only in part, or a number of objects that is not compared.
pub(super) struct Uncompared {
    /// Such as `Secret default/a`.
    pub(super) object: String,
    /// `None` for the number of objects.
    pub(super) field: Option<PartialField>,
}

impl fmt::Display for Uncompared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = &self.object;
        match &self.field {
            None => write!(f, "the number of `{object}`"),
            Some(PartialField { path, compared: None }) => write!(f, "`{path}` of `{object}`"),
            Some(PartialField { path, compared: Some(compared) }) => {
                write!(f, "`{path}` of `{object}`, except for {compared}")
            }
        }
    }
}

impl Common {
    pub(super) fn learn(ends: &[&EndState]) -> Self {
        let mut named: Vec<_> = ends.iter().map(|end| end.named(&GeneratedNames::default())).collect();
        let drawn = GeneratedNames::learn(&named);
        if !drawn.is_empty() {
            named = ends.iter().map(|end| end.named(&drawn)).collect();
        }
        let names: BTreeSet<_> = named.iter().flat_map(|objects| objects.keys().cloned()).collect();
        let objects = names.into_iter().map(|name| {
            let all: Vec<&[Value]> =
                named.iter().map(|objects| objects.get(&name).map_or(&[][..], Vec::as_slice)).collect();
            let number = agreed(all.iter().map(|objects| objects.len()));
            let slot = all.iter().copied().flatten().find_map(slot).map(str::to_owned);
            let each = match number {
                Some(number) => {
                    let nth = |at: usize| Expected::learn(&all.iter().map(|objects| &objects[at]).collect::<Vec<_>>());
                    (0..number).map(nth).collect()
                }
                None => vec![Expected::learn(&all.iter().copied().flatten().collect::<Vec<_>>())],
            };
            (name, Named { number, slot, each })
        });
        Self { objects: objects.collect(), drawn }
    }

    /// Where another end state differs, the most telling differences first: objects, then fields.
    pub(super) fn differences(&self, end: &EndState) -> Vec<Difference> {
        let (mut found, unknown) = (Vec::new(), Named { number: Some(0), slot: None, each: Vec::new() });
        let named = end.named(&self.drawn);
        let names: BTreeSet<_> = self.objects.keys().chain(named.keys()).collect();
        for name in names {
            let expected = self.objects.get(name).unwrap_or(&unknown);
            let actual = named.get(name).map_or(&[][..], Vec::as_slice);
            let slot = expected.slot.as_deref().or_else(|| actual.iter().find_map(slot));
            let mut differs = |kind: Divergence| found.push(kind.of(name, slot));
            match expected.number {
                Some(number) if number > actual.len() => differs(Divergence::Missing(number, actual.len())),
                Some(number) if number < actual.len() => differs(Divergence::LeftOver(number, actual.len())),
                _ => {}
            }
            for (at, actual) in actual.iter().enumerate() {
                let at = if expected.number.is_some() { at } else { 0 };
                if let Some(expected) = expected.each.get(at) {
                    expected.compare(String::new(), actual, &mut differs);
                }
            }
        }
        found.sort_by_key(|difference| difference.kind.path().is_some());
        found
    }

    /// Returns whether the names of these objects are random.
    pub(super) fn is_drawn(&self, difference: &Difference) -> bool {
        self.drawn.has(&difference.object)
    }

    /// Returns the fields that are compared only in part, and the numbers of objects that are not
    /// compared.
    pub(super) fn uncompared(&self) -> Vec<Uncompared> {
        let mut all = Vec::new();
        for (name, named) in &self.objects {
            let mut fields = Vec::new();
            named.each.iter().for_each(|expected| expected.partial_fields("", &mut fields));
            let fields: BTreeSet<_> = fields.into_iter().collect();
            let fields = fields.into_iter().map(Some).chain(named.number.is_none().then_some(None));
            all.extend(fields.map(|field| Uncompared { object: name.clone(), field }));
        }
        all
    }

    /// The objects of which nothing is compared but what says which one it is.
    pub(super) fn unseen(&self) -> impl Iterator<Item = &str> {
        let is_seen = |expected: &Expected| match expected {
            Expected::Fields { named, .. } => {
                let mut content = named.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str())).peekable();
                content.peek().is_none() || content.any(|(_, expected)| expected.is_compared())
            }
            other => other.is_compared(),
        };
        let unseen = self.objects.iter().filter(move |(_, named)| !named.each.iter().all(is_seen));
        unseen.map(|(name, _)| name.as_str())
    }
}
