//! The flags and their environment variables: one table for both.

use std::ffi::OsString;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};
use kooper_grammar::{duration, name};
use tracing_subscriber::filter::Targets;

use super::logging::{self, LogFormat};
use crate::controller::installation::Installation;
use crate::controller::operator::DRAIN;

#[cfg(test)]
mod tests;

/// The command to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Run the controllers.
    Run,
    /// Run the controllers on an API server in this process.
    Dev,
    /// Print the CRDs.
    Crd,
    /// Print the roles that the program needs.
    Rbac,
    /// Check that the cluster has everything that the program needs.
    Check,
}

#[cfg(feature = "otel")]
impl Task {
    /// Whether it runs the controllers.
    pub(crate) fn runs(self) -> bool {
        matches!(self, Self::Run | Self::Dev)
    }
}

/// The commands: name and help.
const TASKS: [(&str, Task, &str); 5] = [
    ("run", Task::Run, "Runs the controllers until SIGINT or SIGTERM; the default"),
    ("dev", Task::Dev, "Runs the controllers on an API server of its own, in this process: needs no cluster"),
    ("crd", Task::Crd, "Prints the CRDs of the controllers' kinds, as YAML"),
    ("rbac", Task::Rbac, "Prints a service account with the least roles that the controllers need, as YAML"),
    (
        "check",
        Task::Check,
        "Checks the connection, the kinds, the CRDs and every permission; exits with 1 if one is missing",
    ),
];

/// All tasks.
const EVERY: &[Task] = &[Task::Run, Task::Dev, Task::Crd, Task::Rbac, Task::Check];

/// The tasks that connect to a cluster.
const CLUSTER: &[Task] = &[Task::Run, Task::Crd, Task::Rbac, Task::Check];

/// The values of all flags; `None` or empty for those that are built in.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) workers: Option<usize>,
    pub(crate) resync: Option<Resync>,
    /// Whether objects are fetched as JSON only.
    pub(crate) json_only: bool,
    pub(crate) listen: Listen,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: Targets,
    pub(crate) drain_timeout: Duration,
    pub(crate) lease_namespace: Option<String>,
    pub(crate) instance: Option<String>,
    /// Overrides the built-in setting.
    pub(crate) leader_election: Option<bool>,
    /// As `NAME@HASH`.
    pub(crate) allowed_crd_changes: Vec<String>,
    /// The namespace that the program is installed in.
    pub(crate) install_namespace: String,
    /// Files and folders with objects.
    pub(crate) files: Vec<PathBuf>,
    /// The port of the API server of `dev`.
    pub(crate) port: Option<u16>,
    /// Whether `dev` only removes its files.
    pub(crate) clean: bool,
}

/// The address of metrics and probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listen {
    /// The default of the command.
    Default,
    /// They are not served.
    Off,
    /// This address.
    At(SocketAddr),
}

/// A resync interval, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resync(pub(crate) Option<Duration>);

impl Default for Settings {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            namespaces: Vec::new(),
            workers: None,
            resync: None,
            json_only: false,
            listen: Listen::Default,
            log_format: LogFormat::Text,
            log_level: logging::levels("").unwrap_or_default(),
            drain_timeout: DRAIN,
            lease_namespace: None,
            instance: None,
            leader_election: None,
            allowed_crd_changes: Vec::new(),
            install_namespace: "default".to_owned(),
            files: Vec::new(),
            port: None,
            clean: false,
        }
    }
}

/// A flag.
struct Flag {
    name: &'static str,
    short: Option<char>,
    /// A placeholder for its value; empty for a switch.
    value: &'static str,
    help: &'static str,
    repeatable: bool,
    /// The commands that have it.
    of: &'static [Task],
    /// Parses a value, or returns what to write instead.
    take: fn(&mut Settings, &str) -> Result<(), String>,
}

