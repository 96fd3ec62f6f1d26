async fn echo() {}

kooper::main!(echo);
