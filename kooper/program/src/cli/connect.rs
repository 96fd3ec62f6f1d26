//! The connection to the API server: where it is configured, and errors in the
//! configuration.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::header::{HeaderName, HeaderValue, USER_AGENT};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Client;
use kube::config::{Cluster, Config, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use serde_json::json;

use super::args::Settings;
use super::objects::untyped;
use crate::metrics::Prometheus;
use kooper_access::internal::Installation;
use kooper_runtime::internal::controller::review::review;
use kooper_runtime::internal::error::chain;

mod proxy;
mod renewal;
#[cfg(test)]
mod tests;

use renewal::Renewal;

/// The longest time for connecting and for sending with the client for Leases.
const LEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// The namespace of the service account that a client has; `None` if it has none.
pub(crate) async fn own_namespace(client: &Client) -> Option<String> {
    let status = review(client, &untyped::<SelfSubjectReview>(), json!({})).await.ok()?;
    let name = status["userInfo"]["username"].as_str()?;
    let (namespace, _) = name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    Some(namespace.to_owned())
}

/// Makes a client.
pub(crate) type MakeClient = Arc<dyn Fn() -> Result<Client, ConnectError> + Send + Sync>;

/// Two clients, and the server that they connect to.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The client for Leases, with short timeouts.
    pub(crate) lease_client: Client,
    /// Makes another client with short timeouts, on the runtime that it is called on.
    pub(crate) another: MakeClient,
    /// `true` if the credentials are those of the service account of the pod.
    pub(crate) in_pod: bool,
    /// The server's URL, without credentials.
    pub(crate) server: String,
}

/// Why the program could not connect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(
        "there is no kubeconfig and this is not a pod: KUBECONFIG is not set, {home} does not exist, and \
         KUBERNETES_SERVICE_HOST is not set; write `--kubeconfig FILE`, or set KUBECONFIG"
    )]
    Nowhere { home: String },
    #[error("the kubeconfig {file} set by {origin} does not exist: choose another file")]
    Absent { file: String, origin: &'static str },
    #[error("the kubeconfig {file} cannot be read: {error}")]
    Unreadable { file: String, error: io::Error },
    #[error("the kubeconfig {file} is invalid: {problem}; compare with `kubectl config view --kubeconfig {file}`")]
    Broken { file: String, problem: String },
    #[error("the kubeconfig {file} has no current context: choose one with `--context`; it has {contexts}")]
    NoCurrentContext { file: String, contexts: String },
    #[error("the kubeconfig {file} has no contexts: choose another file with `--kubeconfig` or KUBECONFIG")]
    NoContexts { file: String },
    #[error("the kubeconfig {file} has no context `{context}`: it has {contexts}")]
    UnknownContext { file: String, context: String, contexts: String },
    #[error("the kubeconfig {file} has no cluster `{cluster}`, which its context names: it has {clusters}")]
    UnknownCluster { file: String, cluster: String, clusters: String },
    #[error("the {what} of the kubeconfig {file} cannot be used: {problem}")]
    Material { file: String, what: &'static str, problem: String },
    #[error(
        "--context needs a kubeconfig, but this pod uses its service account: set `--kubeconfig FILE`, or remove \
         `--context`"
    )]
    ContextInPod,
    #[error(
        "this is a pod, but its service account cannot be used: {0}; check that `automountServiceAccountToken` is not \
         off, or connect with `--kubeconfig FILE`"
    )]
    Pod(InClusterError),
    #[error("the client cannot be built: {}", chain(.0))]
    Client(kube::Error),
}

/// Connects as the flags, the environment, the pod or the home directory configure it,
/// in this order. Nothing is sent yet.
pub(crate) async fn connect(
    program: &str,
    settings: &Settings,
    metrics: &Prometheus,
) -> Result<Connection, ConnectError> {
    let places = KubeconfigSources {
        flag: settings.kubeconfig.clone(),
        variable: std::env::var_os("KUBECONFIG"),
        home: std::env::home_dir().map(|home| home.join(".kube").join("config")),
        pod: std::env::var_os("KUBERNETES_SERVICE_HOST"),
    };
    let in_pod = places.files().is_none();
    let mut config = places.config(settings.context.clone()).await?;
    if let Some(user) = &settings.impersonated {
        config.auth_info.impersonate = Some(user.clone());
        // The API server adds the groups of a service account.
        config.auth_info.impersonate_groups = None;
        config.auth_info.impersonate_uid = None;
        config.auth_info.impersonate_user_extra = None;
    }
    clients(program, config, in_pod, metrics)
}

/// Connects with a kubeconfig that is not a file.
#[cfg(feature = "apiserver")]
pub(super) async fn connect_by(
    program: &str,
    kubeconfig: Kubeconfig,
    metrics: &Prometheus,
) -> Result<Connection, ConnectError> {
    let config = load(kubeconfig, None, "of the embedded API server").await?;
    clients(program, config, false, metrics)
}

