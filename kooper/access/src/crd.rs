//! Installs CRDs: applies them unless another owner's or a newer one exists, and
//! waits until they are established.

mod advice;
mod breaking;
mod cel;
mod content;
mod definition;
mod field;
mod integers;
mod served;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kooper_runtime::internal::error::refusal::{ApiStatus, Cause};
use kube::api::{Api, Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

pub use advice::{Advice, InstallError};
pub(crate) use breaking::AllowedBy;
pub(crate) use content::{HASH, VERSION, is_newer, same};
pub use content::{PROGRAM, annotated, merged};
pub(crate) use definition::{Compared, Installed};
pub(crate) use field::has_field;
pub(crate) use integers::bounded;
pub use served::{lacking, older};

use crate::capability::NEVER;

/// The number of CRDs of a process that are compared and applied at the same time.
const AT_A_TIME: usize = 4;

/// The longest time to compare and apply a CRD, and the longest for it to be established.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The delay before a failed watch of a CRD is re-established.
const PAUSE: Duration = Duration::from_millis(500);

/// The first minor version of Kubernetes 1 in which ratcheting cannot be
/// disabled: stored values stay valid until they are edited.
const RATCHETS_SINCE: u32 = 33;

/// Installs the CRDs of a program.
pub struct Installer {
    advice: Advice,
    version: String,
    /// The CRDs to install, each with all its versions.
    crds: BTreeMap<String, CustomResourceDefinition>,
    /// The changes that the user allows, as `NAME@HASH`.
    allowed: Vec<String>,
    /// Previous names of the program: field managers whose fields are taken over.
    previous: Vec<String>,
    turns: Semaphore,
}

/// Maximum number of comparisons that follow at once because another writer was first.
const CONFLICTS: u32 = 5;

/// The action for a CRD at startup.
#[derive(Debug)]
pub enum InstallPlan {
    /// The cluster does not have it.
    Install,
    /// The CRD of the cluster is kept; its version annotation may be outdated.
    Keep {
        /// The CRD of the cluster.
        current: Box<CustomResourceDefinition>,
        /// `true` if its version annotation is older than the program.
        outdated: bool,
    },
    /// The CRD of the cluster is of this version, which is newer.
    Newer(Box<CustomResourceDefinition>, String),
    /// The CRD of the cluster is replaced, if it still has this resource version.
    Replace(Option<String>),
}

impl Installer {
    /// An installer of a program's CRDs. `version` is that of the program, and `allowed` are the
    /// changes that the user allows, as `NAME@HASH`. CRDs of the same name are merged.
    pub fn new(
        advice: Advice,
        version: &str,
        crds: impl IntoIterator<Item = CustomResourceDefinition>,
        allowed: Vec<String>,
    ) -> Self {
        let turns = Semaphore::new(AT_A_TIME);
        Self { advice, version: version.to_owned(), crds: merged(crds), allowed, previous: Vec::new(), turns }
    }

    /// Takes over the fields that the program applied under previous names.
    #[must_use]
    pub fn previous_programs<'a>(mut self, programs: impl IntoIterator<Item = &'a str>) -> Self {
        self.previous.extend(programs.into_iter().map(str::to_owned));
        self
    }

    /// Applies a CRD unless that of the cluster is sufficient, and waits
    /// until it is established. Any number of replicas may do so at once.
    pub(crate) async fn install(&self, client: &Client, crd: CustomResourceDefinition) -> Result<(), InstallError> {
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let (name, crd) = self.ours(crd);
        let current = {
            // Never closed.
            let _turn = self.turns.acquire().await;
            let late = || {
                let message = format!("it was not compared and applied within {} s", TIMEOUT.as_secs());
                InstallError::NotEstablished { name: name.clone(), message }
            };
            timeout(TIMEOUT, self.place(client, &crds, &name, &crd)).await.map_err(|_| late())??
        };
        self.established(client, &crds, &name, current).await
    }

    /// The action for a CRD at startup. Nothing is changed: a dry-run request shows
    /// whether the API server accepts the CRD.
    pub async fn predict(&self, client: &Client, crd: CustomResourceDefinition) -> Result<InstallPlan, InstallError> {
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let (name, crd) = self.ours(crd);
        let plan = self.plan(client, &crds, &name, &crd).await?;
        if matches!(plan, InstallPlan::Install | InstallPlan::Replace(_)) {
            match self.send(&crds, &name, &crd, true).await {
                // The missing rule is reported with the other rules.
                Ok(_) | Err(InstallError::Forbidden { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(plan)
    }

    /// The command by which a user applies a CRD that the program does not install.
    pub fn by_user(&self) -> String {
        self.advice.by_user()
    }

    fn ours(&self, crd: CustomResourceDefinition) -> (String, CustomResourceDefinition) {
        let name = crd.name_any();
        let crd = self.crds.get(&name).cloned().unwrap_or(crd);
        (name, annotated(crd, &self.advice.manager, &self.version))
    }

    async fn plan(
        &self,
        client: &Client,
        crds: &Api<CustomResourceDefinition>,
        name: &str,
        crd: &CustomResourceDefinition,
    ) -> Result<InstallPlan, InstallError> {
        let Some(current) = crds.get_opt(name).await.map_err(|error| self.failed(name, "read", error))? else {
            return Ok(InstallPlan::Install);
        };
        if current.metadata.deletion_timestamp.is_some() {
            return Err(InstallError::Deleted { name: name.to_owned() });
        }
        // An apply without a conversion keeps the one that another client has set.
        let mut crd = crd.clone();
        crd.spec.conversion = crd.spec.conversion.or_else(|| current.spec.conversion.clone());
        let theirs = current.annotations().get(VERSION).cloned();
        if same(&current, &crd) {
            // An equal CRD of another owner is left unchanged.
            let outdated = theirs.is_some_and(|theirs| is_newer(&self.version, &theirs));
            return Ok(InstallPlan::Keep { current: current.into(), outdated });
        }
        if let Some(theirs) = theirs.filter(|theirs| is_newer(theirs, &self.version)) {
            return Ok(InstallPlan::Newer(current.into(), theirs));
        }
        let mut changes = breaking::changes(&current, &crd);
        if changes.iter().any(|change| change.allowed_by == AllowedBy::Ratcheting) && ratchets(client).await {
            changes.retain(|change| change.allowed_by != AllowedBy::Ratcheting);
        }
        let hash = crd.annotations().get(HASH).map_or("", String::as_str);
        if self.allowed.iter().any(|allowed| allowed.split_once('@') == Some((name, hash))) {
            let allowed: Vec<_> = changes.extract_if(.., |change| change.allowed_by != AllowedBy::Migration).collect();
            if changes.is_empty() && !allowed.is_empty() {
                let texts: Vec<_> = allowed.iter().map(|change| &*change.text).collect();
                tracing::warn!(crd = name, "the CRD changes with the user's consent: {}", texts.join("; "));
            }
        }
        if changes.is_empty() {
            Ok(InstallPlan::Replace(current.resource_version()))
        } else {
            Err(self.advice.breaking(name, hash, &changes))
        }
    }

    /// The CRD of the cluster, applied if necessary. If another replica, maybe of a newer version, was first, it is
    /// compared again.
    async fn place(
        &self,
        client: &Client,
        crds: &Api<CustomResourceDefinition>,
        name: &str,
        crd: &CustomResourceDefinition,
    ) -> Result<CustomResourceDefinition, InstallError> {
        let mut conflicts = CONFLICTS;
        loop {
            let (done, version) = match self.plan(client, crds, name, crd).await? {
                InstallPlan::Keep { current, outdated: false } => return Ok(*current),
                // Only the version annotation is outdated: the CRD may be another owner's.
                InstallPlan::Keep { current, .. } => {
                    let crd = at(crd, current.resource_version());
                    return Ok(self.send(crds, name, &crd, false).await.unwrap_or(*current));
                }
                InstallPlan::Newer(current, theirs) => {
                    let ours = &self.version;
                    tracing::info!(
                        crd = name,
                        "the CRD in the cluster has version {theirs}, which is newer than {ours}: it is kept"
                    );
                    return Ok(*current);
                }
                InstallPlan::Install => ("installed", Some(NEVER.to_owned())),
                InstallPlan::Replace(version) => ("replaced", version),
            };
            let made = match self.send(crds, name, &at(crd, version), false).await {
                Err(error) if error.is_conflict() && conflicts > 0 => {
                    conflicts -= 1;
                    continue;
                }
                made => made?,
            };
            tracing::info!(crd = name, version = self.version, "the CRD is {done}");
            return Ok(made);
        }
    }

    /// Applies the CRD, or does a dry run.
    async fn send(
        &self,
        crds: &Api<CustomResourceDefinition>,
        name: &str,
        crd: &CustomResourceDefinition,
        dry_run: bool,
    ) -> Result<CustomResourceDefinition, InstallError> {
        let params = PatchParams { dry_run, ..PatchParams::apply(&self.advice.manager) };
        // As for comparisons: another way to encode the types of a schema would be compiled, too.
        let ours = serde_json::to_value(crd).map_err(kube::Error::SerdeError);
        let ours = Patch::Apply(ours.map_err(|error| self.failed(name, "applied", error))?);
        let mut applied = crds.patch(name, &params, &ours).await;
        if let Err(kube::Error::Api(status)) = &applied
            && let Cause::FieldManagers(others) = ApiStatus::of(status).cause
        {
            if !others.iter().all(|(who, _)| self.previous.contains(who)) {
                let others = others.iter().map(|(who, field)| format!("`{who}` (`{field}`)"));
                return Err(self.advice.foreign(name, others.collect::<Vec<_>>().join(", ")));
            }
            applied = crds.patch(name, &params.clone().force(), &ours).await;
        }
        // In a conflict without field managers another replica was first.
        let made = applied.map_err(|error| self.failed(name, "applied", error))?;
        if dry_run { Ok(made) } else { self.take_over(crds, name, made).await }
    }

    /// Removes previous names of the program from the managers of a CRD. Fields that
    /// only a previous name applies would never be removed otherwise.
    async fn take_over(
        &self,
        crds: &Api<CustomResourceDefinition>,
        name: &str,
        mut current: CustomResourceDefinition,
    ) -> Result<CustomResourceDefinition, InstallError> {
        for previous in &self.previous {
            let applies = |entry: &ManagedFieldsEntry| {
                (entry.manager.as_deref(), entry.operation.as_deref()) == (Some(previous), Some("Apply"))
            };
            if current.managed_fields().iter().any(applies) {
                let nothing = json!({
                    "apiVersion": CustomResourceDefinition::api_version(&()),
                    "kind": CustomResourceDefinition::kind(&()),
                    "metadata": {"name": name},
                });
                let applied = crds.patch(name, &PatchParams::apply(previous), &Patch::Apply(nothing)).await;
                current = applied.map_err(|error| self.failed(name, "applied", error))?;
            }
        }
        Ok(current)
    }

    /// Waits until the CRD is established, beginning with this state of it.
    async fn established(
        &self,
        client: &Client,
        crds: &Api<CustomResourceDefinition>,
        name: &str,
        mut current: CustomResourceDefinition,
    ) -> Result<(), InstallError> {
        let not = |message: String| InstallError::NotEstablished { name: name.to_owned(), message };
        let ready = |status: Option<&CustomResourceDefinitionStatus>, last: &mut String| {
            let ready = state(status, last).map_err(not)?;
            if ready && let Some(taken) = taken(status) {
                tracing::warn!(crd = name, "the CRD is served without names that another CRD uses: {taken}");
            }
            Ok::<_, InstallError>(ready)
        };
        let only = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut last = "the API server has not reported a condition yet".to_owned();
        let wait = async {
            loop {
                if ready(current.status.as_ref(), &mut last)? {
                    return Ok(());
                }
                let version = current.resource_version().unwrap_or_default();
                let failed = |error| self.failed(name, "watched", error);
                let request =
                    Request::new(crds.resource_url()).watch(&only, &version).map_err(kube::Error::BuildRequest);
                // `Api::watch` would compile all types of a CRD again: serde decodes an event's object from its own buffer.
                let events = client.request_events::<Value>(request.map_err(failed)?).await.map_err(failed)?;
                let mut events = pin!(events);
                while let Some(Ok(event)) = events.next().await {
                    match event {
                        WatchEvent::Added(crd) | WatchEvent::Modified(crd) => {
                            // The read of the CRD reports why.
                            let Ok(status) = serde_json::from_value::<Option<_>>(crd["status"].clone()) else { break };
                            if ready(status.as_ref(), &mut last)? {
                                return Ok(());
                            }
                        }
                        WatchEvent::Deleted(_) => return Err(not("it was deleted meanwhile".to_owned())),
                        WatchEvent::Bookmark(_) => {}
                        WatchEvent::Error(_) => break,
                    }
                }
                sleep(PAUSE).await;
                current = crds.get(name).await.map_err(|error| self.failed(name, "read", error))?;
            }
        };
        let ended = timeout(TIMEOUT, wait).await;
        ended.unwrap_or_else(|_| Err(not(format!("timed out after {} s: {last}", TIMEOUT.as_secs()))))
    }

    fn failed(&self, name: &str, verb: &'static str, error: kube::Error) -> InstallError {
        match error {
            kube::Error::Api(status) if ApiStatus::of(&status).cause == Cause::MissingRule => {
                self.advice.forbidden(name, status.message)
            }
            error => InstallError::Api { name: name.to_owned(), verb, error },
        }
    }
}

/// A CRD that is only applied to this version of the object.
fn at(crd: &CustomResourceDefinition, version: Option<String>) -> CustomResourceDefinition {
    let mut crd = crd.clone();
    crd.metadata.resource_version = version;
    crd
}

/// Returns `true` if ratcheting is certain to be enabled in the API server, and
/// `false` if its version is unknown.
async fn ratchets(client: &Client) -> bool {
    let Ok(version) = client.apiserver_version().await else { return false };
    // Some providers write `33+`.
    let minor = version.minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>();
    version.major == "1" && minor.is_ok_and(|minor| minor >= RATCHETS_SINCE)
}

/// Returns `true` if a CRD is established, and an error if it will never be. `last` is set to
/// the message of the condition that is awaited.
fn state(status: Option<&CustomResourceDefinitionStatus>, last: &mut String) -> Result<bool, String> {
    match (condition(status, "Established"), taken(status)) {
        // It stays established if a later update adds a name that is taken.
        (Some(("True", _)), _) => Ok(true),
        (_, Some(taken)) => Err(format!("{taken}: delete the other CRD, or give the kind another name")),
        (Some((_, message)), None) => {
            message.clone_into(last);
            Ok(false)
        }
        (None, None) => Ok(false),
    }
}

/// The API server's message about names of a CRD that another CRD already uses.
#[must_use]
pub fn taken_names(crd: &CustomResourceDefinition) -> Option<&str> {
    taken(crd.status.as_ref())
}

fn taken(status: Option<&CustomResourceDefinitionStatus>) -> Option<&str> {
    condition(status, "NamesAccepted").and_then(|(status, message)| (status == "False").then_some(message))
}

/// The status and the message of a condition.
fn condition<'a>(status: Option<&'a CustomResourceDefinitionStatus>, kind: &str) -> Option<(&'a str, &'a str)> {
    let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let condition = conditions.find(|condition| condition.type_ == kind)?;
    Some((&*condition.status, condition.message.as_deref().unwrap_or_default()))
}

/// Returns an error with the reason if a CRD of the cluster is not established.
pub fn is_established(crd: &CustomResourceDefinition) -> Result<(), String> {
    let mut last = "the API server has not reported a condition yet".to_owned();
    if state(crd.status.as_ref(), &mut last)? { Ok(()) } else { Err(last) }
}

kooper_runtime::internal::debug_fields! { Installer { advice, version } }
