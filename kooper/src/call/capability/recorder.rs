//! Telling Kubernetes Events about the object of a call.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;

use crate::call::events::{EventSink, Note};
use crate::call::extract::{Argument, Context, Gone, Removed};
use crate::call::plan::Plan;

/// Tells Kubernetes Events about the object that the handler is called for:
/// take it as an argument.
///
/// Telling never waits and never fails. Events that say the same within some
/// minutes become one with a count; one object may have 25 at once and then
/// one in five minutes; what is too many is dropped and counted in
/// `kooper_events_dropped_total`.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kooper::prelude::*;
///
/// async fn sync(config: Arc<ConfigMap>, recorder: Recorder) -> Result<()> {
///     recorder.normal("Synced", format!("{} values are in place", config.data.iter().flatten().count()));
///     Ok(())
/// }
/// # let _ = kooper::Controller::builder::<ConfigMap>("sync").handler(sync).build().unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Recorder {
    sink: EventSink,
    regarding: ObjectReference,
    related: Option<ObjectReference>,
    action: String,
}

impl Recorder {
    fn about(sink: &EventSink, regarding: ObjectReference) -> Self {
        Self { sink: sink.clone(), regarding, related: None, action: "Reconcile".to_owned() }
    }

    /// Tells that something went as it should. `reason` is one word of
    /// CamelCase that programs go by, such as `Synced`; `message` is for
    /// people, and cut after 1024 bytes.
    pub fn normal(&self, reason: impl Into<String>, message: impl Into<String>) {
        self.tell(false, reason.into(), message.into());
    }

    /// Tells that something needs attention; arguments as of
    /// [`normal`](Self::normal).
    pub fn warning(&self, reason: impl Into<String>, message: impl Into<String>) {
        self.tell(true, reason.into(), message.into());
    }

    /// The same recorder for what another object has to do with, such as the
    /// child that was created.
    pub fn related<T: Resource<DynamicType = ()>>(&self, object: &T) -> Self {
        Self { related: Some(object.object_ref(&())), ..self.clone() }
    }

    /// The same recorder for something that was done, in one word of
    /// CamelCase, such as `Scale`. Default: `Reconcile`.
    pub fn action(&self, action: impl Into<String>) -> Self {
        Self { action: action.into(), ..self.clone() }
    }

    fn tell(&self, warning: bool, reason: String, message: String) {
        self.sink.publish(Note {
            regarding: self.regarding.clone(),
            related: self.related.clone(),
            warning,
            reason,
            action: self.action.clone(),
            message,
        });
    }
}

#[diagnostic::do_not_recommend]
impl<O: Resource<DynamicType = ()>, S> Argument<O, S> for Recorder {
    fn plan(plan: &mut Plan) {
        plan.record_events("Recorder");
    }

    fn extract(context: &Context<O, S>) -> Self {
        Self::about(&context.backing.events, context.object.object_ref(&()))
    }
}

#[diagnostic::do_not_recommend]
impl<O: Resource<DynamicType = ()>, S> Argument<Removed<O>, S, Gone> for Recorder {
    fn plan(plan: &mut Plan) {
        plan.record_events("Recorder");
    }

    fn extract(context: &Context<Removed<O>, S>) -> Self {
        Self::about(&context.backing.events, context.object.object.object_ref(&()))
    }
}
