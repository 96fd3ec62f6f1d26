//! Printing to stdout. An incomplete output is an error.

use std::io::{self, Write};
use std::process::ExitCode;

use parking_lot::Mutex;

use kooper_runtime::BoxError;

/// The output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("stdout cannot be written: {0}")]
struct StdoutError(io::Error);

/// The error of the first line that could not be printed.
static UNPRINTED: Mutex<Option<BoxError>> = Mutex::new(None);

/// Prints a text to stdout.
pub(super) fn print(text: &str) -> Result<ExitCode, BoxError> {
    ended(io::stdout().write_all(text.as_bytes()))
}

/// Prints a line of a command that continues if stdout cannot be written: `uninstall` must not stop halfway. The error is
/// that of the whole command.
pub(super) fn print_line(line: &str) {
    if let Err(error) = ended(writeln!(io::stdout(), "{line}")) {
        UNPRINTED.lock().get_or_insert(error);
    }
}

/// The end of a command, which has failed if a line of it could not be printed.
pub(super) fn complete(code: ExitCode) -> Result<ExitCode, BoxError> {
    UNPRINTED.lock().take().map_or(Ok(code), Err)
}

/// The end of a command that prints to stdout. A reader that needs no more, such as `head`, is not an error.
fn ended(written: io::Result<()>) -> Result<ExitCode, BoxError> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(StdoutError(error).into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_that_names_stdout_and_a_reader_that_has_ended_is_none() {
        let full = ended(Err(io::ErrorKind::StorageFull.into())).expect_err("the documents are not complete");
        assert!(full.to_string().starts_with("stdout cannot be written: "), "{full}");
        ended(Err(io::ErrorKind::BrokenPipe.into())).expect("`head` has what it needs");
        ended(Ok(())).expect("they are written");
    }
}
