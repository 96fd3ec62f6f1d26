//! The program's own settings, as the container of a pod gets them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{OwnSettings, assigned, is_given, is_on_line, names, secret, tokens};

/// The program's own settings for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodSettings {
    /// The arguments without secrets.
    pub(crate) line: Vec<String>,
    /// The flags of the secrets that a Secret has to hold, without dashes.
    pub(crate) secrets: Vec<String>,
    /// A secret that is given and cannot come from a file: its flag, as it is written.
    pub(super) stuck: Option<String>,
    /// A setting with a value that no document can have: its flag.
    pub(super) unprintable: Option<String>,
}

impl PodSettings {
    /// Returns `true` if the pod takes the setting from the Secret.
    pub(super) fn has_secret(&self, setting: &Arg) -> bool {
        setting.get_long().is_some_and(|long| self.secrets.iter().any(|secret| secret == long))
    }
}

impl OwnSettings {
    /// Converts the command line and the environment to the settings of a pod. No document contains
    /// a secret: one that is given as a value comes from a Secret instead. With `has_secret`, so
    /// does one that is required and not given.
    pub(in super::super) fn for_pod(
        &self,
        matches: &ArgMatches,
        environment: &impl Fn(&str) -> Option<OsString>,
        has_secret: bool,
    ) -> PodSettings {
        let variable = |name: &OsStr| environment(name.to_str()?).filter(|value| !value.is_empty());
        let mut line = Vec::new();
        for arg in self.args.iter().filter(|arg| !secret::is_secret(arg)) {
            let value = arg.get_env().and_then(variable).filter(|_| !is_on_line(arg, matches));
            let (Some(value), Some(name)) = (value, names(arg).into_iter().next()) else {
                tokens(arg, matches, &mut line);
                continue;
            };
            if arg.get_action().takes_values() {
                line.push(assigned(&name, &value));
            } else {
                line.extend((0..times(arg.get_action(), &value)).map(|_| name.clone().into()));
            }
        }
        let is_set = |arg: &Arg| is_on_line(arg, matches) || arg.get_env().and_then(variable).is_some();
        let mut secrets = Vec::new();
        for (arg, file) in self.files() {
            if is_given(&file.id(), matches) {
                let path = matches.get_one::<PathBuf>(&file.id()).map(|path| path.as_os_str()).unwrap_or_default();
                line.push(assigned(&format!("--{}", file.long()), path));
                continue;
            }
            if is_set(arg)
                || file.variable().is_some_and(|name| variable(&name).is_some())
                || has_secret && arg.is_required_set()
            {
                secrets.extend(arg.get_long().map(str::to_owned));
            }
        }
        // A value follows its flag, or is in the same token.
        let broken = line.iter().position(|token| token.to_str().is_none());
        let line: Vec<_> = line.into_iter().map(|token| token.to_string_lossy().into_owned()).collect();
        let flag = |token: &String| Some(token.split('=').next()?.to_owned()).filter(|flag| flag.starts_with('-'));
        let unprintable = broken.and_then(|at| line.get(..=at)?.iter().rev().find_map(flag));
        let has_file = |arg: &Arg| self.files().any(|(other, _)| other.get_id() == arg.get_id());
        let mut stuck = self.args.iter().filter(|arg| secret::is_secret(arg) && is_set(arg) && !has_file(arg));
        let stuck = stuck.next().and_then(|arg| names(arg).into_iter().next());
        PodSettings { line, secrets, stuck, unprintable }
    }

    /// Returns an error if a pod could not start with the settings. The files in `pod` are not on
    /// this machine, so any value stands for their content.
    pub(in super::super) fn check_for_pod(
        &self,
        command: &mut Command,
        matches: &ArgMatches,
        environment: &impl Fn(&str) -> Option<OsString>,
        pod: &PodSettings,
    ) -> Result<(), clap::Error> {
        if let Some(flag) = &pod.stuck {
            let problem = format!(
                "`{flag}` is a secret, which is never written into manifests, and has no flag for a file with its \
                 value: leave it out, and set its environment variable in the pod"
            );
            return Err(command.error(ErrorKind::ArgumentConflict, problem));
        }
        if let Some(flag) = &pod.unprintable {
            let problem = format!("the value of `{flag}` is not UTF-8, as manifests have to be: write another one");
            return Err(command.error(ErrorKind::ValueValidation, problem));
        }
        self.read(command, matches, environment, Some(pod)).map(drop)
    }
}

/// The number of times that a flag without a value is written to have the effect of its variable.
fn times(action: &ArgAction, value: &OsStr) -> u8 {
    match action {
        ArgAction::Count => value.to_str().and_then(|value| value.parse().ok()).unwrap_or_default(),
        ArgAction::SetFalse => u8::from(!is_true(value)),
        _ => u8::from(is_true(value)),
    }
}

/// Parses the variable of a switch as clap does.
fn is_true(value: &OsStr) -> bool {
    let off = ["n", "no", "f", "false", "off", "0"];
    !value.to_str().is_some_and(|value| off.contains(&value.to_lowercase().as_str()))
}
