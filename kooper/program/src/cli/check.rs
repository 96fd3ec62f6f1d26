//! The command `check`: whether the cluster has everything that the program needs.

mod forgotten_finalizers;
pub(super) mod instances;
mod left;
mod shards;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::process::ExitCode;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};
use prometheus::Registry;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::FAILED;
use super::args::Settings;
use super::connect::{self, Connection, own_namespace};
use super::invocation::{Invocation, lease_namespace};
use super::objects;
use super::preflight::{NoResponse, TIMEOUT, advice};
use super::verdict::Verdict;
use super::webhooks;
use crate::block_on::block_on;
use crate::metrics::Prometheus;
use crate::rbac::{self, Grant, Grants, Place};
use kooper_access::Controller;
use kooper_access::internal::crd::{
    Advice, InstallError, InstallPlan, Installer, is_established, lacking, older, taken_names,
};
use kooper_runtime::BoxError;
use kooper_runtime::internal::controller::review::may;
use kooper_runtime::internal::error::chain;
use kooper_runtime::internal::object::kind::KindInfo;

/// Maximum number of permissions to request at a time.
const AT_A_TIME: usize = 8;

/// Prints a line for each check; exits with 1 if one of them failed.
pub(crate) fn check(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let (program, version) = (invocation.app.name, invocation.app.version);
    let mut settings = invocation.settings.clone();
    if let Some(account) = &settings.impersonated {
        // The program runs in the namespace of its account.
        let namespace = account.split(':').nth(2).map(ToOwned::to_owned);
        settings.lease_namespace = settings.lease_namespace.or(namespace);
    }
    let invocation = &invocation.with(settings);
    let settings = &invocation.settings;
    let mut controllers = invocation.controllers()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let metrics = Prometheus::new(&Registry::new())?;
    let failed = block_on(&runtime, async {
        let connection = connect::connect(program, settings, &metrics).await?;
        let lease_namespace = lease_namespace(program, &controllers, settings, &connection);
        let namespace = connection.client.default_namespace().to_owned();
        let installation = settings.installation(program);
        let reviews_tokens = settings.reviews_tokens();
        let place = Place { installation, namespace, lease_namespace, reviews_tokens };
        let advice = Advice { manager: place.installation.program.clone(), command: Some(program.to_owned()) };
        let installed = controllers.iter().filter_map(Controller::crd).filter(|(_, installs)| *installs);
        let allowed = settings.allowed_crd_changes.clone();
        let installer = Installer::new(advice, version, installed.map(|(crd, _)| crd), allowed)
            .previous_programs(controllers.iter().filter_map(Controller::previous_program));
        let near = controllers.iter().filter(|one| one.awaits_own_namespace()).map(|one| one.name().to_owned());
        let near = near.collect();
        let (client, user) = (connection.client.clone(), settings.impersonated.clone());
        let mut check = Check { reader: client.clone(), client, user, place, installer, near, failed: false };
        if check.connection(&connection).await {
            if settings.impersonated.is_some() {
                let own = Settings { impersonated: None, ..settings.clone() };
                check.reader = connect::connect(program, &own, &metrics).await?.client;
                check.account().await;
            }
            // The namespace of the program, if `check` runs as the program's service account.
            if let Some(namespace) = own_namespace(&check.client).await {
                check.place.namespace = namespace;
            }
            controllers.iter_mut().for_each(|one| one.set_own_namespace(&check.place.namespace));
            let webhooks = webhooks::controllers(invocation, &check.place)?;
            check.everything(&controllers, &webhooks).await;
            for (verdict, text) in webhooks::inspect(invocation, &check.place, &check.client).await? {
                check.found(verdict, text);
            }
            if let Some(problem) = &settings.own.problem {
                check.note(format_args!("`run` needs different settings: {problem}"));
            }
        }
        Ok::<_, BoxError>(check.failed)
    })?;
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

struct Check {
    client: Client,
    /// With `--as`, the client of the user itself: a service account seldom may read accounts and namespaces.
    reader: Client,
    /// The user of `--as`.
    user: Option<String>,
    place: Place,
    installer: Installer,
    /// The controllers that watch the namespace of their installation.
    near: BTreeSet<String>,
    failed: bool,
}

impl Check {
    fn ok(&self, text: impl Display) {
        Verdict::Ok.say(text);
    }

    fn missing(&mut self, text: impl Display) {
        self.found(Verdict::Missing, text);
    }

    /// A note: nothing is missing, but the user should know.
    fn note(&self, text: impl Display) {
        Verdict::Note.say(text);
    }

    fn found(&mut self, verdict: Verdict, text: impl Display) {
        self.failed |= matches!(verdict, Verdict::Missing);
        verdict.say(text);
    }

    /// Checks the connection. Returns `false` if the server does not respond, which makes other
    /// checks useless.
    async fn connection(&mut self, connection: &Connection) -> bool {
        let server = &connection.server;
        let problem = match timeout(TIMEOUT, self.client.apiserver_version()).await {
            Ok(Ok(version)) => {
                self.ok(format_args!("connection to {server}: {}", version.git_version));
                return true;
            }
            Ok(Err(error)) => impersonation(self.user.as_deref(), &error).or_else(|| advice(server, &error)),
            Err(_) => Some(NoResponse::Silent { server: server.clone() }.to_string()),
        };
        match &problem {
            Some(problem) => self.missing(format_args!("connection: {problem}")),
            // The version may be forbidden while everything else is allowed.
            None => self.ok(format_args!("connection to {server}")),
        }
        problem.is_none()
    }

    /// Checks that the service account of `--as` exists, unless this user may not read it.
    async fn account(&mut self) {
        let user = self.user.clone().unwrap_or_default();
        let Some((namespace, name)) = account(&user) else { return };
        let kind = objects::untyped::<ServiceAccount>();
        let accounts: Api<DynamicObject> = Api::namespaced_with(self.reader.clone(), namespace, &kind);
        match accounts.get_opt(name).await {
            Ok(Some(_)) => self.ok(format_args!("service account {namespace}/{name}")),
            Ok(None) => self.missing(format_args!(
                "service account {namespace}/{name}: it does not exist: create it, with its roles, by the output of `rbac`"
            )),
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            Err(error) => self.missing(format_args!("service account {namespace}/{name}: {}", chain(&error))),
        }
    }

    /// Checks what the controllers need, and those that belong to webhooks.
    async fn everything(&mut self, controllers: &[Controller], webhooks: &[Controller]) {
        let to_come = self.crds(controllers).await;
        let all = controllers.iter().chain(webhooks);
        let kinds: BTreeMap<_, _> =
            all.clone().flat_map(Controller::kinds).map(|kind| (kind.resource(), kind.clone())).collect();
        for (resource, kind) in &kinds {
            if !to_come.contains(resource) {
                let needed = all.clone().any(|one| one.needs_kind(kind));
                self.kind(kind, needed).await;
            }
        }
        for warning in rbac::warnings(controllers) {
            self.note(warning);
        }
        match rbac::grants(all, &self.place) {
            Ok(grants) => {
                self.namespaces(&grants).await;
                self.access(&grants).await;
            }
            Err(error) => self.missing(format_args!("rules: {error}")),
        }
        for controller in controllers {
            self.left(controller).await;
            if let Some((verdict, text)) =
                forgotten_finalizers::inspect(&self.client, controller, &self.place.installation).await
            {
                self.found(verdict, text);
            }
        }
        self.instances(controllers).await;
    }

    /// Checks the shards, and lists other installations that handle the same objects.
    async fn instances(&mut self, controllers: &[Controller]) {
        let leases = instances::leases(&self.client, &self.place).await;
        let deployments = instances::deployments(&self.client, &self.place).await;
        let leases = self.listed("Leases", leases);
        let deployments = self.listed("Deployments", deployments);
        let mut overlaps = instances::overlaps(controllers, &self.place, &leases, Timestamp::now());
        for controller in controllers {
            for (verdict, text) in shards::inspect(&self.client, controller, &self.place, &deployments).await {
                self.found(verdict, text);
            }
        }
        let deployed = instances::deployed(controllers, &self.near, &self.place, &deployments);
        // Most have both.
        let known: Vec<_> = overlaps.iter().map(|overlap| overlap.controller.clone()).collect();
        overlaps.extend(deployed.into_iter().filter(|overlap| !known.contains(&overlap.controller)));
        for overlap in overlaps {
            let instances::Overlap { controller, with, shared, has_same_name } = overlap;
            if has_same_name {
                self.note(format_args!(
                    "controller {controller}: an installation with the {with} handles the objects of {shared}, too: \
                     if it is not this one, set `--instance` and different namespaces"
                ));
            } else {
                self.missing(format_args!(
                    "controller {controller}: the instance with the {with} handles the objects of {shared}, too: \
                     give the instances different namespaces with `--namespace`"
                ));
            }
        }
    }

    /// The objects that could be listed. Reports it if these are not all.
    fn listed<K>(&mut self, what: &str, found: kube::Result<(Vec<K>, bool)>) -> Vec<K> {
        match found {
            Ok((found, true)) => found,
            Ok((found, false)) => {
                self.note(format_args!(
                    "other installations of the program are unknown: this user may not list the {what} of all \
                     namespaces"
                ));
                found
            }
            Err(error) => {
                self.missing(format_args!("{what} of other installations: {}", chain(&error)));
                Vec::new()
            }
        }
    }

    /// Lists objects with the controller's finalizer outside of its namespaces.
    async fn left(&self, controller: &Controller) {
        let Some(finalizer) = controller.finalizer() else { return };
        let (name, kinds) = (controller.name(), controller.kind_info().resource());
        match left::left_behind(&self.client, controller).await {
            // A kind that the cluster does not serve was reported already.
            Ok(found) if found.count == 0 => {}
            Ok(found) => self.note(format_args!(
                "{kinds} {found}: outside of the namespaces of the controller `{name}`, with its finalizer {finalizer}: \
                 unless another instance watches them, they cannot be deleted until the finalizer is removed"
            )),
            // The least role has no permissions in other namespaces.
            Err(kube::Error::Api(status)) if status.code == 403 => self.note(format_args!(
                "{kinds}: objects outside of the namespaces of the controller `{name}` may have its finalizer {finalizer}: \
                 to list them, run `check` as a user who may list {kinds} in all namespaces"
            )),
            Err(error) => self.note(format_args!("{kinds} of other namespaces: {}", chain(&error))),
        }
    }

    /// Returns the resources whose CRDs do not exist yet.
    async fn crds(&mut self, controllers: &[Controller]) -> BTreeSet<String> {
        let mut to_come = BTreeSet::new();
        let mut crds = BTreeMap::new();
        for controller in controllers {
            if let Some((crd, installs)) = controller.crd() {
                // It is installed if one of the controllers installs it.
                let known = crds.entry(crd.name_any()).or_insert((crd, false, Vec::new()));
                known.1 |= installs;
                if !known.2.contains(&controller.kind_info()) {
                    known.2.push(controller.kind_info());
                }
            }
        }
        for (name, (crd, installs, kinds)) in crds {
            let exists =
                if installs { self.installed(&name, crd).await } else { self.by_hand(&name, &crd, &kinds).await };
            to_come.extend((!exists).then_some(name));
        }
        to_come
    }

    /// Checks a CRD that the program installs; `false` if it does not exist yet.
    async fn installed(&mut self, name: &str, crd: CustomResourceDefinition) -> bool {
        match self.installer.predict(&self.client, crd).await {
            Ok(InstallPlan::Install) => {
                self.ok(format_args!("CRD {name}: it does not exist yet, `run` installs it"));
                return false;
            }
            Ok(InstallPlan::Replace(_)) => self.ok(format_args!("CRD {name}: `run` replaces it")),
            Ok(InstallPlan::Newer(current, version)) => {
                self.established(name, &current, format_args!(": version {version}, which is newer, is kept"));
            }
            Ok(InstallPlan::Keep { current, .. }) => self.established(name, &current, ""),
            // The missing rule is reported with the others.
            Err(InstallError::Forbidden { .. }) => return false,
            Err(error) => self.missing(format_args!("CRD {name}: {error}")),
        }
        true
    }

    fn established(&mut self, name: &str, crd: &CustomResourceDefinition, remark: impl Display) {
        match is_established(crd) {
            Ok(()) => {
                self.ok(format_args!("CRD {name}{remark}"));
                if let Some(taken) = taken_names(crd) {
                    self.note(format_args!("CRD {name}: it is served without names that another CRD uses: {taken}"));
                }
            }
            Err(message) => self.missing(format_args!("CRD {name}: it is not established: {message}")),
        }
    }

    /// Checks a CRD that the user installs; `false` if it does not exist yet.
    async fn by_hand(&mut self, name: &str, crd: &CustomResourceDefinition, kinds: &[&KindInfo]) -> bool {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        match api.get_opt(name).await {
            Ok(Some(current)) => self.established(name, &current, ""),
            Ok(None) => {
                let apply = self.installer.by_user();
                self.missing(format_args!("CRD {name}: it does not exist: apply it with {apply}"));
                return false;
            }
            // Without the permission to read it, its kind is checked instead.
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            Err(error) => self.missing(format_args!("CRD {name}: {}", chain(&error))),
        }
        for kind in kinds {
            match lacking(&self.client, kind, crd).await {
                Ok(fields) if fields.is_empty() => {}
                Ok(fields) => {
                    self.missing(format_args!("CRD {name}: {}", older(name, &fields, &self.installer.by_user())));
                }
                Err(error) => self
                    .note(format_args!("CRD {name}: it cannot be compared with the program's type: {}", chain(&error))),
            }
        }
        true
    }

    async fn kind(&mut self, kind: &KindInfo, needed: bool) {
        let (name, version) = (format!("kind {} ({})", kind.kind, kind.resource()), kind.api_version());
        let served = if kind.group.is_empty() {
            self.client.list_core_api_resources(&version).await
        } else {
            self.client.list_api_group_resources(&version).await
        };
        let is_served = match served {
            Ok(list) => Ok(list.resources.iter().any(|served| served.name == kind.plural)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        };
        match is_served {
            Ok(true) => self.ok(format_args!("{name} of {version}")),
            Ok(false) if !needed => self.ok(format_args!("{name} of {version}: not served, and optional")),
            Ok(false) => self.missing(format_args!(
                "{name}: the cluster does not serve it in {version}: apply its CRD, or check the API version"
            )),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                self.note(format_args!("{name} of {version}: this user may not see what the cluster serves"));
            }
            Err(kube::Error::Api(status)) => self.missing(format_args!("{name}: {}", status.message)),
            Err(error) => self.missing(format_args!("{name}: {}", chain(&error))),
        }
    }

    async fn namespaces(&mut self, grants: &Grants) {
        let own = self.user.clone().unwrap_or_default();
        let own = account(&own).map(|(namespace, _)| namespace);
        let names: BTreeSet<_> = grants.keys().filter_map(|grant| grant.namespace.as_deref()).chain(own).collect();
        let api: Api<DynamicObject> = Api::all_with(self.reader.clone(), &objects::untyped::<Namespace>());
        for name in names {
            match api.get_opt(name).await {
                Ok(Some(namespace)) if namespace.metadata.deletion_timestamp.is_some() => {
                    self.missing(format_args!(
                        "namespace {name}: it is being terminated, so nothing can be created in it: wait until it is \
                         deleted, and create it again"
                    ));
                }
                Ok(Some(_)) => self.ok(format_args!("namespace {name}")),
                Ok(None) => {
                    self.missing(format_args!(
                        "namespace {name}: it does not exist: create it with `kubectl create namespace {name}`"
                    ));
                }
                Err(kube::Error::Api(status)) if status.code == 403 => {}
                Err(error) => self.missing(format_args!("namespace {name}: {}", chain(&error))),
            }
        }
    }

    /// Checks every verb, and prints a line for those of each resource.
    async fn access(&mut self, grants: &Grants) {
        let ask = |(grant, because): (Grant, BTreeSet<String>)| {
            let client = self.client.clone();
            async move { (allowed(client, &grant).await, grant, because) }
        };
        let asked: Vec<_> = grants.iter().map(|(grant, because)| (grant.clone(), because.clone())).collect();
        let answers: Vec<_> = stream::iter(asked.into_iter().map(ask)).buffered(AT_A_TIME).collect().await;
        let alike = |one: &Grant, other: &Grant| Grant { verb: other.verb.clone(), ..one.clone() } == *other;
        for answers in answers.chunk_by(|(_, one, _), (_, other, _)| alike(one, other)) {
            let verbs = |wanted: bool| {
                let of = answers.iter().filter(|(answer, ..)| matches!(answer, Ok(allowed) if *allowed == wanted));
                of.map(|(_, grant, _)| &*grant.verb).collect::<Vec<_>>().join(", ")
            };
            let (granted, refused) = (verbs(true), verbs(false));
            let with = |verb: String| Grant { verb, ..answers[0].1.clone() };
            if !granted.is_empty() {
                let grant = with(granted);
                self.ok(format_args!("access {grant}{}", grant.place()));
            }
            if !refused.is_empty() {
                let grant = with(refused);
                let because = answers.iter().filter(|(answer, ..)| matches!(answer, Ok(false)));
                let because: BTreeSet<_> = because.flat_map(|(_, _, because)| because).map(String::as_str).collect();
                let (role, because) = (grant.role(&self.place), because.into_iter().collect::<Vec<_>>().join(", "));
                self.missing(format_args!(
                    "access {grant}{}, for {because}: add the rule \"{}\"{} to {role}",
                    grant.place(),
                    grant.rule(),
                    grant.pinned(),
                ));
            }
            for (error, grant) in answers.iter().filter_map(|(answer, grant, _)| Some((answer.as_ref().err()?, grant)))
            {
                self.missing(format_args!("access {grant}{}: unknown: {error}", grant.place()));
            }
        }
    }
}

/// Returns `true` if this identity has the permission.
async fn allowed(client: Client, grant: &Grant) -> Result<bool, String> {
    let what = ResourceAttributes {
        namespace: grant.namespace.clone(),
        group: Some(grant.group.clone()),
        resource: Some(grant.resource.clone()),
        subresource: grant.subresource.clone(),
        name: grant.name.clone(),
        verb: Some(grant.verb.clone()),
        ..ResourceAttributes::default()
    };
    may(&client, what).await.map_err(|error| chain(&error))
}

/// The namespace and the name of a service account, by its user name.
fn account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// The advice if this user may not act as that of `--as`.
fn impersonation(user: Option<&str>, error: &kube::Error) -> Option<String> {
    let (namespace, name) = account(user?)?;
    let kube::Error::Api(status) = error else { return None };
    (status.code == 403 && status.message.contains("impersonate")).then(|| {
        format!(
            "this user may not act as the service account {namespace}/{name} ({}): grant it the verb `impersonate` on \
             the ServiceAccount `{name}` in namespace `{namespace}`, or choose another user",
            status.message
        )
    })
}
