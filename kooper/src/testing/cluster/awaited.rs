//! The source of the call that a test waits in.

use std::panic::Location;
use std::path::{Path, PathBuf};

/// The lines of a statement, at most.
const LINES: usize = 8;

/// The statement at a place, if its file can be found.
pub(super) fn source(place: &Location<'_>) -> Option<String> {
    let text = std::fs::read_to_string(find(Path::new(place.file()))?).ok()?;
    statement(&text, usize::try_from(place.line()).ok()?)
}

/// The compiler names a file from where it was called: the folder of the workspace, or that of the package.
fn find(file: &Path) -> Option<PathBuf> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let candidates = package.ancestors().map(|folder| folder.join(file));
    std::iter::once(file.to_owned()).chain(candidates).find(|file| file.is_file())
}

/// The lines from the one of this number, from 1, to the end of the statement.
fn statement(text: &str, number: usize) -> Option<String> {
    let lines: Vec<_> = text.lines().skip(number.checked_sub(1)?).take(LINES).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let first = indent(lines.first()?);
    let mut depth = 0;
    let ends = |line: &&str| {
        depth += line.matches(['(', '[', '{']).count();
        depth = depth.saturating_sub(line.matches([')', ']', '}']).count());
        depth == 0 && line.trim_end().ends_with([';', '}'])
    };
    let length = lines.iter().position(ends).map_or(lines.len(), |last| last + 1);
    let shown = lines.get(..length)?.iter().map(|line| line.get(first.min(indent(line))..).unwrap_or_default());
    Some(shown.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::statement;

    #[test]
    fn a_statement_is_shown_to_its_end() {
        let text = "fn a() {\n    let web = cluster\n        .wait(\"web\", |web: &Deployment| {\n            ready(web)\n        })\n        .await;\n    done();\n}\n";
        assert_eq!(statement(text, 7).as_deref(), Some("done();"));
        let shown =
            "let web = cluster\n    .wait(\"web\", |web: &Deployment| {\n        ready(web)\n    })\n    .await;";
        assert_eq!(statement(text, 2).as_deref(), Some(shown));
        assert_eq!(
            statement(text, 3).as_deref(),
            Some(".wait(\"web\", |web: &Deployment| {\n    ready(web)\n})\n.await;")
        );
        assert_eq!(statement(text, 99), None);
    }
}
