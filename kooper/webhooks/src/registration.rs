//! The registration of webhooks: configurations that tell the API servers when to call which
//! function, and by which certificate they verify the server.
//!
//! 1. Each entry is registered with `Ignore`, so that nothing fails before the server was reached.
//! 2. The probe: a webhook with `Ignore` on the own Lease, for dry runs alone, warns the client.
//!    A write of the Lease as a dry run that returns the warning has passed the server. This
//!    needs no further permission, and renewals of the Lease do not match.
//! 3. Each entry whose policy is `Fail` gets it, and keeps it from then on: a restart of the
//!    program opens no gap.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kooper_access::internal::Installation;
use kooper_access::plan::{Need, Reach};
use kooper_grammar::access::Rule;
use kooper_runtime::Action;
use kooper_runtime::internal::clock;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, Error, Resource};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::authority::secret::{CaSecret, SecretError};
use crate::certificates::{Certificates, Shared};
use crate::installed::Installed;
use crate::states::Registered;
use crate::webhook::Webhook;

mod configuration;
mod inspection;
mod probe;
mod roll_out;
#[cfg(test)]
mod tests;

pub(crate) use configuration::{Configuration, Target};
pub use inspection::Finding;
pub(crate) use probe::webhooks as probes;
pub(crate) use roll_out::RollOut;

/// The number of probes that the API server is asked for in one attempt, and the pause between two. An
/// API server takes some time to learn a configuration.
const PROBES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// Why the webhooks are not registered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegisterError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("the configuration `{name}` cannot be {verb}: {error}")]
    Request {
        name: String,
        verb: &'static str,
        #[source]
        error: Error,
    },
    #[error("the configuration `{name}` was changed in the meantime")]
    Changed { name: String },
    #[error("the ClusterRole `{name}` that owns the configurations cannot be read: {error}")]
    Owner {
        name: String,
        #[source]
        error: Error,
    },
    #[error("the Deployment `{name}` cannot be read: {error}")]
    Deployment {
        name: String,
        #[source]
        error: Error,
    },
    #[error("the Lease `{name}` cannot be updated in a dry run: {error}")]
    Probe {
        name: String,
        #[source]
        error: Error,
    },
    #[error("the Lease `{name}` cannot be updated in a dry run: the API server responded with {status}")]
    Refused { name: String, status: http::StatusCode },
    #[error("the file {} of the webhooks' certificate authority cannot be read or is not PEM", file.display())]
    Bundle { file: PathBuf },
    #[error("the API server cannot reach the webhooks at {target}: they stay registered with `Ignore` until it can")]
    Unreached { target: String },
    #[error(
        "cert-manager has not written its authority into the configuration `{name}`: its new webhooks stay registered \
         with `Ignore` until it has"
    )]
    Untrusted { name: String },
    #[error(
        "the API server can no longer reach the webhooks at {target}: requests with the failure policy `Fail` are denied"
    )]
    Lost { target: String },
}

/// The writes of the leader of the Lease.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) installation: Installation,
    pub(crate) namespace: String,
    pub(crate) lease: String,
    pub(crate) target: Target,
    pub(crate) webhooks: Vec<Arc<Webhook>>,
    /// The namespaces of the controllers; empty for all.
    pub(crate) namespaces: Vec<String>,
    /// The Deployment of the program: new functions are registered when all replicas serve them.
    pub(crate) deployment: Option<String>,
    pub(crate) roll_out: RollOut,
    /// The ClusterRole that owns the configurations.
    pub(crate) owner: Option<String>,
    /// Each entry is limited to the namespaces, whatever its kind.
    pub(crate) is_local: bool,
    /// No entry fails.
    pub(crate) ignores: bool,
    pub(crate) shared: Arc<Shared>,
    /// Becomes true when everything is registered as it should be.
    pub(crate) done: watch::Sender<bool>,
}

