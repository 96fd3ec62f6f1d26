//! One request at the start, to report problems of the connection early.

use std::time::Duration;

use super::connect::Connection;
use crate::error::chain;

/// A server that says nothing for this long is told of; the controllers go on
/// to try.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Asks for the server's version. It only warns: the controllers retry, and
/// `/readyz` reports their state.
pub(crate) async fn preflight(connection: Connection) {
    let Connection { client, server, .. } = connection;
    match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
        Ok(Ok(version)) => tracing::info!(version = version.git_version, "connected to {server}"),
        Ok(Err(error)) => {
            if let Some(advice) = advice(&server, &error) {
                tracing::warn!("{advice}; retrying, see /readyz");
            }
        }
        Err(_) => tracing::warn!(
            "the API server {server} has not answered for {} s: check that it runs, and the network on the way; trying \
             on, /readyz says how it stands",
            PATIENCE.as_secs()
        ),
    }
}

/// The problem and what to check; `None` if there is none.
pub(super) fn advice(server: &str, error: &kube::Error) -> Option<String> {
    if let kube::Error::Api(status) = error {
        return match status.code {
            401 => Some(format!(
                "the API server {server} does not know these credentials (401): the token or the client certificate is \
                 wrong or has expired; renew it, or name another kubeconfig or context"
            )),
            // Whoever may not ask for the version may still do their work.
            403 => None,
            code => Some(format!("the API server {server} answers {code}: {}", status.message)),
        };
    }
    let reason = chain(error);
    let lower = reason.to_lowercase();
    Some(if lower.contains("certificate") {
        format!(
            "there is no trust between this program and the API server {server} ({reason}): check that \
             `certificate-authority` and `tls-server-name` of the cluster in the kubeconfig belong to this server"
        )
    } else {
        format!(
            "the API server {server} cannot be reached ({reason}): check that it runs, that the `server` of the cluster \
             in the kubeconfig is right, and the network on the way"
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
    fn credentials_that_are_not_known_are_told() {
        let text = advice(SERVER, &api(401)).expect("a warning");
        assert!(
            text.starts_with("the API server https://10.0.0.1:6443 does not know these credentials (401)"),
            "{text}"
        );
        assert_eq!(advice(SERVER, &api(403)), None);
        assert_eq!(
            advice(SERVER, &api(503)).as_deref(),
            Some("the API server https://10.0.0.1:6443 answers 503: try later")
        );
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_told() {
        let error = kube::Error::Service("invalid peer certificate: UnknownIssuer".into());
        let text = advice(SERVER, &error).expect("a warning");
        assert!(text.contains("UnknownIssuer") && text.contains("`certificate-authority`"), "{text}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
        let client = kube::Client::try_from(config).expect("a client");
        let error = client.apiserver_version().await.expect_err("nobody listens on port 1");
        let text = advice("http://127.0.0.1:1", &error).expect("a warning");
        assert!(text.starts_with("the API server http://127.0.0.1:1 cannot be reached ("), "{text}");
        assert!(text.contains("refused"), "{text}");
    }
}
