//! Requests to the API server.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use http::{Method, Request};
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::document::{NAMESPACES, name, namespace, object, status};
use crate::{Kind, Widget};

/// The field manager of a specification.
const CREATOR: &str = "kube-controller-manager";
/// The field manager of a status.
const REPORTER: &str = "kubelet";
/// The longest wait until a kind is served.
const SERVED: Duration = Duration::from_secs(60);

/// The API of one kind.
#[expect(missing_debug_implementations, reason = "a client has none")]
pub struct Api {
    client: Client,
    /// The kind.
    pub kind: Kind,
}

impl Api {
    /// Makes the namespaces and the definition of the custom resource.
    pub async fn prepare(client: Client, kind: Kind) -> Result<Self> {
        let api = Self { client, kind };
        for index in 0..NAMESPACES {
            let body = json!({ "metadata": { "name": namespace(index) } });
            api.send(Method::POST, "/api/v1/namespaces", &body).await?;
        }
        if kind == Kind::Crs {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            api.send(Method::POST, path, &serde_json::to_value(Widget::crd())?).await?;
        }
        api.await_served().await?;
        Ok(api)
    }

    /// Creates an object so that it has its defaults and managedFields, and returns what became of it.
    pub async fn create(&self, index: usize) -> Result<Value> {
        let path = format!("{}?fieldManager={CREATOR}", self.collection_of(&namespace(index)));
        self.send(Method::POST, &path, &object(self.kind, index, 0)).await?;
        let path = format!("{}/status?fieldManager={REPORTER}", self.path(index));
        self.send(Method::PATCH, &path, &status(self.kind, index)).await
    }

    /// One object.
    pub async fn get(&self, index: usize) -> Result<Value> {
        self.send(Method::GET, &self.path(index), &Value::Null).await
    }

    /// The newest resource version.
    pub async fn version(&self) -> Result<String> {
        let list = self.send(Method::GET, &format!("{}?limit=1", self.collection()), &Value::Null).await?;
        let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        Ok(version.context("a list without version")?.to_owned())
    }

    /// Makes sure that a watch from this version is answered with 410.
    pub async fn expect_expired(&self, version: &str) -> Result<()> {
        let path = format!("{}?watch=1&timeoutSeconds=2&resourceVersion={version}", self.collection());
        match send(&self.client, Method::GET, &path, &Value::Null).await {
            // As an event of the watch, or as its answer.
            Ok(events) if events.contains("\"code\":410") => Ok(()),
            Err(error) if format!("{error:#}").contains("410") => Ok(()),
            Ok(_) => bail!("the server still knows version {version}"),
            Err(error) => Err(error),
        }
    }

    /// Waits until the server lists the kind from its watch cache.
    pub async fn await_served(&self) -> Result<()> {
        let path = format!("{}?limit=1&resourceVersion=0", self.collection());
        let deadline = Instant::now() + SERVED;
        loop {
            match self.send(Method::GET, &path, &Value::Null).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn collection(&self) -> &'static str {
        match self.kind {
            Kind::Pods => "/api/v1/pods",
            Kind::Crs => "/apis/bench.kooper.dev/v1/widgets",
        }
    }

    fn collection_of(&self, namespace: &str) -> String {
        match self.kind {
            Kind::Pods => format!("/api/v1/namespaces/{namespace}/pods"),
            Kind::Crs => format!("/apis/bench.kooper.dev/v1/namespaces/{namespace}/widgets"),
        }
    }

    fn path(&self, index: usize) -> String {
        format!("{}/{}", self.collection_of(&namespace(index)), name(index))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        Ok(serde_json::from_str(&send(&self.client, method, path, body).await?)?)
    }
}

/// Sends a request with a body, unless that is null, and returns that of the response.
pub async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<String> {
    let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    let what = format!("{method} {path}");
    let request = Request::builder().method(method).uri(path).header("content-type", media).body(body)?;
    client.request_text(request).await.context(what)
}
