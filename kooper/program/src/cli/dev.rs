//! The command `dev`: the controllers on an API server in this process.

mod apply;
mod folder;
mod greeting;
mod identity;
mod least;
mod replicas;
mod sample;
mod server;

use std::collections::BTreeSet;
use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use kooper_apiserver::ApiServer;
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tracing::Dispatch;
use tracing::dispatcher::set_default;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

use super::args::{Listen, Settings};
use super::connect::{self, Connection};
use super::document::{self, Document};
use super::invocation::Invocation;
use super::listeners::Listeners;
use super::run::{Run, Supervisor};
use super::stdout::print;
use super::webhooks::WebhookServer;
use crate::block_on::block_on;
use crate::http::{ListenError, Listener};
use crate::rbac::Place;
use folder::Folder;
use greeting::{Applied, StartupMessage};
use identity::Identity;
use kooper_access::Controller;
use kooper_access::internal::crd::{annotated, merged};
use kooper_runtime::{BoxError, Result};
use kooper_workloads::Simulation;
use replicas::Replicas;

/// The namespace of the service account, of Leases, and of objects that name none.
const NAMESPACE: &str = "default";

/// Maximum number of ports to try, beginning with the default.
const MOST_PORTS: u16 = 100;

/// The processes that run the controllers.
enum RunMode {
    /// This one, with its listeners.
    This(Box<Listeners>),
    Processes(Replicas),
}

/// Runs the controllers on an embedded API server until a signal arrives. The server has their CRDs, some objects, and
/// their service account with its permissions.
pub(super) fn dev(mut invocation: Invocation<'_>) -> Result<ExitCode> {
    let (program, version) = (invocation.app.name, invocation.app.version);
    let installation = invocation.installation();
    let settings = &mut invocation.settings;
    let name = installation.to_string();
    if settings.clean {
        return clean(&name);
    }
    // Before everything else: nothing that is prepared for a port that is taken is of use.
    settings.port.filter(|_| !replicas::is_child()).map(server::check).transpose()?;
    let has_status_page = *settings.status_page.get_or_insert(settings.listen != Listen::Off);
    let lease_namespace = settings.lease_namespace.get_or_insert_with(|| NAMESPACE.to_owned()).clone();
    let (invocation, settings) = (&invocation, &invocation.settings);
    if replicas::is_child() {
        return replicas::run_child(invocation);
    }
    let mut controllers = invocation.controllers()?;
    controllers.iter_mut().for_each(|one| one.set_own_namespace(NAMESPACE));
    if settings.processes.is_some() {
        replicas::check(invocation, &controllers)?;
    }
    // Report errors in files before anything starts.
    let files = document::read(&settings.files)?;
    let mut notes = Vec::new();
    let mut folder = Folder::take(&name)?;
    if folder.is_other {
        notes.push(format!("another `dev` of {name} is running: this one uses its own files and ports"));
    }

    // The log is that of the operator, and not of the controllers around it: the threads of their handlers inherit this
    // subscriber, as it is not none.
    let silent = Dispatch::new(tracing_subscriber::registry().with(LevelFilter::OFF));
    // A separate runtime: handlers that block their threads do not delay the server.
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("kooper-apiserver")
        .on_thread_start(move || std::mem::forget(set_default(&silent)))
        .enable_all()
        .build()?;
    let server = block_on(&runtime, server::start(&mut folder, settings.port, &mut notes))?;
    let workloads = settings.workloads.unwrap_or(true);
    let simulation = workloads.then(|| block_on(&runtime, async { Simulation::visible(&server) }));
    if !workloads {
        notes.push("pods stay pending, and workloads get no pods: `--workloads off`".to_owned());
    }

    let reviews_tokens = settings.reviews_tokens();
    let place = Place { installation, namespace: NAMESPACE.to_owned(), lease_namespace, reviews_tokens };
    let (served, registering) = WebhookServer::on_loopback(invocation, &place.lease_namespace)?;
    let own = controllers.len();
    controllers.extend(registering);
    let identity = Identity::new(&controllers, &place);
    let run = Run::new(invocation)?;
    let prepared = block_on(&run.runtime, async {
        let client = server.client();
        prepare(&client, (&place.installation.program, version), &controllers, &identity).await?;
        let objects = if files.is_empty() {
            sample::apply_all(&client, &controllers, &mut notes).await?
        } else {
            let objects = files.iter().map(Applied::from).collect();
            apply::apply(&client, files).await?;
            objects
        };
        let connection = connect_as(&identity, &server, program, &run).await?;
        Ok::<_, BoxError>((objects, connection))
    });
    let (objects, connection) = prepared?;
    // After the objects: a file that the server refuses is the user's own, and is reported before a port that is taken.
    let runners = match settings.processes {
        None => RunMode::This(Box::new(bind(settings, &mut notes)?)),
        Some(count) => {
            let usage = "write a number to stop or start one of them, or `kill 1` to kill the first one";
            notes.push(format!("{count} replicas run, each in a process: {usage}"));
            let kubeconfig = server.kubeconfig_of(identity.user.clone());
            RunMode::Processes(Replicas::new(count, kubeconfig, settings.drain_timeout())?)
        }
    };
    notes.extend(identity.unrestricted.clone());
    if !has_kubectl() {
        notes.push("kubectl is not on the PATH: install it for these commands".to_owned());
    }
    let greeting = StartupMessage {
        program,
        controllers: &controllers[..own],
        server: connection.server.clone(),
        kubeconfig: &folder.kubeconfig(),
        listen: if let RunMode::This(listeners) = &runners { listeners.addresses().0 } else { None },
        has_status_page,
        has_tls: settings.metrics_certificate.is_some() || settings.reviews_tokens(),
        account: format!("{}/{}", place.namespace, place.account()),
        unrestricted: identity.unrestricted.is_some(),
        objects,
        notes,
    };
    // The greeting promises that Ctrl-C stops it.
    let supervisor = Supervisor::new()?;
    print(&greeting.to_string())?;
    let ended = match runners {
        RunMode::This(listeners) => run.operate(supervisor, controllers, *listeners, served, Some(connection)),
        RunMode::Processes(replicas) => replicas.run(),
    };
    drop(simulation);
    block_on(&runtime, server.shutdown());
    runtime.shutdown_background();
    ended
}

