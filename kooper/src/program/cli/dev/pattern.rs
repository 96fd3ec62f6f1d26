//! Generates a short string that matches a pattern.

use regex_syntax::hir::{Class, Hir, HirKind};

/// How many additional repetitions are tried to reach a length, and how many alternatives.
const MOST_TRIES: (usize, usize) = (256, 8);

/// Generates a string that matches a pattern and whose length is between `least` and `most`. Each `nth` string differs, if
/// the pattern allows it. Assertions such as `\b` are ignored.
pub(super) fn string(pattern: &str, least: usize, most: usize, nth: usize) -> Option<String> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let tries = (0..MOST_TRIES.1).flat_map(|branch| (0..=MOST_TRIES.0).map(move |more| (branch, more)));
    let strings = tries.map(|(branch, more)| {
        let mut writer = Writer { text: String::new(), more, branch, nth };
        writer.write(&hir).map(|()| writer.text)
    });
    let fits = |text: &String| (least..=most).contains(&text.chars().count());
    strings.flatten().find(fits)
}

struct Writer {
    text: String,
    /// Additional repetitions that are left.
    more: usize,
    /// The index of the alternative to use.
    branch: usize,
    nth: usize,
}

impl Writer {
    fn write(&mut self, hir: &Hir) -> Option<()> {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => self.text.push_str(std::str::from_utf8(&literal.0).ok()?),
            HirKind::Class(class) => self.text.push(one_of(class, self.nth)?),
            HirKind::Repetition(repetition) => {
                let least = usize::try_from(repetition.min).ok()?;
                let room = repetition.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX) - least);
                let more = room.min(self.more);
                self.more -= more;
                for _ in 0..least + more {
                    self.write(&repetition.sub)?;
                }
            }
            HirKind::Capture(capture) => self.write(&capture.sub)?,
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.write(part))?,
            HirKind::Alternation(parts) => self.write(parts.get(self.branch).or(parts.first())?)?,
        }
        Some(())
    }
}

/// A character of a class, preferably a letter or a digit.
fn one_of(class: &Class, nth: usize) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let has = |c: &char| ranges.iter().any(|(start, end)| (start..=end).contains(&c));
    let plain = ('a'..='z').chain('0'..='9').chain('A'..='Z').chain(" -_.".chars());
    let plain: Vec<_> = plain.filter(has).collect();
    plain.get(nth % plain.len().max(1)).copied().or_else(|| ranges.first().map(|(start, _)| *start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pattern: &str, least: usize, most: usize) -> String {
        string(pattern, least, most, 0).unwrap_or_else(|| panic!("{pattern}"))
    }

    #[test]
    fn the_shortest_string_is_taken() {
        for (pattern, text) in [
            ("^[a-z]+$", "a"),
            ("^[A-Z]{2}-[0-9]{3}$", "AA-000"),
            ("^(small|big)$", "small"),
            ("^v[0-9]+(\\.[0-9]+){2}$", "v0.0.0"),
            ("^$", ""),
            ("[a-z]*", ""),
            ("^\\d+(ms|s|m|h)$", "0ms"),
            ("^[^a-z]$", "0"),
            ("^.$", "a"),
            ("^\\S+@\\S+$", "a@a"),
        ] {
            assert_eq!(made(pattern, 0, usize::MAX), text, "{pattern}");
        }
    }

    #[test]
    fn it_is_as_long_as_it_has_to_be() {
        assert_eq!(made("^[a-z]+$", 3, 63), "aaa");
        assert_eq!(made("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 4, 63), "aaaa");
        assert_eq!(made("^(a|bcd)$", 2, 5), "bcd");
        assert_eq!(string("^[a-z]{2}$", 3, 10, 0), None);
        assert_eq!(string("(", 0, 10, 0), None);
    }

    #[test]
    fn several_differ() {
        let strings: Vec<_> = (0..3).filter_map(|nth| string("^[a-z]+$", 1, 10, nth)).collect();
        assert_eq!(strings, ["a", "b", "c"]);
    }
}
