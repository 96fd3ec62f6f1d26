use kooper::prelude::*;

#[kooper::controller(resource = String)]
async fn echo(call: Call) {
    let _ = call;
}
