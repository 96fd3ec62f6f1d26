//! The command `uninstall`: removes what would keep objects, CRDs and namespaces
//! from being deleted without the program, and then its CRDs.
//!
//! Each step finds out what is left to do, so that it can be interrupted at any
//! time and run again.

mod cleanup;
mod definitions;
mod finalized;
mod installed;
mod leases;
mod overlaps;
mod retry;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::{Client, ResourceExt};
use prometheus::Registry;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::args::UninstallSettings;
use super::check::instances::Overlap;
use super::connect::Connection;
use super::invocation::Invocation;
use super::lease::cautious_now;
use super::objects::counted;
use super::preflight::connected;
use super::signals::Signals;
use super::step::{once, say};
use super::webhooks;
use crate::block_on::block_on;
use crate::metrics::Prometheus;
use crate::rbac::Place;
use definitions::Definitions;
use finalized::{FinalizedObjects, FinalizerAction};
use kooper_access::Controller;
use kooper_runtime::BoxError;
use leases::LeaseLookup;
use retry::settled;

/// The shortest pause before the objects are counted again.
const PAUSE: Duration = Duration::from_millis(500);

/// Why the program is not uninstalled.
#[derive(Debug, thiserror::Error)]
enum UninstallError {
    #[error("{signal}: interrupted; run `uninstall` again to continue")]
    Interrupted { signal: String },
    #[error("it was interrupted")]
    Stopped,
    #[error(
        "after {timeout}, {left}: the log above and the Events of these objects have the reason; correct it and run \
         `uninstall` again, or give it more time with `--timeout`; with `--orphan` the finalizers are removed without a \
         cleanup"
    )]
    NotCleanedUp { timeout: String, left: String },
    #[error(
        "after {timeout}, {left}: run `uninstall` again when this is resolved, or give it more time with `--timeout`"
    )]
    Waiting { timeout: String, left: String },
    #[error(
        "the installation {other} of this program needs the CRDs, too: uninstall it first, or keep the CRDs and all objects \
         with `--keep-crds`, and pass the `--namespace` of this one if they have different namespaces"
    )]
    Shared { other: String },
    #[error(
        "another installation of this program, with the {with}, handles the objects of {shared}, too, in the controller \
         `{controller}`: pass the `--namespace`, `--instance`, `--install-namespace` and `--lease-namespace` of the \
         installation that you remove, or stop the other one first"
    )]
    Overlap { with: String, shared: String, controller: String },
    #[error(
        "after {timeout}, `{holder}` still holds the {lease}, so the CRDs are kept: stop this process, and run `uninstall` \
         again"
    )]
    Working { timeout: String, lease: String, holder: String },
    #[error("the CRD {name} was created again by a running program: stop it, and run `uninstall` again")]
    Recreated { name: String },
    #[error(
        "the cluster serves {resource} in {served}, but not in {version}, the version of this program, so it would \
         miss objects with its finalizers; run `uninstall` with the installed version of the program"
    )]
    Unserved { resource: String, version: String, served: String },
    #[error("after {timeout}, the API server does not respond: run `uninstall` again")]
    Silent { timeout: String },
    #[error("the operator has ended: {error}")]
    Ended { error: String },
}

