//! The keys whose objects do not decode as the controller's type.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::call::attempt::{Attempt, Failure};
use crate::call::observer::{CallObserver, EndedCall, Outcome};
use crate::held::drop_aside;
use crate::metrics::health::Probe;
use crate::object::key::ObjectKey;

/// The keys of one controller whose object did not decode in the last call: any change
/// may correct it.
#[derive(Debug)]
pub(crate) struct Undecodable {
    controller: Arc<str>,
    keys: Mutex<BTreeSet<ObjectKey>>,
}

impl Undecodable {
    pub(crate) fn new(controller: Arc<str>) -> Self {
        Self { controller, keys: Mutex::default() }
    }

    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.keys.lock().contains(key)
    }

    fn forget(&self, key: &ObjectKey) {
        self.keys.lock().remove(key);
    }
}

impl CallObserver for Undecodable {
    fn ended(&self, call: &EndedCall<'_>) {
        match call.outcome {
            Outcome::Conflict(_) => {}
            Outcome::Failure(Failure::Decode(_), _) => {
                self.keys.lock().insert(call.attempt.key.clone());
            }
            Outcome::Success(_) | Outcome::Deleted(_) | Outcome::Failure(..) => self.forget(&call.attempt.key),
        }
    }

    fn recovered(&self, attempt: &Attempt, _: usize) {
        self.forget(&attempt.key);
    }

    fn gone(&self, key: &ObjectKey, _: Option<Duration>) {
        self.forget(key);
    }

    fn ignored(&self, key: &ObjectKey) {
        self.forget(key);
    }

    fn term_ended(&self) {
        let before = std::mem::take(&mut *self.keys.lock());
        drop_aside(before);
    }
}

impl Probe for Undecodable {
    fn name(&self) -> String {
        format!("{}: objects", self.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let (name, keys) = (&self.controller, self.keys.lock());
        let Some(key) = keys.first() else { return Ok(None) };
        Ok(Some(match keys.len() {
            1 => format!("{name}: the object {key} does not decode as the controller's type and is not handled"),
            all => {
                format!(
                    "{name}: {all} objects, such as {key}, do not decode as the controller's type and are not handled"
                )
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::time::Instant;

    use super::*;
    use crate::call::attempt::Part;
    use crate::error::RetryHint;
    use crate::object::Object;
    use crate::queue::reason::Reason;
    use crate::queue::{Lane, QueueOptions, WorkQueue};

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("shop", name)
    }

    async fn attempt(name: &str) -> Attempt {
        let queue = WorkQueue::new(QueueOptions::default());
        queue.add(&key(name), Lane::Event, Reason::Added);
        let ticket = queue.get().await.unwrap().ticket;
        let (key, span) = (key(name), tracing::Span::none());
        Attempt {
            key,
            ticket,
            part: Part::Handler,
            uid: "u".into(),
            number: 1,
            started: Instant::now(),
            span,
            work: None,
        }
    }

    #[tokio::test]
    async fn objects_that_do_not_decode_are_reported_until_they_do() {
        let objects = Undecodable::new("shoes".into());
        let remark = || objects.ready().unwrap().unwrap_or_default();
        let attempts = [attempt("a").await, attempt("b").await];
        let end = |number: usize, outcome: Outcome<'_>| {
            objects.ended(&EndedCall { attempt: &attempts[number], outcome, took: Duration::ZERO });
        };
        let object = Object::parse(br#"{"metadata":{"name":"a"},"data":5}"#).unwrap();
        let unfit = Failure::Decode(object.decode::<ConfigMap>().unwrap_err());
        let unfit = Outcome::Failure(&unfit, RetryHint::Never);
        let shut = Failure::Handler("shut".into());
        let failed = Outcome::Failure(&shut, RetryHint::Backoff);
        end(0, failed);
        assert_eq!(remark(), "");
        end(0, unfit);
        end(0, unfit);
        assert!(remark().contains("the object shop/a"), "{}", remark());
        end(0, Outcome::Conflict(&shut));
        end(1, unfit);
        assert!(remark().contains("2 objects") && remark().contains("shop/a"), "{}", remark());
        assert!(objects.contains(&key("a")) && !objects.contains(&key("other")));
        objects.ignored(&key("a"));
        assert!(remark().contains("the object shop/b"), "{}", remark());
        // It decodes now, and fails for another reason.
        end(1, failed);
        assert_eq!(remark(), "");
        end(0, unfit);
        end(0, Outcome::Success(None));
        end(1, unfit);
        objects.gone(&key("b"), None);
        assert_eq!(remark(), "");
        end(0, unfit);
        objects.term_ended();
        assert_eq!(remark(), "");
    }
}
