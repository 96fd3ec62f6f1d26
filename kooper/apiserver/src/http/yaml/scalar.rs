//! Strings and numbers: how each is written so that it is read as what it is.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Number;

/// How a string is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    /// As lines of their own.
    Literal,
}

/// What is read as null, as a truth value or as a number.
const WORDS: [&str; 37] = [
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "true", "True", "TRUE",
    "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF", ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF",
    "+.inf", "+.Inf", "-.inf", "<<",
];

impl Style {
    pub(super) fn of(text: &str, is_key: bool) -> Self {
        let found = Found::of(text);
        if text.contains('\n') {
            let literal = !is_key && !found.special && !found.space_before_break && !text.ends_with(' ');
            return if literal { Self::Literal } else { Self::Double };
        }
        if means_something(text) || found.special {
            return Self::Double;
        }
        // Other breaks are special: there are none.
        if found.indicator || text.starts_with(' ') || text.ends_with(' ') { Self::Single } else { Self::Plain }
    }
}

/// What a string has that a style cannot have.
#[derive(Default)]
struct Found {
    /// A character that must be escaped.
    special: bool,
    /// Characters that mean something outside of quotes.
    indicator: bool,
    space_before_break: bool,
}

impl Found {
    fn of(text: &str) -> Self {
        let mut found = Self { indicator: text.starts_with("---") || text.starts_with("..."), ..Self::default() };
        let mut before = None;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let ends = characters.peek().is_none_or(|next| is_blank(*next));
            found.indicator |= match (character, before) {
                (
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
                    None,
                ) => true,
                ('?' | ':' | '-', None) | (':', Some(_)) => ends,
                ('#', Some(before)) => is_blank(before) || is_break(before),
                _ => false,
            };
            found.special |= !is_printable(character);
            found.space_before_break |= is_break(character) && before == Some(' ');
            before = Some(character);
        }
        found
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn has_break(text: &str) -> bool {
    text.contains(is_break)
}

fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// The escape of a character between double quotes, if it needs one.
pub(super) fn escape(character: char) -> Option<String> {
    let letter = match character {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        other if is_printable(other) => return None,
        other => {
            return Some(match u32::from(other) {
                code @ 0..=0xff => format!("\\x{code:02X}"),
                code @ 0x100..=0xffff => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            });
        }
    };
    Some(format!("\\{letter}"))
}

/// Whether a string without quotes is something else than a string.
fn means_something(text: &str) -> bool {
    static FLOAT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$").ok());
    static INTEGER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[-+]?(0[xX][0-9a-fA-F]{1,16}|0[oO]?[0-7]{1,22}|0[bB][01]{1,64})$").ok());
    static SEXAGESIMAL: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$").ok());
    static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let clock = r"([01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](\.[0-9]+)?";
        let day = r"[0-9]{4}-(0?[1-9]|1[0-2])-(0?[1-9]|[12][0-9]|3[01])";
        Regex::new(&format!(r"^{day}([Tt]{clock}(Z|[-+][0-9]{{2}}:[0-9]{{2}})| {clock})?$")).ok()
    });
    let fits = |pattern: &LazyLock<Option<Regex>>, text: &str| pattern.as_ref().is_some_and(|one| one.is_match(text));
    if WORDS.contains(&text) || matches!(text, "+.INF" | "-.Inf" | "-.INF") {
        return true;
    }
    match text.as_bytes().first() {
        Some(b'.') => text.parse::<f64>().is_ok(),
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            fits(&FLOAT, &plain) || fits(&INTEGER, &plain) || fits(&SEXAGESIMAL, text) || fits(&TIME, text)
        }
        _ => false,
    }
}

/// A number as Go writes it.
pub(super) fn number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let shortest = format!("{float:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return shortest };
    match exponent.parse::<i32>() {
        Ok(-4..6) => format!("{float}"),
        Ok(exponent) => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
        Err(_) => shortest,
    }
}
