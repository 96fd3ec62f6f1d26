//! Tools of others that tests hold generated files against.

use std::env;
use std::io::{self, Write};
use std::process::Command;

/// Returns whether a tool is on the path. If not, a message is printed, and the caller must skip the test; it fails if
/// `KOOPER_REQUIRE_TOOLS` names the tool, as in `helm,promtool`.
pub fn has(tool: &str) -> bool {
    if Command::new(tool).arg("--help").output().is_ok() {
        return true;
    }
    let required = env::var("KOOPER_REQUIRE_TOOLS").unwrap_or_default();
    assert!(!required.split(',').any(|one| one == tool), "{tool} is not on the path");
    // Written directly to stderr: the test harness hides the output of passing tests.
    drop(writeln!(io::stderr(), "skipped: {tool} is not on the path"));
    false
}
