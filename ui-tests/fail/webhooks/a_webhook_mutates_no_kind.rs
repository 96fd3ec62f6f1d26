#[kooper::mutate(resource = String)]
async fn fill(object: String) -> String {
    object
}

fn main() {}
