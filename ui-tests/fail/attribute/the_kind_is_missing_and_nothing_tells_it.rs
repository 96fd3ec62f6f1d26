use kooper::prelude::*;

#[kooper::controller()]
async fn tick() {}
