//! What to write instead of a word that is not known.

use kooper_grammar::suggest::nearest;

use crate::support::errors::message;

/// The word that was meant by one that is none of those that may stand there.
///
/// `others` are words of other tools, each with the one of ours that means the same.
pub(crate) fn meant(
    word: &str,
    known: &[&'static str],
    others: &[(&'static str, &'static str)],
) -> Option<&'static str> {
    let same = others.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours);
    same.or_else(|| nearest(word, known.iter().copied()))
}

/// The text for a word that is none of those that may stand there.
pub(crate) fn unknown(what: &str, word: &str, meant: Option<&str>, known: &[&'static str]) -> String {
    match meant {
        Some(meant) => message!("unknown {what} `{word}`: write `{meant}`"),
        None => {
            let known = known.join("`, `");
            message!("unknown {what} `{word}`: write one of `{known}`")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{meant, unknown};

    #[test]
    fn the_nearest_the_same_or_all() {
        let known = ["labels", "workers"];
        let say = |word| unknown("key", word, meant(word, &known, &[("concurrency", "workers")]), &known);
        assert_eq!(say("label"), "unknown key `label`: write `labels`");
        assert_eq!(say("concurrency"), "unknown key `concurrency`: write `workers`");
        assert_eq!(say("banana"), "unknown key `banana`: write one of `labels`, `workers`");
    }
}
