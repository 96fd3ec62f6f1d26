#[derive(kooper::Partial)]
pub struct Placed {
    pub node_name: Option<String>,
}

fn main() {}
