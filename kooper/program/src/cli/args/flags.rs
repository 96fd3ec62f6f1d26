//! The flags that every program has: one table for them and their environment variables.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction};
use kooper_grammar::{duration, name};

use super::super::logging::{self, LogFormat};
use super::{ALL, FOR_CLUSTER, Listen, Resync, Settings, Subcommand, from_one, word};

/// A flag.
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(super) short: Option<char>,
    /// A placeholder for its value; empty for a switch.
    pub(crate) value: &'static str,
    pub(crate) help: &'static str,
    pub(crate) repeatable: bool,
    /// The commands that have it.
    pub(super) of: &'static [Subcommand],
    /// Parses a value, or returns what to write instead.
    pub(super) take: fn(&mut Settings, &str) -> Result<(), String>,
}

impl Flag {
    /// A flag that may be given once, to every command.
    pub(super) const DEFAULT: Self =
        Self { name: "", short: None, value: "", help: "", repeatable: false, of: ALL, take: |_, _| Ok(()) };

    /// `KOOPER_LOG_LEVEL` for `--log-level`.
    pub(crate) fn variable(&self) -> String {
        format!("KOOPER_{}", self.name.replace('-', "_").to_uppercase())
    }

    pub(super) fn arg(&'static self) -> Arg {
        // clap reports a bad value with its flag. The value itself is applied later, like those of the
        // environment.
        let check = |text: &str| (self.take)(&mut Settings::default(), text).map(|()| text.to_owned());
        let action = match (self.value, self.repeatable) {
            ("", _) => ArgAction::SetTrue,
            (_, true) => ArgAction::Append,
            (_, false) => ArgAction::Set,
        };
        Arg::new(self.name)
            .long(self.name)
            .short(self.short)
            .value_name(self.value)
            .help(self.help)
            .action(action)
            // A negative duration is not taken for a flag.
            .allow_hyphen_values(self.value.starts_with("DURATION"))
            .value_parser(ValueParser::new(check))
            .global(self.is_global())
    }

    /// Returns `true` if the flag may also precede the command.
    pub(super) fn is_global(&self) -> bool {
        self.of.contains(&Subcommand::Run)
    }
}

