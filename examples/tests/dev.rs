//! The command `dev`: what the terminal shows, how to talk to the server, and what is left.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};

use kooper_tests::dev::{Dev, Home};
use kooper_tests::process::Process;
use kooper_tests::wait::until;
use serde_json::json;

use crate::support::{
    CONFIG_CUSTOM, CONTROLLER_CONCURRENCY, ECHO_POD, ICECREAM, LEADER_ELECTION, METRICS, MULTI_RESOURCE,
    ONEFILE_ECHO_POD, POD_TERMINATOR, REDIS, TRACED, WIKI, pod,
};

pub(crate) fn home(name: &str) -> Home {
    Home::new(env!("CARGO_TARGET_TMPDIR"), name)
}

/// Where the API server listens, as the program prints it.
fn server(dev: &Dev) -> SocketAddr {
    let line = dev.process.wait_for_line(&["  API server"]);
    line.rsplit("//").next().and_then(|address| address.parse().ok()).expect("an address follows")
}

#[test]
fn the_first_command_shows_a_program_that_reacts() {
    let home = home("first");
    let dev = home.start(ONEFILE_ECHO_POD, &["--port", "0"]);
    dev.process.wait_for_line(&["onefile-echo-pod runs on an embedded Kubernetes API server, in this process."]);
    dev.process.wait_for_line(&["  controllers  echo (Pod)"]);
    dev.process.wait_for_line(&["  objects      pod/hello"]);
    dev.process.wait_for_line(&["  kubectl label pod/hello mood=good "]);
    dev.process.wait_for_line(&["reasons=initial", "seen pod=hello namespace=\"default\""]);

    dev.apply(&pod("default", "anna"));
    dev.process.wait_for_line(&["key=default/anna", "reasons=added", "seen pod=anna"]);
    let mut labelled = pod("default", "anna");
    labelled["metadata"]["labels"] = json!({"mood": "good"});
    dev.apply(&labelled);
    dev.process.wait_for_line(&["key=default/anna", "reasons=modified", "seen pod=anna"]);
    dev.delete(&pod("default", "anna"));
    dev.process.wait_for_metric("kooper_store_objects{controller=\"echo\"}", |objects| objects == 1.0);
    dev.process.wait_for_page("/readyz", 200, &["ok"]);

    let (kubeconfig, address) = (dev.kubeconfig(), server(&dev));
    assert!(kubeconfig.starts_with(home.path()), "{}", kubeconfig.display());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&kubeconfig).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    dev.stop();
    assert!(TcpStream::connect(address).is_err(), "nothing listens any more");
}

#[test]
fn the_printed_line_works_with_kubectl() {
    let home = home("kubectl");
    let dev = home.start(ONEFILE_ECHO_POD, &["--port", "0"]);
    dev.process.wait_for_line(&["seen pod=hello"]);
    let Some(pods) = dev.kubectl(&["get", "pods"]) else { return };
    assert!(pods.success && pods.stdout.contains("hello"), "{pods:?}");
    for (args, line) in [
        (&["label", "pod/hello", "mood=good"][..], &["reasons=modified", "seen pod=hello"][..]),
        (&["run", "ben", "--image=nginx"], &["reasons=added", "seen pod=ben"]),
    ] {
        let done = dev.kubectl(args).expect("it is there");
        assert!(done.success, "{args:?}: {done:?}");
        dev.process.wait_for_line(line);
    }
    let deleted = dev.kubectl(&["delete", "pod/hello", "pod/ben"]).expect("it is there");
    assert!(deleted.success, "{deleted:?}");
    dev.process.wait_for_metric("kooper_store_objects{controller=\"echo\"}", |objects| objects == 0.0);
    dev.stop();
}