impl Registration {
    /// Does what is due. It is called again and again.
    pub(crate) async fn reconcile(&self, client: &Client) -> Result<Action, RegisterError> {
        match self.register_all(client).await {
            // It begins again with what is there now.
            Err(RegisterError::Changed { .. }) => Ok(Action::requeue_after(PAUSE)),
            done => done,
        }
    }

    async fn register_all(&self, client: &Client) -> Result<Action, RegisterError> {
        let owner = self.owner_reference(client).await?;
        let configuration =
            |mutates| Configuration { registration: self, mutates, rolled_out: false, owner: owner.clone() };
        let (mut validating, mut mutating) = (configuration(false), configuration(true));
        let live = (live(client, &validating).await?, live(client, &mutating).await?);
        let is_registered = validating.has_functions(&live.0) || mutating.has_functions(&live.1);
        let rolled_out = self.is_rolled_out(client, is_registered).await?;
        (validating.rolled_out, mutating.rolled_out) = (rolled_out, rolled_out);
        let published = configuration::published([&live.0, &live.1]);
        let Some(bundle) = self.bundle(client, &published).await? else {
            return Ok(Action::requeue_after(PAUSE));
        };
        // Both are registered before either is probed: a server that is not reached fails the probe.
        let validating = self.register(client, validating, live.0, &bundle).await?;
        let mutating = self.register(client, mutating, live.1, &bundle).await?;
        self.report([&validating, &mutating], false);
        // Nothing is between an API server and a program on the same machine.
        let is_due = !self.is_local && self.shared.is_probe_due(clock::wall());
        self.arm(client, &validating, &bundle, is_due).await?;
        self.arm(client, &mutating, &bundle, is_due).await?;
        if is_due {
            self.shared.probed(clock::wall());
        }
        self.report([&validating, &mutating], true);
        if !self.done.send_replace(rolled_out) && rolled_out {
            tracing::info!("the webhooks are registered, and the API server can reach them");
        }
        Ok(Action::done())
    }

    /// The objects that are written.
    pub(crate) fn installed(&self) -> Installed {
        Installed {
            namespace: self.namespace.clone(),
            configuration: self.configuration_name(),
            lease: self.lease.clone(),
            secret: match &self.shared.certificates {
                Certificates::Own { secret, .. } => Some(secret.clone()),
                Certificates::Files { .. } | Certificates::Injected { .. } => None,
            },
        }
    }

    /// The name of both configurations, with the namespace: they belong to the cluster. Two
    /// installations never have the same one, as no other part of it has a dot.
    fn configuration_name(&self) -> String {
        let Self { installation, namespace, .. } = self;
        let instance = installation.instance.iter().map(|instance| format!(".{instance}"));
        format!("{}--webhooks.{namespace}{}", installation.program, instance.collect::<String>())
    }

