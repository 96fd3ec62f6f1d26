//! Controllers that run on a cluster.

use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Cluster, PROGRAM, kill_layer, pause, role};
use kooper_access::controller::operator::Builder;
use kooper_access::internal::crd::{annotated, merged};
use kooper_access::{Controller, Operator, RunError};
use kooper_runtime::internal::leader;
use kooper_runtime::{Health, Result};

/// Maximum time until controllers are ready.
const START: Duration = Duration::from_secs(30);

/// Controllers that run on a [`Cluster`]. Dropping it stops them without waiting.
#[derive(Debug)]
#[must_use = "dropping it stops the controllers"]
pub struct Running {
    cluster: Cluster,
    health: Health,
    stop: CancellationToken,
    /// Cuts the client off.
    dead: CancellationToken,
    ended: Option<JoinHandle<Result<(), RunError>>>,
    #[cfg(feature = "webhooks")]
    served: Option<kooper_webhooks::Running>,
}

impl Cluster {
    /// Runs controllers as a program does: under a ServiceAccount with their
    /// generated role, and with their CRDs installed. Returns when they are ready,
    /// that is, when their caches are synced.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn echo(_: std::sync::Arc<Pod>) {}
    /// # async fn run(cluster: kooper::testing::Cluster) -> kooper::Result<()> {
    /// let echo = kooper::Controller::builder::<Pod>("echo").handler(echo).build()?;
    /// let running = cluster.run([echo]).await?;
    /// // …
    /// running.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// On the real server, controllers of namespaced kinds watch the test's namespace only. If a controller takes a
    /// `Client` and lists no rules with `rbac`, all controllers of the call have all permissions.
    ///
    /// # Errors
    /// When they cannot be built, their CRDs or roles are rejected, or they are not ready within 30 seconds.
    pub async fn run(&self, controllers: impl IntoIterator<Item = Controller>) -> Result<Running> {
        let mut controllers: Vec<_> = controllers.into_iter().collect();
        if controllers.is_empty() {
            return Err(RunError::NoControllers.into());
        }
        self.prepare(&mut controllers).await?;
        let (health, dead) = (Health::default(), CancellationToken::new());
        let operator = self.operator(self.controllers_client()?, controllers);
        let operator = operator.client_layer(kill_layer(dead.clone())).health(health.clone()).build()?;
        let stop = CancellationToken::new();
        let ended = tokio::spawn(operator.run(stop.clone()));
        let mut running = Running {
            cluster: self.clone(),
            health,
            stop,
            dead,
            ended: Some(ended),
            #[cfg(feature = "webhooks")]
            served: None,
        };
        running.ready().await?;
        self.note_controllers(&running.health);
        Ok(running)
    }

    /// Runs controllers and webhooks as [`run`](Self::run) does. Returns when the API server calls the
    /// webhooks.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use std::sync::Arc;
    ///
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper::testing::Cluster;
    /// use kooper::webhooks::{Denied, FailurePolicy, Webhook};
    ///
    /// async fn check(new: Arc<ConfigMap>) -> Result<(), Denied> {
    ///     if new.data.is_some() { Ok(()) } else { Err(Denied::default().field("data", "must be set")) }
    /// }
    ///
    /// let cluster = Cluster::start().await?;
    /// let check = Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Fail).function(check).build()?;
    /// let running = cluster.run_with_webhooks([], [check]).await?;
    /// # running.stop().await?;
    /// # Ok::<_, kooper::BoxError>(())
    /// # })?;
    /// # Ok::<_, kooper::BoxError>(())
    /// ```
    ///
    /// They are called in the namespace of the test only, and from this process, on loopback.
    ///
    /// # Errors
    /// When [`run`](Self::run) fails, or they are not called within 30 seconds.
    #[cfg(feature = "webhooks")]
    pub async fn run_with_webhooks(
        &self,
        controllers: impl IntoIterator<Item = Controller>,
        webhooks: impl IntoIterator<Item = kooper_webhooks::Webhook>,
    ) -> Result<Running> {
        let serving = kooper_webhooks::Webhooks::new(PROGRAM, self.namespace())
            .listen((std::net::Ipv4Addr::LOCALHOST, 0).into())
            .namespaces([self.namespace()]);
        let serving = webhooks.into_iter().fold(serving, kooper_webhooks::Webhooks::webhook);
        let (mut served, registering) = serving.local().serve()?;
        served.connect(&self.controllers_client()?);
        let mut running = self.run(controllers.into_iter().chain(registering)).await?;
        let registered = tokio::time::timeout(START, served.registered()).await;
        if registered.is_err() {
            let problems = self.server.controllers().problems().join("\n");
            return Err(format!("the webhooks are not registered within {START:?}: {problems}").into());
        }
        running.served = Some(served);
        Ok(running)
    }

