//! Problems with the server that do not end a program: it logs what is wrong and what to do, reports it in `/readyz`,
//! and still stops gracefully.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::faults::Proxy;
use kooper_tests::process::Process;
use kooper_tests::wait::eventually;
use serde_json::json;

use crate::support::{MULTI_RESOURCE, ONEFILE_ECHO_POD, cluster, pod, start, stop, workload};

/// The certificate of an authority that did not sign the server's certificate, in base64.
const ANOTHER_AUTHORITY: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJrRENDQVRXZ0F3SUJBZ0lVRHhGOWg0QmR6WGlENDJsU1c3ZkVTc2RHR3RR\
    d0NnWUlLb1pJemowRUF3SXcKSERFYU1CZ0dBMVVFQXd3UllXNXZkR2hsY2lCaGRYUm9iM0pwZEhrd0lCY05Nall4TVRJeE1USTFN\
    REkyV2hnUApNakV5TmpFd01qZ3hNalV3TWpaYU1Cd3hHakFZQmdOVkJBTU1FV0Z1YjNSb1pYSWdZWFYwYUc5eWFYUjVNRmt3CkV3\
    WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFN3VjWXlZOCtMWTlOa1E0Y2RrUFdPbklpTnlQRFdiZVkKenhPUy83ekdsdkhu\
    RjJkQUllZFZVNk9lbWxoQU9qY2xaT1VFWkhUS3pvS2hEY0FnZGtDWldxTlRNRkV3SFFZRApWUjBPQkJZRUZMVnJDVVJIUmRpSjVs\
    NHNJQTZzUEZJNlhNMmZNQjhHQTFVZEl3UVlNQmFBRkxWckNVUkhSZGlKCjVsNHNJQTZzUEZJNlhNMmZNQThHQTFVZEV3RUIvd1FG\
    TUFNQkFmOHdDZ1lJS29aSXpqMEVBd0lEU1FBd1JnSWgKQUlvT2JOYzd2VHk0MFhobk5TZHZwTmJUSUNsN29HcU5WOXZ6V0VlOUhN\
    UG5BaUVBOXNuZW1NRGpXZmdLMUNldwpKL1Vsc1RzWml1UHVKK05mRWVCS3pJU3J3akU9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0t\
    LS0K";

/// Starts the program with an edited kubeconfig.
fn with_kubeconfig(
    cluster: &ControlPlane,
    name: &str,
    args: &[&str],
    edit: impl Fn(&str) -> Option<String>,
) -> Process {
    let kubeconfig = cluster.kubeconfig_with(name, |text| {
        let edited = |line: &str| edit(line.trim_start()).map(|new| line.replace(line.trim_start(), &new));
        text.lines().map(|line| edited(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
    });
    let kubeconfig = kubeconfig.to_str().expect("the path is UTF-8");
    Process::start(ONEFILE_ECHO_POD, &[&["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0"], args].concat(), &[])
}

#[test]
fn the_program_retries_while_the_server_is_unreachable() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let program = with_kubeconfig(cluster, "unreachable", &[], |line| {
        line.starts_with("server:").then(|| "server: https://127.0.0.1:1".to_owned())
    });
    program.wait_for_line(&["the API server https://127.0.0.1:1 cannot be reached (", "refused", "check that it runs"]);
    program.wait_for_line(&["echo: pods", "check that the API server runs and that its address is correct"]);
    program.wait_for_page("/readyz?verbose", 503, &["echo: pods: not synced yet: ", "refused"]);
    // A restart would not help.
    program.wait_for_page("/healthz", 200, &["ok"]);
    stop(program);
}

#[test]
fn a_server_with_another_certificate_authority_is_not_trusted() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let program = with_kubeconfig(cluster, "untrusted", &[], |line| {
        line.starts_with("certificate-authority-data:")
            .then(|| format!("certificate-authority-data: {ANOTHER_AUTHORITY}"))
    });
    program.wait_for_line(&["the TLS connection to the API server https://", "`certificate-authority`"]);
    program.wait_for_page(
        "/readyz?verbose",
        503,
        &[
            "echo: pods: not synced yet: ",
            "the server's certificate is not signed by the CA of the kubeconfig: check `certificate-authority`",
        ],
    );
    stop(program);
}

