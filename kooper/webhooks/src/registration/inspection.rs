//! The webhooks in a cluster, compared with the program without changes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use kooper_runtime::internal::clock;
use kooper_runtime::internal::error::chain;
use kube::api::Api;
use kube::{Client, Error};
use serde_json::Value;
use tokio::try_join;

use super::configuration::{self, Configuration, Target, has};
use super::{Registration, live};
use crate::authority::is_bundle;
use crate::authority::validity::valid_until;
use crate::certificates::Certificates;

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It is as it should be.
    Ok(String),
    /// It has to be corrected.
    Missing(String),
    /// It is no failure.
    Note(String),
}

use Finding::{Missing, Note, Ok as Fine};

impl Registration {
    /// Compares what is registered with the functions of this program.
    pub(crate) async fn inspect(&self, client: &Client) -> Vec<Finding> {
        let configuration = |mutates| Configuration { registration: self, mutates, rolled_out: true, owner: None };
        let (validating, mutating) = (configuration(false), configuration(true));
        let (of_validating, of_mutating) = match try_join!(live(client, &validating), live(client, &mutating)) {
            Ok(live) => live,
            Err(error) => return vec![Note(format!("webhooks: {}", chain(&error)))],
        };
        let mut findings = entries(&validating, &of_validating);
        findings.extend(entries(&mutating, &of_mutating));
        if !(of_validating.is_null() && of_mutating.is_null()) {
            findings.extend(self.inspect_bundle([&of_validating, &of_mutating]));
            findings.extend(self.inspect_service(client).await);
        }
        findings
    }

    /// The certificate authority that the API servers trust.
    fn inspect_bundle(&self, live: [&Value; 2]) -> Option<Finding> {
        let bundle = configuration::published(live);
        if bundle.is_empty() && matches!(self.shared.certificates, Certificates::Injected { .. }) {
            return Some(Missing(
                "webhooks: the configurations have no certificate authority: see the log of cert-manager's injector"
                    .to_owned(),
            ));
        }
        let wrong = if bundle.is_empty() {
            "the configurations have no certificate authority, or several"
        } else if !is_bundle(&bundle) {
            "the certificate authority of the configurations is not PEM"
        } else {
            let until = valid_until(&bundle)?;
            return Some(if until < clock::wall() {
                Missing(format!(
                    "webhooks: the certificate authority of the configurations has expired at {until}: {RUN}"
                ))
            } else {
                Fine(format!("webhooks: the API servers trust the program's certificate authority until {until}"))
            });
        };
        Some(Missing(format!("webhooks: {wrong}: {RUN}")))
    }

    /// The Service that the API servers call.
    async fn inspect_service(&self, client: &Client) -> Option<Finding> {
        let Target::Service { name, port } = &self.target else { return None };
        let services: Api<Service> = Api::namespaced(client.clone(), &self.namespace);
        let place = format!("Service {}/{name}", self.namespace);
        match services.get_opt(name).await {
            Ok(Some(service)) => {
                let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
                let has_port = ports.iter().any(|one| one.port == i32::from(*port));
                (!has_port).then(|| Missing(format!("{place}: it has no port {port}: apply the output of `manifests`")))
            }
            Ok(None) => Some(Missing(format!("{place}: it does not exist: apply the output of `manifests`"))),
            // The program itself does not read it.
            Err(Error::Api(status)) if status.code == 403 => None,
            Err(error) => Some(Note(format!("{place}: {}", chain(&error)))),
        }
    }
}

/// The advice about a configuration.
const RUN: &str = "`run` in the cluster writes it";

/// The entries of one configuration.
fn entries(configuration: &Configuration<'_>, live: &Value) -> Vec<Finding> {
    let to_fail = configuration.to_fail();
    let armed = configuration::armed(live);
    let registered = configuration::entries(live);
    let of = |name: &str| registered.clone().find(|entry| entry["name"] == name);
    // Except for the certificate authority, which is compared with nothing here.
    let desired = configuration.desired("", &armed, live);
    let mut known = BTreeSet::new();
    let mut findings = Vec::new();
    for entry in configuration::entries(&desired) {
        let name = entry["name"].as_str().unwrap_or_default();
        known.insert(name);
        if configuration.is_probe(name) {
            continue;
        }
        findings.push(match of(name) {
            None => Fine(format!("webhook {name}: it is not registered yet, `run` in a cluster registers it")),
            Some(live) if !has(entry, live) => {
                Note(format!("webhook {name}: it was registered by another version of the program, or changed since: {RUN}"))
            }
            Some(_) if armed.contains(name) => Fine(format!("webhook {name}: registered with `Fail`")),
            Some(_) if to_fail.contains(name) => Missing(format!(
                "webhook {name}: registered with `Ignore`, so that nothing is checked while it is away, as no API server \
                 has reached {} yet: the Events in the namespace {} have the reason",
                configuration.registration.target, configuration.registration.namespace
            )),
            Some(_) => Fine(format!("webhook {name}: registered with `Ignore`")),
        });
    }
    let others = registered.clone().filter_map(|entry| entry["name"].as_str()).filter(|name| !known.contains(name));
    findings.extend(others.map(|name| Note(format!("webhook {name}: this program has no such function: {RUN}"))));
    findings
}
