//! The controllers of the program, as the flags want them.

use super::args::Settings;
use super::connect::Connection;
use crate::controller::Controller;
use crate::error::BoxError;
use crate::leader::LeaderElection;
use crate::program::Program;

/// The controllers of all definitions.
pub(crate) fn controllers(definitions: &[fn(&mut Program)], settings: &Settings) -> Result<Vec<Controller>, BoxError> {
    let mut program = Program::default();
    for define in definitions {
        define(&mut program);
    }
    let mut controllers = program.into_controllers()?;
    for controller in &mut controllers {
        if let Some(workers) = settings.workers {
            controller.set_workers(workers)?;
        }
        if let Some(resync) = settings.resync {
            controller.set_resync(resync.0)?;
        }
        match settings.leader_election {
            Some(false) => controller.set_leader_election(None)?,
            Some(true) if !controller.has_leader_election() => {
                controller.set_leader_election(Some(LeaderElection::default()))?;
            }
            _ => {}
        }
        if settings.namespaces.is_empty() {
            continue;
        }
        if !controller.set_namespaces(settings.namespaces.clone()) {
            let (name, kind) = (controller.name(), controller.kind());
            tracing::warn!(
                "--namespace changes nothing for the controller `{name}`: {kind} is in no namespace, or it has a retriever of its own"
            );
        }
    }
    Ok(controllers)
}

/// The namespace of the leases that name none. Outside a cluster it is a
/// guess, which is said.
pub(crate) fn lease_namespace(
    program: &str,
    controllers: &[Controller],
    settings: &Settings,
    connection: &Connection,
) -> String {
    if let Some(namespace) = &settings.lease_namespace {
        return namespace.clone();
    }
    let namespace = connection.client.default_namespace();
    let installation = settings.installation(program);
    // A lease with a namespace of its own is in it, whichever is the default.
    let guessed = |controller: &Controller| {
        let of = |namespace| controller.leases(&installation, namespace).map(|leases| leases.namespace);
        of("a").is_some() && of("a") != of("b")
    };
    if !connection.in_pod && controllers.iter().any(guessed) {
        tracing::warn!(
            "the leases are in namespace `{namespace}`, the kubeconfig context's: replicas in a cluster are excluded \
             only if theirs are there too; write `--lease-namespace NAME` otherwise"
        );
    }
    namespace.to_owned()
}
