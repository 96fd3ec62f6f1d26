//! The command `run`, and what it shares with `dev`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt;
use prometheus::Registry;
use tokio::runtime::{Builder, Runtime, RuntimeFlavor};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::FAILED;
use super::connect::{self, Connection};
use super::invocation::{Invocation, lease_namespace};
use super::listeners::Listeners;
use super::preflight::preflight;
use super::signals::{Signal, Signals};
use super::webhooks::{self, WebhookServer};
use crate::block_on::block_on;
use crate::metrics::Prometheus;
use kooper_access::controller::operator::Builder as OperatorBuilder;
use kooper_access::{Controller, Operator, RunError};
use kooper_runtime::internal::error::chain;
use kooper_runtime::internal::leader::Watchdog;
use kooper_runtime::{BoxError, Health};

/// Time after the drain timeout in which the operator has to end by itself.
pub(super) const GRACE: Duration = Duration::from_secs(8);

/// Maximum time to write the last line of the log.
const LAST_LINE: Duration = Duration::from_millis(50);

/// Runs until a signal arrives, or until every controller has ended.
pub(crate) fn run(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let settings = &invocation.settings;
    let mut controllers = invocation.controllers()?;
    let listeners = Listeners::bind(settings)?;
    let run = Run::new(invocation)?;
    let needs_client = settings.reviews_tokens() || webhooks::has_any(invocation)?;
    let connection = if needs_client || controllers.iter().any(Controller::needs_client) {
        Some(block_on(&run.runtime, connect::connect(invocation.app.name, settings, &run.metrics))?)
    } else {
        None
    };
    let mut served = WebhookServer::default();
    if let Some(connection) = &connection {
        let namespace = lease_namespace(invocation.app.name, &controllers, settings, connection);
        let (serving, registering) = WebhookServer::for_cluster(invocation, connection, namespace)?;
        served = serving;
        controllers.extend(registering);
    }
    run.operate(Supervisor::new()?, controllers, listeners, served, connection)
}

/// A program that is about to run its controllers.
pub(super) struct Run<'a> {
    invocation: &'a Invocation<'a>,
    pub(super) runtime: Runtime,
    registry: Registry,
    pub(super) metrics: Prometheus,
}

impl<'a> Run<'a> {
    pub(super) fn new(invocation: &'a Invocation<'a>) -> Result<Self, BoxError> {
        let runtime = match &invocation.app.runtime {
            Some(build) => build()?,
            None => Builder::new_multi_thread().enable_all().build()?,
        };
        // Such a runtime runs tasks only while a thread blocks on it, and the main thread waits for signals elsewhere.
        if runtime.handle().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err("`App::runtime` returned a runtime without threads of its own: write \
                        `Builder::new_multi_thread().worker_threads(1)`"
                .into());
        }
        let registry = invocation.app.registry.clone();
        let metrics = Prometheus::new(&registry)?;
        #[cfg(target_os = "linux")]
        match registry.register(Box::new(crate::process::Process::new()?)) {
            // The program's own registry may have a process collector, which stays.
            Ok(()) | Err(prometheus::Error::AlreadyReg) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { invocation, runtime, registry, metrics })
    }

    /// Runs the controllers until a signal arrives, or until all have ended.
    pub(super) fn operate(
        self,
        mut supervisor: Supervisor,
        controllers: Vec<Controller>,
        listeners: Listeners,
        mut served: WebhookServer,
        connection: Option<Connection>,
    ) -> Result<ExitCode, BoxError> {
        let Self { invocation, runtime, registry, metrics } = self;
        let settings = &invocation.settings;
        announce(invocation, &controllers, connection.as_ref(), &listeners);

        let health = invocation.app.health.clone();
        let operator = operator(invocation, controllers, connection.as_ref(), metrics, health.clone());
        let operator = {
            let _context = runtime.enter();
            operator.build()?
        };
        let servers = listeners.serve(invocation, connection.as_ref(), &registry, &health, runtime.handle())?;
        let client = connection.as_ref().map(|connection| connection.client.clone());
        if let Some(connection) = connection {
            served.connect(&runtime, &connection.client);
            runtime.spawn(preflight(connection).boxed());
        }
        let watchdog = Watchdog::start(operator.elected(), outlived)?;
        let ended = supervisor.supervise(&runtime, operator, settings.drain_timeout());
        supervisor.until_signal(served.end(client.as_ref()));
        // A call that blocks its thread may still run.
        drop(watchdog);
        drop(servers);
        // Dropping it would wait for handlers that block their threads.
        runtime.shutdown_background();
        Ok(ended)
    }
}

/// Ends the process, as a call of this controller outlives its term.
fn outlived(controller: &str) {
    let (controller, (done, logged)) = (controller.to_owned(), mpsc::channel());
    std::thread::spawn(move || {
        tracing::error!(
            controller,
            "a handler still runs at the end of its term: it blocks its thread, or never awaits; the process ends, as \
             another replica may lead from now on"
        );
        done.send(())
    });
    // A log without a reader must not delay the end.
    let _ = logged.recv_timeout(LAST_LINE);
    std::process::exit(FAILED.into())
}

