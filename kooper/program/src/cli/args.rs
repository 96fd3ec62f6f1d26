//! The command line: which command is to run, and with which settings.

mod flags;
mod installation;
mod own;
mod shards;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Id};
use tracing_subscriber::filter::Targets;

use super::logging::{self, LogFormat};
use crate::SettingsType;
use kooper_access::internal::DRAIN;
use kooper_access::internal::GivenSettings;
use kooper_access::internal::Installation;

pub(crate) use flags::Flag;
pub(crate) use installation::{Addition, AlertFormat, Format, GraphFormat, ManifestSettings, UninstallSettings};
pub(crate) use own::{OwnFlag, OwnSettings, PodSettings};
pub(crate) use shards::ShardsSettings;

/// The command to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subcommand {
    /// Run the controllers.
    Run,
    /// Run the controllers on an API server in this process.
    Dev,
    /// Print the CRDs.
    Crd,
    /// Print the roles that the program needs.
    Rbac,
    /// Print the declared children.
    Graph,
    /// Print the manifests of an installation.
    Manifests,
    /// Print what one pass over an object would write.
    Diff,
    /// Check that the cluster has everything that the program needs.
    Check,
    /// Print the shards and their owners, or move them.
    Shards,
    /// Remove finalizers and CRDs.
    Uninstall,
    /// Print a dashboard for the metrics.
    Dashboard,
    /// Print alerts for the metrics.
    Alerts,
}

impl Subcommand {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        SUBCOMMANDS.iter().find(|(_, subcommand, _)| *subcommand == self).map_or("run", |(name, ..)| *name)
    }
}

/// The commands: name and help.
const SUBCOMMANDS: [(&str, Subcommand, &str); 12] = [
    ("run", Subcommand::Run, "Runs the controllers until SIGINT or SIGTERM; the default"),
    ("dev", Subcommand::Dev, "Runs the controllers on an embedded API server, without a cluster"),
    ("crd", Subcommand::Crd, "Prints the CRDs of the controllers' kinds, as YAML"),
    ("rbac", Subcommand::Rbac, "Prints a service account with the minimal roles that the controllers need, as YAML"),
    ("graph", Subcommand::Graph, "Prints the declared children of the controllers, as text or a Mermaid diagram"),
    (
        "manifests",
        Subcommand::Manifests,
        "Prints all manifests to run the program in a cluster, as YAML or a Helm chart",
    ),
    (
        "diff",
        Subcommand::Diff,
        "Prints the changes that the controllers would make for the objects in files; exits with 1 if there are any",
    ),
    (
        "check",
        Subcommand::Check,
        "Checks the connection, the kinds, the CRDs and every permission; exits with 1 if one is missing",
    ),
    (
        "shards",
        Subcommand::Shards,
        "Prints the shards of the controllers and the replicas that own them, or moves shards",
    ),
    (
        "uninstall",
        Subcommand::Uninstall,
        "Stops the program in the cluster, cleans up, and removes its finalizers, and its CRDs with all their objects",
    ),
    ("dashboard", Subcommand::Dashboard, "Prints a Grafana dashboard for the metrics, as JSON"),
    ("alerts", Subcommand::Alerts, "Prints alerts for the metrics, as Prometheus rules or a PrometheusRule"),
];

/// All subcommands; that with a server of its own is the first.
const ALL: &[Subcommand] = &[
    Subcommand::Dev,
    Subcommand::Run,
    Subcommand::Crd,
    Subcommand::Rbac,
    Subcommand::Graph,
    Subcommand::Manifests,
    Subcommand::Diff,
    Subcommand::Check,
    Subcommand::Shards,
    Subcommand::Uninstall,
    Subcommand::Dashboard,
    Subcommand::Alerts,
];

/// The subcommands for a cluster: all but that with a server of its own.
const FOR_CLUSTER: &[Subcommand] = match ALL {
    [Subcommand::Dev, cluster @ ..] => cluster,
    _ => panic!("the first subcommand is `dev`"),
};

