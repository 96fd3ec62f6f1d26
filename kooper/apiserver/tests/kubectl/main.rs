//! A stock kubectl, driven through its verbs on this server and on a real one: the outputs are the same.
//!
//! A case is a script in `cases`. Set `KOOPER_CASE` to run one of them alone.

mod normal;
mod script;
mod sides;

use std::fmt::Write as _;
use std::path::Path;

use self::script::Script;
use self::sides::{Client, Embedded, Real};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_sees_a_real_server() {
    let Some(real) = Real::start() else { return };
    let embedded = Embedded::start().await;
    let client = Client::build();
    let only = std::env::var("KOOPER_CASE").ok();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl/cases");
    let (mut report, mut steps, mut differing) = (String::new(), 0, 0);
    for script in Script::read_all(&folder) {
        if only.as_ref().is_some_and(|only| *only != script.name) {
            continue;
        }
        if script.name == "client" && client.is_none() {
            continue;
        }
        let client = client.as_ref();
        let (ours, theirs) = (embedded.session(&script.name, client), real.session(&script.name, client));
        // Each side on a thread of its own: most of the time is kubectl's.
        let (ours, theirs) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| ours.run(&script));
            let theirs = theirs.run(&script);
            (ours.join().expect("the scripts ran"), theirs)
        });
        for ((step, ours), theirs) in script.steps.iter().zip(&ours).zip(&theirs) {
            steps += 1;
            if ours != theirs {
                differing += 1;
                let _ = writeln!(report, "\n{}: line {}: {}", script.name, step.line, step.command);
                for line in diff(ours, theirs) {
                    let _ = writeln!(report, "  {line}");
                }
            }
        }
    }
    assert!(report.is_empty(), "{differing} of {steps} outputs differ (- ours, + theirs):\n{report}");
}

/// The lines of two texts: those of one alone are marked.
fn diff(ours: &str, theirs: &str) -> Vec<String> {
    let (ours, theirs): (Vec<_>, Vec<_>) = (ours.lines().collect(), theirs.lines().collect());
    // The longest common subsequence from each pair of positions on.
    let mut common = vec![vec![0_usize; theirs.len() + 1]; ours.len() + 1];
    for (i, one) in ours.iter().enumerate().rev() {
        for (j, other) in theirs.iter().enumerate().rev() {
            common[i][j] = if one == other { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < ours.len() || j < theirs.len() {
        if i < ours.len() && j < theirs.len() && ours[i] == theirs[j] {
            lines.push(format!("  {}", ours[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == theirs.len() || i < ours.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(format!("- {}", ours[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", theirs[j]));
            j += 1;
        }
    }
    lines
}
