//! Every argument, alone, together and in any order.

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

use crate::names;

#[kooper::controller(resource = Pod, main = false)]
async fn nothing() {}

#[kooper::controller(resource = Pod, main = false)]
async fn object(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, main = false)]
async fn call(_: Call) {}

#[kooper::controller(resource = Pod, main = false)]
async fn client(_: Client) {}

#[kooper::controller(resource = Pod, main = false)]
async fn clock(_: Clock) {}

#[kooper::controller(resource = Pod, init = connect, main = false)]
async fn state(_: State<Vec<u32>>) {}

async fn connect(_: Client) -> Result<Vec<u32>, std::io::Error> {
    Ok(Vec::new())
}

#[kooper::controller(resource = Pod, init = connect, main = false)]
async fn state_taken_out(numbers: State<Vec<u32>>) {
    let _: Arc<Vec<u32>> = State::into_inner(numbers);
}

#[kooper::controller(resource = Pod, init = connect, main = false)]
async fn all_of_them(client: Client, state: State<Vec<u32>>, pod: Arc<Pod>, call: Call, again: Arc<Pod>) {
    let _ = (client, state.len(), pod, call, again);
}

#[kooper::controller(resource = Pod, metadata_only, when = has_labels, init = connect, main = false)]
async fn metadata(mut pod: Arc<PartialObjectMeta<Pod>>, _: State<Vec<u32>>) {
    let _ = Arc::make_mut(&mut pod);
}

fn has_labels(pod: &PartialObjectMeta<Pod>) -> bool {
    !pod.labels().is_empty()
}

type Object = Arc<Pod>;

#[kooper::controller(resource = Pod, main = false)]
async fn an_alias(_: Object) {}

#[test]
fn each_is_defined() {
    assert_eq!(names::<nothing>(), ["nothing"]);
    assert_eq!(names::<object>(), ["object"]);
    assert_eq!(names::<call>(), ["call"]);
    assert_eq!(names::<client>(), ["client"]);
    assert_eq!(names::<clock>(), ["clock"]);
    assert_eq!(names::<state>(), ["state"]);
    assert_eq!(names::<state_taken_out>(), ["state-taken-out"]);
    assert_eq!(names::<all_of_them>(), ["all-of-them"]);
    assert_eq!(names::<metadata>(), ["metadata"]);
    assert_eq!(names::<an_alias>(), ["an-alias"]);
}

#[test]
fn the_builder_takes_sixteen_arguments() {
    type C = Call;

    #[rustfmt::skip]
    #[expect(clippy::too_many_arguments, reason = "as many as there can be")]
    async fn many(_: Arc<Pod>, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C) {}

    let controller = kooper::Controller::builder::<Pod>("many").handler(many).cleanup("a.b/c", many).build();
    assert_eq!(controller.expect("a controller").name(), "many");
}

#[test]
fn the_function_can_be_called_by_its_name() {
    let future = object(Arc::new(Pod::default()));
    drop(future);
}
