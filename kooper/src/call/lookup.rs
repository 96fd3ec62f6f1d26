//! Single objects of a controller's kind, asked of the API server: where the
//! cache cannot tell.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::call::extract::Gone;
use crate::error::BoxError;
use crate::error::refusal::{Needs, Refusal};
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;

/// A request that is not answered for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the API server about objects of one kind.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) client: Client,
    pub(crate) kind: KindInfo,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    pub(crate) field_manager: String,
}

/// What became of a write that goes by the version of an object.
pub(crate) enum Written {
    Done(Arc<Object>),
    /// Somebody else was first.
    Conflict,
    Gone,
}

/// An object that the API server did not hand out or take.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    #[error("{text}")]
    Refused { text: String, source: Refusal },
    #[error("cannot {verb} {resource} `{key}`: {source}")]
    Failed { verb: &'static str, resource: String, key: ObjectKey, source: BoxError },
}

impl Lookup {
    /// The object as it is now.
    pub(crate) async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, LookupError> {
        let request = self.path(key).get(key.name(), &kube::core::params::GetParams::default());
        match self.send("get", key, request).await {
            Ok(text) => self.parse("get", key, &text).map(Some),
            Err(Refused::Code(404)) => Ok(None),
            Err(refused) => Err(self.refused("get", key, refused)),
        }
    }

    /// How an object has vanished that the watch says is deleted: a watch with
    /// a selector says so of one that left it, too.
    pub(crate) async fn how_gone(&self, last: &Object) -> Gone {
        match self.get(last.key()).await {
            Ok(Some(now)) if now.uid() == last.uid() => Gone::Left,
            Ok(_) => Gone::Deleted,
            Err(error) => {
                tracing::warn!("whether {} is deleted or has left the selector is not known: {error}", last.key());
                Gone::Unknown
            }
        }
    }

    /// Whether the controller's selector selects the object now.
    pub(crate) async fn selects(&self, key: &ObjectKey) -> Result<bool, LookupError> {
        let named = format!("metadata.name={}", key.name());
        let fields = self.fields.iter().fold(named, |all, fields| format!("{all},{fields}"));
        let params =
            ListParams { label_selector: self.labels.clone(), ..ListParams::default().fields(&fields).limit(1) };
        let text = self.send("list", key, self.path(key).list_metadata(&params)).await;
        let text = text.map_err(|refused| self.refused("list", key, refused))?;
        let list: List = serde_json::from_str(&text).map_err(|error| self.failed("list", key, error))?;
        Ok(list.items.is_some_and(|items| !items.is_empty()))
    }

    /// Sets the finalizers of an object, if it is still in the version that
    /// they were read from.
    pub(crate) async fn set_finalizers(&self, object: &Object, finalizers: &[String]) -> Result<Written, LookupError> {
        let key = object.key();
        let patch = json!({"metadata": {
            "uid": object.uid(), "resourceVersion": object.version(), "finalizers": finalizers,
        }});
        let params = PatchParams { field_manager: Some(self.field_manager.clone()), ..PatchParams::default() };
        match self.send("patch", key, self.path(key).patch(key.name(), &params, &Patch::Merge(patch))).await {
            Ok(text) => self.parse("patch", key, &text).map(Written::Done),
            Err(Refused::Code(404)) => Ok(Written::Gone),
            Err(Refused::Code(409)) => Ok(Written::Conflict),
            Err(refused) => Err(self.refused("patch", key, refused)),
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
    ) -> Result<String, Refused> {
        let request = request.map_err(|error| Refused::Other(self.failed(verb, key, error)))?;
        let silent = |_| Refused::Other(self.failed(verb, key, format!("no answer within {} s", PATIENCE.as_secs())));
        let answer = tokio::time::timeout(PATIENCE, self.client.request_text(request)).await.map_err(silent)?;
        answer.map_err(|error| match error {
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => Refused::Code(status.code),
            kube::Error::Api(status) => Refused::Other(self.told(verb, key, Refusal::of(&status))),
            error => Refused::Other(self.failed(verb, key, error)),
        })
    }

    fn refused(&self, verb: &'static str, key: &ObjectKey, refused: Refused) -> LookupError {
        match refused {
            Refused::Other(error) => error,
            Refused::Code(code) => self.failed(verb, key, format!("the API server answered {code}")),
        }
    }

    fn parse(&self, verb: &'static str, key: &ObjectKey, text: &str) -> Result<Arc<Object>, LookupError> {
        Object::parse(text.as_bytes()).map(Arc::new).map_err(|error| self.failed(verb, key, error))
    }

    fn failed(&self, verb: &'static str, key: &ObjectKey, source: impl Into<BoxError>) -> LookupError {
        LookupError::Failed { verb, resource: self.kind.resource(), key: key.clone(), source: source.into() }
    }

    fn told(&self, verb: &'static str, key: &ObjectKey, refusal: Refusal) -> LookupError {
        let rule = self.kind.rule(None, &[verb]);
        let advice = refusal.advice(&Needs { rule: &rule, only: None, namespace: key.namespace() });
        let text = format!("cannot {verb} {} `{key}`: {refusal}{advice}", self.kind.resource());
        LookupError::Refused { text, source: refusal }
    }
}

/// Why there is no answer to a request.
enum Refused {
    Code(u16),
    Other(LookupError),
}

#[derive(serde::Deserialize)]
struct List {
    /// The API server writes an empty list of metadata as `null`.
    items: Option<Vec<serde::de::IgnoredAny>>,
}
