use k8s_openapi::api::core::v1::Pod;

#[kooper::controller(resource = Pod, children = [], previous_children = [String], status = none)]
async fn echo() {}
