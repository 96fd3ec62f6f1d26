//! The page `errors-and-messages`, compared with the string literals of the code.

use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::LitStr;

use super::{SOURCES, pages, root, text};

const PAGE: &str = "docs/reference/errors-and-messages.md";

/// The placeholder for a value: `{…}`, in the code and on the page.
const VALUE: char = '\u{1}';

/// A string literal of the code.
struct Literal {
    text: String,
    /// `true` if it is the message of an `#[error(…)]` or of a log line.
    is_message: bool,
}

/// Every `{…}` becomes a [`VALUE`].
fn with_values(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((_, behind)) = after.split_once('}') else { break };
        result.push_str(before);
        result.push(VALUE);
        rest = behind;
    }
    result + rest
}

/// The string literals of a file, without those of its tests.
fn literals_of(code: &str, found: &mut Vec<Literal>) {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    literals_in(code.parse().expect("a file of Rust"), false, found);
}

/// Collects the string literals of tokens, except doc comments.
fn literals_in(tokens: TokenStream, may_be_message: bool, found: &mut Vec<Literal>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let before = &tokens[..at];
        match token {
            TokenTree::Group(group) if matches!(before, [.., TokenTree::Punct(hash)] if hash.as_char() == '#') => {
                let mut inside = group.stream().into_iter();
                match (inside.next().map(|name| name.to_string()).as_deref(), inside.next()) {
                    (Some("doc"), _) => {}
                    (Some("error"), Some(TokenTree::Group(error))) => literals_in(error.stream(), true, found),
                    _ => literals_in(group.stream(), false, found),
                }
            }
            TokenTree::Group(group) => literals_in(group.stream(), is_log(before), found),
            TokenTree::Literal(literal) => {
                let is_whole = before.last().is_none_or(|last| last.to_string() == ",");
                if let Ok(text) = syn::parse_str::<LitStr>(&literal.to_string()) {
                    found.push(Literal { text: with_values(&text.value()), is_message: may_be_message && is_whole });
                }
            }
            _ => {}
        }
    }
}

/// Returns `true` if tokens end with `tracing::error!` or its like. Levels below `info` are
/// for readers of the code.
fn is_log(tokens: &[TokenTree]) -> bool {
    let [.., TokenTree::Ident(tracing), TokenTree::Punct(_), TokenTree::Punct(_), TokenTree::Ident(level), _] = tokens
    else {
        return false;
    };
    tracing == "tracing" && ["error", "warn", "info"].iter().any(|name| level == name)
}

/// The string literals of the library.
fn literals() -> Vec<Literal> {
    fn collect(folder: &Path, found: &mut Vec<Literal>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if ["tests", "simulation", "fake"].contains(&&*name) {
                continue;
            } else if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                literals_of(&fs::read_to_string(&path).unwrap(), found);
            }
        }
    }
    let mut found = Vec::new();
    SOURCES.iter().for_each(|folder| collect(&root().join(folder), &mut found));
    found
}

/// The first cells of the page's tables whose first column has this title.
fn cells(title: &str) -> Vec<String> {
    let page = text(PAGE);
    let header = format!("| {title} |");
    let tables = page.split("\n\n").filter_map(|block| block.trim().strip_prefix(&header));
    let rows = tables.flat_map(|table| table.lines().skip(2));
    rows.filter_map(|row| Some(row.strip_prefix("| ")?.split(" | ").next()?.trim_end_matches(" |").to_owned()))
        .collect()
}

/// The messages of the page, cut at each `…`.
fn listed() -> Vec<String> {
    let parts = |cell: String| cell.split('…').map(|part| with_values(part.trim())).collect::<Vec<_>>();
    cells("message").into_iter().flat_map(parts).filter(|part| !part.is_empty()).collect()
}

/// A message without the values and punctuation at its beginning.
fn beginning(message: &str) -> &str {
    message.trim_start_matches([VALUE, ' ', ':', ';', ',', '`'])
}

fn shown(message: &str) -> String {
    message.replace(VALUE, "{…}")
}

#[test]
fn every_listed_message_is_in_the_code() {
    let (listed, literals) = (listed(), literals());
    assert!(listed.len() > 100, "the messages are found on the page: {}", listed.len());
    let is_unknown = |part: &&String| !literals.iter().any(|literal| literal.text.contains(&***part));
    let unknown: Vec<_> = listed.iter().filter(is_unknown).map(|part| shown(part)).collect();
    assert!(unknown.is_empty(), "{PAGE} lists what no string of the code contains:\n{}", unknown.join("\n"));
}

#[test]
fn every_error_and_every_line_of_the_log_is_listed() {
    let (listed, literals) = (listed(), literals());
    let messages: Vec<_> = literals.iter().filter(|literal| literal.is_message).map(|literal| &literal.text).collect();
    assert!(messages.len() > 100, "the messages are found in the code: {}", messages.len());
    let says_something = |message: &&&String| message.chars().any(char::is_alphabetic);
    let is_missing = |message: &&&String| {
        !listed.iter().any(|part| match beginning(part) {
            words if words.contains(' ') => beginning(message).starts_with(words),
            word => beginning(message) == word,
        })
    };
    let missing: Vec<_> = messages.iter().filter(says_something).filter(is_missing).map(|text| shown(text)).collect();
    assert!(missing.is_empty(), "{PAGE} lacks messages of the code:\n{}", missing.join("\n"));
}

