use k8s_openapi::api::core::v1::Pod;

#[kooper::controller(resource = Pod, children = [config], status = none)]
async fn echo() {}

fn config(_: &Pod) -> String {
    String::new()
}
