//! The command `manifests`: everything that runs the program in a cluster.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::{self, Addition, Format, Listen, Settings};
use super::chart;
use super::invocation::Invocation;
use super::listeners::certificate_files;
use super::print::{crds, place, warn, yaml};
use super::stdout::print;
use super::webhooks;
use crate::http::Listener;
use crate::manifests::{self, Choices, Security, WEBHOOKS};
use crate::rbac::Place;
use kooper_runtime::BoxError;

/// A file or a folder that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written: {error}; choose another folder with `--output`", path.display())]
struct OutputError {
    path: PathBuf,
    error: io::Error,
}

/// Prints the documents of an installation, or writes them to files.
pub(crate) fn manifests(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let (program, settings) = (invocation.app.name, &invocation.settings);
    let mut controllers = invocation.controllers()?;
    let place = place(invocation);
    controllers.iter_mut().for_each(|one| one.set_own_namespace(&place.namespace));
    let own = controllers.len();
    controllers.extend(webhooks::controllers(invocation, &place)?);
    warn(&controllers);
    let crds = crds(&place.installation.program, invocation.app.version, &controllers);
    let choices = choices(settings, webhooks::has_any(invocation)?)?;
    announce_secret(&choices, &place);
    if settings.manifests.format == Format::Helm {
        let folder = settings.manifests.output.as_deref().ok_or(
            "a chart consists of several files: write `--output FOLDER` for the folder that they are written to",
        )?;
        choices.check_tls()?;
        let files = chart::files(invocation, &choices, &crds)?;
        return write(folder, &files);
    }
    let documents = yaml(manifests::documents(&controllers[..own], &controllers[own..], &place, &choices)?)?;
    match &settings.manifests.output {
        None if crds.is_empty() => print(&documents),
        None => print(&format!(
            "# The CRDs are not included: apply them first, with\n#   {program} crd | kubectl apply --server-side -f -\n\
             {documents}"
        )),
        Some(folder) => {
            let mut files = vec![("manifests.yaml".to_owned(), documents)];
            if !crds.is_empty() {
                files.push(("crds.yaml".to_owned(), yaml(crds)?));
            }
            write(folder, &files)
        }
    }
}

/// Returns the choices of the flags, or an error if they contradict each other.
fn choices(settings: &Settings, has_webhooks: bool) -> Result<Choices, BoxError> {
    let chosen = &settings.manifests;
    let variables = args::pod_flags().filter_map(|flag| match settings.given.get(flag.name) {
        Some(texts) => Some((flag.variable(), texts.join(","))),
        // The pod is secured by default, and `run` is not.
        None => (flag.name == "metrics-auth").then(|| (flag.variable(), "token".to_owned())),
    });
    let mut variables: Vec<_> = variables.collect();
    if chosen.metrics_secret.is_some() {
        if settings.metrics_certificate.is_some() || settings.metrics_key.is_some() {
            return Err("`--metrics-secret` sets the files of the certificate: remove `--metrics-cert-file` and \
                        `--metrics-key-file`"
                .into());
        }
        variables.extend(manifests::certificate_variables().map(|(name, file)| (name.to_owned(), file)));
    }
    let address = |listen, default| match listen {
        Listen::Default => Some(default),
        Listen::Off => None,
        Listen::At(address) => Some(address),
    };
    Ok(Choices {
        image: chosen.image.clone().unwrap_or_default(),
        replicas: chosen.replicas,
        args: settings.own.pod.line.clone(),
        secrets: settings.own.pod.secrets.clone(),
        settings_secret: chosen.settings_secret.clone(),
        variables,
        listen: address(settings.listen, Listener::DEFAULT),
        probes: settings.probes().map(|listen| address(listen, Listener::DEFAULT_PROBES)),
        security: Security {
            reviews_tokens: settings.reviews_tokens(),
            has_audience: settings.metrics_audience.is_some(),
            has_certificate: chosen.metrics_secret.is_some() || certificate_files(settings)?.is_some(),
            secret: chosen.metrics_secret.clone(),
        },
        webhooks: has_webhooks.then_some(settings.webhook_port.unwrap_or(WEBHOOKS.1)),
        host_network: chosen.with.contains(&Addition::HostNetwork),
        has_chosen_auth: settings.metrics_auth.is_some(),
        has_status_page: settings.status_page == Some(true),
        aggregate_roles: chosen.aggregate_roles,
        drain: settings.drain_timeout(),
        network_policy: chosen.with.contains(&Addition::NetworkPolicy),
        service_monitor: chosen.with.contains(&Addition::ServiceMonitor),
        alerts: chosen.with.contains(&Addition::Alerts),
    })
}

/// Logs which Secret the pods need: its values are in no document.
fn announce_secret(choices: &Choices, place: &Place) {
    if choices.secrets.is_empty() {
        return;
    }
    let literals = choices.secrets.iter().map(|key| format!(" --from-file={key}=FILE")).collect::<String>();
    tracing::warn!(
        "the pods need a Secret that is not printed: kubectl create secret generic {} --namespace {}{literals}",
        choices.settings_secret(place),
        place.namespace
    );
}

/// Writes the files and prints their paths.
fn write(folder: &Path, files: &[(String, String)]) -> Result<ExitCode, BoxError> {
    let mut paths = String::new();
    for (name, text) in files {
        let path = folder.join(name);
        let unwritten = |path: &Path| {
            let path = path.to_owned();
            move |error| OutputError { path, error }
        };
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(unwritten(parent))?;
        std::fs::write(&path, text).map_err(unwritten(&path))?;
        paths += &format!("{}\n", path.display());
    }
    print(&paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_the_path_that_cannot_be_written_is_named() {
        let folder = std::env::temp_dir().join(format!("kooper-output-{}", std::process::id()));
        let files = |name: &str| [(name.to_owned(), "text".to_owned())];
        write(&folder, &files("taken")).expect("the folder is created");
        write(&folder, &files("taken")).expect("the file is replaced");
        let refused = |folder: &Path, name: &str| write(folder, &files(name)).expect_err(name).to_string();
        let (taken, named) = (folder.join("taken"), |path: &Path| format!("{} cannot be written: ", path.display()));
        let error = refused(&taken, "manifests.yaml");
        assert!(error.starts_with(&named(&taken)), "it is a file: {error}");
        write(&folder, &files("templates/a")).expect("folders are created");
        let error = refused(&folder, "templates");
        assert!(error.starts_with(&named(&folder.join("templates"))), "it is a folder: {error}");
        std::fs::remove_dir_all(folder).expect("it exists");
    }
}
