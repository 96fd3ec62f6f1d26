//! Several controllers in one process, each failing alone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controller::{ConfigError, Context, Controller, Runner};
use crate::health::Health;
use crate::metrics::{MetricsError, MetricsRecorder, NoMetrics};

/// How long running handler calls get on shutdown, unless said otherwise.
pub(crate) const DRAIN: Duration = Duration::from_secs(20);

/// Controllers that run together. They share the client, the metrics and the
/// shutdown, nothing by which one could harm another.
///
/// ```no_run
/// # async fn example() -> Result<(), kooper::BoxError> {
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::{Controller, Operator};
///
/// async fn echo(pod: Arc<Pod>) {
///     println!("{:?}", pod.metadata.name);
/// }
///
/// let shutdown = kooper::CancellationToken::new();
/// Operator::builder()
///     .client(kooper::kube::Client::try_default().await?)
///     .controller(Controller::builder::<Pod>("echo").handler(echo).build()?)
///     .build()?
///     .run(shutdown)
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct Operator {
    runners: Vec<Runner>,
}

/// An operator that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A controller's description makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The metrics refuse a controller.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

/// An operator that ended although nobody stopped it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// No controller runs any more.
    #[error("every controller has ended: {0}")]
    AllEnded(String),
}

/// Builds an [`Operator`].
#[must_use = "a builder builds nothing until `build` is called"]
pub struct Builder {
    controllers: Vec<Controller>,
    client: Option<Client>,
    metrics: Arc<dyn MetricsRecorder>,
    health: Health,
    drain: Duration,
}

impl Operator {
    /// An operator without controllers yet.
    pub fn builder() -> Builder {
        Builder {
            controllers: Vec::new(),
            client: None,
            metrics: Arc::new(NoMetrics),
            health: Health::default(),
            drain: DRAIN,
        }
    }

    /// Runs all controllers until `shutdown` is cancelled, then drains them:
    /// no key is begun any more, running handlers are asked to end, and ended
    /// when the drain time is over.
    ///
    /// # Errors
    /// When every controller has ended before.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), OperatorError> {
        let mut tasks = JoinSet::new();
        for runner in self.runners {
            tasks.spawn(runner.run(shutdown.clone()));
        }
        let mut last = "there were none".to_owned();
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!("a controller broke down, the others go on: {error}");
                last = error.to_string();
            }
        }
        if shutdown.is_cancelled() { Ok(()) } else { Err(OperatorError::AllEnded(last)) }
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("controllers", &self.runners.len()).finish()
    }
}

impl Builder {
    /// Adds a controller.
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// The connection to the API server. Not needed where every controller
    /// has a retriever of its own.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Where measurements go. Default: nowhere.
    pub fn metrics(mut self, metrics: Arc<dyn MetricsRecorder>) -> Self {
        self.metrics = metrics;
        self
    }

    /// What a listener asks whether the process is ready and alive.
    pub fn health(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// How long running handler calls get on shutdown. Default: 20 seconds.
    pub fn drain_timeout(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// The operator.
    ///
    /// # Errors
    /// When two controllers have one name, or one needs a client and there is
    /// none.
    pub fn build(self) -> Result<Operator, BuildError> {
        let mut names = HashSet::new();
        for controller in &self.controllers {
            if !names.insert(controller.name().to_owned()) {
                let problem = "two controllers have it: give one of them another name";
                return Err(controller.error("name", problem).into());
            }
            if self.client.is_none() && controller.needs_client() {
                let problem = "it asks the API server, and the operator has no client: give it one, or the controller a retriever of its own";
                return Err(controller.error("retriever", problem).into());
            }
        }
        let context = Context { client: self.client, ..Context::default() };
        let runner = |controller| {
            Runner::new(controller, context.clone(), self.metrics.clone(), self.health.clone(), self.drain)
        };
        Ok(Operator { runners: self.controllers.into_iter().map(runner).collect::<Result<_, _>>()? })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("controllers", &self.controllers).finish_non_exhaustive()
    }
}