    /// Installs what controllers need to run: their CRDs and their role.
    pub(crate) async fn prepare(&self, controllers: &mut Vec<Controller>) -> Result<()> {
        // Each daemon has a Lease, and a role.
        *controllers = std::mem::take(controllers).into_iter().flat_map(Controller::with_daemon).collect();
        let namespace = self.namespace();
        for controller in controllers.iter_mut() {
            controller.set_own_namespace(namespace);
            if self.server.is_shared() {
                controller.set_namespaces(vec![namespace.to_owned()]);
            }
        }
        for crd in merged(controllers.iter().filter_map(Controller::crd).map(|(crd, _)| crd)).into_values() {
            self.install_crd(&annotated(crd, "test", "0.0.0")).await?;
        }
        role::apply(&self.server.test_client(), namespace, controllers).await
    }

    /// The operator of a new process.
    pub(crate) fn operator(&self, client: Client, controllers: Vec<Controller>) -> Builder {
        let operator = Operator::builder()
            .program(PROGRAM)
            .client(client)
            .lease_namespace(self.namespace())
            // Each run is a process of its own, for elections too.
            .identity(leader::new_identity())
            .given_settings(self.settings.clone());
        controllers.into_iter().fold(operator, Builder::controller)
    }
}

impl Running {
    /// Waits until the controllers are ready.
    async fn ready(&mut self) -> Result<()> {
        let since = Instant::now();
        let deadline = since + START;
        loop {
            if self.ended.as_ref().is_none_or(JoinHandle::is_finished) {
                self.join().await?;
                return Err("the controllers ended at once".into());
            }
            let Err(problem) = self.health.ready() else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(format!("the controllers are not ready within {START:?}: {}", problem.trim_end()).into());
            }
            pause(since).await;
        }
    }

    /// Why the controllers are not ready; `None` if they are.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.health.ready().err()
    }

    /// Stops the controllers as SIGTERM does, and returns when they have drained. Webhooks are removed, too.
    ///
    /// # Errors
    /// When they had ended before.
    pub async fn stop(mut self) -> Result<()> {
        let early = self.ended.as_ref().is_none_or(JoinHandle::is_finished);
        self.stop.cancel();
        self.join().await?;
        #[cfg(feature = "webhooks")]
        if let Some(served) = self.served.take() {
            served.remove(&self.cluster.server.test_client()).await?;
        }
        if early { Err("the controllers had ended before they were stopped".into()) } else { Ok(()) }
    }

    /// Ends the controllers as SIGKILL does: nothing is drained, no Lease is released,
    /// requests that the server has not served never reach it, and answers get lost.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kooper::Controller;
    /// # async fn echo() {}
    /// # let controller = || Controller::builder::<ConfigMap>("echo").handler(echo).build();
    /// # let cluster = kooper::testing::Cluster::start().await?;
    ///
    /// let running = cluster.run([controller()?]).await?;
    /// running.kill().await;
    /// // The next process finds what the first one has left.
    /// let running = cluster.run([controller()?]).await?;
    /// # running.stop().await?;
    /// # Ok::<_, kooper::BoxError>(())
    /// # })?;
    /// # Ok::<_, kooper::BoxError>(())
    /// ```
    pub async fn kill(mut self) {
        self.dead.cancel();
        if let Some(ended) = self.ended.take() {
            ended.abort();
            drop(ended.await);
        }
    }

    async fn join(&mut self) -> Result<()> {
        match self.ended.take() {
            Some(ended) => Ok(ended.await??),
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if self.ended.is_some() {
            self.cluster.server.controllers().drop_all(&self.health);
        }
    }
}