    /// The permissions of the requests that are sent, each limited to the names of the objects.
    pub(crate) fn needs(&self) -> Vec<Need> {
        let Installed { namespace, configuration, secret, .. } = self.installed();
        let need = |rule: Rule, name: &str, reach: Reach| Need {
            rule,
            names: vec![name.to_owned()],
            reach,
            because: "webhooks".to_owned(),
        };
        // A creation names no object that a rule could name.
        let any = |rule: Rule, reach: Reach| Need { names: Vec::new(), ..need(rule, "", reach) };
        let here = || Reach::Namespace(namespace.clone());
        let group = "admissionregistration.k8s.io";
        let mut needs = Vec::new();
        for resource in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            needs.push(any(Rule::new(group, resource, None, &["create"]), Reach::Cluster));
            needs.push(need(Rule::new(group, resource, None, &["get", "patch"]), &configuration, Reach::Cluster));
        }
        if let Some(secret) = &secret {
            needs.push(any(Rule::new("", "secrets", None, &["create"]), here()));
            needs.push(need(Rule::new("", "secrets", None, &["get", "update"]), secret, here()));
        }
        if let Some(name) = &self.deployment {
            needs.push(need(Rule::new("apps", "deployments", None, &["get"]), name, here()));
        }
        if let Some(name) = &self.owner {
            let rule = Rule::new("rbac.authorization.k8s.io", "clusterroles", None, &["get"]);
            needs.push(need(rule, name, Reach::Cluster));
        }
        needs
    }

    /// The reference to the owner, if there is one.
    async fn owner_reference(&self, client: &Client) -> Result<Option<Value>, RegisterError> {
        let Some(name) = &self.owner else { return Ok(None) };
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let found = roles.get_opt(name).await;
        let found = found.map_err(|error| RegisterError::Owner { name: name.clone(), error })?;
        Ok(found.and_then(|role| role.owner_ref(&()).and_then(|owner| serde_json::to_value(owner).ok())))
    }

    /// The bundle to publish; empty if another program injects it. `None` if another replica
    /// has changed the authorities meanwhile.
    async fn bundle(&self, client: &Client, published: &str) -> Result<Option<String>, RegisterError> {
        let (secret, leaf, known) = match &self.shared.certificates {
            Certificates::Injected { .. } => return Ok(Some(String::new())),
            Certificates::Files { ca, .. } => {
                return self.shared.bundle(ca).map(Some).ok_or_else(|| RegisterError::Bundle { file: ca.clone() });
            }
            Certificates::Own { secret, leaf, known } => (secret, leaf, known),
        };
        let secret = CaSecret::new(client.clone(), &self.namespace, secret.clone());
        let known = known.lock().clone();
        let mut read = secret.read(known.as_ref()).await?;
        while let Some(next) = read.authorities.advance(clock::wall(), published).map_err(SecretError::from)? {
            tracing::info!("the certificate authorities of the webhooks have changed");
            match secret.replace(read, next).await? {
                Some(written) => read = written,
                None => return Ok(None),
            }
        }
        leaf.renew(&read.authorities.current, clock::wall()).map_err(SecretError::from)?;
        self.shared.know(&read.authorities);
        Ok(Some(read.authorities.bundle()))
    }

    /// Writes a configuration, in which the entries that failed before still fail.
    async fn register<'a>(
        &self,
        client: &Client,
        configuration: Configuration<'a>,
        live: Value,
        bundle: &str,
    ) -> Result<WrittenConfiguration<'a>, RegisterError> {
        if configuration.is_empty() && live.is_null() {
            return Ok(WrittenConfiguration { configuration, armed: BTreeSet::new(), live });
        }
        let armed = configuration::armed(&live);
        let live = apply(client, &configuration, live, bundle, &armed).await?;
        Ok(WrittenConfiguration { configuration, armed, live })
    }

    /// Lets the entries fail that are to, once the server was reached. It is also probed if that is due.
    async fn arm(
        &self,
        client: &Client,
        registered: &WrittenConfiguration<'_>,
        bundle: &str,
        is_due: bool,
    ) -> Result<(), RegisterError> {
        let WrittenConfiguration { configuration, armed, live } = registered;
        let all = configuration.to_fail();
        let is_armed = all.is_subset(armed);
        if configuration.is_empty() || is_armed && !is_due {
            return Ok(());
        }
        let is_trusted = configuration::are_trusted(live);
        for _ in 0..PROBES {
            if probe::is_reached(client, self, configuration.mutates).await? {
                if is_armed {
                    return Ok(());
                }
                if is_trusted {
                    apply(client, configuration, live.clone(), bundle, &all).await?;
                    return Ok(());
                }
                if configuration::are_trusted(&self::live(client, configuration).await?) {
                    return Err(RegisterError::Changed { name: configuration.name() });
                }
            }
            sleep(PAUSE).await;
        }
        let target = self.target.to_string();
        if is_armed && !all.is_empty() {
            return Err(RegisterError::Lost { target });
        }
        // Without it, the API server reaches none of them, or the probe only.
        if !is_trusted && !configuration::are_trusted(&self::live(client, configuration).await?) {
            return Err(RegisterError::Untrusted { name: configuration.name() });
        }
        Err(RegisterError::Unreached { target })
    }

    /// Tells the status page how each webhook is registered.
    fn report(&self, written: [&WrittenConfiguration<'_>; 2], is_reached: bool) {
        let states = self.webhooks.iter().map(|webhook| {
            let WrittenConfiguration { configuration, armed, live } = written[usize::from(webhook.rules.mutates)];
            let name = configuration.entry_name(&webhook.rules);
            let registered = if !configuration::entries(live).any(|entry| entry["name"] == *name) {
                Registered::Later
            } else if !configuration.to_fail().contains(&name) {
                Registered::Ignore
            } else if is_reached || armed.contains(&name) {
                Registered::Fail
            } else {
                Registered::Unreached
            };
            webhook.state(registered)
        });
        let states = states.collect();
        self.shared.states.update(|known| known.webhooks = states);
    }

    /// Returns whether each replica that is called serves every function.
    async fn is_rolled_out(&self, client: &Client, is_registered: bool) -> Result<bool, RegisterError> {
        let Some(name) = &self.deployment else { return Ok(true) };
        // Without its type: the code that decodes a pod template is large.
        let deployments = ApiResource::erase::<Deployment>(&());
        let deployments: Api<DynamicObject> = Api::namespaced_with(client.clone(), &self.namespace, &deployments);
        let found = deployments.get_opt(name).await;
        let found = found.map_err(|error| RegisterError::Deployment { name: name.clone(), error })?;
        Ok(found.is_none_or(|deployment| self.roll_out.is_complete(&deployment, is_registered)))
    }
}