/// The values of all flags; `None` or empty for those that are built in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) workers: Option<usize>,
    pub(crate) resync: Option<Resync>,
    /// Fetches objects as JSON only, and never as protobuf.
    pub(crate) json_only: bool,
    pub(crate) listen: Listen,
    /// The address of probes, if they are not beside the metrics.
    pub(crate) listen_probes: Option<Listen>,
    /// `true` if only users of the cluster with the permission may read the metrics; `None` for the
    /// default of the command.
    pub(crate) metrics_auth: Option<bool>,
    /// The default of `metrics_auth` for the command.
    pub(crate) is_secured_by_default: bool,
    /// For whom the tokens of clients have to be made; `None` for the API server.
    pub(crate) metrics_audience: Option<String>,
    pub(crate) metrics_certificate: Option<PathBuf>,
    pub(crate) metrics_key: Option<PathBuf>,
    /// `true` for a status page; `None` for the default of the command.
    pub(crate) status_page: Option<bool>,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: Targets,
    /// Why `RUST_LOG` is not used, if it is set.
    pub(crate) rust_log: Option<String>,
    pub(crate) drain_timeout: Option<Duration>,
    pub(crate) lease_namespace: Option<String>,
    pub(crate) instance: Option<String>,
    /// Overrides the built-in setting.
    pub(crate) leader_election: Option<bool>,
    /// As `NAME@HASH`.
    pub(crate) allowed_crd_changes: Vec<String>,
    /// The namespace that the program is installed in.
    pub(crate) install_namespace: Option<String>,
    pub(crate) manifests: ManifestSettings,
    pub(crate) uninstall: UninstallSettings,
    pub(crate) alerts: AlertFormat,
    pub(crate) graph: GraphFormat,
    pub(crate) shards: ShardsSettings,
    /// The values of the flags as they are written, from the command line or the environment.
    pub(crate) given: BTreeMap<&'static str, Vec<String>>,
    /// Changes nothing in the cluster.
    pub(crate) dry_run: bool,
    /// The user that `check` acts as.
    pub(crate) impersonated: Option<String>,
    /// `true` for differences in color; `None` for color on a terminal only.
    pub(crate) color: Option<bool>,
    /// Files and folders with objects.
    pub(crate) files: Vec<PathBuf>,
    /// The port of the API server of `dev`.
    pub(crate) port: Option<u16>,
    /// Runs pods in `dev`, and creates pods for workloads.
    pub(crate) workloads: Option<bool>,
    /// Only removes the files of `dev`.
    pub(crate) clean: bool,
    /// Runs so many processes in `dev`; `None` for this one only.
    pub(crate) processes: Option<u8>,
    /// Where the API servers of a cluster reach the webhooks of a program on this machine.
    pub(crate) webhook_url: Option<String>,
    pub(crate) webhook_port: Option<u16>,
    /// The program's own settings.
    pub(crate) own: UserSettings,
}

/// The program's own settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserSettings {
    /// Their type.
    pub(crate) declared: Option<SettingsType>,
    /// Their values, if the command needs them.
    pub(crate) given: GivenSettings,
    /// Their flags, for a chart.
    pub(crate) flags: Vec<OwnFlag>,
    /// Those of a pod.
    pub(crate) pod: PodSettings,
    /// Why `run` could not start with them, for `check`.
    pub(crate) problem: Option<String>,
}

/// The address of metrics and probes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Listen {
    /// The default of the command.
    #[default]
    Default,
    /// They are not served.
    Off,
    /// This address.
    At(SocketAddr),
}

/// A resync interval, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resync(pub(crate) Option<Duration>);

/// The program whose command line is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramInfo<'a> {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// The lines of its doc comment.
    pub(crate) doc: &'a [&'a str],
    pub(crate) own: Option<&'a OwnSettings>,
}

