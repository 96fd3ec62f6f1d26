#[derive(kooper::Partial)]
#[partial(of = "PodSpec")]
pub struct Placed {
    pub node_name: Option<String>,
}

fn main() {}