/// An operator of these controllers with the settings of the flags.
pub(super) fn operator(
    invocation: &Invocation<'_>,
    controllers: Vec<Controller>,
    connection: Option<&Connection>,
    metrics: Prometheus,
    health: Health,
) -> OperatorBuilder {
    let Invocation { app, settings } = invocation;
    let mut operator = Operator::builder()
        .program(app.name)
        .command(app.name)
        .version(app.version)
        .drain_timeout(settings.drain_timeout())
        .given_settings(settings.own.given.clone())
        .metrics(Arc::new(metrics))
        .health(health);
    if let Some(instance) = &settings.instance {
        operator = operator.instance(instance);
    }
    if let Some(connection) = connection {
        operator = operator
            .client(connection.client.clone())
            .lease_client(connection.lease_client.clone())
            .lease_namespace(lease_namespace(app.name, &controllers, settings, connection));
    }
    for change in &settings.allowed_crd_changes {
        operator = operator.allow_crd_change(change);
    }
    for controller in controllers {
        operator = operator.controller(controller);
    }
    operator
}

/// Logs one line about the program and its cluster.
fn announce(
    invocation: &Invocation<'_>,
    controllers: &[Controller],
    connection: Option<&Connection>,
    listeners: &Listeners,
) {
    let Invocation { app, settings } = invocation;
    let controllers: Vec<_> = controllers.iter().map(|one| format!("{} ({})", one.name(), one.kind())).collect();
    let shown = |address: Option<SocketAddr>| address.map_or("off".to_owned(), |address| address.to_string());
    let (main, probes) = listeners.addresses();
    let namespaces = (!settings.namespaces.is_empty()).then(|| settings.namespaces.join(", "));
    tracing::info!(
        program = app.name,
        instance = settings.instance,
        version = app.version,
        server = connection.map_or("none", |connection| &connection.server),
        controllers = controllers.join(", "),
        namespaces,
        listen = shown(main),
        listen_probes = probes.map(shown),
        "starting"
    );
}

/// Waits for signals on the main thread, on a separate runtime, so that handlers
/// that block every thread of the program's runtime do not delay them.
///
/// It is made before the program is seen to run: a signal from then on is one to stop.
pub(super) struct Supervisor {
    main: Runtime,
    signals: Signals,
    /// Cancelled to stop as after a signal.
    stopped: CancellationToken,
    /// `true` after the first signal.
    is_stopping: bool,
}

impl Supervisor {
    pub(super) fn new() -> Result<Self, BoxError> {
        let main = Builder::new_current_thread().enable_all().build()?;
        let signals = block_on(&main, async { Signals::listen() })?;
        Ok(Self { main, signals, stopped: CancellationToken::new(), is_stopping: false })
    }

    /// Stops the program when this is cancelled, as after a signal.
    #[cfg(feature = "apiserver")]
    pub(super) fn stopped_by(self, stopped: CancellationToken) -> Self {
        Self { stopped, ..self }
    }

    fn supervise(&mut self, program: &Runtime, operator: Operator, drain: Duration) -> ExitCode {
        let Self { main, signals, stopped, is_stopping } = self;
        let code = block_on(main, async {
            let stop = CancellationToken::new();
            let mut running = program.spawn(operator.run(stop.clone()));
            tokio::select! {
                ended = &mut running => return ended_alone(ended),
                () = stopped.cancelled() => stop.cancel(),
                signal = signals.next() => {
                    *is_stopping = true;
                    let drain = kooper_grammar::duration::format(drain);
                    tracing::info!("{signal}: stopping; running handlers have {drain} to end; a second signal ends \
                                    the program at once");
                    stop.cancel();
                }
            }
            drained(running, signals, drain).await
        });
        ExitCode::from(code)
    }

    /// Waits for what ends after the controllers, such as the server of webhooks, but not beyond the second signal.
    fn until_signal(&mut self, ending: impl Future<Output = ()>) {
        let Self { main, signals, is_stopping, .. } = self;
        let second = async {
            if !*is_stopping {
                let signal = signals.next().await;
                tracing::info!("{signal}: stopping; a second signal ends the program at once");
            }
            signals.next().await
        };
        block_on(main, async {
            tokio::select! {
                () = ending => {}
                signal = second => end_at_once(signal),
            }
        });
    }
}

/// Ends the process, which is stopping already.
fn end_at_once(signal: Signal) -> ! {
    tracing::warn!("one more {signal}: ending at once");
    std::process::exit(signal.exit_code().into())
}

fn ended_alone(ended: Result<Result<(), RunError>, JoinError>) -> u8 {
    match ended {
        Ok(Ok(())) => tracing::error!("every controller has ended"),
        Ok(Err(error)) => tracing::error!("{}", chain(&error)),
        Err(error) => tracing::error!("the operator panicked: {error}"),
    }
    FAILED
}

async fn drained(running: JoinHandle<Result<(), RunError>>, signals: &mut Signals, drain: Duration) -> u8 {
    let limit = drain.saturating_add(GRACE);
    tokio::select! {
        ended = running => match ended {
            Ok(Ok(())) => {
                tracing::info!("stopped");
                0
            }
            broken => ended_alone(broken),
        },
        signal = signals.next() => end_at_once(signal),
        () = tokio::time::sleep(limit) => {
            tracing::error!("handlers block the runtime, so it cannot drain: ending; use tokio::task::spawn_blocking");
            0
        }
    }
}
