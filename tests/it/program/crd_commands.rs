//! Messages of a program about CRDs, before and at its start.

use std::process::Command;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::Process;
use kooper_tests::yaml::documents;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crd_shops");

/// Runs a command of the program: whether it exits with 0, and its stdout.
fn call(cluster: &ControlPlane, args: &[&str]) -> (bool, String) {
    let output = Command::new(PROGRAM).args(args).arg("--kubeconfig").arg(cluster.kubeconfig()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// The CRDs that the program prints, with another schema of `spec`.
fn printed(cluster: &ControlPlane, plural: &str, edit: impl Fn(&mut Value)) -> String {
    let (_, yaml) = call(cluster, &["crd"]);
    let mut crd = documents(&yaml).into_iter().find(|crd| crd["spec"]["names"]["plural"] == plural).unwrap();
    edit(&mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]);
    crd.to_string()
}

fn apply(cluster: &ControlPlane, manager: &str, crd: &str) {
    let manager = format!("--field-manager={manager}");
    cluster.apply_text(&["--server-side", "--force-conflicts", "--validate=false", &manager], crd);
    for name in ["shops.shops.example.com", "stalls.shops.example.com"].into_iter().filter(|name| crd.contains(name)) {
        cluster.must(&["wait", "--for=condition=established", "crd", name, "--timeout=60s"]);
    }
}

#[test]
fn check_predicts_what_the_start_does_with_a_crd() {
    let Some(cluster) = ControlPlane::without_controllers() else { return };
    let stalls = |edit: fn(&mut Value)| printed(cluster, "stalls", edit);
    let shops = |edit: fn(&mut Value)| printed(cluster, "shops", edit);
    let prints = |passes: bool, line: &str| {
        let (passed, stdout) = call(cluster, &["check"]);
        assert_eq!(passed, passes, "{stdout}");
        assert!(stdout.contains(line), "{line}: {stdout}");
        stdout
    };
    let stdout = prints(
        false,
        "missing  CRD shops.shops.example.com: it does not exist: apply it with `crd_shops crd | kubectl apply --server-side -f -`\n",
    );
    assert!(
        stdout.contains("ok       CRD stalls.shops.example.com: it does not exist yet, `run` installs it\n"),
        "{stdout}"
    );
    apply(cluster, "kubectl", &shops(|_| ()));
    prints(true, "ok       CRD shops.shops.example.com\n");

    // A field that a replacement would remove.
    apply(cluster, "crd-shops", &stalls(|fields| fields["old"] = json!({"type": "string"})));
    let stdout = prints(
        false,
        "missing  CRD stalls.shops.example.com: the CRD `stalls.shops.example.com` in the cluster is not replaced",
    );
    assert!(stdout.contains("`spec.old` (v1) is removed"), "{stdout}");
    let consent = stdout
        .split("start the program with `--allow-crd-change ")
        .nth(1)
        .and_then(|rest| rest.split('`').next())
        .unwrap();
    let (passed, with_consent) = call(cluster, &["check", "--allow-crd-change", consent]);
    assert!(passed && with_consent.contains("CRD stalls.shops.example.com: `run` replaces it"), "{with_consent}");
    let start = |args: &[&str]| {
        let kubeconfig = cluster.kubeconfig().to_str().unwrap();
        Process::start(PROGRAM, &[&["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0"], args].concat(), &[])
    };
    let program = start(&[]);
    program.wait_for_page("/readyz?verbose", 503, &["stalls: `install_crd` failed", consent]);
    drop(program);

    // A CRD of another field manager, which a comparison of schemas does not find.
    apply(cluster, "helm", &stalls(|fields| fields["size"]["description"] = json!("another")));
    let stdout = prints(
        false,
        "missing  CRD stalls.shops.example.com: the CRD `stalls.shops.example.com` differs and is not replaced, \
         because it belongs to `helm`",
    );
    let line = stdout.split("transfer its fields with `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    assert_eq!(line, "crd_shops crd | kubectl apply --server-side --force-conflicts --field-manager=crd-shops -f -");
    // The printed command transfers the CRD to the program.
    let (_, crds) = call(cluster, &["crd"]);
    let args: Vec<_> = line.split_once("kubectl ").unwrap().1.split(' ').collect();
    let applied = cluster.kubectl_with(&args, &crds);
    assert!(applied.success, "{}", applied.stderr);
    prints(true, "ok       CRD stalls.shops.example.com\n");
    apply(cluster, "crd-shops", &stalls(|fields| fields["size"]["description"] = json!("another")));
    prints(true, "ok       CRD stalls.shops.example.com: `run` replaces it\n");
    let program = start(&[]);
    program.wait_for_line(&["the CRD is replaced", "stalls.shops.example.com"]);
    program.wait_for_page("/readyz", 200, &[]);
}

#[test]
fn a_crd_older_than_the_programs_type_is_reported_without_permission_to_read_it() {
    // The other test has another cluster, as both install the same CRD.
    let Some(cluster) = ControlPlane::shared() else { return };
    let without_owner = printed(cluster, "shops", |fields| {
        fields.as_object_mut().unwrap().remove("owner");
    });
    apply(cluster, "kubectl", &without_owner);
    let older = "the CRD `shops.shops.example.com` in the cluster is older than the program's type: the API server \
                 drops `spec.owner` from objects without an error: apply the CRD with `crd_shops crd | kubectl apply \
                 --server-side -f -`";
    let (passed, stdout) = call(cluster, &["check"]);
    assert!(!passed && stdout.contains(&format!("missing  CRD shops.shops.example.com: {older}\n")), "{stdout}");
    // The user `limited` may do nothing but what everybody may.
    let limited = ["--kubeconfig", cluster.limited_kubeconfig().to_str().unwrap(), "--listen", "127.0.0.1:0"];
    Process::start(PROGRAM, &limited, &[]).wait_for_line(&["WARN", older]);

    apply(cluster, "kubectl", &printed(cluster, "shops", |_| ()));
    let (_, stdout) = call(cluster, &["check"]);
    assert!(stdout.contains("ok       CRD shops.shops.example.com\n") && !stdout.contains("older"), "{stdout}");
}
