use kooper::prelude::*;

#[kooper::controller(resource = Pop)]
async fn echo(call: Call) {
    let _ = call;
}
