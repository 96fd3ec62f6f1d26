//! Strings from elsewhere in HTML.

use std::fmt::{self, Display, Write};

use kooper_runtime::internal::error::redaction::redact;

/// The longest part of a string from elsewhere that is shown, in characters.
pub(super) const LONGEST: usize = 600;

/// A string in HTML: as an element's text, or as an attribute's value in quotes.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = redact(self.0);
        let mut chars = text.chars();
        for char in chars.by_ref().take(LONGEST) {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(char)?,
                char if char.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                char => f.write_char(char)?,
            }
        }
        if chars.next().is_some() { f.write_char('…') } else { Ok(()) }
    }
}