#[test]
fn every_listed_event_is_recorded_by_the_code() {
    let (events, literals) = (cells("Event"), literals());
    assert!(events.len() > 4, "the Events are found on the page");
    for event in events {
        let reason = event.trim_matches('`');
        assert!(literals.iter().any(|literal| literal.text == reason), "{reason} is a string of the code");
    }
}

/// Returns `true` if a line of the log can come from this literal.
fn fits(line: &str, literal: &str) -> bool {
    let mut parts = literal.split(VALUE);
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    true
}

/// The message in a line on a page: in the log, or a finding of `check`.
fn printed(line: &str) -> Option<&str> {
    const LEVELS: [&str; 3] = ["INFO ", "WARN ", "ERROR "];
    let in_the_log = LEVELS.iter().find_map(|level| {
        let (time, rest) = line.split_once(level)?;
        let rest = match rest.strip_prefix("call{") {
            Some(span) => span.split_once("}: ")?.1,
            None => rest,
        };
        // The lines of a user's own program begin with its module.
        let is_target = |word: &str| word.chars().all(|char| char.is_ascii_lowercase() || "_:".contains(char));
        let is_own = rest.split_once(": ").is_some_and(|(first, _)| is_target(first));
        (!is_own && !time.contains(|char: char| char.is_alphabetic())).then_some(rest)
    });
    in_the_log.or_else(|| line.strip_prefix("missing  "))
}

#[test]
fn lines_that_the_pages_show_come_from_the_code() {
    let literals = literals();
    let says_something = |literal: &&Literal| literal.text.chars().filter(|char| char.is_alphabetic()).count() > 3;
    let mut shown = 0;
    for (page, text) in pages() {
        for line in text.lines().filter_map(printed) {
            // An error may follow its context.
            let ends = line.match_indices(": ").map(|(at, between)| &line[at + between.len()..]);
            let mut ends = std::iter::once(line).chain(ends);
            let known = ends.any(|end| literals.iter().filter(says_something).any(|literal| fits(end, &literal.text)));
            assert!(known, "{}: no string of the code becomes this line: {line}", page.display());
            shown += 1;
        }
    }
    assert!(shown > 10, "the lines are found on the pages: {shown}");
}

/// The output that a page shows for the commands that `is_command` accepts, line by line.
fn output(page: &str, is_command: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut shown = false;
    let lines = page.lines().filter(|line| {
        match line.strip_prefix("$ ") {
            Some(command) => shown = is_command(command),
            None if line.starts_with("```") => shown = false,
            None => return shown,
        }
        false
    });
    lines.collect()
}

#[test]
fn lines_of_probes_on_the_pages_come_from_the_code() {
    let literals = literals();
    let mut compared = 0;
    for (page, text) in pages() {
        for line in output(&text, |command| command.contains("curl") && command.ends_with("z")) {
            if ["ok", "…"].contains(&line) || line.starts_with("HTTP/1.1 ") {
                continue;
            }
            // `CONTROLLER: REASON`, or `CONTROLLER: RESOURCE in NAMESPACE: REASON`.
            let reasons = line.match_indices(": ").take(2).map(|(at, between)| &line[at + between.len()..]);
            let has_words = |literal: &&Literal| literal.text.chars().any(char::is_alphabetic);
            let known = reasons.into_iter().any(|reason| {
                literals.iter().filter(has_words).any(|literal| {
                    fits(reason, &literal.text)
                        || reason.split_once(": ").is_some_and(|(first, _)| first == literal.text)
                })
            });
            assert!(known, "{}: no probe of the code responds with this line: {line}", page.display());
            compared += 1;
        }
    }
    assert!(compared > 3, "the lines of probes are found on the pages: {compared}");
}

#[test]
fn help_texts_on_the_pages_are_those_of_the_code() {
    let mut literals = Vec::new();
    for file in ["args", "args/flags", "args/own/secret"] {
        literals_of(&text(&format!("kooper/program/src/cli/{file}.rs")), &mut literals);
    }
    let mut compared = 0;
    for (page, text) in pages() {
        for line in output(&text, |command| command.contains("--help")) {
            if ["", "…", "Options:", "Commands:", "Settings:"].contains(&line) || line.starts_with("Usage: ") {
                continue;
            }
            // The help of a flag or a command follows its name, in a column.
            let help = line.rsplit("  ").next().unwrap_or_default().trim();
            let has_words = |text: &str| text.chars().filter(|char| char.is_alphabetic()).count() > 9;
            let is_it = |one: &str| one == help || (has_words(one) && fits(help, one));
            let is_ours = |literal: &Literal| literal.text.lines().any(is_it);
            // The settings of a program, and its description, are doc comments on the page.
            let words = help.split(" [").next().unwrap_or_default();
            let known = literals.iter().any(is_ours) || text.contains(&format!("/// {words}"));
            assert!(known, "{}: no help text of the code is: {help}", page.display());
            compared += 1;
        }
    }
    assert!(compared > 3, "the help texts are found on the pages: {compared}");
}
