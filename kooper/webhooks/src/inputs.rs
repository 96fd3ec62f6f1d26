//! The inputs of a function from its process: caches, the state, the settings, the client.
//!
//! They are those of a controller without objects of the API server. It is called once, when its
//! caches are synced and its state is built, and keeps the context of this call: the webhook is not
//! ready before.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper_access::Controller;
use kooper_access::controller::Builder;
use kooper_access::extract::Context;
use kooper_access::handler::Handler;
use kooper_access::plan::Plan;
use kooper_access::retriever::fixed;
use kooper_grammar::name::kebab;
use kooper_runtime::{Action, BoxError};
use kube::api::ObjectMeta;

use crate::argument::Process;

/// Filled by the only call of the controller.
pub(crate) type Inputs<S> = Arc<OnceLock<Arc<Process<S>>>>;

struct StoreInputs<S>(Inputs<S>);

#[diagnostic::do_not_recommend]
impl<S: Send + Sync + 'static> Handler<ConfigMap, S, StoreInputs<()>> for StoreInputs<S> {
    fn plan(_: &mut Plan) {}

    fn handle(&self, context: Context<ConfigMap, S>) -> BoxFuture<'static, Result<Action, BoxError>> {
        // There is one call.
        drop(self.0.set(Arc::new(context)));
        Box::pin(std::future::ready(Ok(Action::done())))
    }
}

/// The controller of a webhook of this name.
pub(crate) fn builder(webhook: &str) -> Builder<ConfigMap> {
    Controller::builder(format!("webhook-{}", kebab(webhook))).events(false).resync(None).workers(1)
}

/// The controller, and what its call fills.
pub(crate) fn build<S: Send + Sync + 'static>(
    builder: Builder<ConfigMap, ConfigMap, S>,
    webhook: &str,
) -> Result<(Controller, Inputs<S>), BoxError> {
    let inputs = Inputs::default();
    let metadata = ObjectMeta { name: Some(webhook.to_owned()), ..ObjectMeta::default() };
    let retriever = fixed([ConfigMap { metadata, ..ConfigMap::default() }])?;
    let controller = builder.retriever(retriever).handler(StoreInputs(Arc::clone(&inputs))).build()?;
    Ok((controller, inputs))
}
