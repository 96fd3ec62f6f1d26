//! The first lines in the terminal.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::NAMESPACE;
use crate::cli::document::Document;
use kooper_access::Controller;

/// Describes the running program, and how to connect to its API server.
pub(super) struct StartupMessage<'a> {
    pub(super) program: &'a str,
    pub(super) controllers: &'a [Controller],
    pub(super) server: String,
    pub(super) kubeconfig: &'a Path,
    /// The address of metrics and probes.
    pub(super) listen: Option<SocketAddr>,
    pub(super) has_status_page: bool,
    /// `true` if the metrics are served over HTTPS.
    pub(super) has_tls: bool,
    /// The service account that the program runs as.
    pub(super) account: String,
    /// `true` if the account has all permissions.
    pub(super) unrestricted: bool,
    /// The objects that were applied.
    pub(super) objects: Vec<Applied>,
    /// Anything unusual, such as another port.
    pub(super) notes: Vec<String>,
}

/// An object that was applied.
#[derive(Debug)]
pub(super) struct Applied {
    /// Kind and name, such as `pod/hello`.
    shown: String,
    /// Without a meaning if the kind is cluster-scoped.
    namespace: String,
}

impl From<&Document> for Applied {
    fn from(document: &Document) -> Self {
        let namespace = document.object["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE).to_owned();
        Self { shown: document.shown(), namespace }
    }
}

impl fmt::Display for StartupMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, server, account, .. } = self;
        writeln!(f, "\n{program} runs on an embedded Kubernetes API server, in this process.\n")?;
        for (index, controller) in self.controllers.iter().enumerate() {
            let title = if index == 0 { "controllers" } else { "" };
            row(f, title, &format!("{} ({}{})", controller.name(), controller.kind(), namespaces(controller)))?;
        }
        for (index, line) in lines(&self.objects).iter().enumerate() {
            row(f, if index == 0 { "objects" } else { "" }, line)?;
        }
        let permissions = if self.unrestricted { "all" } else { "those that `rbac` prints" };
        row(f, "runs as", &format!("the service account {account}; permissions: {permissions}"))?;
        row(f, "API server", server)?;
        if let Some(listen) = self.listen {
            let scheme = if self.has_tls { "https" } else { "http" };
            row(f, "metrics", &format!("{scheme}://{}/metrics", local(listen)))?;
            if self.has_status_page {
                row(f, "status page", &format!("{scheme}://{}/status", local(listen)))?;
            }
        }
        for note in &self.notes {
            writeln!(f, "\n  Note: {note}.")?;
        }
        writeln!(f, "\nTry it in another terminal:\n")?;
        writeln!(f, "  export KUBECONFIG={}", quoted(self.kubeconfig))?;
        for (command, effect) in self.commands() {
            match effect {
                "" => writeln!(f, "  {command}")?,
                effect => writeln!(f, "  {command:<44}  # {effect}")?,
            }
        }
        writeln!(f, "\nCtrl-C stops it; the objects are not kept. The log of the controllers:\n")
    }
}

impl StartupMessage<'_> {
    /// Commands to try, each with its effect.
    fn commands(&self) -> Vec<(String, &'static str)> {
        let mut commands = Vec::new();
        let Some(controller) = self.controllers.iter().find(|controller| !controller.has_own_retriever()) else {
            return vec![("kubectl get namespaces".to_owned(), "")];
        };
        let kind = controller.kind_info();
        let own = format!("{}/", kind.kind.to_lowercase());
        let objects: Vec<_> = self.objects.iter().filter(|object| object.shown.starts_with(&own)).collect();
        let namespaces: BTreeSet<_> = objects.iter().map(|object| object.namespace.as_str()).collect();
        let is_named = |namespace: &str| kind.namespaced && namespace != NAMESPACE;
        let in_namespace =
            |namespace: &str| if is_named(namespace) { format!(" --namespace {namespace}") } else { String::new() };
        let place = match controller.namespaces().first() {
            Some(namespace) if kind.namespaced => format!(" --namespace {namespace}"),
            None if kind.namespaced && namespaces.len() > 1 => " --all-namespaces".to_owned(),
            _ => namespaces.first().map(|namespace| in_namespace(namespace)).unwrap_or_default(),
        };
        commands.push((format!("kubectl get {}{place}", kind.plural), ""));
        if let Some(Applied { shown, namespace }) = objects.first() {
            let place = in_namespace(namespace);
            commands.push((format!("kubectl label {shown} mood=good{place}"), "a change: the handler is called"));
            commands.push((format!("kubectl delete {shown}{place}"), ""));
        }
        commands
    }
}

fn row(f: &mut fmt::Formatter<'_>, title: &str, text: &str) -> fmt::Result {
    writeln!(f, "  {title:<13}{text}")
}

fn namespaces(controller: &Controller) -> String {
    match controller.namespaces() {
        [] => String::new(),
        [one] => format!(" in namespace {one}"),
        some => format!(" in namespaces {}", some.join(", ")),
    }
}

/// The names of objects, six in a line.
fn lines(objects: &[Applied]) -> Vec<String> {
    let names: Vec<_> = objects.iter().map(|object| object.shown.as_str()).collect();
    names.chunks(6).map(|line| line.join("  ")).collect()
}

/// An address for clients on this machine.
fn local(address: SocketAddr) -> String {
    let ip = address.ip();
    // The name is not that of other addresses on loopback, such as 127.0.0.2.
    if ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

/// A path for a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_the_address_that_the_listener_has() {
        for (address, expected) in [
            ("127.0.0.1:8080", "localhost:8080"),
            ("[::1]:8080", "localhost:8080"),
            ("[::]:8080", "localhost:8080"),
            ("0.0.0.0:8080", "localhost:8080"),
            ("127.0.0.2:8080", "127.0.0.2:8080"),
            ("[fd00::1]:8080", "[fd00::1]:8080"),
        ] {
            assert_eq!(local(address.parse().expect("an address")), expected);
        }
    }
}
