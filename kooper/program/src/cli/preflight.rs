//! One request at the start, to report problems of the connection early.

use std::time::Duration;

use super::connect::Connection;
use kooper_runtime::internal::error::chain;

/// If the server does not respond for this long, a warning is logged. The controllers
/// keep trying.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the server's version. An error is only a warning: the controllers retry,
/// and `/readyz` reports their state.
pub(crate) async fn preflight(connection: Connection) {
    let Connection { client, server, .. } = connection;
    match tokio::time::timeout(TIMEOUT, client.apiserver_version()).await {
        Ok(Ok(version)) => tracing::info!(version = version.git_version, "connected to {server}"),
        Ok(Err(error)) => {
            if let Some(advice) = advice(&server, &error) {
                tracing::warn!("{advice}; retrying, see /readyz");
            }
        }
        Err(_) => tracing::warn!(
            "the API server {server} did not respond within {} s: check that it runs and can be reached from here; \
             retrying, see /readyz",
            TIMEOUT.as_secs()
        ),
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
    use kube::core::Status;

    use super::*;

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
}
