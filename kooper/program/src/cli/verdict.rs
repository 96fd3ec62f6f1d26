//! The result of one of the checks of `check`.

use std::fmt::Display;

use super::stdout::print_line;
use super::step::printable;

#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Ok,
    Missing,
    Note,
}

impl Verdict {
    /// Prints the result with its text.
    pub(super) fn say(self, text: impl Display) {
        print_line(&self.line(&text.to_string()));
    }

    /// Formats the result. The lines of a text, such as the message about a wrong setting, are indented.
    fn line(self, text: &str) -> String {
        let word = match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Note => "note",
        };
        format!("{word:<8} {}", text.lines().map(printable).collect::<Vec<_>>().join("\n         "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_cluster_neither_controls_the_terminal_nor_looks_like_a_result() {
        let replica = "shop\u{1b}[2J\nok       access secrets: list";
        assert_eq!(
            Verdict::Missing.line(&format!("the replica {replica}")),
            "missing  the replica shop\\u{1b}[2J\n         ok       access secrets: list"
        );
        assert_eq!(Verdict::Ok.line("namespace shop"), "ok       namespace shop");
    }
}