/// A configuration that was written.
struct WrittenConfiguration<'a> {
    configuration: Configuration<'a>,
    /// The entries that failed before.
    armed: BTreeSet<String>,
    live: Value,
}

/// The configuration as it is; `Null` if it does not exist.
async fn live(client: &Client, configuration: &Configuration<'_>) -> Result<Value, RegisterError> {
    let name = configuration.name();
    let found = configuration.api(client).get_opt(&name).await.map_err(|error| RegisterError::Request {
        name,
        verb: "read",
        error,
    })?;
    Ok(found.map(|found| own(configuration, &found)).unwrap_or_default())
}

/// A configuration without the entries that others have added.
fn own(configuration: &Configuration<'_>, found: &DynamicObject) -> Value {
    let mut live = serde_json::to_value(found).unwrap_or_default();
    configuration.forget_others(&mut live);
    live
}

/// Applies the configuration, unless it is there as it should be. Returns it as it is then.
async fn apply(
    client: &Client,
    configuration: &Configuration<'_>,
    mut live: Value,
    bundle: &str,
    armed: &BTreeSet<String>,
) -> Result<Value, RegisterError> {
    let mut desired = configuration.desired(bundle, armed, &live);
    let surplus = configuration::surplus(&desired, &live);
    if !surplus.is_empty() {
        let version = &live["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version}, "webhooks": surplus});
        live = patched(client, configuration, &Patch::Strategic(patch)).await?;
    }
    if configuration::is_as_desired(&desired, &live) {
        return Ok(live);
    }
    if let Some(version) = live["metadata"].get("resourceVersion") {
        // Another version of the program may have changed it meanwhile.
        desired["metadata"]["resourceVersion"] = version.clone();
    }
    patched(client, configuration, &Patch::Apply(desired)).await
}

/// The configuration after a patch.
async fn patched(
    client: &Client,
    configuration: &Configuration<'_>,
    patch: &Patch<Value>,
) -> Result<Value, RegisterError> {
    let name = configuration.name();
    let manager = format!("{}/kooper-webhooks", configuration.registration.installation);
    let params = PatchParams { force: matches!(patch, Patch::Apply(_)), ..PatchParams::apply(&manager) };
    let patched = configuration.api(client).patch(&name, &params, patch).await;
    let patched = patched.map_err(|error| match error {
        Error::Api(status) if status.code == 409 => RegisterError::Changed { name },
        error => RegisterError::Request { name, verb: "patched", error },
    })?;
    Ok(own(configuration, &patched))
}
