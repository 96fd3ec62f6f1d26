//! The parts of a controller whose types are erased.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use kube::Client;
use kube::core::metadata::PartialObjectMeta;
use serde::de::DeserializeOwned;

use super::{Builder, Common, MakeRetriever, MakeService, MakeState, Relation, Wrap};
use crate::call::extract::Removed;
use crate::call::handler::{self, DeletedFunction, Filter, Typed};
use crate::controller::Controller;
use crate::controller::error::{ConfigError, ConfigErrorKind};
use crate::controller::states::InitContext;
use crate::error::BoxError;
use crate::object::kind::{Kind, KindInfo, is_metadata};
use crate::watch::cache_id::CacheRequest;
use crate::watch::retriever::{self, ApiRetriever, Scope};

/// The functions of a controller, with their state.
#[derive(Clone)]
pub(crate) struct Handlers {
    pub(crate) handler: Arc<dyn handler::DynHandler>,
    pub(crate) cleanup: Option<Arc<dyn handler::DynHandler>>,
    pub(crate) deleted: Option<DeletedFunction>,
}

/// The parts of a running controller, independent of its types.
pub(crate) trait DynController: Send + Sync {
    /// The retriever of each scope, or only the custom one.
    fn retrievers(
        &self,
        client: Option<Client>,
        scopes: &[Scope],
    ) -> Result<Vec<Arc<dyn retriever::ErasedRetriever>>, BoxError>;

    /// The filter before the queue.
    fn wants(&self) -> handler::Wants;

    /// Returns `true` if the user has set a filter.
    fn has_filter(&self) -> bool;

    /// Returns `true` if the controller has a function for removed objects.
    fn has_deleted(&self) -> bool;

    /// Builds the state, and the functions with it.
    fn handlers(&self, context: InitContext) -> BoxFuture<'_, Result<Handlers, BoxError>>;
}

struct TypedParts<K, O, S> {
    state: MakeState<S>,
    handler: MakeService<O, S>,
    cleanup: Option<MakeService<O, S>>,
    deleted: Option<MakeService<Removed<O>, S>>,
    retriever: Option<MakeRetriever>,
    layers: Vec<Wrap<O>>,
    when: Option<Filter<O>>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Builds the controller.
    ///
    /// # Errors
    /// When the name or the handler is missing, or a setting is invalid. Name,
    /// handler and retriever are checked in this order.
    pub fn build(self) -> Result<Controller, ConfigError> {
        let Self { common, state, handler, cleanup, deleted, layers, when, kind: _ } = self;
        let Common { mut config, mut plan, mistake, retriever, mut relations, sources, crd, samples } = common;
        config.metadata_only |= is_metadata::<K>();
        config.check()?;
        let handler = handler.ok_or_else(|| {
            config.error("handler", ConfigErrorKind::Missing, "it is missing: set one with `.handler(…)`")
        })?;
        if let Some(mistake) = mistake {
            return Err(mistake);
        }
        let own_retriever = retriever.is_some();
        config.plan::<K>(&mut plan, own_retriever, deleted.is_some());
        if let Some((setting, mistake)) = plan.mistake() {
            return Err(config.error(setting, ConfigErrorKind::Malformed, mistake));
        }
        if own_retriever && (!config.namespaces.is_empty() || config.selected()) {
            let problem = "a custom retriever selects its objects itself: remove `namespaces`, `labels` and `fields`";
            return Err(config.error("retriever", ConfigErrorKind::Conflict, problem));
        }
        if own_retriever && (config.finalizer.is_some() || config.install_crd) {
            let problem = "a custom retriever is not the API server: remove `cleanup` and `install_crd`";
            return Err(config.error("retriever", ConfigErrorKind::Conflict, problem));
        }
        let owned = plan.owned().iter();
        relations.extend(owned.map(|owned| Relation { cache: owned.id, kind: owned.kind.clone(), map: None }));
        Ok(Controller {
            kind: KindInfo::of::<K>(),
            primary: if config.metadata_only && !is_metadata::<K>() {
                CacheRequest::of::<PartialObjectMeta<K>>()
            } else {
                CacheRequest::of::<K>()
            },
            unselected: (config.finalizer.is_some() && config.selected())
                .then(CacheRequest::of::<PartialObjectMeta<K>>),
            config,
            plan,
            own_retriever,
            relations: relations.into(),
            sources: sources.into(),
            crd,
            samples,
            prerequisite: None,
            parts: Arc::new(TypedParts {
                state,
                handler,
                cleanup,
                deleted,
                retriever,
                layers,
                when,
                kind: PhantomData::<fn() -> K>,
            }),
        })
    }
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> DynController
    for TypedParts<K, O, S>
{
    fn retrievers(
        &self,
        client: Option<Client>,
        scopes: &[Scope],
    ) -> Result<Vec<Arc<dyn retriever::ErasedRetriever>>, BoxError> {
        if let Some(make) = &self.retriever {
            return Ok(vec![make(client)?]);
        }
        let client = client.ok_or("the operator has no client")?;
        let open = |scope: &Scope| retriever::erase::<K, _>(ApiRetriever::<K>::new(client.clone(), scope.clone()));
        Ok(scopes.iter().map(open).collect())
    }

    fn wants(&self) -> handler::Wants {
        handler::wants(self.when.clone())
    }

    fn has_filter(&self) -> bool {
        self.when.is_some()
    }

    fn has_deleted(&self) -> bool {
        self.deleted.is_some()
    }

    fn handlers(&self, context: InitContext) -> BoxFuture<'_, Result<Handlers, BoxError>> {
        Box::pin(async move {
            let controller = context.controller.clone();
            let state = (self.state)(context).await?;
            let wrapped = |make: &MakeService<O, S>| -> Arc<dyn handler::DynHandler> {
                let inner = make(state.clone(), controller.clone());
                Arc::new(Typed(self.layers.iter().rev().fold(inner, |service, layer| layer.wrap(service))))
            };
            Ok(Handlers {
                handler: wrapped(&self.handler),
                cleanup: self.cleanup.as_ref().map(wrapped),
                deleted: self
                    .deleted
                    .as_ref()
                    .map(|make| handler::deleted_function(make(state.clone(), controller.clone()))),
            })
        })
    }
}
