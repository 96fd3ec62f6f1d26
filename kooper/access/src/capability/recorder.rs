//! Recording Kubernetes Events on the object of a call.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kooper_runtime::internal::call::events::EventRecorder;
use kooper_runtime::{Call, Gone, Note};
use kube::Resource;

use crate::extract::{Argument, Context, Removed};
use crate::plan::Plan;

/// Records Kubernetes Events on the object that the handler is called for: an
/// argument of handlers.
///
/// Recording never blocks and never fails. Equal Events within six minutes are
/// one Event with a count. An object can have 25 Events at once, and then one every
/// five minutes. Further ones are dropped and counted in
/// `kooper_events_dropped_total`. A task that outlives the call records nothing once another
/// replica may work on the shard of the object.
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kooper::prelude::*;
///
/// async fn sync(config: Arc<ConfigMap>, recorder: Recorder) -> Result<()> {
///     recorder.normal("Synced", format!("{} values are in place", config.data.iter().flatten().count()));
///     Ok(())
/// }
/// # let _ = ConfigMap::controller("sync").handler(sync).build().unwrap();
/// ```
#[doc(alias = "EventRecorder")]
#[derive(Debug, Clone)]
pub struct Recorder {
    call: Call,
    sink: Arc<dyn EventRecorder>,
    regarding: ObjectReference,
    related: Option<ObjectReference>,
    action: String,
}

impl Recorder {
    fn about<P, S>(context: &Context<P, S>, regarding: ObjectReference) -> Self {
        let (call, sink) = (context.call.clone(), context.controller.events.clone());
        Self { call, sink, regarding, related: None, action: "Reconcile".to_owned() }
    }

    /// Records a Normal Event. `reason` is one CamelCase word for programs, such
    /// as `Synced`. `message` is for people; it is cut off after 1024 bytes.
    pub fn normal(&self, reason: impl Into<String>, message: impl Into<String>) {
        self.record(false, reason.into(), message.into());
    }

    /// Records a Warning Event, with the arguments of [`normal`](Self::normal).
    pub fn warning(&self, reason: impl Into<String>, message: impl Into<String>) {
        self.record(true, reason.into(), message.into());
    }

    /// A recorder of Events that also name another object, such as a child that
    /// was created.
    #[must_use]
    pub fn related<T: Resource<DynamicType = ()>>(&self, object: &T) -> Self {
        Self { related: Some(object.object_ref(&())), ..self.clone() }
    }

    /// A recorder of Events with this action: one CamelCase word, such as
    /// `Scale`. The default is `Reconcile`.
    #[must_use]
    pub fn action(&self, action: impl Into<String>) -> Self {
        Self { action: action.into(), ..self.clone() }
    }

    fn record(&self, warning: bool, reason: String, message: String) {
        if self.call.has_lost_shard() {
            let (controller, object) = (self.call.controller(), self.call.key());
            tracing::debug!(controller, %object, reason, "no Event is recorded: another replica works on the shard of the object");
            return;
        }
        let mut note = Note::warning(self.regarding.clone(), reason, self.action.clone(), message);
        (note.related, note.warning) = (self.related.clone(), warning);
        self.sink.publish(note);
    }
}

#[diagnostic::do_not_recommend]
impl<O: Resource<DynamicType = ()>, S> Argument<O, S> for Recorder {
    fn plan(plan: &mut Plan) {
        plan.record_events("Recorder");
    }

    fn extract(context: &Context<O, S>) -> Self {
        Self::about(context, context.object.object_ref(&()))
    }
}

#[diagnostic::do_not_recommend]
impl<O: Resource<DynamicType = ()>, S> Argument<Removed<O>, S, Gone> for Recorder {
    fn plan(plan: &mut Plan) {
        plan.record_events("Recorder");
    }

    fn extract(context: &Context<Removed<O>, S>) -> Self {
        Self::about(context, context.object.object.object_ref(&()))
    }
}
