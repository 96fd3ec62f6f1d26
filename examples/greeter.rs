//! A controller with its own settings: flags, environment variables and a
//! secret that may come from a file. See `--help`.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig:
//! `GREETER_TOKEN=secret cargo run --bin greeter -- dev --greeting hi --label name`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl label pod hello name=world`. The log has `hi, hello` before and
//! `hi, world` after it. It has the settings once, with `SecretValue(…)` instead of the token.

use k8s_openapi::api::core::v1::Pod;
use kooper::SecretValue;
use kooper::prelude::*;

#[derive(Debug, clap::Args)]
struct GreeterSettings {
    /// How pods are greeted
    #[arg(long, env = "GREETER_GREETING", default_value = "hello")]
    greeting: String,

    /// Label that gives a pod another name
    #[arg(long, value_name = "LABEL", env = "GREETER_LABEL")]
    label: Option<String>,

    /// Token of the service that delivers greetings
    #[arg(long, env = "GREETER_TOKEN")]
    token: SecretValue,
}

/// Greets every pod.
#[kooper::controller(resource = Pod, init = connect, settings = GreeterSettings)]
async fn greeter(pod: Arc<Pod>, settings: Settings<GreeterSettings>, post: State<Post>) {
    let named = settings.label.as_ref().and_then(|label| pod.labels().get(label).cloned());
    let name = named.unwrap_or_else(|| pod.name_any());
    tracing::info!("{}, {name} (by {})", settings.greeting, post.sender);
}

/// The service that delivers greetings; here, it is made up.
struct Post {
    sender: String,
}

async fn connect(settings: Settings<GreeterSettings>) -> Result<Post> {
    // Neither this line nor any other shows the token.
    tracing::info!(?settings, "connected");
    Ok(Post { sender: format!("the client with a token of {} characters", settings.token.expose().chars().count()) })
}
