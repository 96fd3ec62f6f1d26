//! Metrics for users of the cluster only, and over HTTPS.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::https;
use kooper_tests::process::Process;
use kooper_tests::prometheus::Prometheus;
use kooper_tests::tools::has;
use kooper_tests::wait::until;
use kooper_tests::yaml::documents;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_installed");

/// It needs no CRD, so it is always ready.
const ECHO: &str = env!("CARGO_BIN_EXE_echo");
const LOOPBACK: [&str; 4] = ["--listen", "127.0.0.1:0", "--listen-probes", "127.0.0.1:0"];

/// The status and the body of a page over HTTPS.
fn get(address: SocketAddr, page: &str, token: Option<&str>) -> (u16, String) {
    let authorization = token.map(|token| format!("Bearer {token}"));
    let answer = https::get(address, page, authorization.as_deref()).unwrap();
    assert_eq!(answer.status == 401, answer.asked.iter().any(|asked| asked == "Bearer"), "{answer:?}");
    (answer.status, answer.body)
}

/// The status and the body of a probe, which has no TLS.
fn probe(address: SocketAddr, page: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Applies what the program prints for `rbac`, and returns a kubeconfig of its account.
fn account(cluster: &ControlPlane, namespace: &str, args: &[&str]) -> PathBuf {
    let rbac = ["rbac", "--install-namespace", namespace, "--namespace", namespace];
    let printed = Command::new(PROGRAM).args(rbac).args(args).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    cluster.apply_text(&["--validate=false"], &String::from_utf8_lossy(&printed.stdout));
    cluster.kubeconfig_of(namespace, "installed")
}

/// The namespace with these ServiceAccounts.
fn accounts(namespace: &str, names: &[&str]) -> Vec<Value> {
    let metadata = |name: &str| json!({"namespace": namespace, "name": name});
    let account = |name: &&str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name)});
    let itself = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    [itself].into_iter().chain(names.iter().map(account)).collect()
}

/// Binds a role of the cluster to a ServiceAccount. The name of the binding is that of both.
fn binding(namespace: &str, role: &str, account: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{namespace}:{account}:{role}")},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    })
}

