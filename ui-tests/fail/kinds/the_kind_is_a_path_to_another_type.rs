use kooper::prelude::*;

#[kooper::controller(resource = std::string::String)]
async fn echo(call: Call) {
    let _ = call;
}
