use k8s_openapi::api::core::v1::PodSpec;

#[derive(kooper::Partial)]
#[partial(of = PodSpec)]
pub struct Placed {
    pub node_name: Option<String>,
    #[partial(rename = "nodeName")]
    pub hostname: Option<String>,
}

fn main() {}
