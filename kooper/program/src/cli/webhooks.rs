//! The webhooks of a program, in the commands that run it.

use std::net::Ipv6Addr;
#[cfg(feature = "apiserver")]
use std::net::{Ipv4Addr, SocketAddr};

use kooper_access::Controller;
use kooper_runtime::BoxError;
use kooper_runtime::internal::error::chain;
use kooper_webhooks::{PORT, Running, Webhooks};
use kube::Client;
use tokio::runtime::Runtime;

use super::invocation::Invocation;

/// The server of a program's webhooks, if it has some.
#[derive(Default)]
pub(super) struct Served(Option<(Running, End)>);

/// What the end of the program means for its webhooks.
#[derive(Clone, Copy)]
enum End {
    /// Nobody calls them any more.
    AtOnce,
    /// Another replica takes over, which the API servers have to learn.
    Lingering,
    /// They were registered for this process.
    Removed,
}

/// Returns whether the program has webhooks.
pub(super) fn has_any(invocation: &Invocation<'_>) -> Result<bool, BoxError> {
    Ok(!invocation.app.program().take_webhooks()?.is_empty())
}

impl Served {
    /// Serves on loopback, where the API server of `dev` is, too. The controllers register them.
    #[cfg(feature = "apiserver")]
    pub(super) fn on_loopback(
        invocation: &Invocation<'_>,
        namespace: &str,
    ) -> Result<(Self, Vec<Controller>), BoxError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::serve(invocation, namespace, End::AtOnce, |webhooks| webhooks.listen(address).local())
    }

    /// Serves for a cluster: behind the Service of its manifests, or at the address of `--webhook-url`.
    pub(super) fn for_cluster(
        invocation: &Invocation<'_>,
        namespace: &str,
        in_pod: bool,
    ) -> Result<(Self, Vec<Controller>), BoxError> {
        let settings = &invocation.settings;
        let Some(url) = &settings.webhook_url else {
            if !in_pod {
                if has_any(invocation)? {
                    tracing::warn!(
                        "the webhooks are not served, because no Service leads to this machine: write \
                         `--webhook-url https://HOST:PORT` with an address that the API server can reach"
                    );
                }
                return Ok((Self::default(), Vec::new()));
            }
            let name = invocation.installation().to_string();
            return Self::serve(invocation, namespace, End::Lingering, |webhooks| {
                webhooks.service(format!("{name}-webhooks"), 443).deployment(name)
            });
        };
        if settings.namespaces.is_empty() {
            return Err("`--webhook-url` needs `--namespace NAME`: the webhooks on this machine are \
                        called in these namespaces only"
                .into());
        }
        let uri: Option<http::Uri> = url.parse().ok();
        let port = uri.and_then(|uri| uri.port_u16()).unwrap_or(PORT);
        Self::serve(invocation, namespace, End::Removed, |webhooks| {
            webhooks.development(url).listen((Ipv6Addr::UNSPECIFIED, port).into())
        })
    }

    fn serve(
        invocation: &Invocation<'_>,
        namespace: &str,
        end: End,
        place: impl FnOnce(Webhooks) -> Webhooks,
    ) -> Result<(Self, Vec<Controller>), BoxError> {
        let all = invocation.app.program().take_webhooks()?;
        if all.is_empty() {
            return Ok((Self::default(), Vec::new()));
        }
        let settings = &invocation.settings;
        let mut webhooks = Webhooks::new(invocation.app.name, namespace)
            .namespaces(settings.namespaces.clone())
            .metrics(&invocation.app.registry);
        if let Some(instance) = &settings.instance {
            webhooks = webhooks.instance(instance);
        }
        let webhooks = all.into_iter().fold(webhooks, Webhooks::webhook);
        let (running, controllers) = place(webhooks).serve()?;
        Ok((Self(Some((running, end))), controllers))
    }

    /// Reads the certificate by this client.
    pub(super) fn connect(&mut self, runtime: &Runtime, client: &Client) {
        if let Some((running, _)) = &mut self.0 {
            let _context = runtime.enter();
            running.connect(client);
        }
    }

    /// Ends the server, when the operator has ended.
    pub(super) fn end(self, runtime: &Runtime, client: Option<&Client>) {
        let Some((running, end)) = self.0 else { return };
        runtime.block_on(async {
            match (end, client) {
                (End::Lingering, _) => running.shutdown().await,
                (End::Removed, Some(client)) => {
                    if let Err(error) = running.remove(client).await {
                        tracing::warn!("the configurations of the webhooks cannot be deleted, and stay registered with `Ignore`: {}", chain(&error));
                    }
                }
                _ => drop(running),
            }
        });
    }
}