fn clients(program: &str, mut config: Config, in_pod: bool, metrics: &Prometheus) -> Result<Connection, ConnectError> {
    config.headers.extend(user_agent(program));
    // Errors are returned to the caller, and each request is counted: kube would retry a write up to 15 times.
    config.default_retry = false;
    let server = shown(&config.cluster_url);
    let layer = metrics.client_layer(&config.cluster_url);
    let client = move |config: Config| {
        let (layer, user) = (layer.clone(), &config.auth_info);
        // Files of a certificate are read, and a plugin is run, when a client is built.
        let (has_plugin, has_file) = (user.exec.is_some(), user.client_certificate.is_some());
        let build = move || crate::client::connect(config.clone(), &layer).map_err(ConnectError::Client);
        if has_plugin || has_file { Renewal::client(build, has_plugin) } else { build() }
    };
    let quick = for_leases(config.clone());
    let lease_client = client(quick.clone())?;
    let (make, own) = (client.clone(), quick);
    let another: MakeClient = Arc::new(move || make(own.clone()));
    Ok(Connection { client: client(config)?, lease_client, another, in_pod, server })
}

/// The user agent, for the server's audit log and its administrators.
fn user_agent(program: &str) -> Option<(HeaderName, HeaderValue)> {
    let program = Installation::new(program, None).program;
    let text = format!("{program} kooper/{}", env!("CARGO_PKG_VERSION"));
    Some((USER_AGENT, HeaderValue::try_from(text).ok()?))
}

/// The configuration for Leases. The elector cancels requests that take too long. A
/// read timeout would include the time in which a connection, or a watch, is idle.
fn for_leases(mut config: Config) -> Config {
    let shorter = |own: Option<Duration>| Some(own.map_or(LEASE_TIMEOUT, |own| own.min(LEASE_TIMEOUT)));
    config.connect_timeout = shorter(config.connect_timeout);
    config.write_timeout = shorter(config.write_timeout);
    config
}

/// A URL without the part before an `@`, which may be a password.
pub(super) fn shown(url: &Uri) -> String {
    let host = url.authority().map_or("", |authority| authority.as_str());
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = url.path().trim_end_matches('/');
    format!("{}://{host}{path}", url.scheme_str().unwrap_or("http"))
}

/// The places where a connection can be configured.
struct KubeconfigSources {
    flag: Option<PathBuf>,
    variable: Option<OsString>,
    home: Option<PathBuf>,
    /// The host of the API server, which each pod has.
    pod: Option<OsString>,
}

impl KubeconfigSources {
    async fn config(&self, context: Option<String>) -> Result<Config, ConnectError> {
        if let Some((files, origin)) = self.files() {
            let file = shown_files(&files);
            let kubeconfig = read(&files, origin)?;
            return load(kubeconfig, context, &file).await;
        }
        match (self.is_pod(), context) {
            (true, None) => Config::incluster().map_err(ConnectError::Pod),
            (true, Some(_)) => Err(ConnectError::ContextInPod),
            (false, _) => {
                let home = self.home.as_ref().map_or("~/.kube/config".to_owned(), |home| home.display().to_string());
                Err(ConnectError::Nowhere { home })
            }
        }
    }

    /// As for client-go, an empty variable counts as unset.
    fn is_pod(&self) -> bool {
        self.pod.as_ref().is_some_and(|host| !host.is_empty())
    }

    /// The files of the kubeconfig, and the setting that names them.
    fn files(&self) -> Option<(Vec<PathBuf>, &'static str)> {
        if let Some(file) = &self.flag {
            return Some((vec![file.clone()], "--kubeconfig"));
        }
        let named: Vec<_> = self.variable.iter().flat_map(std::env::split_paths).collect();
        let named: Vec<_> = named.into_iter().filter(|file| !file.as_os_str().is_empty()).collect();
        if !named.is_empty() {
            return Some((named, "KUBECONFIG"));
        }
        // A user who can write into the image or a volume could choose another server by it.
        let home = self.home.as_ref().filter(|file| !self.is_pod() && may_exist(file))?;
        Some((vec![home.clone()], "the home directory"))
    }
}

/// Reads and merges the files. As with kubectl, some of several may be absent.
fn read(files: &[PathBuf], origin: &'static str) -> Result<Kubeconfig, ConnectError> {
    let present: Vec<_> = files.iter().filter(|file| may_exist(file)).collect();
    if present.is_empty() {
        return Err(ConnectError::Absent { file: shown_files(files), origin });
    }
    let mut merged = Kubeconfig::default();
    for file in present {
        let failed = |error| read_error(file, error);
        let mut next = Kubeconfig::read_from(file).map_err(failed)?;
        // As for client-go, an empty value counts as unset.
        next.current_context = next.current_context.filter(|name| !name.is_empty());
        for context in next.contexts.iter_mut().filter_map(|named| named.context.as_mut()) {
            context.namespace = context.namespace.take().filter(|name| !name.is_empty());
        }
        for cluster in next.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            let data = cluster.certificate_authority_data.take();
            cluster.certificate_authority_data = data.filter(|data| !data.is_empty());
        }
        for user in next.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
            user.client_certificate_data = user.client_certificate_data.take().filter(|data| !data.is_empty());
            // The key is a secret, which only its serialization exposes.
            if serde_json::to_value(&*user).is_ok_and(|user| user["client-key-data"] == "") {
                user.client_key_data = None;
            }
        }
        merged = merged.merge(next).map_err(failed)?;
    }
    Ok(merged)
}

