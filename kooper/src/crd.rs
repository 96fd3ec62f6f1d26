//! CRDs: applied, never over somebody else's or a newer one, and waited for.

mod breaking;
mod content;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::error::chain;
use crate::refusal::{Cause, Refusal};

use content::{VERSION, is_newer, same};
pub(crate) use content::{annotated, merged};

/// How many CRDs of a process are compared and applied at a time.
const AT_A_TIME: usize = 4;

/// How long a CRD may take to be established before that is told.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at a CRD whose watch broke.
const PAUSE: Duration = Duration::from_millis(500);

/// Installs the CRDs of a program.
pub(crate) struct Installer {
    program: String,
    version: String,
    /// Those that it installs, each with all its versions.
    crds: BTreeMap<String, CustomResourceDefinition>,
    turns: Semaphore,
}

/// A CRD that is not as the controller needs it. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error(
        "{message}: add the rule \"apiextensions.k8s.io/customresourcedefinitions: create, get, patch, watch\" with \
         resourceNames `{name}` to its ClusterRole, as `{program} rbac` prints it; or install the CRD by \
         hand, and remove `install_crd`"
    )]
    Forbidden { name: String, program: String, message: String },
    #[error("the CRD `{name}` cannot be {verb}: {}", chain(.error))]
    Api { name: String, verb: &'static str, error: kube::Error },
    #[error(
        "the CRD `{name}` of the cluster is not replaced, as stored objects might not fit any more: {changes}; undo \
         that, or add a version to the CRD, or apply it by hand if no object is concerned: `{program} crd | kubectl \
         apply --server-side --force-conflicts -f -`"
    )]
    Breaking { name: String, program: String, changes: String },
    #[error(
        "the CRD `{name}` differs and is not replaced, as it belongs to {owner}: update it with what put it there, or \
         let it go over with `{program} crd | kubectl apply --server-side --force-conflicts --field-manager={program} \
         -f -`"
    )]
    Foreign { name: String, program: String, owner: String },
    #[error(
        "the CRD `{name}` is being deleted: it goes when its objects are gone; look for finalizers on them with \
         `kubectl get {name} --all-namespaces`"
    )]
    Deleted { name: String },
    #[error("the CRD `{name}` is not established: {message}")]
    NotEstablished { name: String, message: String },
}

impl Installer {
    pub(crate) fn new(program: &str, version: &str, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        let (program, version) = (program.to_owned(), version.to_owned());
        Self { program, version, crds: merged(crds), turns: Semaphore::new(AT_A_TIME) }
    }

    /// Brings a CRD into the cluster, unless what is there will do, and waits
    /// until it is established. Any number of replicas may do so at once.
    pub(crate) async fn install(&self, client: &Client, crd: CustomResourceDefinition) -> Result<(), InstallError> {
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = crd.name_any();
        let crd = self.crds.get(&name).cloned().unwrap_or(crd);
        let there = {
            // Never closed.
            let _turn = self.turns.acquire().await;
            self.place(&crds, &name, crd).await?
        };
        self.established(&crds, &name, there).await
    }

    /// The CRD as the cluster has it, applied if need be.
    async fn place(
        &self,
        crds: &Api<CustomResourceDefinition>,
        name: &str,
        crd: CustomResourceDefinition,
    ) -> Result<CustomResourceDefinition, InstallError> {
        let crd = annotated(crd, &self.version);
        let Some(there) = crds.get_opt(name).await.map_err(|error| self.failed(name, "read", error))? else {
            let made = self.apply(crds, name, &crd).await?;
            tracing::info!(crd = name, version = self.version, "the CRD is installed");
            return Ok(made);
        };
        if there.metadata.deletion_timestamp.is_some() {
            return Err(InstallError::Deleted { name: name.to_owned() });
        }
        let theirs = there.annotations().get(VERSION).map(String::as_str);
        if same(&there, &crd) {
            // A CRD of somebody else that says the same is left as it is.
            if !theirs.is_some_and(|theirs| is_newer(&self.version, theirs)) {
                return Ok(there);
            }
            // Only the note of the version is behind: it may be another's.
            return Ok(self.apply(crds, name, &crd).await.unwrap_or(there));
        }
        if let Some(theirs) = theirs.filter(|theirs| is_newer(theirs, &self.version)) {
            let ours = &self.version;
            tracing::info!(crd = name, "the CRD of the cluster is of version {theirs}, newer than {ours}: it stays");
            return Ok(there);
        }
        let changes = breaking::changes(&there, &crd);
        if !changes.is_empty() {
            let (name, program, changes) = (name.to_owned(), self.program.clone(), changes.join("; "));
            return Err(InstallError::Breaking { name, program, changes });
        }
        let made = self.apply(crds, name, &crd).await?;
        tracing::info!(crd = name, version = self.version, "the CRD is replaced");
        Ok(made)
    }

