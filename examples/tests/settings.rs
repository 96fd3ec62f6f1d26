//! The settings of a program itself: `greeter` has some.

use std::fs;
use std::path::PathBuf;

use kooper_tests::process::Process;
use serde_json::json;

use crate::dev::home;
use crate::support::{GREETER, cluster, pod, start, stop};

/// Runs the program to its end: its exit code and its output.
fn ended(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut program = Process::start(GREETER, args, variables);
    let code = program.exit_code();
    (code, program.lines().join("\n"))
}

/// A file with a secret.
fn secret(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, "canary-secret\n").expect("the folder can be written to");
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn a_missing_setting_is_reported_before_the_program_connects() {
    for command in ["run", "dev"] {
        let (code, said) = ended(&[command], &[("GREETER_TOKEN", "")]);
        assert_eq!(code, Some(2), "{said}");
        let expected = "error: 1 setting is missing: set `--token <TOKEN>`, or the variable GREETER_TOKEN, or \
                        `--token-file` or GREETER_TOKEN_FILE to a file with its value";
        assert!(said.contains(expected), "{said}");
    }
    for command in ["rbac", "crd"] {
        let (code, said) = ended(&[command], &[]);
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn the_help_describes_the_program_and_hides_the_values_of_variables() {
    let (code, said) = ended(&["--help"], &[("GREETER_TOKEN", "canary-secret"), ("GREETER_GREETING", "hi")]);
    assert_eq!(code, Some(0));
    assert!(said.starts_with("Greets every pod\n"), "{said}");
    for part in [
        "--greeting <GREETING>  How pods are greeted [env: GREETER_GREETING] [default: hello]",
        "--label <LABEL>        Label that gives a pod another name [env: GREETER_LABEL]",
        "--token <TOKEN>        Token of the service that delivers greetings [env: GREETER_TOKEN] [required]",
        "--token-file <FILE>    File with the value of --token [env: GREETER_TOKEN_FILE]",
    ] {
        assert!(said.split_once("Settings:").is_some_and(|(_, settings)| settings.contains(part)), "{part}\n{said}");
    }
    assert!(!said.contains("canary-secret"), "{said}");
}

#[test]
fn settings_reach_the_handler_and_init_and_a_secret_is_not_logged() {
    let namespace = "greeter";
    let Some(cluster) = cluster(namespace) else { return };
    let mut anna = pod(namespace, "anna");
    anna["metadata"]["labels"] = json!({"called": "Queen"});
    cluster.apply([anna, pod(namespace, "ben")]);
    let token = secret("greeter-token");
    let args = ["--greeting", "good evening", "--log-level", "trace"];
    let variables = [("GREETER_GREETING", "hi"), ("GREETER_LABEL", "called"), ("GREETER_TOKEN_FILE", &token)];
    let program = start(GREETER, cluster, namespace, &args, &variables);
    program.wait_for_line(&["good evening, Queen (by the client with a token of 13 characters)"]);
    program.wait_for_line(&["good evening, ben (by the client"]);
    program.wait_for_line(&[
        "connected settings=Settings(GreeterSettings { greeting: \"good evening\"",
        "token: SecretValue(…)",
    ]);
    assert_eq!(program.count(&["canary-secret"]), 0);
    stop(program);
}

#[test]
fn dev_and_check_know_the_settings() {
    let home = home("greeter");
    let dev = home.start(GREETER, &["--port", "0", "--token", "s", "--greeting=hi"]);
    dev.process.wait_for_line(&["hi, hello (by the client with a token of 1 characters)"]);
    let kubeconfig = dev.kubeconfig();
    let kubeconfig = kubeconfig.to_str().expect("the path is UTF-8");
    let (code, said) = ended(&["check", "--kubeconfig", kubeconfig], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("note     `run` needs different settings: 1 setting is missing: set `--token <TOKEN>`"),
        "{said}"
    );
    let (_, said) = ended(&["check", "--kubeconfig", kubeconfig, "--token", "s"], &[]);
    assert!(!said.contains("other settings"), "{said}");
    dev.stop();
}