#[test]
fn pods_and_workloads_can_be_left_alone() {
    let home = home("workloads");
    let dev = home.start(ONEFILE_ECHO_POD, &["--port", "0", "--workloads", "off"]);
    dev.process.wait_for_line(&["  Note: pods stay pending, and workloads get no pods: `--workloads off`."]);
    dev.process.wait_for_line(&["seen pod=hello"]);
    // Nothing after the node of the cluster could run a pod.
    let Some(nodes) = dev.kubectl(&["get", "nodes,pods", "--output", "name"]) else { return };
    assert!(nodes.success && nodes.stdout.trim() == "pod/hello", "{nodes:?}");
    dev.stop();
}

#[test]
fn every_example_has_something_to_do() {
    let home = home("examples");
    for (program, line) in [
        (CONFIG_CUSTOM, "seen pod=default/hello"),
        (CONTROLLER_CONCURRENCY, "seen pod=default/hello"),
        (ECHO_POD, "added pod=default/hello"),
        (LEADER_ELECTION, "handled config=hello"),
        (METRICS, "synced"),
        (MULTI_RESOURCE, "seen kind=StatefulSet object=default/hello"),
        (REDIS, "synced watch=redis: redises"),
        (TRACED, "works settings=true"),
        (WIKI, "waits for database"),
    ] {
        let dev = home.start(program, &["--port", "0"]);
        dev.process.wait_for_line(&[line]);
        assert_eq!(dev.process.count(&["forbidden"]), 0, "{}", dev.process.lines().join("\n"));
        assert_eq!(dev.process.count(&["Note: no "]), 0, "{}", dev.process.lines().join("\n"));
        dev.stop();
    }
}

#[test]
fn icecream_serves_its_samples() {
    let home = home("icecream");
    let dev = home.start(ICECREAM, &["--port", "0"]);
    dev.process.wait_for_line(&["  objects      icecream/vanilla  icecream/pistachio  pod/vanilla-1"]);
    let log = || dev.process.lines().join("\n");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "pistachio"}});
    until("the Deployment", || dev.get(&deployment), log);
    let icecream = json!({
        "apiVersion": "controller.nicoleh.io/v1alpha1", "kind": "IceCream", "metadata": {"name": "vanilla"},
    });
    let served = || dev.get(&icecream).filter(|icecream| icecream["status"]["pods"][0]["name"] == "vanilla-1");
    until("the pod in the status", served, log);
    dev.stop();
}

#[test]
fn pod_terminator_terminates_its_samples() {
    let home = home("pod-terminator");
    let dev = home.start(POD_TERMINATOR, &["--port", "0"]);
    dev.process.wait_for_line(&["its daemon begins"]);
    // Two of five, then one of three.
    dev.process.wait_for_lines(3, &["is terminated"]);
    dev.stop();
}

#[test]
fn two_at_once_have_files_and_ports_of_their_own() {
    let home = home("two");
    let one = home.start(ONEFILE_ECHO_POD, &[]);
    one.process.wait_for_line(&["seen pod=hello"]);
    let two = home.start(ONEFILE_ECHO_POD, &[]);
    two.process.wait_for_line(&["another `dev` of onefile-echo-pod is running: this one uses its own files and ports"]);
    two.process.wait_for_line(&["seen pod=hello"]);
    assert_ne!(one.kubeconfig(), two.kubeconfig());
    assert_ne!(server(&one), server(&two));
    assert_ne!(one.process.address(), two.process.address());
    two.apply(&pod("default", "only-two"));
    two.process.wait_for_line(&["seen pod=only-two"]);
    assert_eq!(one.process.count(&["only-two"]), 0);
    one.stop();
    two.stop();
}

/// Runs `dev` to its end: its exit code, and all that it wrote.
fn ended(home: &Home, args: &[&str]) -> (Option<i32>, String) {
    let mut dev = home.start(ONEFILE_ECHO_POD, args);
    let code = dev.process.exit_code();
    (code, dev.process.lines().join("\n"))
}

