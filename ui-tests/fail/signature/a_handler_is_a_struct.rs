#[kooper::controller(resource = k8s_openapi::api::core::v1::Pod)]
struct Echo;
