use k8s_openapi::api::core::v1::PodSpec;

#[derive(kooper::Partial)]
#[partial(of = PodSpec)]
pub struct Placed {
    #[partial(rename = "")]
    pub node_name: Option<String>,
}

fn main() {}
