//! Suggestions for unknown words.

use kooper_grammar::field_name::letters;
use kooper_grammar::suggest::nearest;

use crate::support::errors::message;

/// The known word that was meant by an unknown one.
///
/// `others` are known words, each with the words of other tools that mean the same. Those of Go and Java are written in
/// camel case.
pub(crate) fn meant(
    word: &str,
    known: &[&'static str],
    others: &[(&'static str, &'static str)],
) -> Option<&'static str> {
    let is_same = |theirs: &str| theirs.split(' ').any(|other| letters(other).eq(letters(word)));
    let same = others.iter().find(|(_, theirs)| is_same(theirs)).map(|(ours, _)| *ours);
    same.or_else(|| nearest(word, known.iter().copied()))
}

/// The message for an unknown word.
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
    fn a_similar_word_is_suggested_or_all_are_listed() {
        let known = ["labels", "workers"];
        let say = |word| unknown("key", word, meant(word, &known, &[("workers", "max_threads")]), &known);
        assert_eq!(say("label"), "unknown key `label`: write `labels`");
        assert_eq!(say("max_threads"), "unknown key `max_threads`: write `workers`");
        assert_eq!(say("maxThreads"), "unknown key `maxThreads`: write `workers`");
        assert_eq!(say("banana"), "unknown key `banana`: write one of `labels`, `workers`");
    }
}