#[test]
fn only_users_of_the_cluster_with_the_permission_read_the_metrics() {
    let Some(cluster) = ControlPlane::exclusive() else { return };
    let namespace = "secured-metrics";
    cluster.apply(accounts(namespace, &["reader", "other"]));
    let kubeconfig = account(&cluster, namespace, &["--metrics-auth", "token"]);
    let role = format!("{namespace}:installed:metrics-reader");
    cluster.apply([binding(namespace, &role, "reader")]);

    let flags = ["--namespace", namespace, "--metrics-auth", "token", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let program = Process::start(PROGRAM, &[&flags[..], &LOOPBACK].concat(), &[]);
    let (metrics, probes) = (program.address(), program.probes());
    let [reader, other] = ["reader", "other"].map(|name| cluster.token(namespace, name));
    assert_eq!(get(metrics, "/metrics", None).0, 401);
    assert_eq!(get(metrics, "/metrics", Some("nonsense")).0, 401);
    let forbidden = get(metrics, "/metrics", Some(&other));
    let user = format!("the user `system:serviceaccount:{namespace}:other` may not get /metrics");
    assert!(forbidden.0 == 403 && forbidden.1.starts_with(&user), "{forbidden:?}");
    let (status, body) = get(metrics, "/metrics", Some(&reader));
    assert!(status == 200 && body.contains("workqueue_depth"), "{status}: {body}");
    assert_eq!(get(metrics, "/readyz?verbose", Some(&reader)).0, 403, "reasons need the permission of the status page");
    assert_eq!(probe(probes, "/metrics").0, 404);
    assert_eq!(probe(probes, "/healthz").0, 200);
    let mut plain = TcpStream::connect(metrics).unwrap();
    plain.write_all(format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {reader}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    drop(plain.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP/"), "a token without TLS is not answered");

    cluster.stop_apiserver();
    assert_eq!(get(metrics, "/metrics", Some(&reader)).0, 200, "a known client is served for a while");
    // One source may ask for a few reviews at a time: until those before have counted, it is refused.
    let answer = || get(metrics, "/metrics", Some("another"));
    until("a token cannot be reviewed", || (answer().0 == 503).then_some(()), || format!("{:?}", answer()));
    assert_eq!(get(metrics, "/metrics", None).0, 401);
    program.wait_for_line(&["the tokens of clients cannot be reviewed: a TokenReview cannot be created: "]);
    cluster.start_apiserver();
    let answer = || get(metrics, "/metrics", Some("another"));
    until("tokens are reviewed again", || (answer().0 == 401).then_some(()), || format!("{:?}", answer()));
    assert_eq!(program.count(&["cannot be reviewed"]), 1, "{:?}", program.lines());

    // A grant is seen when the verdict before has expired.
    cluster.apply([binding(namespace, &role, "other")]);
    let answer = || get(metrics, "/metrics", Some(&other));
    until("the grant is seen", || (answer().0 == 200).then_some(()), || format!("{:?}", answer()));
}

#[test]
fn the_status_page_is_protected_as_the_metrics_and_never_beside_probes() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let namespace = "secured-page";
    cluster.apply(accounts(namespace, &["person", "scraper"]));
    let kubeconfig = account(cluster, namespace, &["--metrics-auth", "token"]);
    let status_reader = format!("{namespace}:status-reader");
    cluster.apply([
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": status_reader},
            "rules": [{"nonResourceURLs": ["/status"], "verbs": ["get"]}],
        }),
        binding(namespace, &status_reader, "person"),
        binding(namespace, &format!("{namespace}:installed:metrics-reader"), "scraper"),
    ]);
    let flags = ["--namespace", namespace, "--metrics-auth", "token", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let on = ["--status-page", "on"];
    let program = Process::start(PROGRAM, &[&flags[..], &LOOPBACK, &on].concat(), &[]);
    let (metrics, probes) = (program.address(), program.probes());
    let [person, scraper] = ["person", "scraper"].map(|name| cluster.token(namespace, name));
    for page in ["/status", "/status?q=tea", "/status.css", "/status.js"] {
        assert_eq!(get(metrics, page, None).0, 401, "{page}");
        assert_eq!(get(metrics, page, Some(&scraper)).0, 403, "{page}");
        assert_eq!(get(metrics, page, Some(&person)).0, 200, "{page}");
        assert_eq!(probe(probes, page).0, 404, "{page}");
    }
    assert_eq!(get(metrics, "/metrics", Some(&person)).0, 403);
    let (_, page) = get(metrics, "/status", Some(&person));
    assert!(page.contains("<title>installed: status</title>"), "{page}");
}

#[test]
fn without_the_rules_of_reviews_the_log_says_which_roles_to_apply() {
    let namespace = "secured-reviews";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let kubeconfig = account(cluster, namespace, &[]);
    let kubeconfig = kubeconfig.to_str().unwrap();
    let flags = ["--namespace", namespace, "--metrics-auth", "token", "--kubeconfig", kubeconfig];
    let program = Process::start(PROGRAM, &[&flags[..], &LOOPBACK].concat(), &[]);
    assert_eq!(get(program.address(), "/metrics", Some("nonsense")).0, 503);
    program.wait_for_line(&["cannot be reviewed", "apply the roles that `rbac --metrics-auth token` prints"]);
    let checked = Command::new(PROGRAM).arg("check").args(flags).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    for resource in ["authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews"] {
        let line = format!("missing  access {resource}: create, for `--metrics-auth token`: ");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn what_is_open_to_other_machines_is_warned_of_and_never_has_a_status_page() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let common = ["--kubeconfig", cluster.kubeconfig().to_str().unwrap(), "--namespace", "default"];
    let open = "can read /metrics: start with `--metrics-auth token`, or with `--listen 127.0.0.1:";
    let program = Process::start(ECHO, &[&common[..], &["--listen", "[::]:0"]].concat(), &[]);
    program.wait_for_line(&["anyone who can reach [::]:", open]);
    let address = SocketAddr::from(([127, 0, 0, 1], program.address().port()));
    let is_ready = || (probe(address, "/readyz?verbose") == (200, "ok\n".to_owned())).then_some(());
    until("it is ready", is_ready, || program.lines().join("\n"));
    for chosen in [&["--listen", "127.0.0.1:0"][..], &["--listen", "[::]:0", "--metrics-auth", "none"]] {
        let program = Process::start(ECHO, &[&common[..], chosen].concat(), &[]);
        program.wait_for_line(&[" starting "]);
        assert_eq!(program.count(&[open]), 0, "{chosen:?}");
    }
    let shown = ["--listen", "[::]:0", "--status-page", "on"];
    let mut program = Process::start(ECHO, &[&common[..], &shown].concat(), &[]);
    assert_eq!(program.exit_code(), Some(1));
    program.wait_for_line(&["could read the status page: write `--metrics-auth token`, or `--listen 127.0.0.1:8080`"]);
}

/// The files of a Secret that is mounted: links to those of a folder, which is swapped.
struct Mount(PathBuf);

impl Mount {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        for file in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{file}"), folder.join(file)).unwrap();
        }
        Self(folder)
    }

    fn swap(&self, version: &str, certificate: &str, key: &str) {
        let data = self.0.join(format!("..{version}"));
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("tls.crt"), certificate).unwrap();
        fs::write(data.join("tls.key"), key).unwrap();
        symlink(&data, self.0.join("..data_tmp")).unwrap();
        fs::rename(self.0.join("..data_tmp"), self.0.join("..data")).unwrap();
    }

    fn flags(&self) -> [String; 4] {
        let file = |name: &str| self.0.join(name).display().to_string();
        ["--metrics-cert-file".to_owned(), file("tls.crt"), "--metrics-key-file".to_owned(), file("tls.key")]
    }
}

