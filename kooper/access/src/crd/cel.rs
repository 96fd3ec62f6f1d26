//! Validation rules in CEL, parsed as far as a comparison needs: into tokens that
//! `&&` and `||` join. An expression that cannot be split is one operand.

/// A rule as a list of tokens.
pub(super) struct CelRule<'a>(Vec<&'a str>);

/// Operators of several characters. Others are one token for each character.
const OPERATORS: [&str; 6] = ["||", "&&", "==", "!=", "<=", ">="];

/// Comparisons that hold between a value and itself.
const REFLEXIVE: [&str; 3] = ["==", "<=", ">="];

/// Returns `true` if the new rule accepts everything that the old one accepts: both
/// are equal, or the old rule is an alternative of the new one, as in `(old) || …`.
pub(super) fn loosens(old: &str, new: &str) -> bool {
    let (Some(old), Some(new)) = (CelRule::parse(old), CelRule::parse(new)) else { return old == new };
    let alternatives = split(&new.0, "||");
    split(&old.0, "||").iter().all(|one| alternatives.contains(one))
}

impl<'a> CelRule<'a> {
    /// `None` if the rule contains a form of literal that is not supported here.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '/' if rest.starts_with("//") => {
                    rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
                    continue;
                }
                '"' | '\'' => literal(rest, first)?,
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ if OPERATORS.iter().any(|operator| rest.starts_with(operator)) => 2,
                _ => first.len_utf8(),
            };
            let (token, behind) = rest.split_at_checked(length)?;
            // A word right before a quote is the prefix of a raw or a byte literal.
            if is_word(first) && behind.starts_with(['"', '\'']) {
                return None;
            }
            tokens.push(token);
            rest = behind.trim_start();
        }
        Some(Self(tokens))
    }

    /// Returns `true` for a transition rule. It compares a value with the previous
    /// one, so it does not apply to stored values.
    pub(super) fn is_transition(&self) -> bool {
        self.olds().any(|old| old)
    }

    /// Returns `true` if a transition rule accepts an unchanged value, and `false`
    /// if that cannot be determined. `present` returns `true` for a field that
    /// every object has: a rule that reads an absent field is an error.
    pub(super) fn accepts_no_change(&self, present: impl Fn(&str) -> bool) -> bool {
        let tokens: Vec<_> =
            self.0.iter().zip(self.olds()).map(|(token, old)| if old { "self" } else { *token }).collect();
        holds(&tokens, &present)
    }

    /// For each token: `true` if it is the variable `oldSelf`, and not a field of that name.
    fn olds(&self) -> impl Iterator<Item = bool> {
        let before = std::iter::once("").chain(self.0.iter().copied());
        before.zip(&self.0).map(|(before, token)| *token == "oldSelf" && before != ".")
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a quoted string.
fn literal(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    })?;
    // Three quotes begin a literal that ends with three.
    (end.0 > 1 || !text.get(2..)?.starts_with(quote)).then_some(end.0 + 1)
}

/// Returns `true` if the form of the expression shows that it is always true.
fn holds(tokens: &[&str], present: &dyn Fn(&str) -> bool) -> bool {
    let alternatives = split(tokens, "||");
    if let [one] = &alternatives[..] {
        let all = split(one, "&&");
        return match &all[..] {
            [one] => is_reflexive(one, present),
            all => all.iter().all(|one| holds(one, present)),
        };
    }
    // If one alternative covers an absent field, the others may read it: an
    // alternative that is an error does not matter if another one is true.
    let guarded =
        |field: &str| present(field) || alternatives.contains(&&["!", "has", "(", "self", ".", field, ")"][..]);
    let opposite = |one: &[&str]| {
        let positive = one.strip_prefix(&["!"]).map(bare);
        // `!` binds to its operand, and not to a comparison.
        positive.is_some_and(|positive| is_defined(positive, present) && alternatives.contains(&positive))
    };
    alternatives.iter().any(|one| holds(one, &guarded) || opposite(one))
}

/// `a == a`.
fn is_reflexive(tokens: &[&str], present: &dyn Fn(&str) -> bool) -> bool {
    REFLEXIVE.iter().any(|operator| match &cut(tokens, operator)[..] {
        [left, right] => is_defined(bare(left), present) && bare(left) == bare(right),
        _ => false,
    })
}

/// Returns `true` if the operand has a value for every object: the object itself, a
/// field that is always present, or `has(…)`.
fn is_defined(tokens: &[&str], present: &dyn Fn(&str) -> bool) -> bool {
    match tokens {
        ["self"] => true,
        ["self", ".", field] => present(field),
        ["has", "(", "self", ".", _, ")"] => true,
        _ => false,
    }
}

/// The operands of `&&` or `||`, flat. An expression with a conditional (`? :`) or
/// a weaker operator at the top is one operand.
fn split<'a, 't>(tokens: &'t [&'a str], operator: &str) -> Vec<&'t [&'a str]> {
    let tokens = bare(tokens);
    let weaker = |weaker: &str| cut(tokens, weaker).len() > 1;
    if weaker("?") || (operator == "&&" && weaker("||")) {
        return vec![tokens];
    }
    match &cut(tokens, operator)[..] {
        [_] => vec![tokens],
        parts => parts.iter().flat_map(|part| split(part, operator)).collect(),
    }
}

