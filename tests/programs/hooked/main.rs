//! A program with webhooks alone, for the test of their least role: it is registered with the names that it has behind
//! the Service of its manifests, and served on loopback, where the API server of a test reaches it.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;
use kooper::webhooks::{Denied, Webhooks};
use kooper::{App, CancellationToken, Operator};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

#[kooper::validate(resource = ConfigMap, failure = fail)]
async fn check(new: Arc<ConfigMap>) -> Result<(), Denied> {
    if new.data.is_some() { Ok(()) } else { Err(Denied::default().field("data", "must be set")) }
}

#[kooper::mutate(resource = ConfigMap, failure = ignore)]
async fn fill(object: ConfigMap) -> ConfigMap {
    object
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().collect();
    if args.get(1).is_none_or(|command| command != "run") {
        let app = App::new("hooked", env!("CARGO_PKG_VERSION"));
        return app.define::<check>().define::<fill>().run();
    }
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let flag = |name: &str| {
        let at = args.iter().position(|arg| arg == name).expect(name);
        args[at + 1].clone()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(run(flag("--kubeconfig"), flag("--namespace"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(kubeconfig: String, namespace: String) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let webhooks = Webhooks::new("hooked", &namespace)
        .listen((Ipv4Addr::LOCALHOST, 0).into())
        .deployment("hooked")
        .owner(format!("{namespace}:hooked"))
        .webhook(check::webhook()?)
        .webhook(fill::webhook()?);
    let (running, controllers) = webhooks.start(&client)?;
    let mut operator = Operator::builder().program("hooked").client(client);
    for controller in controllers {
        operator = operator.controller(controller);
    }
    operator.build()?.run(CancellationToken::new()).await?;
    running.shutdown().await;
    Ok(())
}
