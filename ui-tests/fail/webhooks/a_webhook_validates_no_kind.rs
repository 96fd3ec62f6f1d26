use kooper::prelude::*;

#[kooper::validate(resource = String)]
async fn check(_: Arc<String>) {}

fn main() {}