/// Uninstalls the program, or prints what that would do.
pub(crate) fn uninstall(mut invocation: Invocation<'_>) -> Result<ExitCode, BoxError> {
    let namespace = invocation.settings.install_namespace().to_owned();
    invocation.settings.lease_namespace.get_or_insert_with(|| namespace.clone());
    let settings = &invocation.settings;
    let mut controllers = invocation.controllers()?;
    let near = controllers.iter().filter(|one| one.awaits_own_namespace()).map(|one| one.name().to_owned());
    let near: BTreeSet<_> = near.collect();
    controllers.iter_mut().for_each(|one| one.set_own_namespace(&namespace));
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let main = Builder::new_current_thread().enable_all().build()?;
    let registry = Registry::new();
    let metrics = Prometheus::new(&registry)?;
    let connection = block_on(&runtime, connected(&invocation, &metrics))?;
    let lease_namespace = settings.lease_namespace.clone().unwrap_or_default();
    let uninstall = Uninstall {
        client: connection.client.clone(),
        connection: &connection,
        place: Place { installation: invocation.installation(), namespace, lease_namespace, reviews_tokens: false },
        near,
        invocation: &invocation,
        chosen: &settings.uninstall,
        deadline: Instant::now() + settings.uninstall.timeout,
        runtime: &runtime,
        interrupted: CancellationToken::new(),
    };
    // A handler that blocks the program's threads does not delay the signals.
    let ended = block_on(&main, async {
        let mut signals = Signals::listen()?;
        let mut everything = pin!(uninstall.everything(&controllers, metrics));
        tokio::select! {
            ended = &mut everything => ended,
            signal = signals.next() => {
                uninstall.interrupted.cancel();
                // The controllers release their Leases; a second signal ends the program at once.
                tokio::select! {
                    ended = &mut everything => drop(ended),
                    _ = signals.next() => {}
                }
                Err(UninstallError::Interrupted { signal: signal.to_string() }.into())
            }
        }
    });
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}

struct Uninstall<'a> {
    client: Client,
    connection: &'a Connection,
    place: Place,
    /// The controllers that watch the namespace of their installation.
    near: BTreeSet<String>,
    invocation: &'a Invocation<'a>,
    chosen: &'a UninstallSettings,
    deadline: Instant,
    /// The runtime of the controllers.
    runtime: &'a Runtime,
    interrupted: CancellationToken,
}