/// A certificate for loopback that signs itself.
fn certificate() -> rcgen::CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap()
}

/// Requests the metrics with a client that trusts only this certificate.
fn serves(address: SocketAddr, trusted: &rcgen::CertifiedKey<rcgen::KeyPair>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
        config.root_cert = Some(vec![trusted.cert.der().to_vec()]);
        config.default_retry = false;
        let client = kube::Client::try_from(config).map_err(|error| error.to_string())?;
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = client.request_text(request).await.map_err(|error| format!("{error:?}"))?;
        if text.contains("process_cpu_seconds_total") { Ok(()) } else { Err(text) }
    })
}

#[test]
fn metrics_are_served_over_https_with_the_certificate_of_the_moment() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let (mount, first, second) = (Mount::new("certificate"), certificate(), certificate());
    mount.swap("1", &first.cert.pem(), &first.signing_key.serialize_pem());
    let files = mount.flags();
    let files = files.each_ref().map(String::as_str);
    let common = ["--kubeconfig", cluster.kubeconfig().to_str().unwrap(), "--namespace", "default"];
    let program = Process::start(PROGRAM, &[&common[..], &LOOPBACK, &files].concat(), &[]);
    let metrics = program.address();
    assert_eq!(serves(metrics, &first), Ok(()));
    assert!(serves(metrics, &second).is_err());
    let mut plain = TcpStream::connect(metrics).unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    drop(plain.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "without TLS there is nothing to read");

    mount.swap("2", &second.cert.pem(), &second.signing_key.serialize_pem());
    until("the new certificate is used", || serves(metrics, &second).ok(), || program.lines().join("\n"));
    program.wait_for_line(&["the certificate of the metrics has been replaced"]);
    mount.swap("3", &first.cert.pem(), &second.signing_key.serialize_pem());
    let problem = ["the certificate of the metrics cannot be replaced and stays in use: ", "cannot be used: "];
    let logged = || {
        serves(metrics, &second).unwrap_or_else(|error| panic!("the old one stays: {error}"));
        (program.count(&problem) == 1).then_some(())
    };
    until("the problem is logged", logged, || program.lines().join("\n"));
    assert_eq!(probe(program.probes(), "/healthz").0, 200, "probes have no TLS");
}

