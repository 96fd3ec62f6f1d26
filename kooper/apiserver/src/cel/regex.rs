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

/// Compiles the pattern of a schema; `None` if that is not possible here.
pub(crate) fn pattern(pattern: &str) -> Option<Regex> {
    compile(pattern).ok().or_else(|| Regex::new(pattern).ok())
}

/// Why a pattern is not a regular expression of Go, if that is certain.
pub(crate) fn mistake(pattern: &str) -> Option<String> {
    translated(pattern).err().filter(|why| !why.starts_with(super::LIMIT))
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
                    return Ok(out + &regex::escape(quoted) + &translated(after)?);
                }
                Some(class @ ('d' | 'w' | 's')) => out.push_str(&format!("[{}]", ascii(class))),
                Some(class @ ('D' | 'W' | 'S')) => out.push_str(&format!("[^{}]", ascii(class))),
                Some('b') => out.push_str(r"(?-u:\b)"),
                Some('B') => return Err(limit(r"\B")),
                // A reference to a group; with another digit, it is an octal number.
                Some(digit @ '1'..='7') if !matches!(chars.peek(), Some('0'..='7')) => return Err(invalid(digit)),
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
                let rest = chars.clone().collect::<String>();
                if flags.is_empty() && (rest.starts_with("<=") || rest.starts_with("<!")) {
                    return Err(format!("error parsing regexp: invalid named capture: `(?{rest}`"));
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
        other => other.is_ascii() && !other.is_ascii_alphanumeric(),
    };
    if !known {
        return Err(invalid(char));
    }
    match char {
        '<' | '>' => out.push(char),
        ' ' => out.push_str(r"\x20"),
        _ => out.extend(['\\', char]),
    }
    Ok(())
}

fn invalid(escaped: char) -> String {
    format!(r"error parsing regexp: invalid escape sequence: `\{escaped}`")
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
            '[' if chars.peek() == Some(&':') && chars.clone().skip(1).collect::<String>().contains(":]") => {
                let name: String = std::iter::from_fn(|| chars.next_if(|char| *char != ']')).collect();
                chars.next();
                out.push_str(&format!("[{name}]"));
            }
            '\\' => match chars.next() {
                // In brackets of its own, a hyphen behind it is a character.
                Some(class @ ('d' | 'w' | 's')) => out.push_str(&format!("[{}]", ascii(class))),
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
