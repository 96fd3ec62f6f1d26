//! Ours for admission: one function that validates widgets and one that fills in a field, without controllers.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use kooper::webhooks::{Denied, Webhook, Webhooks};
use kooper_bench::{Backup, Widget};

#[derive(Parser)]
struct Arguments {
    /// The folder with tls.crt and tls.key.
    #[arg(long)]
    certificates: PathBuf,
    /// The port on loopback.
    #[arg(long)]
    port: u16,
}

/// Says what is wrong with a widget.
async fn check(new: Arc<Widget>) -> Result<(), Denied> {
    let mut denied = Denied::default();
    if !(1..=100).contains(&new.spec.replicas) {
        denied = denied.field("spec.replicas", "must be 1 to 100");
    }
    if new.spec.listeners.iter().any(|listener| !(1..=65535).contains(&listener.port)) {
        denied = denied.field("spec.listeners", "is no port");
    }
    denied.into_result()
}

/// Saves each widget once a day.
async fn fill(mut widget: Widget) -> Widget {
    let backup = || Backup { schedule: "0 3 * * *".to_owned(), bucket: "default".to_owned(), retention_days: 7 };
    widget.spec.backup.get_or_insert_with(backup);
    widget
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { certificates, port } = Arguments::parse();
    let (certificate, key) = (certificates.join("tls.crt"), certificates.join("tls.key"));
    // Nobody registers them.
    let (_serving, _) = Webhooks::new("bench", "default")
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .files(&certificate, key, &certificate)
        .webhook(Webhook::validate::<Widget>("check").function(check).build()?)
        .webhook(Webhook::mutate::<Widget>("fill").function(fill).build()?)
        .serve()?;
    Ok(tokio::signal::ctrl_c().await?)
}
