use kooper::prelude::*;

#[kooper::controller()]
async fn tick(call: Call) {
    let _ = call;
}