impl Uninstall<'_> {
    async fn everything(&self, controllers: &[Controller], metrics: Prometheus) -> Result<(), BoxError> {
        let definitions = Definitions::find(&self.client, controllers, &self.place, self.chosen.keep_crds).await?;
        if !definitions.ours.is_empty()
            && let Some(other) = installed::other(&self.client, controllers, &self.place).await?
        {
            return Err(UninstallError::Shared { other }.into());
        }
        let finalized: Vec<_> = controllers
            .iter()
            .filter_map(|controller| FinalizedObjects::of(controller, &definitions, self.chosen))
            .collect();
        self.refuse_overlap(controllers, &finalized).await?;
        for one in &finalized {
            let served = match one.other_versions(&self.client).await {
                // Not every cluster tells a service account what it serves.
                Err(kube::Error::Api(status)) if status.code == 403 => continue,
                served => served?,
            };
            if !served.is_empty() {
                let (resource, version, served) = (one.resource(), one.version().to_owned(), served.join(", "));
                return Err(UninstallError::Unserved { resource, version, served }.into());
            }
        }
        if self.invocation.settings.dry_run {
            say("dry run", "nothing is changed");
        }
        // Without the program, the API servers would fail each request that it guards.
        self.unregister().await?;
        let stopped = self.stop().await;
        // The program may have registered them again before it stopped. It may also stop after this command has failed.
        let unregistered = if self.invocation.settings.dry_run { Ok(()) } else { self.unregister().await };
        stopped.and(unregistered)?;
        self.release(finalized, metrics).await?;
        // A process that still runs may have set finalizers again, and would install the CRDs again.
        let waits = !definitions.ours.is_empty() && !self.invocation.settings.dry_run;
        self.remove_leases(controllers, waits).await?;
        self.remove_leases(&webhooks::controllers(self.invocation, &self.place)?, waits).await?;
        let say_once = once();
        let request = || webhooks::delete_secret(self.invocation, &self.place, &self.client, &say_once);
        self.repeat("the Secret of the webhooks cannot be deleted", request).await?;
        for (name, reason) in &definitions.kept {
            say("keep", format_args!("CRD {name}: {reason}"));
        }
        for (crd, uid) in &definitions.ours {
            self.delete(crd, uid.as_deref()).await?;
        }
        if !self.invocation.settings.dry_run {
            say("done", self.place.account());
        }
        Ok(())
    }

    /// Returns an error if another installation handles the objects, too.
    async fn refuse_overlap(&self, controllers: &[Controller], finalized: &[FinalizedObjects]) -> Result<(), BoxError> {
        if finalized.is_empty() {
            return Ok(());
        }
        let found = overlaps::find(&self.client, controllers, &self.near, &self.place).await?;
        match found.into_iter().find(|overlap| finalized.iter().any(|one| one.controller == overlap.controller)) {
            Some(Overlap { controller, with, shared, .. }) => {
                Err(UninstallError::Overlap { with, shared, controller }.into())
            }
            None => Ok(()),
        }
    }

    /// Deletes the configurations of the webhooks.
    async fn unregister(&self) -> Result<(), BoxError> {
        let (say, failure) = (once(), "the configurations of the webhooks cannot be deleted");
        if webhooks::has_any(self.invocation)? {
            let request = || webhooks::unregister(self.invocation, &self.place, &self.client, &say);
            return self.repeat(failure, request).await;
        }
        // The hook of a chart has no permission for them.
        if self.connection.in_pod {
            return Ok(());
        }
        let request = || installed::unregister(&self.client, &self.place, self.invocation.settings.dry_run, &say);
        self.repeat(failure, request).await
    }

    /// Stops the Deployment of the installation: it would set finalizers again.
    async fn stop(&self) -> Result<(), BoxError> {
        let namespace = &self.place.namespace;
        let find = || installed::deployment(&self.client, &self.place);
        match self.repeat(format!("the Deployment in namespace {namespace} cannot be read"), find).await? {
            Some((deployment, true)) => {
                say("stop", format_args!("Deployment {namespace}/{deployment}"));
                if !self.invocation.settings.dry_run {
                    let stop = || installed::stop(&self.client, &self.place, &deployment);
                    self.repeat(format!("the Deployment {namespace}/{deployment} cannot be stopped"), stop).await?;
                }
            }
            Some((_, false)) => {}
            None => {
                let account = self.place.account();
                say("stop", format_args!("nothing: `{account}` has no Deployment in namespace {namespace}"));
            }
        }
        if self.invocation.settings.dry_run {
            return Ok(());
        }
        loop {
            let left = match settled(installed::pods(&self.client, &self.place).await)? {
                Ok(pods) if pods.is_empty() => return Ok(()),
                Ok(pods) => format!("these pods are still running: {}", pods.join(", ")),
                Err(problem) => format!("the pods cannot be read: {problem}"),
            };
            self.pause(PAUSE, UninstallError::Waiting { timeout: self.timeout(), left }).await?;
        }
    }

    /// Removes the finalizers of the program, as a rule after a cleanup.
    async fn release(&self, all: Vec<FinalizedObjects>, metrics: Prometheus) -> Result<(), BoxError> {
        let mut cleaning = Vec::new();
        for finalized in all {
            let found = self
                .repeat(format!("{} cannot be read", finalized.resource()), || finalized.find(&self.client))
                .await?;
            match finalized.action {
                _ if found.count == 0 => continue,
                FinalizerAction::Release => say("release", format_args!("{}: {found}", finalized.resource())),
                FinalizerAction::ReleaseLive => {
                    say(
                        "release",
                        format_args!("{}: {found}; those that are being deleted are cleaned up", finalized.resource()),
                    );
                }
                FinalizerAction::Delete => say("delete", format_args!("{}: {found}", finalized.resource())),
                FinalizerAction::CleanUp => say("clean up", format_args!("{}: {found}", finalized.resource())),
            }
            if !self.invocation.settings.dry_run {
                cleaning.push(finalized);
            }
        }
        if cleaning.is_empty() { Ok(()) } else { self.clean_up(&cleaning, metrics).await }
    }

    /// Deletes the Leases of the installation, which no program holds any more. With `waits`, until then: that of a process
    /// that was killed expires.
    async fn remove_leases(&self, controllers: &[Controller], waits: bool) -> Result<(), BoxError> {
        for lease in leases::of(controllers, &self.place) {
            let mut is_first = true;
            let found = loop {
                let now = if waits { cautious_now() } else { Timestamp::now() };
                let find = || leases::find(&self.client, &lease, now);
                match self.repeat(format!("{lease} cannot be read"), find).await? {
                    LeaseLookup::Held(holder) if waits => {
                        if std::mem::take(&mut is_first) {
                            say("wait", format_args!("{lease}: `{holder}` holds it"));
                        }
                        // Text from the cluster must not control the terminal.
                        let (lease, holder) = (lease.to_string(), holder.escape_debug().to_string());
                        self.pause(PAUSE, UninstallError::Working { timeout: self.timeout(), lease, holder }).await?;
                    }
                    found => break found,
                }
            };
            match found {
                LeaseLookup::None => {}
                LeaseLookup::Kept(reason) => say("keep", format_args!("{lease}: {reason}")),
                // The Deployment that is to be stopped releases it.
                LeaseLookup::Held(holder) if self.invocation.settings.dry_run => {
                    say("delete", format_args!("{lease}, when `{holder}` has released it"));
                }
                LeaseLookup::Held(holder) => say("keep", format_args!("{lease}: `{holder}` holds it")),
                LeaseLookup::Free(found) => {
                    say("delete", &lease);
                    let delete = || leases::delete(&self.client, &lease, &found);
                    if !self.invocation.settings.dry_run
                        && let Err(reason) = self.repeat(format!("{lease} cannot be deleted"), delete).await?
                    {
                        say("keep", format_args!("{lease}: {reason}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes a CRD and waits until it is removed.
    async fn delete(&self, name: &str, uid: Option<&str>) -> Result<(), BoxError> {
        let what = format!("the CRD {name} cannot be read");
        let objects = self.repeat(what, || definitions::objects(&self.client, name)).await?;
        say("delete", format_args!("CRD {name}, with {}", counted(objects, "object")));
        if self.invocation.settings.dry_run {
            return Ok(());
        }
        loop {
            let left = match settled(definitions::delete(&self.client, name, uid).await)? {
                Ok(None) => return Ok(()),
                Ok(Some(crd)) if crd.uid().as_deref() != uid => {
                    return Err(UninstallError::Recreated { name: name.to_owned() }.into());
                }
                Ok(Some(crd)) => {
                    format!("the CRD {} is still being deleted{}", crd.name_any(), definitions::terminating(&crd))
                }
                Err(problem) => format!("the CRD {name} cannot be deleted: {problem}"),
            };
            self.pause(PAUSE, UninstallError::Waiting { timeout: self.timeout(), left }).await?;
        }
    }

    /// Repeats a request until it has a response: the operator may be stopped already.
    async fn repeat<T, E, F>(&self, failure: impl Display, request: impl Fn() -> F) -> Result<T, BoxError>
    where
        E: Into<BoxError>,
        F: Future<Output = Result<T, E>>,
    {
        loop {
            let left = match settled(request().await)? {
                Ok(done) => return Ok(done),
                Err(problem) => format!("{failure}: {problem}"),
            };
            self.pause(PAUSE, UninstallError::Waiting { timeout: self.timeout(), left }).await?;
        }
    }

    /// The chosen timeout, as a user writes it.
    fn timeout(&self) -> String {
        kooper_grammar::duration::format(self.chosen.timeout)
    }

    /// Waits a moment; the error `over` if the time is over, or another one after a signal.
    async fn pause(&self, pause: Duration, over: UninstallError) -> Result<(), UninstallError> {
        if Instant::now() + pause >= self.deadline {
            return Err(over);
        }
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = self.interrupted.cancelled() => Err(UninstallError::Stopped),
        }
    }
}
