//! Controllers in modules, with every visibility, and those that a macro generates.

use k8s_openapi::api::core::v1::{Pod, Service};
use kooper::prelude::*;

use crate::names;

/// Public handlers with documentation, attributes and raw names.
pub(crate) mod inner {
    use super::{Arc, Pod};

    /// Documented.
    #[kooper::controller(resource = Pod, main = false)]
    pub(crate) async fn shown(_: Arc<Pod>) {}

    #[kooper::controller(resource = Pod, main = false)]
    #[allow(clippy::unused_async)]
    pub(super) async fn r#type(_: Arc<Pod>) {}
}

macro_rules! of_a_macro {
    ($kind:ty, $name:ident, $workers:literal, $when:path) => {
        #[kooper::controller(resource = $kind, workers = $workers, when = $when, resync = off, main = false)]
        async fn $name(object: Arc<$kind>, call: Call) -> Result<()> {
            let _ = (object, call);
            Ok(())
        }
    };
}

fn any(_: &Pod) -> bool {
    true
}

of_a_macro!(Pod, made, 2, any);

macro_rules! of_a_macro_for_production {
    ($kind:ty, $child:ty, $map:path, $end:path, $name:ident) => {
        #[kooper::controller(
                            resource($kind, optional), owns = [$child], watches = [$child => $map], cleanup = $end,
                            finalizer = "example.com/made", deleted = $end, leader_election, main = false
                        )]
        async fn $name(_: Arc<$kind>) {}
    };
}

const WORKERS: usize = 2;

macro_rules! of_a_macro_with_values {
    ($kind:ty, $name:ident, $workers:path, $when:expr) => {
        #[kooper::controller(resource = $kind, workers = $workers, when = $when, main = false)]
        async fn $name(_: Arc<$kind>) {}
    };
}

of_a_macro_with_values!(Pod, valued, WORKERS, |pod| pod.status.is_some());

fn nothing(_: &Service) -> Option<ObjectKey> {
    None
}

async fn end(_: Arc<Pod>, _: Call) {}

of_a_macro_for_production!(Pod, Service, nothing, end, produced);

mod in_main {
    use super::{inner, made};

    // The name of the function that `main!` generates, which runs nothing here.
    kooper::main!(inner::shown, made);

    #[test]
    fn it_is_there() {
        let _: fn() -> std::process::ExitCode = main;
    }
}

/// A condition removes the generated items, too, at every place.
mod conditional {
    use super::{Arc, Pod};

    #[kooper::controller(resource = Pod, main = false)]
    #[cfg(not(test))]
    async fn either(_: Missing) {}

    #[kooper::controller(resource = Pod, main = false)]
    #[cfg(test)]
    pub(super) async fn either(_: Arc<Pod>) {}

    #[kooper::controller(resource = Pod)]
    #[cfg_attr(test, cfg(not(test)))]
    async fn with_a_main(_: Missing) {}

    #[kooper::controller(resource = Pod, workers = 0)]
    #[cfg(not(test))]
    async fn with_a_mistake(_: Missing) {}
}

#[test]
fn each_is_defined() {
    assert_eq!(names::<conditional::either>(), ["either"]);
    assert_eq!(names::<inner::shown>(), ["shown"]);
    assert_eq!(names::<inner::r#type>(), ["type"]);
    assert_eq!(names::<made>(), ["made"]);
    assert_eq!(names::<produced>(), ["produced"]);
    assert_eq!(names::<valued>(), ["valued"]);
}
