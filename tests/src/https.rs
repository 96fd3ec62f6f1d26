//! Requests over HTTPS to a listener whose certificate signs itself.

use std::net::SocketAddr;

use kube::{Client, Config};

/// The response of a page: its status, its `WWW-Authenticate` headers, and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The code, such as 200.
    pub status: u16,
    /// The values of `WWW-Authenticate`, in order.
    pub asked: Vec<String>,
    /// The body as text.
    pub body: String,
}

/// Gets a page, whoever answers, with this `Authorization` header.
pub fn get(address: SocketAddr, page: &str, authorization: Option<&str>) -> Result<Answer, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut config = Config::new(format!("https://{address}").parse().expect("a URL"));
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        let request = http::Request::get(page);
        let request = authorization.into_iter().fold(request, |request, value| request.header("authorization", value));
        let request = request.body(kube::client::Body::empty()).map_err(|error| error.to_string())?;
        let response = client.send(request).await.map_err(|error| format!("{error:?}"))?;
        let (head, body) = response.into_parts();
        let body = body.collect_bytes().await.map_err(|error| error.to_string())?;
        let asked = head.headers.get_all("www-authenticate").iter();
        Ok(Answer {
            status: head.status.as_u16(),
            asked: asked.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect(),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    })
}