static FLAGS: [Flag; 18] = [
    Flag {
        name: "kubeconfig",
        short: None,
        value: "FILE",
        help: "Kubeconfig to connect with [default: KUBECONFIG, ~/.kube/config, the service account]",
        repeatable: false,
        of: CLUSTER,
        take: |settings, text| {
            settings.kubeconfig = Some(not_empty(text, "write the path of a file")?.into());
            Ok(())
        },
    },
    Flag {
        name: "context",
        short: None,
        value: "NAME",
        help: "Context of the kubeconfig [default: its current one]",
        repeatable: false,
        of: CLUSTER,
        take: |settings, text| {
            settings.context = Some(not_empty(text, "write the name of a context")?.to_owned());
            Ok(())
        },
    },
    Flag {
        name: "namespace",
        short: None,
        value: "NAME",
        help: "Namespace to watch; repeat it, or write a,b [default: as built in]",
        repeatable: true,
        of: EVERY,
        take: |settings, text| {
            for namespace in text.split(',').map(str::trim) {
                name::label(namespace).map_err(|error| error.to_string())?;
                if !settings.namespaces.iter().any(|known| known == namespace) {
                    settings.namespaces.push(namespace.to_owned());
                }
            }
            Ok(())
        },
    },
    Flag {
        name: "workers",
        short: None,
        value: "N",
        help: "Parallel handlers of each controller [default: as built in]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| match text.parse::<u16>() {
            Ok(workers) if workers > 0 => {
                settings.workers = Some(workers.into());
                Ok(())
            }
            _ => Err(format!("write a whole number from 1 to {}", u16::MAX)),
        },
    },
    Flag {
        name: "resync",
        short: None,
        value: "DURATION|off",
        help: "Interval at which every object is reconciled again, or off [default: as built in]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| {
            let every = match text {
                "off" => None,
                text => Some(duration::parse(text).map_err(|error| format!("{error}, or `off` for no resync"))?),
            };
            settings.resync = Some(Resync(every));
            Ok(())
        },
    },
    Flag {
        name: "wire",
        short: None,
        value: "auto|json",
        help: "Encoding of watched objects: protobuf where offered, or only JSON [default: auto]",
        repeatable: false,
        of: &[Task::Run, Task::Dev],
        take: |settings, text| {
            settings.json_only = match text {
                "auto" => false,
                "json" => true,
                _ => return Err("write `auto` or `json`".to_owned()),
            };
            Ok(())
        },
    },
    Flag {
        name: "listen",
        short: None,
        value: "ADDR|off",
        help: "Address of /metrics, /healthz and /readyz, or off [default: [::]:8080, IPv4 included]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| {
            settings.listen = if text == "off" { Listen::Off } else { Listen::At(address(text)?) };
            Ok(())
        },
    },
    Flag {
        name: "log-format",
        short: None,
        value: "text|json",
        help: "Format of the log on stderr [default: text]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| {
            settings.log_format = match text {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => return Err("write `text` or `json`".to_owned()),
            };
            Ok(())
        },
    },
    Flag {
        name: "log-level",
        short: None,
        value: "LEVEL",
        help: "off, error, warn, info, debug or trace; for targets: info,kube=debug [default: info]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| {
            settings.log_level = logging::levels(text)?;
            Ok(())
        },
    },
    Flag {
        name: "drain-timeout",
        short: None,
        value: "DURATION",
        help: "How long running handlers may take to end when the program stops [default: 20s]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| {
            settings.drain_timeout = duration::parse(text).map_err(|error| error.to_string())?;
            Ok(())
        },
    },
    Flag {
        name: "lease-namespace",
        short: None,
        value: "NAME",
        help: "Namespace of the leases [default: the pod's own; elsewhere the kubeconfig context's]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| {
            name::label(text).map_err(|error| error.to_string())?;
            settings.lease_namespace = Some(text.to_owned());
            Ok(())
        },
    },
    Flag {
        name: "instance",
        short: None,
        value: "NAME",
        help: "Name of this installation, if a namespace has several of the program [default: none]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| {
            name::label(text).map_err(|error| error.to_string())?;
            settings.instance = Some(text.to_owned());
            Ok(())
        },
    },
    Flag {
        name: "leader-election",
        short: None,
        value: "on|off",
        help: "Whether handlers run in one replica only [default: as built in]",
        repeatable: false,
        of: EVERY,
        take: |settings, text| {
            settings.leader_election = Some(match text {
                "on" => true,
                "off" => false,
                _ => return Err("write `on` or `off`".to_owned()),
            });
            Ok(())
        },
    },
    Flag {
        name: "allow-crd-change",
        short: None,
        value: "NAME@HASH",
        help: "Incompatible CRD change to allow, as the error prints it; repeatable",
        repeatable: true,
        of: EVERY,
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
    },
    Flag {
        name: "install-namespace",
        short: None,
        value: "NAME",
        help: "Namespace that the program is installed in [default: default]",
        repeatable: false,
        of: &[Task::Rbac],
        take: |settings, text| {
            name::label(text).map_err(|error| error.to_string())?;
            text.clone_into(&mut settings.install_namespace);
            Ok(())
        },
    },
    Flag {
        name: "filename",
        short: Some('f'),
        value: "FILE",
        help: "YAML or JSON file to apply, or a folder of them, or - for stdin; repeatable [default: samples]",
        repeatable: true,
        of: &[Task::Dev],
        take: |settings, text| {
            settings.files.push(not_empty(text, "write the path of a file or a folder")?.into());
            Ok(())
        },
    },
    Flag {
        name: "port",
        short: None,
        value: "N",
        help: "Port of the API server [default: that of the last time, or from 6443 the first that is free]",
        repeatable: false,
        of: &[Task::Dev],
        take: |settings, text| {
            let port = text.parse().map_err(|_| format!("write a port from 1 to {}, or 0 for any", u16::MAX))?;
            settings.port = Some(port);
            Ok(())
        },
    },
    Flag {
        name: "clean",
        short: None,
        value: "",
        help: "Only removes the files that `dev` keeps for the next time: kubeconfig and credentials",
        repeatable: false,
        of: &[Task::Dev],
        take: |settings, text| {
            settings.clean = match text {
                "true" => true,
                "false" => false,
                _ => return Err("write `true` or `false`".to_owned()),
            };
            Ok(())
        },
    },
];

