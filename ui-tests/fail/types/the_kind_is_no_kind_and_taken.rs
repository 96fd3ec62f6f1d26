use kooper::prelude::*;

#[kooper::controller(resource = String)]
async fn echo(text: Arc<String>) {
    let _ = text;
}
