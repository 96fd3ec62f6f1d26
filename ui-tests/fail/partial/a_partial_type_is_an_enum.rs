#[derive(kooper::Partial)]
#[partial(of = k8s_openapi::api::core::v1::PodSpec)]
pub enum Placed {
    Node(String),
}

fn main() {}
