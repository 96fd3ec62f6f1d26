//! The flags of the commands that install and uninstall the program.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kooper_grammar::{duration, name};

use super::flags::{Flag, not_empty, one_of, set, switch};
use super::{Subcommand, word};

/// Default time that `uninstall` waits for cleanups and deletions.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The settings of `manifests`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ManifestSettings {
    pub(crate) image: Option<String>,
    pub(crate) replicas: Option<u32>,
    pub(crate) with: BTreeSet<Addition>,
    pub(crate) format: Format,
    /// The Secret with the certificate of the metrics.
    pub(crate) metrics_secret: Option<String>,
    /// The Secret with the program's own secret settings.
    pub(crate) settings_secret: Option<String>,
    /// Adds the custom resources to the roles `view`, `edit` and `admin`.
    pub(crate) aggregate_roles: bool,
    /// The folder to write the files to.
    pub(crate) output: Option<PathBuf>,
}

/// Manifests that are only printed if they are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Addition {
    NetworkPolicy,
    ServiceMonitor,
    Alerts,
    HostNetwork,
}

/// The output format of `manifests`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// Documents for `kubectl apply`.
    #[default]
    Yaml,
    /// A chart.
    Helm,
}

/// The output format of `alerts`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AlertFormat {
    /// A file of rules for Prometheus.
    #[default]
    Rules,
    /// An object for the operator of Prometheus.
    PrometheusRule,
}

/// The output format of `graph`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum GraphFormat {
    /// Lines of text.
    #[default]
    Text,
    /// Diagrams for Mermaid.
    Mermaid,
}

/// The settings of `uninstall`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UninstallSettings {
    /// Removes finalizers without a cleanup.
    pub(crate) orphan: bool,
    pub(crate) keep_crds: bool,
    pub(crate) timeout: Duration,
}

impl Default for UninstallSettings {
    fn default() -> Self {
        Self { orphan: false, keep_crds: false, timeout: TIMEOUT }
    }
}

pub(super) static FLAGS: [Flag; 15] = [
    Flag {
        name: "install-namespace",
        value: "NAME",
        help: "Namespace that the program is installed in [default: default]",
        of: &[Subcommand::Rbac, Subcommand::Manifests, Subcommand::Uninstall, Subcommand::Alerts],
        take: |settings, text| set(&mut settings.install_namespace, name::label(text).map(|()| text.to_owned())),
        ..Flag::DEFAULT
    },
    Flag {
        name: "image",
        value: "IMAGE",
        help: "Container image of the program, with its tag or digest; required",
        of: &[Subcommand::Manifests],
        take: |settings, text| {
            set(&mut settings.manifests.image, word(text, "write an image such as `example.com/shop:1.2.0`"))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "replicas",
        value: "N",
        help: "Replicas of the Deployment [default: 2 if every controller and task allows that, otherwise 1]",
        of: &[Subcommand::Manifests],
        take: |settings, text| {
            let replicas = text.parse::<u16>().map(u32::from);
            let problem = |_| format!("write a whole number from 0 to {}", u16::MAX);
            set(&mut settings.manifests.replicas, replicas.map_err(problem))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "replicas",
        value: "N",
        help: "Processes that run the controllers, to watch shards or leader election [default: only this one]",
        of: &[Subcommand::Dev],
        take: |settings, text| {
            let processes = text.parse().ok().filter(|processes: &u8| (1..=16).contains(processes));
            set(&mut settings.processes, processes.ok_or("write a whole number from 1 to 16"))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "with",
        value: "LIST",
        help: "Additions: network-policy, service-monitor, alerts, host-network; repeat the flag, or write \
               a,b [default: none]",
        repeatable: true,
        of: &[Subcommand::Manifests],
        take: |settings, text| {
            for addition in text.split(',').map(str::trim) {
                let additions = [
                    ("network-policy", Addition::NetworkPolicy),
                    ("service-monitor", Addition::ServiceMonitor),
                    ("alerts", Addition::Alerts),
                    ("host-network", Addition::HostNetwork),
                ];
                settings.manifests.with.insert(one_of(addition, &additions)?);
            }
            Ok(())
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "metrics-secret",
        value: "NAME",
        help: "Secret with tls.crt, tls.key and ca.crt, for /metrics over HTTPS [default: none]",
        of: &[Subcommand::Manifests],
        take: |settings, text| {
            set(&mut settings.manifests.metrics_secret, name::subdomain(text).map(|()| text.to_owned()))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "settings-secret",
        value: "NAME",
        help: "Secret with the program's secret settings, a key for each flag [default: the Deployment's name and \
               -settings]",
        of: &[Subcommand::Manifests],
        take: |settings, text| {
            set(&mut settings.manifests.settings_secret, name::subdomain(text).map(|()| text.to_owned()))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "aggregate-roles",
        value: "",
        help: "Adds the custom resources to the roles view, edit and admin, for users of all namespaces",
        of: &[Subcommand::Manifests],
        take: |settings, text| switch(text, &mut settings.manifests.aggregate_roles),
        ..Flag::DEFAULT
    },
    Flag {
        name: "format",
        value: "yaml|helm",
        help: "Output format: documents for kubectl, or a chart for Helm [default: yaml]",
        of: &[Subcommand::Manifests],
        take: |settings, text| {
            set(&mut settings.manifests.format, one_of(text, &[("yaml", Format::Yaml), ("helm", Format::Helm)]))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "format",
        value: "rules|prometheusrule",
        help: "Output format: a Prometheus rule file, or a PrometheusRule object [default: rules]",
        of: &[Subcommand::Alerts],
        take: |settings, text| {
            set(
                &mut settings.alerts,
                one_of(text, &[("rules", AlertFormat::Rules), ("prometheusrule", AlertFormat::PrometheusRule)]),
            )
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "format",
        value: "text|mermaid",
        help: "Output format: lines of text, or a Mermaid diagram for each controller [default: text]",
        of: &[Subcommand::Graph],
        take: |settings, text| {
            set(&mut settings.graph, one_of(text, &[("text", GraphFormat::Text), ("mermaid", GraphFormat::Mermaid)]))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "output",
        short: Some('o'),
        value: "FOLDER",
        help: "Folder to write the files to, with the CRDs in a separate one [default: stdout, without CRDs]",
        of: &[Subcommand::Manifests],
        take: |settings, text| {
            set(&mut settings.manifests.output, not_empty(text, "write the path of a folder").map(PathBuf::from))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "orphan",
        value: "",
        help: "Removes the program's finalizers without running any cleanup",
        of: &[Subcommand::Uninstall],
        take: |settings, text| switch(text, &mut settings.uninstall.orphan),
        ..Flag::DEFAULT
    },
    Flag {
        name: "keep-crds",
        value: "",
        help: "Keeps the CRDs and all objects; cleans up only those that are being deleted",
        of: &[Subcommand::Uninstall],
        take: |settings, text| switch(text, &mut settings.uninstall.keep_crds),
        ..Flag::DEFAULT
    },
    Flag {
        name: "timeout",
        value: "DURATION",
        help: "How long cleanups and deletions may take [default: 5m]",
        of: &[Subcommand::Uninstall],
        take: |settings, text| set(&mut settings.uninstall.timeout, duration::parse(text)),
        ..Flag::DEFAULT
    },
];
