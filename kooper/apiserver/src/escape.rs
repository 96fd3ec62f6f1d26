//! The letters that stand for control characters in the literals of Go and CEL.

const LETTERS: [(char, char); 7] =
    [('a', '\u{7}'), ('b', '\u{8}'), ('f', '\u{c}'), ('n', '\n'), ('r', '\r'), ('t', '\t'), ('v', '\u{b}')];

/// The control character for which a letter behind a backslash stands.
pub(crate) fn control(letter: char) -> Option<char> {
    LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, char)| *char)
}

/// A text in double quotes. `write` adds the characters that need no backslash before a letter or themselves.
pub(crate) fn quote(text: &str, write: impl Fn(char, &mut String)) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match LETTERS.iter().find(|(_, known)| *known == char) {
            Some((letter, _)) => quoted.extend(['\\', *letter]),
            None if matches!(char, '"' | '\\') => quoted.extend(['\\', char]),
            None => write(char, &mut quoted),
        }
    }
    quoted.push('"');
    quoted
}