#[test]
fn a_token_that_the_server_rejects_is_reported() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let program = with_kubeconfig(cluster, "token", &[], |line| {
        line.starts_with("token:").then(|| "token: expired-long-ago".to_owned())
    });
    program.wait_for_line(&["does not accept these credentials (401)", "renew it"]);
    let body = program.wait_for_page(
        "/readyz?verbose",
        503,
        &[
            "echo: pods: not synced yet: the API server rejected the credentials: ",
            "renew the token or client certificate of this program",
        ],
    );
    assert!(!body.contains("expired-long-ago"), "{body}");
    assert_eq!(program.count(&["expired-long-ago"]), 0);
    stop(program);
}

#[test]
fn a_token_that_expires_while_the_program_runs_is_reported() {
    let namespace = "token-expires";
    let Some(cluster) = cluster(namespace) else { return };
    let here = format!("--namespace={namespace}");
    cluster.apply([pod(namespace, "first")]);
    cluster.must(&[
        "create",
        "rolebinding",
        "view",
        "--clusterrole=view",
        "--serviceaccount=token-expires:default",
        &here,
    ]);
    // A token is valid for ten minutes at least; one that is bound to an object expires with it.
    cluster.must(&["create", "secret", "generic", "life", &here]);
    let bound = ["--bound-object-kind=Secret", "--bound-object-name=life", &here];
    let token = cluster.must(&[&["create", "token", "default"], &bound[..]].concat());
    let proxy = Proxy::start(cluster.address());
    let (server, token) = (format!("server: https://{}", proxy.address()), format!("token: {token}"));
    let program =
        with_kubeconfig(cluster, "token-expires", &["--namespace", namespace], |line| match line.split(':').next() {
            Some("server") => Some(server.clone()),
            Some("token") => Some(token.clone()),
            _ => None,
        });
    program.wait_for_line(&["key=token-expires/first", "seen"]);

    cluster.must(&["delete", "secret", "life", &here]);
    // The server caches for some seconds that a token is valid, and never closes an open watch because of it.
    let kubeconfig = format!("--kubeconfig={}", cluster.dir().join("token-expires.kubeconfig").display());
    eventually("the token is refused", || !cluster.kubectl(&["get", "pods", &kubeconfig, &here]).success);
    proxy.cut();
    let warning = ["the API server rejected the credentials: ", "renew the token or client certificate"];
    program.wait_for_line(&warning);
    // The cache is warm: the process stays ready, and reports the error.
    program.wait_for_page("/readyz?verbose", 200, &["ok", warning[0], warning[1]]);
    stop(program);
}

#[test]
fn a_missing_namespace_is_reported_and_watched_once_it_exists() {
    let namespace = "comes-later";
    let Some(shared) = ControlPlane::shared() else { return };
    let program = start(ONEFILE_ECHO_POD, shared, namespace, &[], &[]);
    program.wait_for_line(&["namespace `comes-later` does not exist: no objects are found until it is created"]);
    cluster(namespace).expect("it runs").apply([pod(namespace, "first")]);
    program.wait_for_line(&["key=comes-later/first", "reasons=added", "seen"]);
    stop(program);
}

#[test]
fn a_forbidden_kind_does_not_affect_the_other_controller() {
    let namespace = "half-allowed";
    let Some(cluster) = cluster(namespace) else { return };
    let role = |name: &str, resource: &str| {
        [
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"namespace": namespace, "name": name},
                "rules": [{"apiGroups": ["apps"], "resources": [resource], "verbs": ["list", "watch"]}]
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"namespace": namespace, "name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}]
            }),
        ]
    };
    cluster.apply(role("deployments", "deployments"));
    cluster.apply(["Deployment", "StatefulSet"].map(|kind| workload(namespace, kind)));

    let kubeconfig = cluster.limited_kubeconfig().to_str().expect("the path is UTF-8");
    let args = ["--kubeconfig", kubeconfig, "--namespace", namespace, "--listen", "127.0.0.1:0"];
    let program = Process::start(MULTI_RESOURCE, &args, &[]);
    program.wait_for_line(&["seen kind=Deployment object=half-allowed/web"]);
    let advice = "grant the rule \"apps/statefulsets: list, watch\" in namespace `half-allowed`";
    program.wait_for_line(&["not allowed: ", "cannot watch resource \"statefulsets\"", advice]);
    program.wait_for_page(
        "/readyz?verbose",
        503,
        &["multi-resource-statefulset: statefulsets.apps in half-allowed: not synced yet", advice],
    );

    // Only the missing rule is needed.
    cluster.apply(role("statefulsets", "statefulsets"));
    program.wait_for_line(&["seen kind=StatefulSet object=half-allowed/web"]);
    program.wait_for_page("/readyz", 200, &["ok"]);
    stop(program);
}
