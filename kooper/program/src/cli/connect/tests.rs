use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use tempfile::TempDir;

use super::*;

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters:
- {name: near, cluster: {server: 'https://127.0.0.1:6443', certificate-authority: absent.crt}}
- {name: plain, cluster: {server: 'http://127.0.0.1:8001'}}
contexts:
- {name: near, context: {cluster: near, user: me, namespace: team}}
- {name: plain, context: {cluster: plain, user: me}}
- {name: lost, context: {cluster: gone, user: me}}
users:
- {name: me, user: {token: secret}}
";

/// A directory that is removed when the test ends.
struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("created"))
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }
}

fn nowhere() -> KubeconfigSources {
    KubeconfigSources { flag: None, variable: None, home: None, pod: None }
}

async fn server(places: &KubeconfigSources, context: &str) -> String {
    let config = places.config(Some(context.to_owned())).await.expect("a valid configuration");
    shown(&config.cluster_url)
}

async fn refused(places: &KubeconfigSources, context: Option<&str>) -> String {
    places.config(context.map(str::to_owned)).await.expect_err("an invalid configuration").to_string()
}

#[tokio::test]
async fn the_flag_precedes_the_variable_and_that_the_home_directory() {
    let directory = Directory::new();
    let of = |port: u16| KUBECONFIG.replace("8001", &port.to_string());
    let (one, two, three) = (of(1), of(2), of(3));
    let mut places = KubeconfigSources {
        flag: Some(directory.file("flag", &one)),
        variable: Some(directory.file("variable", &two).into()),
        home: Some(directory.file("home", &three)),
        pod: Some("10.0.0.1".into()),
    };
    assert_eq!(server(&places, "plain").await, "http://127.0.0.1:1");
    places.flag = None;
    assert_eq!(server(&places, "plain").await, "http://127.0.0.1:2");
    places.variable = Some(OsString::new());
    places.pod = Some(OsString::new());
    assert_eq!(server(&places, "plain").await, "http://127.0.0.1:3");
}

#[tokio::test]
async fn a_pod_has_its_service_account_and_not_a_file_that_happens_to_be_there() {
    let directory = Directory::new();
    let home = Some(directory.file("home", KUBECONFIG));
    let places = KubeconfigSources { home, pod: Some("10.0.0.1".into()), ..nowhere() };
    assert!(places.files().is_none(), "it counts as a pod");
    let error = refused(&places, None).await;
    assert!(error.starts_with("this is a pod, but its service account cannot be used: "), "{error}");
    let error = refused(&places, Some("plain")).await;
    assert!(error.starts_with("--context needs a kubeconfig, but this pod uses its service account: "), "{error}");
}

#[tokio::test]
async fn several_files_are_merged_and_some_may_be_absent() {
    let directory = Directory::new();
    let more = "{apiVersion: v1, kind: Config, current-context: plain}";
    let files = [directory.0.path().join("absent"), directory.file("a", KUBECONFIG), directory.file("b", more)];
    let variable = Some(std::env::join_paths(files).expect("joined"));
    let config = KubeconfigSources { variable, ..nowhere() }.config(None).await.expect("the second names the context");
    assert_eq!(shown(&config.cluster_url), "http://127.0.0.1:8001");
}

#[tokio::test]
async fn an_empty_current_context_or_namespace_counts_as_unset() {
    let directory = Directory::new();
    let no_context = directory.file("a", "{apiVersion: v1, kind: Config, current-context: '', contexts: null}");
    let text = KUBECONFIG.replace("{cluster: plain, user: me}", "{cluster: plain, user: me, namespace: ''}");
    let named = directory.file("b", &(text + "current-context: plain\n"));
    let variable = Some(std::env::join_paths([&no_context, &named]).expect("joined"));
    let config = KubeconfigSources { variable, ..nowhere() }.config(None).await.expect("the second names the context");
    assert_eq!(shown(&config.cluster_url), "http://127.0.0.1:8001");
    assert_eq!(config.default_namespace, "default");
    let unset = directory.file("c", &format!("{KUBECONFIG}current-context: ''\n"));
    let error = refused(&KubeconfigSources { flag: Some(unset), ..nowhere() }, None).await;
    assert!(error.contains(" has no current context: choose one with `--context`"), "{error}");
}

#[tokio::test]
async fn without_a_configuration_the_error_lists_every_place() {
    let home = Some(PathBuf::from("/nonexistent/.kube/config"));
    assert_eq!(
        refused(&KubeconfigSources { home, ..nowhere() }, None).await,
        "there is no kubeconfig and this is not a pod: KUBECONFIG is not set, /nonexistent/.kube/config does not exist, \
         and KUBERNETES_SERVICE_HOST is not set; write `--kubeconfig FILE`, or set KUBECONFIG"
    );
}

