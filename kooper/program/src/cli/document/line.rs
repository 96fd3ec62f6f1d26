//! Finds the line of a field in YAML or JSON.

/// The line of a field such as `spec.containers[0].image`; the first line is 1. If the field is not found, as in a
/// single-line mapping, the line of the innermost field that is.
pub(super) fn of(text: &str, field: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let mut part = Part { first: 0, end: lines.len(), indent: None };
    let mut found = 0;
    for step in steps(field) {
        let Some(next) = part.step(&lines, &step) else { break };
        found = next.first;
        part = next;
    }
    // Comments may precede the first field.
    if found == 0 { 1 + lines.iter().position(|line| has_content(line)).unwrap_or(0) } else { found + 1 }
}

/// One step of a path.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// The lines of a field, and the indentation of the field.
struct Part {
    first: usize,
    end: usize,
    indent: Option<usize>,
}

/// The steps of `a.b[0]`. In `a[b]`, `b` is the key of a map.
fn steps(field: &str) -> Vec<Step<'_>> {
    let parts = field.split(['.', '[']).map(|part| part.trim_end_matches(']')).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_or(Step::Key(part), Step::Index)).collect()
}

fn has_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#') && !line.starts_with("---")
}

/// The words with which a line begins, each with its column: `- a` begins with `- a` and with `a`.
fn words(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    loop {
        found.push((line.len() - rest.len(), rest));
        match rest.strip_prefix("- ") {
            Some(more) => rest = more.trim_start(),
            None => return found,
        }
    }
}

impl Part {
    fn step(&self, lines: &[&str], step: &Step<'_>) -> Option<Self> {
        let inside = (self.first..self.end).filter(|at| has_content(lines[*at]));
        let words = inside.flat_map(|at| words(lines[at]).into_iter().map(move |(indent, word)| (at, indent, word)));
        let deeper = |indent: usize, word: &str| match self.indent {
            Some(own) => indent > own || (indent == own && word.starts_with('-')),
            None => true,
        };
        let words: Vec<_> = words.filter(|(_, indent, word)| deeper(*indent, word)).collect();
        let begins = |word: &str, key: &str| {
            let quoted = [format!("{key}:"), format!("\"{key}\":"), format!("'{key}':")];
            quoted.iter().any(|key| word.starts_with(key.as_str()))
        };
        let (first, indent) = match step {
            Step::Key(key) => {
                let found = |(_, _, word): &&(usize, usize, &str)| begins(word, key);
                words
                    .iter()
                    .filter(found)
                    .min_by_key(|(at, indent, _)| (*indent, *at))
                    .map(|(at, indent, _)| (*at, *indent))?
            }
            Step::Index(index) => {
                let dashes = words.iter().filter(|(_, _, word)| word.starts_with('-'));
                let least = dashes.clone().map(|(_, indent, _)| *indent).min()?;
                dashes.filter(|(_, indent, _)| *indent == least).nth(*index).map(|(at, indent, _)| (*at, *indent))?
            }
        };
        let is_item = matches!(step, Step::Index(_));
        let ends = |at: &usize| {
            let (own, word) = indented(lines[*at]);
            has_content(lines[*at]) && (own < indent || (own == indent && (is_item || !word.starts_with('-'))))
        };
        let end = (first + 1..self.end).find(ends).unwrap_or(self.end);
        Some(Self { first, end, indent: Some(indent) })
    }
}

/// The indentation of a line, and the line without it.
fn indented(line: &str) -> (usize, &str) {
    let word = line.trim_start();
    (line.len() - word.len(), word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = "\
# A shop.
apiVersion: example.com/v1
kind: Shop
metadata:
  name: corner
  labels: {app: shop}
spec:
  name: Corner
  shelves:
  - goods: milk
    price: 1
  - goods: bread
    price: 2
  hours:
    - from: 8
      to: 12
    - from: 14
      to: 18
  owner: {name: Ann, age: 7}
  \"quoted\": yes
";

    #[test]
    fn a_field_is_found_by_its_path() {
        for (field, line) in [
            ("apiVersion", 2),
            ("metadata.name", 5),
            ("spec.name", 8),
            ("spec.shelves", 9),
            ("spec.shelves[0].price", 11),
            ("spec.shelves[1]", 12),
            ("spec.shelves[1].price", 13),
            ("spec.hours[1].to", 18),
            ("spec.quoted", 20),
        ] {
            assert_eq!(of(SHOP, field), line, "{field}");
        }
    }

    #[test]
    fn the_innermost_known_field_stands_in_for_one_that_is_not_found() {
        for (field, line) in [
            ("", 2),
            ("status", 2),
            ("spec.replicas", 7),
            ("spec.shelves[7].price", 9),
            ("spec.owner.age", 19),
            ("metadata.labels[app]", 6),
        ] {
            assert_eq!(of(SHOP, field), line, "{field}");
        }
        assert_eq!(of("", "spec"), 1);
    }

    #[test]
    fn json_has_lines_too() {
        let json = "{\n  \"kind\": \"Shop\",\n  \"spec\": {\n    \"name\": \"a\",\n    \"kind\": \"b\"\n  }\n}\n";
        assert_eq!(of(json, "spec.kind"), 5);
        assert_eq!(of(json, "kind"), 2);
    }
}
