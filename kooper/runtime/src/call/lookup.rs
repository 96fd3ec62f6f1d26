//! Requests for single objects of a controller's kind, where the cache is not
//! enough.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::call::{Call, Gone};
use crate::error::refusal::{ApiStatus, Needs, is_conflict, is_missing};
use crate::error::{BoxError, chain};
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;
use crate::object::segment::escape;

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Requests objects of one kind from the API server.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) client: Client,
    pub(crate) kind: KindInfo,
    pub(crate) namespace_selector: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// `true` if only the metadata of objects is requested.
    pub(crate) metadata_only: bool,
    pub(crate) field_manager: String,
}

/// The result of a write that is conditional on the object's version.
pub(crate) enum UpdateResult {
    Done(Arc<Object>),
    /// The object has changed.
    Conflict,
    Gone,
}

/// A request that the API server rejected or did not complete.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {resource} `{key}`")]
pub(crate) struct LookupError {
    verb: &'static str,
    resource: String,
    key: ObjectKey,
    /// The code of a response that may be expected: the object does not exist (404), or has another version (409).
    code: Option<u16>,
    /// The [`ApiStatus`] of a rejected request, or why there is no response.
    source: BoxError,
}

impl Lookup {
    /// Gets the object; `None` if it does not exist.
    pub(crate) async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, LookupError> {
        let (path, name, params) = (self.path(key), escape(key.name()), GetParams::default());
        let request = if self.metadata_only { path.get_metadata(&name, &params) } else { path.get(&name, &params) };
        match self.send("get", key, request).await {
            Ok(text) => self.parse("get", key, &text).map(Some),
            Err(LookupError { code: Some(404), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds out how an object was removed that the watch reported as deleted. A watch
    /// with a selector also reports an object as deleted when it no longer matches.
    pub(crate) async fn how_gone(&self, last: &Object) -> Gone {
        match self.get(last.key()).await {
            Ok(Some(now)) if now.uid() == last.uid() => Gone::Left,
            Ok(_) => Gone::Deleted,
            Err(error) => {
                let (key, error) = (last.key(), chain(&error));
                tracing::warn!("cannot tell whether {key} was deleted or no longer matches the selector: {error}");
                Gone::Unknown
            }
        }
    }

    /// Asks the API server whether the object and its namespace match the controller's selectors.
    pub(crate) async fn selects(&self, key: &ObjectKey) -> Result<bool, LookupError> {
        if let (Some(_), Some(namespace)) = (&self.namespace_selector, key.namespace()) {
            let (kind, labels) = (KindInfo::of::<Namespace>(), self.namespace_selector.clone());
            let namespaces = Self { kind, labels, fields: None, ..self.clone() };
            if !namespaces.matches(&ObjectKey::cluster_scoped(namespace)).await? {
                return Ok(false);
            }
        }
        if self.labels.is_none() && self.fields.is_none() {
            return Ok(true);
        }
        self.matches(key).await
    }

    async fn matches(&self, key: &ObjectKey) -> Result<bool, LookupError> {
        Ok(self.list(key, self.labels.clone(), self.fields.as_deref()).await?.is_some())
    }

    /// The metadata of an object, with its managed fields; `None` if it does not exist.
    pub(crate) async fn metadata(&self, key: &ObjectKey) -> Result<Option<ObjectMeta>, LookupError> {
        self.list(key, None, None).await
    }

    /// The metadata of an object, if the selectors select it. It is listed, as every controller may.
    async fn list(
        &self,
        key: &ObjectKey,
        labels: Option<String>,
        fields: Option<&str>,
    ) -> Result<Option<ObjectMeta>, LookupError> {
        let named = format!("metadata.name={}", key.name());
        let fields = fields.iter().fold(named, |all, fields| format!("{all},{fields}"));
        let params = ListParams { label_selector: labels, ..ListParams::default().fields(&fields).limit(1) };
        let text = self.send("list", key, self.path(key).list_metadata(&params)).await?;
        let list: List = serde_json::from_str(&text).map_err(|error| self.failed("list", key, error))?;
        Ok(list.items.into_iter().flatten().next().map(|item| item.metadata))
    }

    /// Sets the finalizers of an object, if its version has not changed since
    /// they were read, and if this replica still works on its shard.
    pub(crate) async fn set_finalizers(
        &self,
        object: &Object,
        finalizers: &[String],
        call: &Call,
    ) -> Result<UpdateResult, LookupError> {
        let key = object.key();
        let patch = Patch::Merge(json!({"metadata": {
            "uid": object.uid(), "resourceVersion": object.version(), "finalizers": finalizers,
        }}));
        let params = PatchParams { field_manager: Some(self.field_manager.clone()), ..PatchParams::default() };
        let (path, name) = (self.path(key), escape(key.name()));
        let mut request = match self.metadata_only {
            true => path.patch_metadata(&name, &params, &patch),
            false => path.patch(&name, &params, &patch),
        };
        if let Ok(request) = &mut request {
            call.fence(request.extensions_mut());
        }
        match self.send("patch", key, request).await {
            Ok(text) => self.parse("patch", key, &text).map(UpdateResult::Done),
            Err(LookupError { code: Some(404), .. }) => Ok(UpdateResult::Gone),
            Err(LookupError { code: Some(409), .. }) => Ok(UpdateResult::Conflict),
            Err(error) => Err(error),
        }
    }

    fn path(&self, key: &ObjectKey) -> Request {
        Request::new(self.kind.path(key.namespace()))
    }

    async fn send(
        &self,
        verb: &'static str,
        key: &ObjectKey,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, LookupError> {
        let request = request.map_err(|error| self.failed(verb, key, error))?;
        let silent = |_| self.failed(verb, key, format!("no response within {TIMEOUT:?}"));
        let answer = tokio::time::timeout(TIMEOUT, self.client.request_text(request)).await.map_err(silent)?;
        answer.map_err(|error| match error {
            kube::Error::Api(status) if is_conflict(&status) || is_missing(&status) => {
                let code = status.code;
                let error = self.failed(verb, key, format!("the API server responded with {code}"));
                LookupError { code: Some(code), ..error }
            }
            kube::Error::Api(status) => {
                let rule = self.kind.rule(None, &[verb]);
                let needs = Needs { rule: &rule, only: None, namespace: key.namespace() };
                self.failed(verb, key, ApiStatus::of(&status).with_advice(&needs))
            }
            error => self.failed(verb, key, error),
        })
    }

    fn parse(&self, verb: &'static str, key: &ObjectKey, text: &str) -> Result<Arc<Object>, LookupError> {
        Object::parse(text.as_bytes()).map(Arc::new).map_err(|error| self.failed(verb, key, error))
    }

    fn failed(&self, verb: &'static str, key: &ObjectKey, source: impl Into<BoxError>) -> LookupError {
        LookupError { verb, resource: self.kind.resource(), key: key.clone(), code: None, source: source.into() }
    }
}

#[derive(serde::Deserialize)]
struct List {
    /// An empty list of metadata is `null`. What has none is not a list.
    #[serde(deserialize_with = "Option::deserialize")]
    items: Option<Vec<Item>>,
}

#[derive(serde::Deserialize)]
struct Item {
    metadata: ObjectMeta,
}

#[cfg(test)]
mod tests {
    use http::Response;
    use http::header::ACCEPT;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use parking_lot::Mutex;
    use tokio_util::sync::CancellationToken;
    use tower::service_fn;

    use super::*;
    use crate::call::Tasks;
    use crate::queue::reason::Reasons;

    /// Sends requests to a server that has one response.
    fn lookup(code: u16, body: &'static str) -> Lookup {
        let server = service_fn(move |_: http::Request<Body>| async move {
            Response::builder().status(code).body(Body::from(body.as_bytes().to_vec()))
        });
        Lookup {
            client: Client::new(server, "shop"),
            kind: KindInfo::of::<ConfigMap>(),
            namespace_selector: None,
            labels: Some("app=shop".to_owned()),
            fields: None,
            metadata_only: false,
            field_manager: "shop".to_owned(),
        }
    }

    #[tokio::test]
    async fn only_metadata_is_requested_if_a_controller_takes_no_more() {
        let body = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",
            "metadata":{"name":"a","namespace":"shop","uid":"u"}}"#;
        let accepted = Arc::new(Mutex::new(Vec::new()));
        for metadata_only in [true, false] {
            let seen = accepted.clone();
            let server = service_fn(move |request: http::Request<Body>| {
                let form = request.headers().get(ACCEPT).and_then(|form| form.to_str().ok()).unwrap_or_default();
                seen.lock().push((request.method().to_string(), form.contains("as=PartialObjectMetadata;")));
                async move { Response::builder().body(Body::from(body.as_bytes().to_vec())) }
            });
            let lookup = Lookup { client: Client::new(server, "shop"), metadata_only, ..lookup(200, body) };
            let key = ObjectKey::namespaced("shop", "a");
            let object = lookup.get(&key).await.unwrap().unwrap();
            let (reasons, cancelled) = (Reasons::default(), CancellationToken::new());
            let call = Call::new("shop".into(), key, 1, reasons, cancelled, Tasks::default());
            let now = lookup.set_finalizers(&object, &["shop.io/a".to_owned()], &call).await.unwrap();
            assert!(matches!(now, UpdateResult::Done(now) if now.uid() == "u"));
        }
        let requests = [("GET", true), ("PATCH", true), ("GET", false), ("PATCH", false)];
        assert_eq!(*accepted.lock(), requests.map(|(method, metadata)| (method.to_owned(), metadata)));
    }

    #[tokio::test]
    async fn a_404_that_does_not_name_the_object_does_not_mean_that_it_is_gone() {
        let object = Object::parse(br#"{"metadata":{"name":"a","namespace":"shop","uid":"u"}}"#).unwrap();
        let named = r#"{"kind":"Status","code":404,"message":"no a","details":{"name":"a","kind":"configmaps"}}"#;
        assert!(lookup(404, named).get(object.key()).await.unwrap().is_none());
        assert_eq!(lookup(404, named).how_gone(&object).await, Gone::Deleted);
        let proxy = lookup(404, "404 page not found");
        assert!(proxy.get(object.key()).await.is_err());
        assert_eq!(proxy.how_gone(&object).await, Gone::Unknown);
    }

    #[tokio::test]
    async fn a_webhook_that_denies_a_finalizer_with_409_or_404_is_neither_a_change_nor_a_deletion_of_the_object() {
        let object = Object::parse(br#"{"metadata":{"name":"a","namespace":"shop","uid":"u"}}"#).unwrap();
        let (reasons, cancelled) = (Reasons::default(), CancellationToken::new());
        let call = Call::new("shop".into(), object.key().clone(), 1, reasons, cancelled, Tasks::default());
        let finalizers = ["shop.io/a".to_owned()];
        let changed = r#"{"kind":"Status","code":409,"reason":"Conflict","message":"the object has been modified"}"#;
        let changed = lookup(409, changed).set_finalizers(&object, &finalizers, &call).await;
        assert!(matches!(changed, Ok(UpdateResult::Conflict)));
        let denied = r#"{"kind":"Status","code":409,"message":"admission webhook \"a.io\" denied the request: no"}"#;
        let missing = r#"{"kind":"Status","code":404,"message":"admission webhook \"a.io\" denied the request: no",
            "details":{"name":"b","kind":"secrets"}}"#;
        for (code, denied) in [(409, denied), (404, missing)] {
            let denied = lookup(code, denied).set_finalizers(&object, &finalizers, &call).await;
            let error = denied.err().map(|error| chain(&error)).unwrap();
            assert!(error.contains("admission webhook \"a.io\" denied the request: no"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_object_without_items_is_not_an_empty_list() {
        let key = ObjectKey::namespaced("shop", "a");
        assert!(!lookup(200, r#"{"kind":"PartialObjectMetadataList","items":null}"#).selects(&key).await.unwrap());
        assert!(lookup(200, r#"{"message":"session expired"}"#).selects(&key).await.is_err());
    }
}
