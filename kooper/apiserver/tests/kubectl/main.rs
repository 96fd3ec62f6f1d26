//! A stock kubectl, driven through its verbs on this server and on a real one: the outputs are the same.
//!
//! A case is a script in `cases`. Set `KOOPER_CASE` to run one of them alone.

#[path = "../control_plane.rs"]
mod control_plane;
#[path = "../diff.rs"]
mod diff;
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
                for (mark, line) in diff::lines(ours, theirs) {
                    let _ = writeln!(report, "  {mark} {line}");
                }
            }
        }
    }
    assert!(report.is_empty(), "{differing} of {steps} outputs differ (- ours, + theirs):\n{report}");
}
