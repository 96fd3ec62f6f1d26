//! A server that histories are sent to: the embedded one or a real one.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kooper_apiserver::ApiServer;
use kube::client::Body;
use tokio::sync::OnceCell;

use crate::case::Step;
use crate::hooks;
use crate::wire;

/// Response of a server: the status, headers and body that are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// A server, by its client.
pub(crate) struct Server {
    client: kube::Client,
    /// Of a user who may do everything; the embedded server's client has its own.
    token: Option<String>,
    /// `true` if responses come without a socket and without delay.
    pub(crate) is_embedded: bool,
    /// Set when the definitions that random histories use are served.
    pub(crate) fixture: OnceCell<()>,
}

impl Server {
    /// A fresh embedded server, without its socket.
    pub(crate) async fn embedded() -> (ApiServer, Self) {
        let server = ApiServer::builder().without_accounts().start().await.expect("loopback can be listened on");
        let client = server.client();
        (server, Self { client, token: None, is_embedded: true, fixture: OnceCell::new() })
    }

    /// A real server at an address.
    pub(crate) fn real(address: &str, token: &str) -> Self {
        let mut config = kube::Config::new(address.parse().expect("it is an address"));
        // TLS is not what is compared.
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let client = kube::Client::try_from(config).expect("the client can be made");
        Self { client, token: Some(token.to_owned()), is_embedded: false, fixture: OnceCell::new() }
    }

    /// Sends a request; the answer's body may still grow. A server that closes the connection, as the real one does when
    /// it panics, has answered with the status 0.
    pub(crate) async fn open(&self, step: &Step) -> Result<Response<Body>, Answer> {
        let method = if step.is_watch() { "GET" } else { &step.method };
        let method: Method = method.parse().expect("the case has valid methods");
        let mut request = Request::builder().method(method).uri(&step.path);
        if step.header("authorization").is_none()
            && let Some(token) = &self.token
        {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in step.sent_headers() {
            request = request.header(name, value);
        }
        let body = Body::from(wire::body(step));
        let request = request.body(body).expect("the case has valid requests");
        self.client.send(request).await.map_err(|error| Answer { body: error.to_string(), ..Answer::default() })
    }

    /// Sends a request and reads the answer to its end.
    pub(crate) async fn send(&self, step: &Step) -> Answer {
        let response = match self.open(step).await {
            Ok(response) => response,
            Err(answer) => return answer,
        };
        let mut answer = Answer::head(&response);
        let body = response.into_body().collect().await.expect("the body ends well").to_bytes();
        // HTTP drops the body of an answer to HEAD; without a socket it is there.
        answer.body = if step.method == "HEAD" { String::new() } else { hooks::masked(&wire::text(&body)) };
        answer
    }
}

impl Answer {
    /// An answer without its body.
    pub(crate) fn head(response: &Response<Body>) -> Self {
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned())).collect();
        Self { status: response.status().as_u16(), headers, body: String::new() }
    }
}
