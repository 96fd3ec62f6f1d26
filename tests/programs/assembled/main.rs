//! A program that is assembled when it starts: its controllers are described by a loop,
//! and its logs and metrics are its own.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;
use kooper::prometheus::{IntCounter, IntGauge, Registry};
use kooper::{App, Health};
use tokio::runtime::Builder;

#[derive(clap::Args)]
struct Greeting {
    /// How all are greeted
    #[arg(long, default_value = "hello")]
    greeting: String,
}

/// Its settings are those that the program names.
#[kooper::controller(resource = Secret, main = false)]
async fn secrets(secret: Arc<Secret>, settings: Settings<Greeting>) {
    tracing::info!("{}, {}", settings.greeting, secret.name_any());
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_ansi(false).with_file(true).with_writer(std::io::stderr).init();
    let (registry, greeted) = (Registry::new(), IntCounter::new("assembled_greeted_total", "Greeted objects"));
    let greeted = greeted.expect("its name is valid");
    registry.register(Box::new(greeted.clone())).expect("it is the only one");
    // Such as that of a process collector of its own.
    let files = IntGauge::new("process_open_fds", "Open files").expect("its name is valid");
    files.set(-7);
    registry.register(Box::new(files)).expect("it is the only one");
    let colors = std::env::var("COLORS").unwrap_or_else(|_| "red,blue".to_owned());
    let health = Health::default();
    health.add_readyz_check("paint", || Err("there is none".to_owned()));
    let mut app = App::new("assembled", "1.2.3")
        .about("Greets objects of all colors.\n\nEach color has a controller.")
        .settings::<Greeting>()
        .registry(registry)
        .health(health)
        .with_own_subscriber()
        .define::<secrets>();
    for color in colors.split(',').map(ToOwned::to_owned) {
        let greeted = greeted.clone();
        app = app.controller(move || {
            let (color, greeted) = (color.clone(), greeted.clone());
            let labels = format!("color={color}");
            ConfigMap::controller(&color).labels(&labels).handler(
                move |map: Arc<ConfigMap>, settings: Settings<Greeting>| {
                    greeted.inc();
                    tracing::info!("{}, {} {}", settings.greeting, color, map.name_any());
                    async {}
                },
            )
        });
    }
    let is_threadless = std::env::var_os("THREADLESS").is_some();
    app.route("/colors", async |_| http::Response::new("red and blue\n"))
        .route("/broken", async |_| -> http::Response<&str> { panic!("out of paint") })
        .runtime(move || {
            let mut builder = if is_threadless { Builder::new_current_thread() } else { Builder::new_multi_thread() };
            builder.worker_threads(1).enable_all().build()
        })
        .run()
}
