//! Lines of output that contain text from the cluster, such as the holder of a Lease: it must not control the terminal, or
//! look like another line.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;

use super::stdout::print_line;

/// Prints a step.
pub(super) fn say(step: &str, what: impl Display) {
    print_line(&line(step, what));
}

/// Prints each step once, although its requests may be repeated.
pub(super) fn once() -> impl Fn(&str, String) {
    let printed = RefCell::new(BTreeSet::new());
    move |step, what| {
        if printed.borrow_mut().insert(what.clone()) {
            say(step, what);
        }
    }
}

/// Formats a step as a line.
fn line(step: &str, what: impl Display) -> String {
    format!("{step:<9} {}", printable(&what.to_string()))
}

/// A text as a part of a line, with escapes.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::new();
    for char in text.chars() {
        if is_deceptive(char) { printable.extend(char.escape_default()) } else { printable.push(char) }
    }
    printable
}

/// Returns `true` for characters that control the terminal, or reorder the text around
/// them.
pub(super) fn is_deceptive(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_the_cluster_changes_neither_the_terminal_nor_the_lines() {
        let holder = "shop\u{1b}[2J\u{1b}]52;c;aGk=\u{7}\r\ndelete    CRD \u{9b}1m\u{202e}é";
        assert_eq!(
            line("keep", format_args!("Lease shop/shop: `{holder}` holds it")),
            "keep      Lease shop/shop: `shop\\u{1b}[2J\\u{1b}]52;c;aGk=\\u{7}\\r\\ndelete    CRD \\u{9b}1m\\u{202e}é` holds it"
        );
    }
}
