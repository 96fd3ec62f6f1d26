//! A program that is assembled with `App` has what a generated one has.

use kooper_tests::dev::Home;
use kooper_tests::process::Process;

const PROGRAM: &str = env!("CARGO_BIN_EXE_assembled");

const MAPS: &str = "\
{apiVersion: v1, kind: ConfigMap, metadata: {name: rose, labels: {color: red}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: sky, labels: {color: blue}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: key}}
";

#[test]
fn its_controllers_are_those_of_a_loop_and_its_logs_and_metrics_its_own() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "assembled");
    let file = home.file("maps.yaml", MAPS);
    let dev = home.start(PROGRAM, &["--port", "0", "--greeting", "hi", "-f", &file]);
    for line in ["hi, red rose", "hi, blue sky", "hi, key"] {
        // The program's own subscriber writes the file.
        dev.process.wait_for_line(&["tests/programs/assembled/main.rs", line]);
    }
    dev.process.wait_for_page(
        "/metrics",
        200,
        &["assembled_greeted_total 2", "controller=\"blue\"", "process_open_fds -7"],
    );
    dev.process.wait_for_page("/readyz?verbose", 503, &["paint: there is none"]);
    dev.process.wait_for_page("/colors", 200, &["red and blue"]);
    dev.process.wait_for_page("/broken", 500, &["/broken panicked"]);
    dev.process.wait_for_page("/unknown", 404, &["/metrics, /healthz, /readyz, /colors and /broken"]);
    dev.stop();
}

#[test]
fn its_commands_and_its_help_are_those_of_a_generated_program() {
    let run = |args: &[&str], colors: &str| {
        let mut process = Process::start(PROGRAM, args, &[("COLORS", colors)]);
        let code = process.exit_code();
        (code, process.lines().join("\n"))
    };
    let (code, help) = run(&["--help"], "red");
    assert!(code == Some(0) && help.starts_with("Greets objects of all colors\n\nEach color"), "{help}");
    assert!(help.contains("--greeting") && help.contains("dry-run"), "{help}");
    let (code, rbac) = run(&["rbac"], "red,blue");
    assert!(code == Some(0) && rbac.contains("configmaps") && rbac.contains("name: assembled"), "{rbac}");
    let (code, invalid) = run(&["rbac"], "Dark Red");
    assert!(code == Some(1) && invalid.contains("Dark Red"), "{invalid}");
}

#[test]
fn a_runtime_that_nothing_would_drive_is_an_error_at_the_start() {
    let mut process = Process::start(PROGRAM, &["run", "--listen", "off"], &[("THREADLESS", "1")]);
    let (code, lines) = (process.exit_code(), process.lines().join("\n"));
    let expected = "assembled cannot start: `App::runtime` returned a runtime without threads of its own: write \
                    `Builder::new_multi_thread().worker_threads(1)`";
    assert!(code == Some(1) && lines.contains(expected), "{lines}");
}
