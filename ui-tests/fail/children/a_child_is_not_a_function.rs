use k8s_openapi::api::core::v1::Pod;

#[kooper::controller(resource = Pod, children = [CONFIG], status = none)]
async fn echo() {}

const CONFIG: u8 = 0;