/// Returns `true` also if a folder above the file cannot be searched: reading the file then reports why.
fn may_exist(file: &Path) -> bool {
    file.try_exists().unwrap_or(true)
}

fn read_error(file: &Path, error: KubeconfigError) -> ConnectError {
    let file = file.display().to_string();
    match error {
        KubeconfigError::ReadConfig(error, _) => ConnectError::Unreadable { file, error },
        // The parser's message would quote the lines around the error.
        KubeconfigError::Parse(error) => {
            let place = error
                .location()
                .map_or_else(String::new, |place| format!(" at line {}, column {}", place.line(), place.column()));
            ConnectError::Broken { file, problem: format!("its YAML is not a kubeconfig{place}") }
        }
        error => ConnectError::Broken { file, problem: one_line(&error.to_string()) },
    }
}

/// Reads the settings of a context from a kubeconfig.
async fn load(kubeconfig: Kubeconfig, context: Option<String>, file: &str) -> Result<Config, ConnectError> {
    let contexts = names(kubeconfig.contexts.iter().map(|context| &context.name));
    let clusters = names(kubeconfig.clusters.iter().map(|cluster| &cluster.name));
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let file = file.to_owned();
    if kubeconfig.contexts.is_empty() {
        return Err(ConnectError::NoContexts { file });
    }
    let cluster = cluster(&kubeconfig, options.context.as_deref());
    let own_proxy = cluster.and_then(|cluster| cluster.proxy_url.clone()).filter(|url| !url.is_empty());
    // kube reads the file of a pod again, and that of a kubeconfig only if it is set here.
    let authority = cluster.filter(|cluster| cluster.certificate_authority_data.is_none());
    let authority = authority.and_then(|cluster| cluster.certificate_authority.as_ref()).map(PathBuf::from);
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    if let Ok(config) = &mut config {
        let url = own_proxy.or_else(|| proxy::of_environment(&config.cluster_url));
        // kube has refused one that does not parse.
        config.proxy_url = url.and_then(|url| url.parse().ok());
        config.root_cert_file = authority;
    }
    if let Some(source) = config.as_ref().ok().and_then(bad_token) {
        let problem = format!("{source} contains characters that are not allowed in a header, such as a line break");
        return Err(ConnectError::Material { file, what: "token", problem });
    }
    config.map_err(|error| match error {
        KubeconfigError::CurrentContextNotSet => ConnectError::NoCurrentContext { file, contexts },
        KubeconfigError::LoadContext(context) => ConnectError::UnknownContext { file, context, contexts },
        KubeconfigError::LoadClusterOfContext(cluster) => ConnectError::UnknownCluster { file, cluster, clusters },
        KubeconfigError::LoadCertificateAuthority(error) => material(file, "certificate authority", error),
        KubeconfigError::LoadClientCertificate(error) => material(file, "client certificate", error),
        KubeconfigError::LoadClientKey(error) => material(file, "client key", error),
        error => ConnectError::Broken { file, problem: one_line(&error.to_string()) },
    })
}

/// The cluster of the context.
fn cluster<'a>(kubeconfig: &'a Kubeconfig, context: Option<&str>) -> Option<&'a Cluster> {
    let context = context.or(kubeconfig.current_context.as_deref());
    let context = kubeconfig.contexts.iter().find(|named| Some(named.name.as_str()) == context);
    let name = context.and_then(|named| named.context.as_ref()).map(|context| &context.cluster);
    let cluster = kubeconfig.clusters.iter().find(|named| Some(&named.name) == name);
    cluster.and_then(|named| named.cluster.as_ref())
}

/// Where the token comes from, if it is no valid header value: kube panics, or fails with each request.
fn bad_token(config: &Config) -> Option<&'static str> {
    let user = serde_json::to_value(&config.auth_info).unwrap_or_default();
    let (source, token) = match (user["token"].as_str(), &config.auth_info.token_file) {
        (Some(token), _) => ("it", token.to_owned()),
        (None, Some(file)) => ("its file", std::fs::read_to_string(file).unwrap_or_default()),
        (None, None) => return None,
    };
    HeaderValue::try_from(token).is_err().then_some(source)
}

fn material(file: String, what: &'static str, error: LoadDataError) -> ConnectError {
    let problem = match error {
        // The path might be a key that was written instead of a file.
        LoadDataError::ReadFile(error, _) => format!("its file cannot be read: {error}"),
        error => one_line(&error.to_string()),
    };
    ConnectError::Material { file, what, problem }
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn shown_files(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