pub(super) static COMMON: [Flag; 29] = [
    Flag {
        name: "kubeconfig",
        value: "FILE",
        help: "Kubeconfig to connect with [default: KUBECONFIG, the pod's account, ~/.kube/config]",
        of: FOR_CLUSTER,
        take: |settings, text| {
            set(&mut settings.kubeconfig, not_empty(text, "write the path of a file").map(PathBuf::from))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "context",
        value: "NAME",
        help: "Context of the kubeconfig [default: its current context]",
        of: FOR_CLUSTER,
        take: |settings, text| set(&mut settings.context, not_empty(text, "write the name of a context")),
        ..Flag::DEFAULT
    },
    Flag {
        name: "namespace",
        value: "NAME",
        help: "Namespace to watch; repeat the flag, or write a,b [default: set in the code]",
        repeatable: true,
        take: |settings, text| {
            for namespace in text.split(',').map(str::trim) {
                name::label(namespace).map_err(|error| error.to_string())?;
                if !settings.namespaces.iter().any(|known| known == namespace) {
                    settings.namespaces.push(namespace.to_owned());
                }
            }
            Ok(())
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "workers",
        value: "N",
        help: "Parallel handlers of each controller [default: set in the code]",
        take: |settings, text| set(&mut settings.workers, from_one(text).map(usize::from)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "resync",
        value: "DURATION|off",
        help: "Interval at which every object is reconciled again, or off [default: set in the code]",
        take: |settings, text| {
            let every = match text {
                "off" => Ok(None),
                text => duration::parse(text).map(Some).map_err(|error| format!("{error}, or `off` for no resync")),
            };
            set(&mut settings.resync, every.map(Resync))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "wire",
        value: "auto|json",
        help: "Encoding of watched objects: protobuf where available, or only JSON [default: auto]",
        take: |settings, text| set(&mut settings.json_only, one_of(text, &[("auto", false), ("json", true)])),
        ..Flag::DEFAULT
    },
    Flag {
        name: "listen",
        value: "ADDR|off",
        help: "Address of /metrics, /healthz and /readyz, or off [default: [::]:8080, IPv4 included]",
        take: |settings, text| set(&mut settings.listen, listen(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "listen-probes",
        value: "ADDR|off",
        help: "Address of /healthz and /readyz [default: that of --listen; [::]:8081 if secured]",
        take: |settings, text| set(&mut settings.listen_probes, listen(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "metrics-auth",
        value: "none|token",
        help: "Who may read /metrics: all, or permitted users [default: none, but token in manifests]",
        take: |settings, text| set(&mut settings.metrics_auth, one_of(text, &[("none", false), ("token", true)])),
        ..Flag::DEFAULT
    },
    Flag {
        name: "metrics-audience",
        value: "AUDIENCE",
        help: "Audience that client tokens must be issued for [default: the API server]",
        take: |settings, text| {
            set(&mut settings.metrics_audience, word(text, "write a word or a URL, such as `metrics`"))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "metrics-cert-file",
        value: "FILE",
        help: "Certificate for /metrics over HTTPS, in PEM, with its chain; reloaded when it changes",
        take: |settings, text| {
            set(&mut settings.metrics_certificate, not_empty(text, "write the path of a file").map(PathBuf::from))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "metrics-key-file",
        value: "FILE",
        help: "Private key of the certificate for /metrics, in PEM",
        take: |settings, text| {
            set(&mut settings.metrics_key, not_empty(text, "write the path of a file").map(PathBuf::from))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "status-page",
        value: "on|off",
        help: "Whether to serve a status page at /status [default: on in dev, otherwise off]",
        take: |settings, text| set(&mut settings.status_page, on_or_off(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "log-format",
        value: "text|json",
        help: "Format of the log on stderr [default: text]",
        take: |settings, text| {
            set(&mut settings.log_format, one_of(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)]))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "log-level",
        value: "LEVEL",
        help: "Log level: off, error, warn, info, debug or trace, or info,kube=debug [default: info]",
        take: |settings, text| set(&mut settings.log_level, logging::levels(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "drain-timeout",
        value: "DURATION",
        help: "How long running handlers may take to finish when the program stops [default: 20s]",
        take: |settings, text| set(&mut settings.drain_timeout, duration::parse(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "lease-namespace",
        value: "NAME",
        help: "Namespace of the leases [default: that of the pod, or of the kubeconfig's context]",
        take: |settings, text| set(&mut settings.lease_namespace, name::label(text).map(|()| text.to_owned())),
        ..Flag::DEFAULT
    },
    Flag {
        name: "instance",
        value: "NAME",
        help: "Name of this installation, to run several in one namespace [default: none]",
        take: |settings, text| set(&mut settings.instance, name::label(text).map(|()| text.to_owned())),
        ..Flag::DEFAULT
    },
    Flag {
        name: "leader-election",
        value: "on|off",
        help: "Whether handlers run in one replica only [default: set in the code]",
        take: |settings, text| set(&mut settings.leader_election, on_or_off(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "webhook-url",
        value: "URL",
        help: "URL at which the cluster reaches the webhooks on this machine: https://HOST:PORT",
        of: &[Subcommand::Run],
        take: |settings, text| {
            let text = text.trim_end_matches('/');
            // The API servers refuse the URL of a webhook with a user, a query or a fragment.
            let fits = |url: &http::Uri| {
                url.scheme_str() == Some("https")
                    && url.port_u16().is_some()
                    && matches!(url.path(), "" | "/")
                    && !text.contains(['@', '?', '#'])
            };
            let url = text.parse().ok().filter(fits).ok_or("write `https://HOST:PORT`");
            set(&mut settings.webhook_url, url.map(|_| text.to_owned()))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "webhook-port",
        value: "N",
        help: "Port of the webhooks [default: 10250, or that of --webhook-url]",
        of: &[Subcommand::Run, Subcommand::Manifests],
        take: |settings, text| set(&mut settings.webhook_port, from_one(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "allow-crd-change",
        value: "NAME@HASH",
        help: "Incompatible CRD change to allow, as printed by the error; can be repeated",
        repeatable: true,
        take: |settings, text| {
            for change in text.split(',').map(str::trim) {
                match change.split_once('@') {
                    Some((name, hash)) if !name.is_empty() && !hash.is_empty() => {
                        settings.allowed_crd_changes.push(change.to_owned());
                    }
                    _ => {
                        return Err("write the name of the CRD and the hash, as NAME@HASH from the error".to_owned());
                    }
                }
            }
            Ok(())
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "dry-run",
        value: "",
        help: "Changes nothing: `run` handles each object once, `uninstall` prints its steps",
        of: &[Subcommand::Run, Subcommand::Uninstall],
        take: |settings, text| switch(text, &mut settings.dry_run),
        ..Flag::DEFAULT
    },
    Flag {
        name: "as",
        value: "ACCOUNT",
        help: "Service account whose permissions are checked: NAMESPACE/NAME or system:serviceaccount:NAMESPACE:NAME",
        of: &[Subcommand::Check],
        take: |settings, text| set(&mut settings.impersonated, account(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "color",
        value: "auto|always|never",
        help: "Whether to color differences [default: auto, only on a terminal]",
        of: &[Subcommand::Diff],
        take: |settings, text| {
            set(&mut settings.color, one_of(text, &[("auto", None), ("always", Some(true)), ("never", Some(false))]))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "filename",
        short: Some('f'),
        value: "FILE",
        help: "YAML or JSON file with objects, or a folder of them, or - for stdin; can be repeated [default of \
               `dev`: samples]",
        repeatable: true,
        of: &[Subcommand::Dev, Subcommand::Diff],
        take: |settings, text| {
            settings.files.push(not_empty(text, "write the path of a file or a folder")?.into());
            Ok(())
        },
    },
    Flag {
        name: "port",
        value: "N",
        help: "Port of the API server [default: the last one used, or the first free port from 6443]",
        of: &[Subcommand::Dev],
        take: |settings, text| {
            let port = text.parse::<u16>();
            set(&mut settings.port, port.map_err(|_| format!("write a port from 1 to {}, or 0 for any", u16::MAX)))
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "workloads",
        value: "on|off",
        help: "Whether to simulate pods, and the controllers of Deployments, Jobs and other workloads [default: on]",
        of: &[Subcommand::Dev],
        take: |settings, text| set(&mut settings.workloads, on_or_off(text)),
        ..Flag::DEFAULT
    },
    Flag {
        name: "clean",
        value: "",
        help: "Only removes the files that `dev` keeps between runs: kubeconfig and credentials",
        of: &[Subcommand::Dev],
        take: |settings, text| switch(text, &mut settings.clean),
        ..Flag::DEFAULT
    },
];

/// The user name of a service account.
fn account(text: &str) -> Result<String, String> {
    const PREFIX: &str = "system:serviceaccount:";
    let parts = match text.strip_prefix(PREFIX) {
        Some(parts) => parts.split_once(':'),
        None => text.split_once('/'),
    };
    let (namespace, account) = parts.ok_or_else(|| format!("write `NAMESPACE/NAME` or `{PREFIX}NAMESPACE:NAME`"))?;
    name::label(namespace).map_err(|error| error.to_string())?;
    name::subdomain(account).map_err(|error| error.to_string())?;
    Ok(format!("{PREFIX}{namespace}:{account}"))
}

fn on_or_off(text: &str) -> Result<bool, String> {
    one_of(text, &[("on", true), ("off", false)])
}

/// The value of a switch.
pub(super) fn switch(text: &str, place: &mut bool) -> Result<(), String> {
    set(place, one_of(text, &[("true", true), ("false", false)]))
}

/// The value of one of several words.
pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let words = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let (others, last) = words.rsplit_once(", ").unwrap_or_default();
        format!("write {others} or {last}")
    })
}

/// Sets a setting to a parsed value.
pub(super) fn set<T: From<S>, S, E: ToString>(setting: &mut T, value: Result<S, E>) -> Result<(), String> {
    *setting = value.map_err(|error| error.to_string())?.into();
    Ok(())
}

pub(super) fn not_empty(text: &str, otherwise: &str) -> Result<String, String> {
    if text.is_empty() { Err(otherwise.to_owned()) } else { Ok(text.to_owned()) }
}

/// An address and a port, or `off`; `:8080` is every address, as in Go.
fn listen(text: &str) -> Result<Listen, &'static str> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    let every = text.strip_prefix(':').and_then(|port| port.parse().ok());
    let every = every.map(|port| SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
    every
        .or_else(|| text.parse().ok())
        .map(Listen::At)
        .ok_or("write an IP address and a port, such as `[::]:8080`, `127.0.0.1:8080` or `:8080`, or `off`")
}