/// Reads the command line, and the environment for flags that are not on it. An
/// empty variable counts as unset.
pub(crate) fn parse(
    program: &ProgramInfo<'_>,
    line: impl IntoIterator<Item = OsString>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<(Subcommand, Settings), clap::Error> {
    let line: Vec<OsString> = line.into_iter().collect();
    let mut command = command(program);
    let matches = command.try_get_matches_from_mut(&line)?;
    // Flags are global: the innermost matches know all of them.
    let (subcommand, matches) = match matches.subcommand() {
        Some((name, inner)) => {
            if let Some(flag) = given_twice(program, &line, inner) {
                let message = format!("`{flag}` is written before and after `{name}`: write it after it only");
                return Err(command.error(ErrorKind::ArgumentConflict, message));
            }
            let subcommand = SUBCOMMANDS.iter().find(|(known, ..)| *known == name);
            (subcommand.map_or(Subcommand::Run, |(_, subcommand, _)| *subcommand), inner)
        }
        None => (Subcommand::Run, &matches),
    };
    let mut settings = Settings::default();
    let given = |flag: &Flag| matches.value_source(flag.name) == Some(ValueSource::CommandLine);
    if let Some(flag) = every_flag().find(|flag| flag.is_global() && !flag.of.contains(&subcommand) && given(flag)) {
        let name = flag.name;
        let message =
            if subcommand == Subcommand::Dev && FOR_CLUSTER.iter().all(|subcommand| flag.of.contains(subcommand)) {
                format!("`dev` starts its own API server: remove `--{name}`")
            } else {
                format!("`{}` has no `--{name}`: remove it", subcommand.name())
            };
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    for flag in every_flag().filter(|flag| flag.of.contains(&subcommand)) {
        if given(flag) {
            for text in matches.get_many::<String>(flag.name).into_iter().flatten() {
                (flag.take)(&mut settings, text)
                    .map_err(|problem| command.error(ErrorKind::ValueValidation, problem))?;
                settings.given.entry(flag.name).or_default().push(text.clone());
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
            settings.given.entry(flag.name).or_default().extend(text.into_string());
        }
    }
    if !settings.given.contains_key("log-level") {
        // For `diff`, only what concerns the differences.
        let levels = if subcommand == Subcommand::Diff { "warn" } else { "info" };
        settings.log_level = logging::levels(levels).unwrap_or_default();
        if let Some(text) = environment("RUST_LOG").filter(|text| !text.is_empty()) {
            match logging::levels(&text.to_string_lossy()) {
                Ok(levels) => settings.log_level = levels,
                // It may be meant for other programs, which know more than levels.
                Err(problem) => settings.rust_log = Some(problem),
            }
        }
    }
    if subcommand == Subcommand::Manifests && settings.manifests.image.is_none() {
        let message =
            "the image of the program is missing: write `--image IMAGE`, such as `--image example.com/shop:1.2.0`";
        return Err(command.error(ErrorKind::MissingRequiredArgument, message));
    }
    if subcommand == Subcommand::Diff && settings.files.is_empty() {
        let message = "the objects are missing: write `-f FILE` for a file, a folder, or `-` for stdin";
        return Err(command.error(ErrorKind::MissingRequiredArgument, message));
    }
    settings.is_secured_by_default = subcommand == Subcommand::Manifests;
    if let Some(own) = program.own {
        settings.own.declared = Some(own.declared());
        settings.own.flags = own.flags();
        settings.own.pod = own.for_pod(matches, &environment, settings.manifests.settings_secret.is_some());
        // Commands that only print something, or remove files, need no values.
        let given = match subcommand {
            Subcommand::Crd
            | Subcommand::Rbac
            | Subcommand::Graph
            | Subcommand::Shards
            | Subcommand::Dashboard
            | Subcommand::Alerts => Ok(GivenSettings::default()),
            Subcommand::Manifests => own
                .check_for_pod(&mut command, matches, &environment, &settings.own.pod)
                .map(|()| GivenSettings::default()),
            Subcommand::Dev if settings.clean => Ok(GivenSettings::default()),
            Subcommand::Run | Subcommand::Dev | Subcommand::Diff | Subcommand::Check | Subcommand::Uninstall => {
                own.read(&mut command, matches, &environment, None)
            }
        };
        match given {
            Ok(given) => settings.own.given = given,
            Err(error) if subcommand == Subcommand::Check => settings.own.problem = Some(own::body(&error)),
            Err(error) => return Err(error),
        }
    }
    Ok((subcommand, settings))
}

/// The flag that has other values before the command than it has in all. clap keeps the last ones of a global flag.
fn given_twice(program: &ProgramInfo<'_>, line: &[OsString], matches: &ArgMatches) -> Option<String> {
    // The arguments after an external command are not read as flags.
    let mut outer = common(program).allow_external_subcommands(true);
    let before = outer.try_get_matches_from_mut(line).ok()?;
    let values = |of: &ArgMatches, id: &Id| -> Vec<OsString> {
        of.get_raw(id.as_str()).into_iter().flatten().map(OsStr::to_owned).collect()
    };
    let is_given = |id: &Id| before.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let twice = before.ids().find(|id| is_given(id) && values(&before, id) != values(matches, id))?;
    outer.get_arguments().find(|arg| arg.get_id() == twice).map(ToString::to_string)
}

/// A doc comment as a description: without the period at the end of its first paragraph.
fn described(lines: &[&str]) -> Option<String> {
    let lines = lines.iter().flat_map(|text| text.split('\n'));
    let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let text = lines.join("\n");
    let mut paragraphs = text.trim().split("\n\n");
    let first = paragraphs.next().filter(|first| !first.is_empty())?.replace('\n', " ");
    let first = first.strip_suffix('.').filter(|rest| !rest.ends_with('.')).unwrap_or(&first);
    Some(std::iter::once(first).chain(paragraphs).collect::<Vec<_>>().join("\n\n"))
}

const AFTER_HELP: &str = "\
Each flag has an environment variable: KOOPER_WORKERS for --workers, KOOPER_LOG_LEVEL for --log-level.
The flag takes precedence over the variable, and both over RUST_LOG. Durations are written as 500ms, 30s, 5m or 1h30m.";

/// The place of the first flag of all commands in their help: after a command's own flags.
const AFTER_OWN: usize = 100;

/// The description of a program that has none of its own.
const ABOUT: &str = "Runs Kubernetes controllers, made with Kooper";

/// The program without its commands.
fn common(program: &ProgramInfo<'_>) -> Command {
    let command = Command::new(program.name)
        .version(program.version)
        .about(described(program.doc).unwrap_or_else(|| ABOUT.to_owned()))
        .after_help(AFTER_HELP)
        .next_display_order(AFTER_OWN)
        .args(every_flag().filter(|flag| flag.is_global()).map(Flag::arg));
    match program.own {
        Some(own) => own.add_to(command),
        None => command,
    }
}

fn command(program: &ProgramInfo<'_>) -> Command {
    common(program).subcommands(SUBCOMMANDS.map(|(name, subcommand, about)| {
        let own = every_flag().filter(move |flag| !flag.is_global() && flag.of.contains(&subcommand));
        // They may precede any command, so the error is ours; its help does not offer them.
        let refused = every_flag().filter(move |flag| flag.is_global() && !flag.of.contains(&subcommand));
        let refused = refused.map(|flag| flag.arg().hide(true));
        Command::new(name).about(about).after_help(AFTER_HELP).args(own.map(Flag::arg)).args(refused)
    }))
}

/// All flags but those of the program's own settings.
fn every_flag() -> impl Iterator<Item = &'static Flag> {
    flags::COMMON.iter().chain(&installation::FLAGS).chain(&shards::FLAGS)
}

/// The flags of `run` that a pod gets as variables.
pub(crate) fn pod_flags() -> impl Iterator<Item = &'static Flag> {
    every_flag()
        .filter(|flag| flag.is_global() && !["kubeconfig", "context", "dry-run", "webhook-url"].contains(&flag.name))
}

fn from_one(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("write a whole number from 1 to {}", u16::MAX))
}

