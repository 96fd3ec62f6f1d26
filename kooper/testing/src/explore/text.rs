//! Texts that are others in each history without faults: what they have in common is compared.

use std::collections::{BTreeMap, BTreeSet};

/// Shorter texts have lengths by chance, as numbers do.
const LONG: usize = 8;

/// The common properties of the texts of several histories.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    /// The least and the largest number of characters, unless they are short.
    length: Option<(usize, usize)>,
    /// The number of lines.
    lines: Option<usize>,
    /// The words that all of them have.
    words: BTreeSet<String>,
    /// Number of occurrences of each line, with `…` for all words that are not common; `None` if
    /// the texts still differ.
    shapes: Option<BTreeMap<String, usize>>,
    /// Number of occurrences of each line that all texts have equally often.
    common: BTreeMap<String, usize>,
}

impl Text {
    pub(super) fn learn(texts: &[&str]) -> Self {
        let words = common(texts.iter().map(|text| words(text).map(str::to_owned).collect::<BTreeSet<_>>()));
        let counted: Vec<_> = texts.iter().map(|text| counted(text.lines().map(str::to_owned))).collect();
        let common = common_counts(&counted);
        let shapes = texts.iter().map(|text| shapes(text, &words));
        let lengths = || texts.iter().map(|text| text.chars().count());
        let (least, most) = (lengths().min().unwrap_or_default(), lengths().max().unwrap_or_default());
        Self {
            length: (least >= LONG).then_some((least, most)),
            lines: agreed(texts.iter().map(|text| text.lines().count())),
            shapes: agreed(shapes),
            words,
            common,
        }
    }

    /// Describes the difference of another text, such as `has 2 lines instead of 1`.
    pub(super) fn difference(&self, found: &str) -> Option<String> {
        let lines = found.lines().count();
        let expected = self.lines.filter(|expected| *expected != lines);
        expected
            .map(|expected| format!("has {} instead of {expected}", number(lines, "line")))
            .or_else(|| {
                let found = counted(found.lines().map(str::to_owned));
                other_count(self.common.keys(), &self.common, &found)
            })
            .or_else(|| {
                let (expected, found) = (self.shapes.as_ref()?, shapes(found, &self.words));
                other_count(expected.keys().chain(found.keys()), expected, &found)
            })
            .or_else(|| {
                // A random text may be somewhat longer than another one, and much longer where lengths vary much.
                let (length, (least, most)) = (found.chars().count(), self.length?);
                let slack = 4 * (most - least);
                let longer = length >= (2 * most).max(most + slack);
                let differs = longer || (2 * length).max(length + slack) <= least;
                differs.then(|| format!("has {} instead of {}", number(length, "character"), range(least, most)))
            })
    }

    /// Describes the properties that are compared; `None` if there are none.
    pub(super) fn compared(&self) -> Option<String> {
        let has_words = self.shapes.is_some() && !self.words.is_empty();
        let parts = [
            self.length.map(|(least, most)| format!("about {} characters", range(least, most))),
            self.lines.map(|lines| number(lines, "line")),
            has_words.then(|| number(self.words.len(), "word")),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty() || !self.common.is_empty()).then(|| match &*parts {
            [] => number(self.common.len(), "line"),
            parts => parts.join(", "),
        })
    }
}

/// Returns the value that all items have, if they are equal.
pub(super) fn agreed<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// Returns the items that all maps contain with the same count.
pub(super) fn common_counts(all: &[BTreeMap<String, usize>]) -> BTreeMap<String, usize> {
    let Some((first, others)) = all.split_first() else { return BTreeMap::new() };
    let is_common = |(item, number): &(&String, &usize)| others.iter().all(|other| other.get(*item) == Some(*number));
    first.iter().filter(is_common).map(|(item, number)| (item.clone(), *number)).collect()
}

/// Returns the number of occurrences of each item.
pub(super) fn counted(items: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts
}

/// Describes the first of these items that does not occur as often as expected, such as `has … 2 times instead of 1`.
pub(super) fn other_count<'a>(
    mut items: impl Iterator<Item = &'a String>,
    expected: &BTreeMap<String, usize>,
    found: &BTreeMap<String, usize>,
) -> Option<String> {
    let count = |of: &BTreeMap<String, usize>, item: &str| of.get(item).copied().unwrap_or_default();
    let item = items.find(|item| count(expected, item) != count(found, item))?;
    Some(format!("has `{item}` {} instead of {}", number(count(found, item), "time"), count(expected, item)))
}

fn range(least: usize, most: usize) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// `1 line`, `2 lines`.
pub(super) fn number(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn common(mut all: impl Iterator<Item = BTreeSet<String>>) -> BTreeSet<String> {
    let first = all.next().unwrap_or_default();
    all.fold(first, |one, other| one.intersection(&other).cloned().collect())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Returns the number of occurrences of each line, with `…` for all words but these.
fn shapes(text: &str, words: &BTreeSet<String>) -> BTreeMap<String, usize> {
    let shape = |line: &str| {
        let mut shape = String::new();
        for part in line.split_inclusive(|c: char| !c.is_alphanumeric()) {
            let word = part.trim_end_matches(|c: char| !c.is_alphanumeric());
            shape.push_str(if word.is_empty() || words.contains(word) { word } else { "…" });
            shape.push_str(&part[word.len()..]);
        }
        shape
    };
    counted(text.lines().map(shape))
}

#[cfg(test)]
mod tests {
    use super::Text;

    fn difference(learned: &[&str], found: &str) -> String {
        Text::learn(learned).difference(found).unwrap_or_default()
    }

    #[test]
    fn a_doubled_line_is_a_difference_whatever_is_by_chance_in_it() {
        let learned = ["opened 8f3a\n", "opened 77c12\n"];
        assert_eq!(difference(&learned, "opened 3\n"), "");
        assert_eq!(difference(&learned, "opened 3\nopened 44\n"), "has 2 lines instead of 1");
        assert_eq!(difference(&learned, "closed 3\n"), "has `opened …` 0 times instead of 1");
        // Also where the number of lines is by chance.
        let learned = ["opened\n8f3a\n", "opened\n77c12\nd4\n"];
        assert_eq!(difference(&learned, "a\nopened\n"), "");
        assert_eq!(difference(&learned, "opened\na\nopened\n"), "has `opened` 2 times instead of 1");
    }

    #[test]
    fn a_random_text_that_is_twice_as_long_is_a_difference() {
        let learned = ["abcdefgh", "stuvwxyz1"];
        assert_eq!(difference(&learned, "hijklmnopq"), "");
        assert_eq!(difference(&learned, "hijklmnopqhijklmnopq"), "has 20 characters instead of 8 to 9");
        assert_eq!(difference(&learned, "hijk"), "has 4 characters instead of 8 to 9");
        assert_eq!(difference(&["17", "42"], "5"), "");
        // Of 1 to 40 characters each.
        let learned = ["abcdefghijklm", "nopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"];
        assert_eq!(difference(&learned, "a"), "");
        assert_eq!(
            Text::learn(&["abcdefgh", "stuvwxyz1"]).compared().as_deref(),
            Some("about 8 to 9 characters, 1 line")
        );
        assert_eq!(Text::learn(&["", "a\nb"]).compared(), None);
    }
}