    async fn apply(
        &self,
        crds: &Api<CustomResourceDefinition>,
        name: &str,
        crd: &CustomResourceDefinition,
    ) -> Result<CustomResourceDefinition, InstallError> {
        let applied = crds.patch(name, &PatchParams::apply(&self.program), &Patch::Apply(crd)).await;
        applied.map_err(|error| match &error {
            kube::Error::Api(status) => match Refusal::of(status).cause {
                Cause::FieldManagers(others) => {
                    let (name, program) = (name.to_owned(), self.program.clone());
                    let others = others.iter().map(|(who, field)| format!("`{who}` (`{field}`)"));
                    InstallError::Foreign { name, program, owner: others.collect::<Vec<_>>().join(", ") }
                }
                // A conflict without them: another replica was first.
                _ => self.failed(name, "applied", error),
            },
            _ => self.failed(name, "applied", error),
        })
    }

    /// Waits, from a state of the CRD on, until it is established.
    async fn established(
        &self,
        crds: &Api<CustomResourceDefinition>,
        name: &str,
        mut there: CustomResourceDefinition,
    ) -> Result<(), InstallError> {
        let not = |message: String| InstallError::NotEstablished { name: name.to_owned(), message };
        let only = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut last = "the API server has said nothing about it yet".to_owned();
        let wait = async {
            loop {
                if let State::Ready = state(&there, &mut last).map_err(not)? {
                    return Ok(());
                }
                let version = there.resource_version().unwrap_or_default();
                let events = crds.watch(&only, &version).await.map_err(|error| self.failed(name, "watched", error))?;
                let mut events = pin!(events);
                while let Ok(Some(event)) = events.try_next().await {
                    match event {
                        WatchEvent::Added(crd) | WatchEvent::Modified(crd) => {
                            if let State::Ready = state(&crd, &mut last).map_err(not)? {
                                return Ok(());
                            }
                        }
                        WatchEvent::Deleted(_) => return Err(not("it was deleted meanwhile".to_owned())),
                        WatchEvent::Bookmark(_) => {}
                        WatchEvent::Error(_) => break,
                    }
                }
                sleep(PAUSE).await;
                there = crds.get(name).await.map_err(|error| self.failed(name, "read", error))?;
            }
        };
        let ended = timeout(PATIENCE, wait).await;
        ended.unwrap_or_else(|_| Err(not(format!("not within {} s: {last}", PATIENCE.as_secs()))))
    }

    fn failed(&self, name: &str, verb: &'static str, error: kube::Error) -> InstallError {
        let name = name.to_owned();
        match error {
            kube::Error::Api(status) if Refusal::of(&status).cause == Cause::MissingRule => {
                InstallError::Forbidden { name, program: self.program.clone(), message: status.message }
            }
            error => InstallError::Api { name, verb, error },
        }
    }
}

/// How far the server is with a CRD.
enum State {
    Ready,
    Waiting,
}

/// An error is what no waiting heals; `last` keeps what there is to wait for.
fn state(crd: &CustomResourceDefinition, last: &mut String) -> Result<State, String> {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = 0;
    for condition in conditions {
        let message = || condition.message.clone().unwrap_or_default();
        match (&*condition.type_, &*condition.status) {
            ("NamesAccepted", "False") => {
                return Err(format!("{}: delete the other CRD, or give the kind another name", message()));
            }
            ("Established" | "NamesAccepted", "True") => ready += 1,
            ("Established", _) => *last = message(),
            _ => {}
        }
    }
    Ok(if ready == 2 { State::Ready } else { State::Waiting })
}

/// Whether a CRD of the cluster is established; what is missing if not.
#[cfg(feature = "cli")]
pub(crate) fn is_established(crd: &CustomResourceDefinition) -> Result<(), String> {
    let mut last = "the API server has said nothing about it yet".to_owned();
    match state(crd, &mut last)? {
        State::Ready => Ok(()),
        State::Waiting => Err(last),
    }
}

impl std::fmt::Debug for Installer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Installer").field("program", &self.program).field("version", &self.version).finish()
    }
}
