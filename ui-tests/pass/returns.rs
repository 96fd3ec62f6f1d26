//! Every type that a handler may return.

use std::error::Error as StdError;
use std::fmt;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kooper::prelude::*;

use crate::names;

#[kooper::controller(resource = Pod, main = false)]
async fn nothing(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, main = false)]
async fn unit(_: Arc<Pod>) -> () {}

#[kooper::controller(resource = Pod, main = false)]
async fn action(_: Arc<Pod>) -> Action {
    Action::done()
}

#[kooper::controller(resource = Pod, main = false)]
async fn result(_: Arc<Pod>) -> Result {
    Ok(())
}

#[kooper::controller(resource = Pod, main = false)]
async fn result_of_an_action(_: Arc<Pod>) -> Result<Action> {
    Ok(Action::requeue_after(Duration::from_secs(1)))
}

#[kooper::controller(resource = Pod, main = false)]
async fn anyhows_result(_: Arc<Pod>) -> anyhow::Result<Action> {
    Ok(Action::done())
}

#[kooper::controller(resource = Pod, main = false)]
async fn an_error_of_ones_own(_: Arc<Pod>) -> std::result::Result<(), Oops> {
    Err(Oops)
}

#[kooper::controller(resource = Pod, main = false)]
async fn status(_: Arc<Pod>) -> Status<PodStatus> {
    Status(PodStatus::default())
}

#[kooper::controller(resource = Pod, main = false)]
async fn result_of_a_status(_: Arc<Pod>) -> Result<Status<PodStatus>, Oops> {
    Err(Oops)
}

#[derive(Debug)]
struct Oops;

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("oops")
    }
}

impl StdError for Oops {}

#[kooper::controller(resource = Pod, main = false)]
async fn a_boxed_error(_: Arc<Pod>) -> Result<(), Box<dyn StdError + Send + Sync>> {
    Err("boxed".into())
}

#[kooper::controller(resource = Pod, main = false)]
async fn a_text(_: Arc<Pod>) -> Result<Action, String> {
    Err("only said".to_owned())
}

#[kooper::controller(resource = Pod, main = false)]
async fn koopers_error(_: Arc<Pod>) -> Result<(), HandlerError> {
    Err(HandlerError::permanent("no"))
}

#[kooper::controller(resource = Pod, main = false)]
fn a_future(_: Arc<Pod>) -> impl Future<Output = Result<Action>> + Send {
    std::future::ready(Ok(Action::done()))
}

#[kooper::controller(resource = Pod, cleanup = a_future, finalizer = "example.com/future", main = false)]
fn a_boxed_future(_: Arc<Pod>) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(std::future::ready(()))
}

#[test]
fn each_is_defined() {
    assert_eq!(names::<a_future>(), ["a-future"]);
    assert_eq!(names::<a_boxed_future>(), ["a-boxed-future"]);
    assert_eq!(names::<nothing>(), ["nothing"]);
    assert_eq!(names::<unit>(), ["unit"]);
    assert_eq!(names::<action>(), ["action"]);
    assert_eq!(names::<result>(), ["result"]);
    assert_eq!(names::<result_of_an_action>(), ["result-of-an-action"]);
    assert_eq!(names::<anyhows_result>(), ["anyhows-result"]);
    assert_eq!(names::<an_error_of_ones_own>(), ["an-error-of-ones-own"]);
    assert_eq!(names::<a_boxed_error>(), ["a-boxed-error"]);
    assert_eq!(names::<a_text>(), ["a-text"]);
    assert_eq!(names::<status>(), ["status"]);
    assert_eq!(names::<result_of_a_status>(), ["result-of-a-status"]);
    assert_eq!(names::<koopers_error>(), ["koopers-error"]);
}
