//! Invalid flags, kubeconfigs and ports: the messages, and the exit code of the program.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use kooper_tests::process::Process;

use crate::support::ONEFILE_ECHO_POD;

/// Runs the program to its end: its exit code and its output.
fn ended(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut program = Process::start(ONEFILE_ECHO_POD, args, variables);
    let code = program.exit_code();
    (code, program.lines().join("\n"))
}

/// A file of this test, in the folder that cargo keeps for them.
fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the folder can be written to");
    path.to_str().expect("the path is UTF-8").to_owned()
}

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: far, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: me, user: {token: secret-token}}]
contexts: [{name: work, context: {cluster: far, user: me}}, {name: play, context: {cluster: gone, user: me}}]
current-context: work
";

#[test]
fn without_a_kubeconfig_and_outside_a_cluster_the_error_lists_the_places() {
    let home = env!("CARGO_TARGET_TMPDIR");
    let (code, said) = ended(&["--listen", "127.0.0.1:0"], &[("HOME", home)]);
    assert_eq!(code, Some(1), "{said}");
    let looked = format!(
        "there is no kubeconfig and this is not a pod: KUBECONFIG is not set, {home}/.kube/config does not exist"
    );
    assert!(said.contains("onefile-echo-pod cannot start: ") && said.contains(&looked), "{said}");
    assert!(said.contains("write `--kubeconfig FILE`, or set KUBECONFIG"), "{said}");
}

#[test]
fn a_missing_kubeconfig_is_reported_with_the_setting_that_names_it() {
    for (args, variables, expected) in [
        (
            &["--listen=off", "--kubeconfig=/nowhere/config"][..],
            &[][..],
            "the kubeconfig /nowhere/config set by --kubeconfig does not exist",
        ),
        (
            &["--listen=off"],
            &[("KUBECONFIG", "/nowhere/other")],
            "the kubeconfig /nowhere/other set by KUBECONFIG does not exist",
        ),
        (
            &["--listen=off"],
            &[("KOOPER_KUBECONFIG", "/nowhere/third")],
            "the kubeconfig /nowhere/third set by --kubeconfig does not exist",
        ),
    ] {
        let (code, said) = ended(args, variables);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn an_invalid_kubeconfig_is_reported_with_its_problem() {
    for (name, text, expected) in [
        ("no-yaml", "clusters: [", "is invalid: "),
        ("no-clusters", "clusters: 7", "is invalid: "),
        ("no-context", "apiVersion: v1\nkind: Config", "has no contexts: choose another file"),
        (
            "no-base64",
            &KUBECONFIG.replace("server:", "certificate-authority-data: '%', server:"),
            "the certificate authority of the kubeconfig",
        ),
    ] {
        let path = file(name, text);
        let (code, said) = ended(&["--listen=off", "--kubeconfig", &path], &[]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(expected) && said.contains(&path), "{said}");
        assert!(!said.contains("secret-token"), "{said}");
    }
}

#[test]
fn the_error_for_an_unknown_context_lists_the_existing_ones() {
    let path = file("contexts", KUBECONFIG);
    for (context, expected) in [
        ("wrok", format!("the kubeconfig {path} has no context `wrok`: it has `work`, `play`")),
        ("play", format!("the kubeconfig {path} has no cluster `gone`, which its context names: it has `far`")),
    ] {
        let (code, said) = ended(&["--listen=off", "--kubeconfig", &path, "--context", context], &[]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn an_invalid_value_is_reported_with_what_to_write_and_exit_code_2() {
    for (args, expected) in [
        (&["--workers", "0"][..], "invalid value '0' for '--workers <N>': write a whole number from 1 to 65535"),
        (&["--workers", "many"], "invalid value 'many' for '--workers <N>'"),
        (&["--resync", "soon"], "or `off` for no resync"),
        (&["--resync", "0s"], "invalid value '0s' for '--resync <DURATION|off>'"),
        (&["--namespace", "Shop_1"], "invalid value 'Shop_1' for '--namespace <NAME>'"),
        (&["--listen", "localhost"], "write an IP address and a port, such as `[::]:8080`"),
        (&["--log-format", "xml"], "write `text` or `json`"),
        (&["--log-level", "inof"], "did you mean `info`?"),
        (&["--drain-timeout", "20"], "invalid value '20' for '--drain-timeout <DURATION>'"),
        (&["--kubeconfig", ""], "write the path of a file"),
        (&["--worker", "3"], "'--workers'"),
        (&["walk"], "walk"),
    ] {
        let (code, said) = ended(args, &[]);
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    let (code, said) = ended(&[], &[("KOOPER_WORKERS", "none")]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("invalid value 'none' for the environment variable KOOPER_WORKERS (--workers)"), "{said}");
}

#[test]
fn a_port_in_use_is_reported_before_the_controllers_start() {
    let other = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = other.local_addr().expect("a bound socket has an address").to_string();
    let path = file("port", KUBECONFIG);
    let (code, said) = ended(&["--kubeconfig", &path, "--listen", &address], &[]);
    assert_eq!(code, Some(1), "{said}");
    let expected =
        format!("cannot listen on {address}: another program uses this port: choose another one with `--listen`");
    assert!(said.contains(&expected), "{said}");
}
