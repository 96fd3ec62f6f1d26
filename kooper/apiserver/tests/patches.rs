//! Patches do what the real server does with them: recorded histories of
//! requests are replayed.
//!
//! `tests/it/writes/patches.rs` runs the same histories, and random ones, on a real
//! server, and records its answers.

#[path = "patches/replay.rs"]
mod replay;

use replay::{differences, files, histories};

#[test]
fn recorded_patches_have_the_outcome_that_the_real_server_gave_them() {
    let mut failed = Vec::new();
    let mut steps = 0;
    for history in files().iter().flat_map(|file| histories(file)) {
        let mut base = None;
        for (index, step) in history.steps.iter().enumerate() {
            steps += 1;
            let found = differences(&history, step, base.as_ref());
            if !found.is_empty() {
                let (name, verb, body) = (&history.name, &step.verb, &step.body);
                failed.push(format!("{name}, step {index}, {verb} {body}:\n{}", found.join("\n")));
            }
            if step.code < 300 {
                base = Some(step.answer.clone());
            }
        }
    }
    assert!(failed.is_empty(), "{} of {steps} steps differ:\n\n{}", failed.len(), failed.join("\n\n"));
    assert!(steps > 300, "only {steps} steps were found");
}
