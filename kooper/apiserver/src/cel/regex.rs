//! Regular expressions: those of Go, translated for the crate `regex`, whose syntax differs in details.

use std::iter::Peekable;
use std::str::Chars;

use regex::Regex;

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const BLANK: &str = r"\t\n\x0C\r\x20";

/// Compiles a regular expression of Go.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translated(pattern)?;
    Regex::new(&translated).map_err(|error| format!("error parsing regexp: {error}"))
}

fn limit(what: &str) -> String {
    format!("{}: it does not translate {what} of a regular expression", super::LIMIT)
}

/// Go's classes of characters are those of ASCII, and it has no operations on sets.
fn translated(pattern: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('Q') => {
                    let rest: String = chars.by_ref().collect();
                    let (quoted, after) = rest.split_once(r"\E").unwrap_or((&rest, ""));
                    return Ok(out + &regex::escape(quoted) + &translated_rest(after)?);
                }
                Some(class @ ('d' | 'w' | 's')) => out.push_str(&format!("[{}]", ascii(class))),
                Some(class @ ('D' | 'W' | 'S')) => out.push_str(&format!("[^{}]", ascii(class))),
                Some('b') => out.push_str(r"(?-u:\b)"),
                Some('B') => return Err(limit(r"\B")),
                Some(escaped) => {
                    escape(escaped, &mut out)?;
                    braces(escaped, &mut chars, &mut out);
                }
                None => return Err("error parsing regexp: trailing backslash at end of expression: ``".to_owned()),
            },
            '[' => class(&mut chars, &mut out)?,
            '(' if chars.peek() == Some(&'?') => {
                chars.next();
                let flags: String =
                    std::iter::from_fn(|| chars.next_if(|char| !matches!(char, ':' | ')' | 'P' | '<'))).collect();
                if flags.contains(['x', 'u', 'R', '=', '!']) {
                    return Err(format!("error parsing regexp: invalid or unsupported Perl syntax: `(?{flags}`"));
                }
                out.push_str("(?");
                out.push_str(&flags);
            }
            '{' => repetition(&mut chars, &mut out)?,
            other => out.push(other),
        }
    }
    Ok(out)
}

fn translated_rest(rest: &str) -> Result<String, String> {
    translated(rest)
}

fn ascii(class: char) -> &'static str {
    match class.to_ascii_lowercase() {
        'd' => DIGIT,
        'w' => WORD,
        _ => BLANK,
    }
}

/// An escape that means the same in both; letters that only one of them knows are refused.
fn escape(char: char, out: &mut String) -> Result<(), String> {
    let known = match char {
        'a' | 'f' | 't' | 'n' | 'r' | 'v' | 'A' | 'z' | 'p' | 'P' | 'x' => true,
        '0'..='7' => return Err(limit("octal escapes")),
        'C' => return Err(limit(r"\C")),
        other => other.is_ascii_punctuation(),
    };
    if !known {
        return Err(format!(r"error parsing regexp: invalid escape sequence: `\{char}`"));
    }
    match char {
        '<' | '>' => out.push(char),
        _ => out.extend(['\\', char]),
    }
    Ok(())
}

/// Copies the braces behind an escape that may have them.
fn braces(escaped: char, chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    if matches!(escaped, 'p' | 'P' | 'x') && chars.peek() == Some(&'{') {
        for char in chars.by_ref() {
            out.push(char);
            if char == '}' {
                return;
            }
        }
    }
}

/// A class of characters, from behind its bracket on.
fn class(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    out.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut first = true;
    while let Some(char) = chars.next() {
        match char {
            ']' if !first => {
                out.push(']');
                return Ok(());
            }
            '[' if chars.peek() == Some(&':') => {
                let name: String = std::iter::from_fn(|| chars.next_if(|char| *char != ']')).collect();
                chars.next();
                out.push_str(&format!("[{name}]"));
            }
            '\\' => match chars.next() {
                Some(class @ ('d' | 'w' | 's')) => out.push_str(ascii(class)),
                Some(class @ ('D' | 'W' | 'S')) => out.push_str(&format!("[^{}]", ascii(class))),
                Some(escaped) => {
                    escape(escaped, out)?;
                    braces(escaped, chars, out);
                }
                None => break,
            },
            '[' | ']' | '&' | '~' => out.extend(['\\', char]),
            '-' if chars.peek() == Some(&'-') => return Err(limit("a range to or from a hyphen")),
            other => out.push(other),
        }
        first = false;
    }
    Err("error parsing regexp: missing closing ]".to_owned())
}

/// A number of repetitions; what is not one are plain characters.
fn repetition(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    let ahead: String = chars.clone().take_while(|char| *char != '}').collect();
    let (least, most) = ahead.split_once(',').unwrap_or((&ahead, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let closed = chars.clone().nth(ahead.chars().count()) == Some('}');
    if !closed || !is_number(least) || !(most.is_empty() || is_number(most)) {
        out.push_str(r"\{");
        return Ok(());
    }
    if [least, most].iter().any(|text| text.len() > 4 || text.parse().unwrap_or(0) > 1_000) {
        return Err(format!("error parsing regexp: invalid repeat count: `{{{ahead}}}`"));
    }
    out.push('{');
    out.push_str(&ahead);
    out.push('}');
    for _ in 0..=ahead.chars().count() {
        chars.next();
    }
    Ok(())
}