/// A value without blanks.
fn word(text: &str, otherwise: &str) -> Result<String, String> {
    let has_blank = text.contains(|char: char| char.is_whitespace() || char.is_control());
    if has_blank { Err(otherwise.to_owned()) } else { flags::not_empty(text, otherwise) }
}

impl Settings {
    /// Where probes are served; `None` if beside the metrics. Kubelets have no token and
    /// no certificate authority, so probes are not secured.
    pub(crate) fn probes(&self) -> Option<Listen> {
        let is_secured =
            self.has_metrics_auth() || self.metrics_certificate.is_some() || self.manifests.metrics_secret.is_some();
        match self.listen {
            _ if self.listen_probes.is_some() || !is_secured => self.listen_probes,
            Listen::Off => Some(Listen::Off),
            _ => Some(Listen::Default),
        }
    }

    /// Returns `true` if only users of the cluster may read the metrics.
    pub(crate) fn has_metrics_auth(&self) -> bool {
        self.metrics_auth.unwrap_or(self.is_secured_by_default)
    }

    /// Returns `true` if the program serves metrics and reviews the tokens of clients.
    pub(crate) fn reviews_tokens(&self) -> bool {
        self.has_metrics_auth() && self.listen != Listen::Off
    }

    pub(crate) fn drain_timeout(&self) -> Duration {
        self.drain_timeout.unwrap_or(DRAIN)
    }

    pub(crate) fn install_namespace(&self) -> &str {
        self.install_namespace.as_deref().unwrap_or("default")
    }

    /// This installation of a program.
    pub(crate) fn installation(&self, program: &str) -> Installation {
        Installation::new(program, self.instance.clone())
    }
}