/// The parts between an operator, outside of brackets.
fn cut<'a, 't>(tokens: &'t [&'a str], operator: &str) -> Vec<&'t [&'a str]> {
    let mut depth = 0_i32;
    tokens
        .split(|token| {
            match *token {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            depth == 0 && *token == operator
        })
        .collect()
}

/// Without parentheses around the whole expression.
fn bare<'a, 't>(tokens: &'t [&'a str]) -> &'t [&'a str] {
    let [first, inner @ .., last] = tokens else { return tokens };
    let mut depth = 0_i32;
    let closed_early = inner.iter().any(|token| {
        match *token {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    if *first == "(" && *last == ")" && !closed_early { bare(inner) } else { tokens }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rule_with_another_alternative_accepts_all_that_it_accepted() {
        for (old, new) in [
            ("self == 'a'", "(self == 'a') || self == 'b'"),
            ("self == 'a'", "self=='b'||self  ==\n'a' // and more"),
            ("self.a > 1 && self.b", "(self.a > 1 && self.b) || !has(self.a)"),
            ("self.a || self.b", "((self.b) || self.c) || self.a"),
            ("self.all(x, x > 1 || x == 0)", "(self.all(x, x > 1 || x == 0)) || size(self) == 0"),
            ("self == r'a'", "self == r'a'"),
        ] {
            assert!(loosens(old, new), "{old} to {new}");
        }
        for (old, new) in [
            ("self == 'a'", "self == 'b'"),
            ("self == 'a'", "(self == 'a') && self != 'b'"),
            ("self == 'a'", "(self == 'a') || self.b ? self.c : self.d"),
            ("self == 'a'", "self == ' a' || self.b"),
            ("self.a && self.b", "self.a || self.b"),
            ("self.a", "!(self.a || self.b)"),
            ("self.a", "self.x.exists(i, i || self.a)"),
            ("self == 'a'", "self == 'b' // || self == 'a'"),
            ("self.a", "'x || self.a' == self.b"),
            ("self == r'a'", "(self == r'a') || self.b"),
        ] {
            assert!(!loosens(old, new), "{old} to {new}");
        }
    }

    #[test]
    fn a_transition_rule_is_recognised_by_its_variable_and_may_accept_unchanged_values() {
        let with = |rule: &str, present: fn(&str) -> bool| {
            CelRule::parse(rule).map(|rule| (rule.is_transition(), rule.accepts_no_change(present)))
        };
        let read = |rule: &str| with(rule, |_| false);
        for rule in [
            "self == oldSelf",
            "oldSelf == self",
            "(self >= oldSelf)",
            "!has(oldSelf.a) || has(self.a)",
            "!has(oldSelf.a) || self.a == oldSelf.a",
            "has(self.a) == has(oldSelf.a)",
            "self.b == 1 || (self == oldSelf)",
        ] {
            assert_eq!(read(rule), Some((true, true)), "{rule}");
        }
        // An error if the field is absent, so that no write is accepted.
        for rule in
            ["(self.size >= oldSelf.size)", "self.a == oldSelf.a && self.b <= oldSelf.b", "!self.a || oldSelf.a"]
        {
            assert_eq!(read(rule), Some((true, false)), "{rule}");
            assert_eq!(with(rule, |_| true), Some((true, true)), "{rule}");
        }
        for rule in
            ["self.a.b == oldSelf.a.b", "size(self.a) == size(oldSelf.a)", "!has(self.b) || self.a == oldSelf.a"]
        {
            assert_eq!(read(rule), Some((true, false)), "{rule}");
        }
        for rule in [
            "self > oldSelf",
            "self != oldSelf",
            "self == oldSelf + 1",
            "self == oldSelf && self > 1",
            "oldSelf == 'a' ? self == oldSelf : self > 1",
            "!(self == oldSelf) || self > 2",
            "self.a < self.b == oldSelf.a < oldSelf.b",
        ] {
            assert_eq!(read(rule), Some((true, false)), "{rule}");
        }
        for rule in ["self == self.oldSelf", "self == 'oldSelf'", "self == 1 // oldSelf"] {
            assert_eq!(read(rule).map(|read| read.0), Some(false), "{rule}");
        }
        assert_eq!(read("self == '''oldSelf'''"), None);
        assert_eq!(read("self == 'oldSelf"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_tokenized_completely_and_any_rule_accepts_what_it_accepted(
            text in "[a-z'\"()|&?:!=<>/\\\\ \n]{0,40}", more in "[a-z0-9. =]{0,20}"
        ) {
            prop_assert!(loosens(&text, &text));
            if let Some(CelRule(tokens)) = CelRule::parse(&text) {
                let words = |text: &str| text.split_whitespace().collect::<String>();
                let without_comments: String = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
                if !text.contains(['\'', '"']) {
                    prop_assert_eq!(words(&tokens.concat()), words(&without_comments));
                }
                let balanced = tokens.iter().filter(|token| **token == "(").count() == 0 && !text.contains([')', '/']);
                if balanced {
                    let alternative = format!("({text}) || {more}");
                    prop_assert!(loosens(&text, &alternative), "{}", alternative);
                }
            }
        }
    }
}
