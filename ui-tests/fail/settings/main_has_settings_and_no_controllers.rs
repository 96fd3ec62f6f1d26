#[derive(clap::Args)]
struct Shop {}

kooper::main!(settings = Shop);