/// Removes the files that `dev` keeps.
fn clean(name: &str) -> Result<ExitCode> {
    let removed: Vec<_> = folder::clean(name)?.iter().map(|path| format!("removed {}\n", path.display())).collect();
    let text = if removed.is_empty() { format!("there are no files of {name}\n") } else { removed.concat() };
    print(&text)
}

/// Binds the listeners, on other ports than the usual ones if those are taken.
fn bind(settings: &Settings, notes: &mut Vec<String>) -> Result<Listeners> {
    let (mut of_main, mut of_probes) = (Vec::new(), Vec::new());
    let listeners = Listeners::bind_by(
        settings,
        |address| listen(address, Listener::bind, Listener::DEFAULT.port(), "metrics", &mut of_main),
        |address| listen(address, Listener::bind_probes, Listener::DEFAULT_PROBES.port(), "probes", &mut of_probes),
    )?;
    notes.extend(of_main.into_iter().chain(of_probes));
    Ok(listeners)
}

/// Binds a listener: to the address of the flag, or to the first free port of loopback.
fn listen(
    listen: Listen,
    bind: fn(SocketAddr) -> Result<Listener, ListenError>,
    port: u16,
    what: &str,
    notes: &mut Vec<String>,
) -> Result<Option<Listener>, ListenError> {
    let first = match listen {
        Listen::Off => return Ok(None),
        Listen::At(address) => return bind(address).map(Some),
        Listen::Default => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
    };
    for port in first.port()..first.port() + MOST_PORTS {
        let Ok(listener) = bind(SocketAddr::new(first.ip(), port)) else { continue };
        if port != first.port() {
            notes.push(format!("port {} is taken: {what} are on {port}", first.port()));
        }
        return Ok(Some(listener));
    }
    bind(first).map(Some)
}

/// Applies the CRDs, the namespaces and the permissions of the controllers.
async fn prepare(
    client: &Client,
    (program, version): (&str, &str),
    controllers: &[Controller],
    identity: &Identity,
) -> Result<()> {
    let crds = merged(controllers.iter().filter_map(Controller::crd).map(|(crd, _)| crd));
    let crds = crds.into_values().map(|crd| serde_json::to_value(annotated(crd, program, version)));
    let mut objects = crds.collect::<Result<Vec<_>, _>>()?;
    let watched = controllers.iter().flat_map(Controller::namespaces);
    let namespaces: BTreeSet<_> = watched.chain(&identity.namespaces).collect();
    objects.extend(namespaces.into_iter().map(|name| namespace(name)));
    objects.extend(identity.documents.iter().cloned());
    let documents = objects.into_iter().map(|object| Document { object, source: None });
    Ok(apply::apply(client, documents.collect()).await?)
}

/// Returns `true` if kubectl is on the `PATH`.
fn has_kubectl() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join("kubectl").is_file() || folder.join("kubectl.exe").is_file())
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Connects to the server as the operator, over the network as in a cluster.
async fn connect_as(identity: &Identity, server: &ApiServer, program: &str, run: &Run<'_>) -> Result<Connection> {
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig_of(identity.user.clone()))?;
    Ok(connect::connect_by(program, kubeconfig, &run.metrics).await?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_message_about_a_taken_port_names_the_flag_of_that_port() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let taken = Listen::At(other.local_addr().expect("a bound socket has an address"));
        let refused = |settings: Settings| {
            bind(&settings, &mut Vec::new()).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let metrics = refused(Settings { listen: taken, ..Settings::default() });
        assert!(metrics.contains("choose another one with `--listen` "), "{metrics}");
        let probes = refused(Settings { listen: Listen::Off, listen_probes: Some(taken), ..Settings::default() });
        assert!(probes.contains("choose another one with `--listen-probes` "), "{probes}");
    }
}
