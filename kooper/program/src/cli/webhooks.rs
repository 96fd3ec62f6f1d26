//! The webhooks of a program, in the commands that run it.

use std::net::Ipv6Addr;
#[cfg(feature = "apiserver")]
use std::net::{Ipv4Addr, SocketAddr};

use kooper_access::Controller;
use kooper_runtime::internal::error::chain;
use kooper_runtime::internal::error::refusal::is_denied;
use kooper_runtime::{BoxError, Result};
use kooper_webhooks::{Finding, Installed, PORT, Running, ServeError, StartError, Webhook, Webhooks};
use kube::Client;
use tokio::runtime::Runtime;

use super::connect::Connection;
use super::invocation::Invocation;
use super::verdict::Verdict;
use crate::manifests::{webhook_service, workload_name};
use crate::rbac::Place;

/// The server of a program's webhooks, if it has some.
#[derive(Default)]
pub(super) struct WebhookServer(Option<(Running, Shutdown)>);

/// The effect of the end of the program on its webhooks.
#[derive(Clone, Copy)]
enum Shutdown {
    /// Nobody calls them any more.
    #[cfg(feature = "apiserver")]
    Immediate,
    /// Another replica takes over, which the API servers have to learn.
    AfterHandover,
    /// They were registered for this process.
    Unregister,
}

/// Returns whether the program has webhooks.
pub(super) fn has_any(invocation: &Invocation<'_>) -> Result<bool> {
    Ok(!invocation.app.program().take_webhooks()?.is_empty())
}

/// The controllers of the webhooks, for their permissions.
pub(super) fn controllers(invocation: &Invocation<'_>, place: &Place) -> Result<Vec<Controller>> {
    let webhooks = behind_service(invocation, place)?;
    Ok(webhooks.map(Webhooks::controllers).transpose()?.unwrap_or_default())
}

/// The paths of the webhooks, by which their metrics name them.
pub(super) fn paths(invocation: &Invocation<'_>) -> Result<Vec<String>> {
    Ok(invocation.app.program().take_webhooks()?.iter().map(Webhook::path).collect())
}

/// Compares what a cluster has of the webhooks with the program.
pub(super) async fn inspect(
    invocation: &Invocation<'_>,
    place: &Place,
    client: &Client,
) -> Result<Vec<(Verdict, String)>> {
    let Some(webhooks) = behind_service(invocation, place)? else { return Ok(Vec::new()) };
    let found = webhooks.inspect(client).await?.into_iter();
    Ok(found
        .map(|finding| match finding {
            Finding::Ok(text) => (Verdict::Ok, text),
            Finding::Missing(text) => (Verdict::Missing, text),
            Finding::Note(text) => (Verdict::Note, text),
        })
        .collect())
}

/// Deletes the configurations: nobody would answer the calls of the API servers. `say` prints each step.
pub(super) async fn unregister(
    invocation: &Invocation<'_>,
    place: &Place,
    client: &Client,
    say: impl Fn(&str, String),
) -> Result<()> {
    let Some(installed) = installed(invocation, place)? else { return Ok(()) };
    for kind in installed.configurations(client).await? {
        say("delete", format!("{kind} {}", installed.configuration));
    }
    if !invocation.settings.dry_run {
        installed.unregister(client).await?;
    }
    Ok(())
}

/// Deletes the Secret of the certificate authority, unless the API server refuses that. `say` prints the step.
pub(super) async fn delete_secret(
    invocation: &Invocation<'_>,
    place: &Place,
    client: &Client,
    say: impl Fn(&str, String),
) -> Result<()> {
    let Some(installed) = installed(invocation, place)? else { return Ok(()) };
    Ok(delete_or_keep(&installed, client, invocation.settings.dry_run, say).await?)
}

