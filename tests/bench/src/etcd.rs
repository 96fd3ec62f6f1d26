//! Writes straight to etcd.
//!
//! On two cores the API server takes some 300 writes a second of such pods beside everything else. Its
//! write path isn't what is compared: objects that are put into its storage reach its watchers all the same.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

/// A client of etcd's HTTP gateway, with as many connections as there were requests at a time.
#[derive(Debug)]
pub struct Etcd {
    socket: PathBuf,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Etcd {
    /// A client of the etcd that listens on this socket.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), idle: Mutex::default() }
    }

    /// Writes a value.
    pub async fn put(&self, key: &str, value: &Value) -> Result<()> {
        let value = BASE64_STANDARD.encode(serde_json::to_vec(value)?);
        self.call("/v3/kv/put", &json!({ "key": BASE64_STANDARD.encode(key), "value": value })).await
    }

    /// Deletes a value.
    pub async fn delete(&self, key: &str) -> Result<()> {
        self.call("/v3/kv/deleterange", &json!({ "key": BASE64_STANDARD.encode(key) })).await
    }

    async fn call(&self, path: &str, body: &Value) -> Result<()> {
        let idle = self.idle.lock().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.connect().await.context("connecting to etcd")?,
        };
        connection.ready().await?;
        let body = Full::new(Bytes::from(serde_json::to_vec(body)?));
        let answer = connection.send_request(Request::post(path).header("host", "etcd").body(body)?).await?;
        let status = answer.status();
        let text = answer.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "etcd answers {path} with {status}: {}", String::from_utf8_lossy(&text));
        self.idle.lock().push(connection);
        Ok(())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = UnixStream::connect(&self.socket).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
