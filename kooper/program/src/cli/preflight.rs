//! One request at the start, to report problems of the connection early.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::version::Info;

use super::connect::{self, Connection};
use super::invocation::Invocation;
use crate::metrics::Prometheus;
use kooper_runtime::BoxError;
use kooper_runtime::internal::error::chain;

/// If the server does not respond for this long, a warning is logged. The controllers
/// keep trying.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a command that does not wait for the API server cannot begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoResponse {
    #[error("{advice}")]
    Unconnected { advice: String },
    #[error("the API server {server} did not respond within {} s: check that it runs and can be reached from here", TIMEOUT.as_secs())]
    Silent { server: String },
}

/// Connects to an API server, which has to respond.
pub(super) async fn connected(invocation: &Invocation<'_>, metrics: &Prometheus) -> Result<Connection, BoxError> {
    let connection = connect::connect(invocation.app.name, &invocation.settings, metrics).await?;
    version(&connection).await?;
    Ok(connection)
}

/// The version of the API server, if it may be read. An error if the server does not respond, or does not accept the
/// credentials.
async fn version(Connection { client, server, .. }: &Connection) -> Result<Option<Info>, NoResponse> {
    match tokio::time::timeout(TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(version)) => Ok(Some(version)),
        Ok(Err(error)) => match advice(server, &error) {
            Some(advice) => Err(NoResponse::Unconnected { advice }),
            None => Ok(None),
        },
        Err(_) => Err(NoResponse::Silent { server: server.clone() }),
    }
}

/// Reads the server's version. An error is only a warning: the controllers retry,
/// and `/readyz` reports their state.
pub(crate) async fn preflight(connection: Connection) {
    match version(&connection).await {
        Ok(Some(version)) => tracing::info!(version = version.git_version, "connected to {}", connection.server),
        Ok(None) => {}
        Err(problem) => tracing::warn!("{problem}; retrying, see /readyz"),
    }
}

/// The problem and what to check; `None` if there is none.
pub(super) fn advice(server: &str, error: &kube::Error) -> Option<String> {
    if let kube::Error::Api(status) = error {
        return match status.code {
            401 => Some(format!(
                "the API server {server} does not accept these credentials (401): the token or the client certificate is \
                 invalid or has expired; renew it, or choose another kubeconfig or context"
            )),
            // The version may be forbidden while everything else is allowed.
            403 => None,
            code => Some(format!("the API server {server} responded with {code}: {}", status.message)),
        };
    }
    let reason = chain(error);
    let lower = reason.to_lowercase();
    Some(if lower.contains("certificate") {
        format!(
            "the TLS connection to the API server {server} failed ({reason}): check that \
             `certificate-authority` and `tls-server-name` of the cluster in the kubeconfig belong to this server"
        )
    } else {
        format!(
            "the API server {server} cannot be reached ({reason}): check that it runs, that the `server` of the \
             cluster in the kubeconfig is correct, and that it can be reached from here"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use k8s_openapi::api::core::v1::Pod;
    use kooper_access::Controller;
    use kooper_sharding::Shards;
    use kube::core::Status;

    use super::*;
    use crate::Program;
    use crate::cli::app::App;
    use crate::cli::args::Settings;
    use crate::cli::dry_run::dry_run;
    use crate::cli::shards::shards;
    use crate::cli::uninstall::uninstall;

    const SERVER: &str = "https://10.0.0.1:6443";

    fn api(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, message: "try later".into(), ..Status::default() }))
    }

    #[test]
    fn rejected_credentials_are_reported() {
        let text = advice(SERVER, &api(401)).expect("a warning");
        assert!(
            text.starts_with("the API server https://10.0.0.1:6443 does not accept these credentials (401)"),
            "{text}"
        );
        assert_eq!(advice(SERVER, &api(403)), None);
        assert_eq!(
            advice(SERVER, &api(503)).as_deref(),
            Some("the API server https://10.0.0.1:6443 responded with 503: try later")
        );
    }

    #[test]
    fn an_untrusted_certificate_is_reported() {
        let error = kube::Error::Service("invalid peer certificate: UnknownIssuer".into());
        let text = advice(SERVER, &error).expect("a warning");
        assert!(text.contains("UnknownIssuer") && text.contains("`certificate-authority`"), "{text}");
    }

    #[tokio::test]
    async fn an_unreachable_server_is_reported() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
        let client = kube::Client::try_from(config).expect("a client");
        let error = client.apiserver_version().await.expect_err("no server listens on port 1");
        let text = advice("http://127.0.0.1:1", &error).expect("a warning");
        assert!(text.starts_with("the API server http://127.0.0.1:1 cannot be reached ("), "{text}");
        assert!(text.contains("refused"), "{text}");
    }

    #[test]
    fn commands_that_do_not_wait_for_the_api_server_report_that_it_cannot_be_reached() {
        fn shared(program: &mut Program) {
            program.add(Controller::builder::<Pod>("pods").shards(Shards::new(8)).handler(async || {}));
        }
        let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
        let text = "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                    clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {}}]}";
        fs::write(kubeconfig.path(), text).expect("a file");
        let app = App::new("shop", "1.0.0").defined(shared);
        let invocation = || {
            let settings = Settings { kubeconfig: Some(kubeconfig.path().to_owned()), ..Settings::default() };
            Invocation { app: &app, settings }
        };
        for ended in [dry_run(&invocation()), shards(&invocation()), uninstall(invocation())] {
            let error = ended.expect_err("no server listens on port 1").to_string();
            assert!(error.starts_with("the API server http://127.0.0.1:1 cannot be reached ("), "{error}");
        }
    }
}