/// A Secret that stays, like a Lease, does not keep the CRDs from being removed.
async fn delete_or_keep(
    installed: &Installed,
    client: &Client,
    dry_run: bool,
    say: impl Fn(&str, String),
) -> kube::Result<()> {
    let secret = format!("Secret {}/{}", installed.namespace, installed.secret.as_deref().unwrap_or_default());
    let deleted = match installed.has_secret(client).await {
        Ok(true) => {
            say("delete", secret.clone());
            if dry_run { Ok(()) } else { installed.delete_secret(client).await }
        }
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 403 || is_denied(&status) => {
            say("keep", format!("{secret}: {}", status.message));
            Ok(())
        }
        deleted => deleted,
    }
}

fn installed(invocation: &Invocation<'_>, place: &Place) -> Result<Option<Installed>> {
    Ok(behind_service(invocation, place)?.map(Webhooks::installed).transpose()?)
}

/// The webhooks with the settings of the flags, if the program has some.
fn configured(invocation: &Invocation<'_>, namespace: &str) -> Result<Option<Webhooks>> {
    let all = invocation.app.program().take_webhooks()?;
    if all.is_empty() {
        return Ok(None);
    }
    let settings = &invocation.settings;
    let mut webhooks = Webhooks::new(invocation.app.name, namespace)
        .namespaces(settings.namespaces.clone())
        .metrics(&invocation.app.registry);
    if let Some(instance) = &settings.instance {
        webhooks = webhooks.instance(instance);
    }
    Ok(Some(all.into_iter().fold(webhooks, Webhooks::webhook)))
}

/// The webhooks behind the Service of the manifests.
fn behind_service(invocation: &Invocation<'_>, place: &Place) -> Result<Option<Webhooks>> {
    let webhooks = configured(invocation, &place.namespace)?;
    let port = invocation.settings.webhook_port.unwrap_or(PORT);
    Ok(webhooks.map(|webhooks| {
        webhooks
            .listen((Ipv6Addr::UNSPECIFIED, port).into())
            .service(webhook_service(place), 443)
            .deployment(workload_name(place))
            .owner(place.role(None))
    }))
}

/// Names the flags of the address, which the webhooks of a library do not have.
fn with_flags(error: StartError) -> BoxError {
    match error {
        StartError::Serve(ServeError::Bind { .. }) => {
            format!("{error}; choose another port with `--webhook-port`, or in `--webhook-url`").into()
        }
        error => error.into(),
    }
}

impl WebhookServer {
    /// Serves on loopback, where the API server of `dev` is, too. The controllers register them.
    #[cfg(feature = "apiserver")]
    pub(super) fn on_loopback(invocation: &Invocation<'_>, namespace: &str) -> Result<(Self, Vec<Controller>)> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let webhooks = configured(invocation, namespace)?;
        Self::serve(webhooks.map(|webhooks| webhooks.listen(address).local()), Shutdown::Immediate)
    }

    /// Serves for a cluster: behind the Service of its manifests, or at the address of `--webhook-url`. The namespace
    /// of a program outside of a cluster is that of its Leases.
    pub(super) fn for_cluster(
        invocation: &Invocation<'_>,
        connection: &Connection,
        lease_namespace: String,
    ) -> Result<(Self, Vec<Controller>)> {
        let settings = &invocation.settings;
        let Some(url) = &settings.webhook_url else {
            if connection.in_pod {
                let place = Place {
                    installation: invocation.installation(),
                    namespace: connection.client.default_namespace().to_owned(),
                    lease_namespace,
                    reviews_tokens: false,
                };
                return Self::serve(behind_service(invocation, &place)?, Shutdown::AfterHandover);
            }
            if has_any(invocation)? {
                tracing::warn!(
                    "the webhooks are not served, because no Service leads to this machine: write \
                     `--webhook-url https://HOST:PORT` with an address that the API server can reach"
                );
            }
            return Ok((Self::default(), Vec::new()));
        };
        if settings.namespaces.is_empty() {
            return Err("`--webhook-url` needs `--namespace NAME`: the webhooks on this machine are \
                        called in these namespaces only"
                .into());
        }
        let uri: Option<http::Uri> = url.parse().ok();
        let port = settings.webhook_port.or(uri.and_then(|uri| uri.port_u16())).unwrap_or(PORT);
        let webhooks = configured(invocation, &lease_namespace)?;
        let developed = |webhooks: Webhooks| webhooks.development(url).listen((Ipv6Addr::UNSPECIFIED, port).into());
        Self::serve(webhooks.map(developed), Shutdown::Unregister)
    }