#[tokio::test]
async fn a_file_that_is_absent_or_invalid_is_reported() {
    let directory = Directory::new();
    let absent = KubeconfigSources { flag: Some("/nonexistent/config".into()), ..nowhere() };
    assert_eq!(
        refused(&absent, None).await,
        "the kubeconfig /nonexistent/config set by --kubeconfig does not exist: choose another file"
    );
    let absent = KubeconfigSources { variable: Some("/nonexistent/config".into()), ..nowhere() };
    assert!(refused(&absent, None).await.contains("set by KUBECONFIG does not exist"));
    for text in ["clusters: [", "clusters: 7", "\0", "a b c"] {
        let broken = KubeconfigSources { flag: Some(directory.file("broken", text)), ..nowhere() };
        let error = refused(&broken, None).await;
        assert!(error.contains("broken is invalid: ") || error.contains("cannot be read"), "{text:?}: {error}");
        assert!(error.contains(&*directory.0.path().to_string_lossy()), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let below_a_file = directory.file("file", KUBECONFIG).join("config");
    for unreadable in [directory.0.path().to_owned(), below_a_file] {
        let places = KubeconfigSources { flag: Some(unreadable.clone()), ..nowhere() };
        let error = refused(&places, None).await;
        assert!(error.starts_with(&format!("the kubeconfig {} cannot be read: ", unreadable.display())), "{error}");
        let places = KubeconfigSources { home: Some(unreadable), ..nowhere() };
        assert_eq!(refused(&places, None).await, error);
    }
}

#[tokio::test]
async fn the_error_for_an_unknown_context_lists_those_that_exist() {
    let directory = Directory::new();
    let places = KubeconfigSources { flag: Some(directory.file("config", KUBECONFIG)), ..nowhere() };
    let error = refused(&places, Some("far")).await;
    assert!(error.ends_with("config has no context `far`: it has `near`, `plain`, `lost`"), "{error}");
    let error = refused(&places, None).await;
    assert!(error.ends_with("choose one with `--context`; it has `near`, `plain`, `lost`"), "{error}");
    let error = refused(&places, Some("lost")).await;
    assert!(error.ends_with("has no cluster `gone`, which its context names: it has `near`, `plain`"), "{error}");
    let empty = KubeconfigSources { flag: Some(directory.file("empty", "")), ..nowhere() };
    for context in [None, Some("near")] {
        let error = refused(&empty, context).await;
        assert!(
            error.ends_with("empty has no contexts: choose another file with `--kubeconfig` or KUBECONFIG"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_certificate_authority_that_cannot_be_read_is_reported() {
    let directory = Directory::new();
    let places = KubeconfigSources { flag: Some(directory.file("config", KUBECONFIG)), ..nowhere() };
    let error = refused(&places, Some("near")).await;
    assert!(error.starts_with("the certificate authority of the kubeconfig "), "{error}");
    assert!(error.contains("cannot be used: its file cannot be read: No such file"), "{error}");
}

#[tokio::test]
async fn empty_certificates_and_keys_count_as_unset() {
    let directory = Directory::new();
    let text = KUBECONFIG.replace("certificate-authority: absent.crt", "certificate-authority-data: ''");
    let text = text.replace("token: secret", "token: secret, client-certificate-data: '', client-key-data: ''");
    let places = KubeconfigSources { flag: Some(directory.file("config", &text)), ..nowhere() };
    let config = places.config(Some("near".to_owned())).await.expect("a valid configuration");
    let user = config.auth_info;
    assert!(config.root_cert.is_none() && user.client_certificate_data.is_none() && user.client_key_data.is_none());
}

#[tokio::test]
async fn a_token_file_with_a_line_break_is_an_error_before_anything_is_sent() {
    let directory = Directory::new();
    let token = directory.file("token", "canary\n").display().to_string();
    let text = KUBECONFIG.replace("token: secret", &format!("tokenFile: '{token}'"));
    let places = KubeconfigSources { flag: Some(directory.file("config", &text)), ..nowhere() };
    let error = refused(&places, Some("plain")).await;
    let expected =
        "cannot be used: its file contains characters that are not allowed in a header, such as a line break";
    assert!(error.starts_with("the token of the kubeconfig ") && error.ends_with(expected), "{error}");
    directory.file("token", "canary");
    assert_eq!(server(&places, "plain").await, "http://127.0.0.1:8001");
}

#[tokio::test]
async fn the_proxy_of_a_cluster_is_used_for_loopback_too() {
    let directory = Directory::new();
    let text = KUBECONFIG.replace("8001'", "8001', proxy-url: 'http://proxy.example.com:3128'");
    let places = KubeconfigSources { flag: Some(directory.file("config", &text)), ..nowhere() };
    let config = places.config(Some("plain".to_owned())).await.expect("a valid configuration");
    assert_eq!(config.proxy_url.as_ref().map(shown).as_deref(), Some("http://proxy.example.com:3128"));
}

#[tokio::test]
async fn no_error_contains_a_value_of_the_kubeconfig() {
    let of_cluster = "server certificate-authority certificate-authority-data insecure-skip-tls-verify proxy-url \
                      tls-server-name extensions";
    let of_user = "client-certificate client-certificate-data client-key client-key-data token tokenFile username password \
                   as as-groups auth-provider exec extensions";
    let fields = of_cluster.split(' ').map(|field| ("clusters", field));
    let fields = fields.chain(of_user.split(' ').map(|field| ("users", field)));
    let directory = Directory::new();
    for (list, field) in fields {
        for value in [
            "canary",
            "'ftp://me:canary@x'",
            "\"canary\\ncanary\"",
            "{canary: canary}",
            "[canary]",
            "{name: canary, config: {canary: canary}}",
            "{command: /canary, args: [canary]}",
            "{command: sh, args: ['-c', 'echo canary; exit 3', canary], apiVersion: canary}",
            "{command: echo, args: [canary], env: canary}",
            "{command: echo, args: [canary], apiVersion: canary}",
            "canary: [",
        ] {
            let mut text = String::from(
                "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],\n",
            );
            for (other, within, name) in [("clusters", "cluster", "c"), ("users", "user", "u")] {
                let server =
                    if other == "clusters" && field != "server" { "server: 'https://127.0.0.1:1', " } else { "" };
                let own = if other == list { format!("{field}: {value}") } else { String::new() };
                text += &format!("{other}: [{{name: {name}, {within}: {{{server}{own}}}}}],\n");
            }
            text.push('}');
            let places = KubeconfigSources { flag: Some(directory.file("config", &text)), ..nowhere() };
            let error = match places.config(None).await {
                Err(error) => error,
                Ok(config) => match kube::client::ClientBuilder::try_from(config) {
                    Err(error) => ConnectError::Client(error),
                    Ok(_) => continue,
                },
            };
            let (shown, debugged) = (error.to_string(), format!("{field}: {value}"));
            assert!(!shown.contains("canary"), "{debugged}: {shown}");
        }
    }
}

#[test]
fn a_url_is_shown_without_a_password() {
    for (url, expected) in [
        ("https://me:secret@10.0.0.1:6443/", "https://10.0.0.1:6443"),
        ("https://[::1]:6443/k8s/clusters/c-1", "https://[::1]:6443/k8s/clusters/c-1"),
    ] {
        assert_eq!(shown(&url.parse().expect("a URL")), expected);
    }
}

#[tokio::test]
async fn the_client_for_leases_has_short_timeouts() {
    let directory = Directory::new();
    let places = KubeconfigSources { flag: Some(directory.file("config", KUBECONFIG)), ..nowhere() };
    let config = for_leases(places.config(Some("plain".to_owned())).await.expect("a valid configuration"));
    let most = Some(LEASE_TIMEOUT);
    assert_eq!((config.connect_timeout, config.read_timeout, config.write_timeout), (most, None, most));
}

/// Responds to each request with 429, and counts them.
fn busy_server() -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, asked) = (listener.local_addr().expect("bound"), Arc::<AtomicU32>::default());
    let count = asked.clone();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut request = [0; 4096];
            if connection.read(&mut request).is_ok_and(|read| read > 0) {
                count.fetch_add(1, Ordering::Relaxed);
                let answer = b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
                connection.write_all(answer).expect("answered");
            }
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_rejected_request_is_sent_once_and_counted() {
    let (address, asked) = busy_server();
    let directory = Directory::new();
    let text = KUBECONFIG.replace("127.0.0.1:8001", &address.to_string());
    let (kubeconfig, context) = (Some(directory.file("config", &text)), Some("plain".to_owned()));
    let settings = Settings { kubeconfig, context, ..Settings::default() };
    let registry = prometheus::Registry::new();
    let metrics = Prometheus::new(&registry).expect("a new registry");
    let connection = connect("shop", &settings, &metrics).await.expect("a valid configuration");
    for client in [connection.client, connection.lease_client] {
        let configs = Api::<ConfigMap>::namespaced(client, "shop");
        let before = asked.load(Ordering::Relaxed);
        let created = configs.create(&PostParams::default(), &ConfigMap::default()).await;
        assert!(matches!(created, Err(kube::Error::Api(status)) if status.code == 429));
        configs.get("one").await.expect_err("429");
        assert_eq!(asked.load(Ordering::Relaxed) - before, 2);
    }
    let shown = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    assert!(
        shown.contains(&format!("rest_client_requests_total{{code=\"429\",host=\"{address}\",method=\"POST\"}} 2")),
        "{shown}"
    );
}

/// Prints a token that has expired, and, once there is a file `slow` beside it, takes two
/// seconds for one that has not.
const PLUGIN: &str = r#"
year=2020
if [ -e "${0%/*}/slow" ]; then
    sleep 2
    year=2099
fi
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
echo '"status": {"token": "t", "expirationTimestamp": "'$year'-01-01T00:00:00Z"}}'
"#;

#[tokio::test]
async fn a_token_is_renewed_by_a_plugin_that_takes_longer_than_a_request_for_a_lease() {
    let (address, _) = busy_server();
    let directory = Directory::new();
    let plugin = directory.file("plugin.sh", PLUGIN).display().to_string();
    let exec = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: ['{plugin}'], interactiveMode: Never}}"
    );
    let text = KUBECONFIG.replace("127.0.0.1:8001", &address.to_string()).replace("token: secret", &exec);
    let (kubeconfig, context) = (Some(directory.file("config", &text)), Some("plain".to_owned()));
    let settings = Settings { kubeconfig, context, ..Settings::default() };
    let metrics = Prometheus::new(&prometheus::Registry::new()).expect("a new registry");
    let client = connect("shop", &settings, &metrics).await.expect("a valid configuration").lease_client;
    directory.file("slow", "");
    // As the elector does, with a shorter limit.
    let attempt = || tokio::time::timeout(Duration::from_secs(1), client.apiserver_version());
    attempt().await.expect_err("the plugin takes longer");
    let answered = async { while attempt().await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(30), answered).await.expect("the token is renewed");
}

#[tokio::test]
async fn the_file_of_a_certificate_authority_is_read_again_unless_the_kubeconfig_has_its_content() {
    let directory = Directory::new();
    let authority = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate").cert.pem();
    let file = directory.file("absent.crt", &authority);
    let both = KUBECONFIG.replace("absent.crt}", "absent.crt, certificate-authority-data: Y2FuYXJ5}");
    for (text, context, expected) in
        [(KUBECONFIG, "near", Some(&file)), (both.as_str(), "near", None), (KUBECONFIG, "plain", None)]
    {
        let places = KubeconfigSources { flag: Some(directory.file("config", text)), ..nowhere() };
        let config = places.config(Some(context.to_owned())).await.expect("a valid configuration");
        assert_eq!(config.root_cert_file.as_ref(), expected, "{context}");
        assert_eq!(config.root_cert.is_some(), context == "near", "{context}");
    }
}

#[cfg(feature = "rustls-tls")]
#[tokio::test]
async fn the_files_of_a_client_certificate_are_read_again_when_the_server_rejects_it() {
    use rcgen::{CertifiedKey, KeyPair};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
    use tokio_rustls::rustls::server::WebPkiClientVerifier;
    use tokio_rustls::rustls::{RootCertStore, ServerConfig};

    let pair = || rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let (own, old, new) = (pair(), pair(), pair());
    let mut roots = RootCertStore::empty();
    for client in [&old, &new] {
        roots.add(client.cert.der().clone()).expect("a certificate");
    }
    let provider = Arc::new(kooper_serving::provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_client_cert_verifier(verifier.expect("there are certificates"))
        .with_single_cert(
            vec![own.cert.der().clone()],
            PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()).into(),
        );
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("a certificate and its key")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let accepted = new.cert.der().clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let code = if chain.first() == Some(&accepted) { "200 OK" } else { "401 Unauthorized" };
                let answer = format!("HTTP/1.1 {code}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.expect("answered");
                drop(stream.shutdown().await);
            }
        }
    });

    let directory = Directory::new();
    let write = |client: &CertifiedKey<KeyPair>| {
        let certificate = directory.file("client.crt", &client.cert.pem());
        let key = directory.file("client.key", &client.signing_key.serialize_pem());
        format!("client-certificate: '{}', client-key: '{}'", certificate.display(), key.display())
    };
    let authority = directory.file("ca.crt", &own.cert.pem()).display().to_string();
    let text = KUBECONFIG.replace("127.0.0.1:6443", &address).replace("absent.crt", &authority);
    let text = text.replace("token: secret", &write(&old));
    let (kubeconfig, context) = (Some(directory.file("config", &text)), Some("near".to_owned()));
    let settings = Settings { kubeconfig, context, ..Settings::default() };
    let metrics = Prometheus::new(&prometheus::Registry::new()).expect("a new registry");
    let client = connect("shop", &settings, &metrics).await.expect("a valid configuration").client;
    write(&new);
    let code = || async {
        let answer = client.send(http::Request::new(kube::client::Body::empty())).await;
        answer.expect("a response").status().as_u16()
    };
    assert_eq!(code().await, 401);
    let renewed = async {
        while code().await != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), renewed).await.expect("the new files are read");
}