#[test]
fn a_real_prometheus_scrapes_as_the_service_monitor_says() {
    if !has("prometheus") {
        return;
    }
    let Some(cluster) = ControlPlane::shared() else { return };
    let namespace = "secured-scrapes";
    cluster.apply(accounts(namespace, &["reader"]));
    let kubeconfig = account(cluster, namespace, &["--metrics-auth", "token"]);
    cluster.apply([binding(namespace, &format!("{namespace}:installed:metrics-reader"), "reader")]);

    let installed = ["--install-namespace", namespace, "--metrics-auth", "token", "--metrics-secret", "metrics"];
    let with = ["--image", "example.com/installed:1", "--with", "service-monitor"];
    let printed = Command::new(PROGRAM).arg("manifests").args(installed).args(with).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let printed = documents(&String::from_utf8_lossy(&printed.stdout));
    let monitor = printed.iter().find(|document| document["kind"] == "ServiceMonitor").unwrap();
    let endpoint = &monitor["spec"]["endpoints"][0];
    let host = endpoint["tlsConfig"]["serverName"].as_str().unwrap();

    let mount = Mount::new("scraped");
    let certificate = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    mount.swap("1", &certificate.cert.pem(), &certificate.signing_key.serialize_pem());
    let files = mount.flags();
    let files = files.each_ref().map(String::as_str);
    let flags = ["--namespace", namespace, "--metrics-auth", "token", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let program = Process::start(PROGRAM, &[&flags[..], &LOOPBACK, &files].concat(), &[]);

    // Scrape the endpoint as configured by the Prometheus Operator, with the files that it mounts.
    let (token_file, ca_file) = (mount.0.join("token"), mount.0.join("ca.crt"));
    assert!(endpoint["bearerTokenFile"].is_string() && endpoint["tlsConfig"]["ca"]["secret"].is_object(), "{endpoint}");
    fs::write(&token_file, cluster.token(namespace, "reader")).unwrap();
    fs::write(&ca_file, certificate.cert.pem()).unwrap();
    let scrape = json!({
        "job_name": "kooper", "scheme": endpoint["scheme"], "metrics_path": endpoint["path"],
        "authorization": {"credentials_file": token_file},
        "tls_config": {"ca_file": ca_file, "server_name": host},
        "static_configs": [{"targets": [program.address().to_string()]}],
    });
    let prometheus = Prometheus::scraping(&mount.0, &scrape, &[]);
    prometheus.wait_for_data("workqueue_depth{job=\"kooper\"}");
}

#[test]
fn a_bad_certificate_at_the_start_is_an_error_that_names_the_file() {
    let mount = Mount::new("bad-certificate");
    let files = mount.flags();
    let files = files.each_ref().map(String::as_str);
    let exits = |args: &[&str], expected: &str| {
        let mut program = Process::start(PROGRAM, &[&LOOPBACK[..], args].concat(), &[]);
        assert_eq!(program.exit_code(), Some(1), "{:?}", program.lines());
        assert_eq!(program.count(&["cannot start: ", expected]), 1, "{:?}", program.lines());
    };
    let of = |name: &str| mount.0.join(name).display().to_string();
    exits(&files, &format!("the file {} of the metrics' certificate or key cannot be read: ", of("tls.crt")));
    mount.swap("1", "nonsense", "nonsense");
    exits(&files, &format!("the file {} contains no certificate in PEM", of("tls.crt")));
    exits(&files[..2], "`--metrics-cert-file` needs `--metrics-key-file`");
    exits(&files[2..], "`--metrics-key-file` needs `--metrics-cert-file`");
    let same = ["--metrics-auth", "token", "--listen", "127.0.0.1:4999", "--listen-probes", "127.0.0.1:4999"];
    let mut program = Process::start(PROGRAM, &same, &[]);
    assert_eq!(program.exit_code(), Some(1));
    program.wait_for_line(&["metrics and probes cannot both be on 127.0.0.1:4999"]);
}