    fn serve(webhooks: Option<Webhooks>, end: Shutdown) -> Result<(Self, Vec<Controller>)> {
        let Some(webhooks) = webhooks else { return Ok((Self::default(), Vec::new())) };
        let (running, controllers) = webhooks.serve().map_err(with_flags)?;
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
    pub(super) async fn end(self, client: Option<&Client>) {
        let Some((running, end)) = self.0 else { return };
        match (end, client) {
            (Shutdown::AfterHandover, _) => running.shutdown().await,
            (Shutdown::Unregister, Some(client)) => {
                if let Err(error) = running.remove(client).await {
                    tracing::warn!(
                        "the configurations of the webhooks cannot be deleted, and stay registered with `Ignore`: {}",
                        chain(&error)
                    );
                }
            }
            _ => drop(running),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;

    use http::Method;
    use kooper_tests::responses;
    use serde_json::json;

    use super::*;

    /// The steps that delete the Secret, on a server that responds with these codes and messages to a read and a deletion.
    async fn steps(read: (u16, &'static str), deletion: (u16, &'static str)) -> (Vec<String>, bool) {
        let client = responses::client("shops", move |request| {
            let (code, message) = if request.method() == Method::GET { read } else { deletion };
            let reason = if code == 404 { "NotFound" } else { "Forbidden" };
            let status = json!({
                "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
                "details": {"name": "ca"},
            });
            let found = json!({"metadata": {"name": "ca", "namespace": "shops"}});
            (code, if code == 200 { found } else { status })
        });
        let installed = Installed {
            namespace: "shops".to_owned(),
            configuration: "shop".to_owned(),
            lease: "shop".to_owned(),
            secret: Some("ca".to_owned()),
        };
        let steps = RefCell::new(Vec::new());
        let say = |step: &str, what: String| steps.borrow_mut().push(format!("{step} {what}"));
        let ended = delete_or_keep(&installed, &client, false, say).await;
        (steps.into_inner(), ended.is_ok())
    }

    #[tokio::test]
    async fn a_secret_that_may_not_be_read_or_deleted_is_kept_and_does_not_end_the_command() {
        let forbidden = (403, "secrets \"ca\" is forbidden");
        let kept = "keep Secret shops/ca: secrets \"ca\" is forbidden".to_owned();
        let delete = "delete Secret shops/ca".to_owned();
        assert_eq!(steps(forbidden, (200, "")).await, (vec![kept.clone()], true));
        assert_eq!(steps((200, ""), forbidden).await, (vec![delete.clone(), kept], true));
        let denied = "admission webhook \"a.io\" denied the request: frozen";
        let frozen = format!("keep Secret shops/ca: {denied}");
        assert_eq!(steps((200, ""), (404, denied)).await, (vec![delete, frozen], true));
        assert_eq!(steps((404, "secrets \"ca\" not found"), (200, "")).await, (Vec::new(), true));
        assert_eq!(steps((401, "Unauthorized"), (200, "")).await, (Vec::new(), false));
    }

    #[test]
    fn a_port_that_is_taken_is_reported_with_the_flags_that_choose_another() {
        let address = (Ipv6Addr::LOCALHOST, 9443).into();
        let taken = ServeError::Bind { address, error: io::ErrorKind::AddrInUse.into() };
        let text = with_flags(taken.into()).to_string();
        assert!(text.starts_with("cannot listen on [::1]:9443 for webhooks: "), "{text}");
        assert!(text.ends_with("; choose another port with `--webhook-port`, or in `--webhook-url`"), "{text}");
        assert_eq!(with_flags(StartError::NoTarget).to_string(), StartError::NoTarget.to_string());
    }
}