/// Reads the command line, and the environment for flags that are not on it. An
/// empty variable counts as unset.
pub(crate) fn parse(
    program: &'static str,
    version: &'static str,
    line: impl IntoIterator<Item = OsString>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<(Task, Settings), clap::Error> {
    let mut command = command(program, version);
    let matches = command.try_get_matches_from_mut(line)?;
    // Flags are global: the innermost matches know all of them.
    let (task, matches) = match matches.subcommand() {
        Some((name, inner)) => {
            let task = TASKS.iter().find(|(known, ..)| *known == name);
            (task.map_or(Task::Run, |(_, task, _)| *task), inner)
        }
        None => (Task::Run, &matches),
    };
    let mut settings = Settings::default();
    let given = |flag: &Flag| matches.value_source(flag.name) == Some(ValueSource::CommandLine);
    if let Some(flag) = FLAGS.iter().find(|flag| flag.is_global() && !flag.of.contains(&task) && given(flag)) {
        let message = format!("`dev` starts an API server of its own: remove `--{}`", flag.name);
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    for flag in FLAGS.iter().filter(|flag| flag.of.contains(&task)) {
        if given(flag) {
            for text in matches.get_many::<String>(flag.name).into_iter().flatten() {
                (flag.take)(&mut settings, text)
                    .map_err(|problem| command.error(ErrorKind::ValueValidation, problem))?;
            }
        } else if let Some(text) = environment(&flag.variable()).filter(|text| !text.is_empty()) {
            let taken = match text.to_str() {
                Some(text) => (flag.take)(&mut settings, text),
                None => Err("write it in UTF-8".to_owned()),
            };
            taken.map_err(|problem| {
                let (variable, name, text) = (flag.variable(), flag.name, text.display());
                let message =
                    format!("invalid value '{text}' for the environment variable {variable} (--{name}): {problem}");
                command.error(ErrorKind::ValueValidation, message)
            })?;
        }
    }
    Ok((task, settings))
}

const AFTER_HELP: &str = "\
Each flag has an environment variable: KOOPER_WORKERS for --workers, KOOPER_LOG_LEVEL for --log-level.
The flag takes precedence over the variable. Durations are written as 500ms, 30s, 5m or 1h30m.";

fn command(program: &'static str, version: &'static str) -> Command {
    Command::new(program)
        .version(version)
        .about("Runs Kubernetes controllers, made with Kooper")
        .after_help(AFTER_HELP)
        .subcommands(TASKS.map(|(name, task, about)| {
            let own = FLAGS.iter().filter(move |flag| flag.of == [task]);
            Command::new(name).about(about).after_help(AFTER_HELP).args(own.map(Flag::arg))
        }))
        .args(FLAGS.iter().filter(|flag| flag.is_global()).map(Flag::arg))
}

impl Flag {
    /// `KOOPER_LOG_LEVEL` for `--log-level`.
    fn variable(&self) -> String {
        format!("KOOPER_{}", self.name.replace('-', "_").to_uppercase())
    }

    fn arg(&'static self) -> Arg {
        // clap reports a bad value with its flag. The value itself is applied later, like those of the
        // environment.
        let check = |text: &str| (self.take)(&mut Settings::default(), text).map(|()| text.to_owned());
        let action = match (self.value, self.repeatable) {
            ("", _) => ArgAction::SetTrue,
            (_, true) => ArgAction::Append,
            (_, false) => ArgAction::Set,
        };
        let arg = Arg::new(self.name)
            .long(self.name)
            .value_name(self.value)
            .help(self.help)
            .action(action)
            .value_parser(ValueParser::new(check))
            .global(self.is_global());
        match self.short {
            Some(short) => arg.short(short),
            None => arg,
        }
    }

    /// Whether it may also precede the command.
    fn is_global(&self) -> bool {
        self.of.len() > 1
    }
}

impl Settings {
    /// This installation of a program.
    pub(crate) fn installation(&self, program: &str) -> Installation {
        Installation::new(program, self.instance.clone())
    }
}

fn not_empty<'a>(text: &'a str, otherwise: &str) -> Result<&'a str, String> {
    if text.is_empty() { Err(otherwise.to_owned()) } else { Ok(text) }
}

/// An address and a port; `:8080` is every address, as in Go.
fn address(text: &str) -> Result<SocketAddr, String> {
    let every = text.strip_prefix(':').and_then(|port| port.parse().ok());
    match (every, text.parse()) {
        (Some(port), _) => Ok(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)),
        (None, Ok(address)) => Ok(address),
        (None, Err(_)) => {
            Err("write an IP address and a port, such as `[::]:8080`, `127.0.0.1:8080` or `:8080`, or `off`".to_owned())
        }
    }
}