#[test]
fn a_port_that_is_named_and_taken_ends_it() {
    let home = home("taken");
    let other = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = other.local_addr().expect("a bound socket has an address");
    let (code, said) = ended(&home, &["--port", &address.port().to_string()]);
    assert_eq!(code, Some(1), "{said}");
    let expected = format!("the API server cannot listen on {address}: another program uses this port: choose another");
    assert!(said.contains(&expected), "{said}");
    // A wrong file is not looked at, as nothing is done before.
    let (code, said) = ended(&home, &["--port", &address.port().to_string(), "-f", "/nowhere/pods.yaml"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&expected) && !said.contains("/nowhere"), "{said}");
    let (code, said) = ended(&home, &["--port", "0", "--listen", &address.to_string()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("cannot listen on {address}: another program uses this port")), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_stdout_that_cannot_be_written_ends_it() {
    let home = home("full");
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = std::process::Command::new(ONEFILE_ECHO_POD);
    command.args(["dev", "--port", "0", "--listen", "off"]).env_clear().env("XDG_STATE_HOME", home.path());
    command.stdin(std::process::Stdio::null()).stdout(full).stderr(std::process::Stdio::piped());
    let ended = command.spawn().and_then(kooper_tests::process::ended).expect("it starts");
    let log = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("onefile-echo-pod cannot start: stdout cannot be written: "), "{log}");
}

#[test]
fn a_default_port_that_is_taken_is_passed_over() {
    let home = home("moves");
    // Whoever has the default ports: this test or another program.
    let _others = [6443, 8080].map(|port| TcpListener::bind(("127.0.0.1", port)));
    let dev = home.start(ONEFILE_ECHO_POD, &[]);
    dev.process.wait_for_line(&["Note: port 8080 is taken: metrics are on "]);
    dev.process.wait_for_line(&["Note: port 6443 is taken: the API server is on "]);
    dev.process.wait_for_line(&["seen pod=hello"]);
    assert_ne!(server(&dev).port(), 6443);
    dev.stop();
}

#[test]
fn a_restart_keeps_the_kubeconfig_working() {
    let home = home("restart");
    let dev = home.start(ONEFILE_ECHO_POD, &["--port", "0"]);
    dev.process.wait_for_line(&["seen pod=hello"]);
    let (kubeconfig, address) = (dev.kubeconfig(), server(&dev));
    let before = fs::read_to_string(&kubeconfig).expect("it is there");
    dev.apply(&pod("default", "anna"));
    dev.stop();

    let dev = home.start(ONEFILE_ECHO_POD, &[]);
    dev.process.wait_for_line(&["seen pod=hello"]);
    assert_eq!((dev.kubeconfig(), server(&dev)), (kubeconfig.clone(), address));
    assert_eq!(fs::read_to_string(&kubeconfig).expect("it is there"), before);
    // Objects are not kept.
    assert_eq!(dev.get(&pod("default", "anna")), None);
    dev.apply(&pod("default", "ben"));
    dev.process.wait_for_line(&["seen pod=ben"]);
    assert_eq!(dev.process.count(&["Note:", "API server"]), 0, "{}", dev.process.lines().join("\n"));
    dev.stop();
}

#[test]
fn clean_removes_the_files_but_not_those_of_a_running_program() {
    let home = home("clean");
    let (code, said) = ended(&home, &["--clean"]);
    assert_eq!((code, &*said), (Some(0), "there are no files of onefile-echo-pod"));
    let dev = home.start(ONEFILE_ECHO_POD, &["--port", "0"]);
    let kubeconfig = dev.kubeconfig();
    let folder = kubeconfig.parent().expect("it is in a folder").to_owned();
    let (code, said) = ended(&home, &["--clean"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("is running with the files in {}: stop it", folder.display())), "{said}");
    dev.stop();
    assert!(kubeconfig.exists());
    let (code, said) = ended(&home, &["--clean"]);
    assert_eq!((code, said), (Some(0), format!("removed {}", folder.display())));
    assert!(!folder.exists());
}

#[test]
fn run_is_not_affected() {
    let mut program = Process::start(ONEFILE_ECHO_POD, &["run", "-f", "a.yaml"], &[]);
    assert_eq!(program.exit_code(), Some(2));
    program.wait_for_line(&["unexpected argument '-f'"]);
}
