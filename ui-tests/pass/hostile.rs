//! A module in which every name that generated code might use unqualified has another
//! meaning.

#![allow(dead_code, non_camel_case_types, unused_macros)]

mod std {}
mod core {}
mod alloc {}
mod kooper {}
mod v1 {}

struct Option;
struct Some;
struct None;
struct Result;
struct Ok;
struct Err;
struct Vec;
struct String;
struct Box;
struct Arc;
struct Duration;
struct Program;
struct Builder;
struct Send;
struct Sync;
struct Fn;
struct u32;
struct usize;
struct bool;
struct str;

trait Definition {}
trait Kind {}
trait Into {}
trait Builders: Sized {
    fn workers(self) {}
    fn arguments(self) {}
    fn argument(self) {}
    fn call(self) {}
    fn outcome(self) {}
    fn owns(self) {}
    fn reads(self) {}
    fn cleanup(self) {}
    fn source_from(self) {}
    fn leader_election(self) {}
    fn lease(self) {}
    fn maybe_crd(self) {}
    fn known(self) {}
    fn slot(self) {}
    fn with(self) {}
    fn child(self) {}
    fn after(self) {}
    fn once(self) {}
}

impl<T> Builders for T {}

macro_rules! refused {
    ($($name:ident)*) => {
        $(
            macro_rules! $name {
                () => { compile_error!("a macro of the user's") };
            }
        )*
    };
}

refused! { vec format assert env module_path option_env concat stringify }

#[::kooper::controller(
    resource = ::k8s_openapi::api::core::v1::Pod, workers = 4, resync = "1s", retries = 3, backoff = ("1s", "2s"),
    namespaces = ["a", "b"], changed = [any], init = connect, timeout = off, rbac("pods: get"), main = false,
    owns = [::k8s_openapi::api::core::v1::Service], watches = [::k8s_openapi::api::core::v1::Secret => users_of],
    reads = [(::k8s_openapi::api::core::v1::Node, labels = "a=b")], sources = [nothing], cleanup = end, finalizer = "example.com/end", previous_names = ["old"], previous_finalizers = ["example.com/old"], previous_program = "older", deleted = end,
    children = [settings, password(settings, once, after = settings)], previous_children = [::k8s_openapi::api::core::v1::ServiceAccount], deletion = ordered, status = none,
    leader_election(lease = "program", lease_duration = "30s", renew_deadline = "20s", retry_period = "2s"),
)]
async fn program(
    pod: ::std::sync::Arc<::k8s_openapi::api::core::v1::Pod>,
    state: ::kooper::State<()>,
    nodes: ::kooper::capability::Reader<::k8s_openapi::api::core::v1::Node>,
) -> ::std::result::Result<(), ::std::boxed::Box<dyn ::std::error::Error + ::std::marker::Send + ::std::marker::Sync>> {
    let _ = (pod, state, nodes);
    ::std::result::Result::Ok(())
}

#[::kooper::controller(
    resource = ::k8s_openapi::api::core::v1::Pod, main = false,
    shards(count = 32, by = namespace, members = 4, lease_duration = "30s", renew_deadline = "20s", retry_period = "2s"),
)]
async fn shared(pod: ::std::sync::Arc<::k8s_openapi::api::core::v1::Pod>) {
    let _ = pod;
}

async fn connect() -> ::std::result::Result<(), ::kooper::BoxError> {
    ::std::result::Result::Ok(())
}

fn users_of(_: &::k8s_openapi::api::core::v1::Secret) -> [::kooper::ObjectKey; 0] {
    []
}

fn nothing() -> ::futures_util::stream::Pending<::kooper::ObjectKey> {
    ::futures_util::stream::pending()
}

async fn end(_: ::kooper::Call) {}

fn settings(_: &::k8s_openapi::api::core::v1::Pod) -> ::k8s_openapi::api::core::v1::ConfigMap {
    ::std::default::Default::default()
}

fn password(
    _: &::k8s_openapi::api::core::v1::Pod,
    _: &::k8s_openapi::api::core::v1::ConfigMap,
) -> ::k8s_openapi::api::core::v1::Secret {
    ::std::default::Default::default()
}

#[derive(::kooper::Partial)]
#[partial(of = ::k8s_openapi::api::core::v1::Pod)]
struct Part {
    metadata: ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    spec: ::std::option::Option<PartOfSpec>,
}

#[derive(::kooper::Partial)]
#[partial(of = ::k8s_openapi::api::core::v1::PodSpec)]
struct PartOfSpec {
    node_name: ::std::option::Option<::std::string::String>,
}

// A part of an object may have metadata that is no object's.
#[derive(::kooper::Partial)]
#[partial(of = ::k8s_openapi::api::core::v1::PodTemplateSpec)]
struct PartOfTemplate {
    metadata: ::std::option::Option<::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>,
}

#[test]
fn it_is_defined() {
    let names = crate::names::<program>();
    ::std::assert_eq!(names, ["program"]);
}
