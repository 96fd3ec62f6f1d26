//! Secrets from files.

use std::any::TypeId;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};

use kooper_access::SecretValue;
use kooper_runtime::internal::error::redaction;

/// The flag and the variable for a file with the value of a secret.
pub(super) struct File<'a> {
    secret: &'a Arg,
    /// The secret's flag.
    flag: &'a str,
}

/// Any text as a secret.
pub(super) fn any(text: &str) -> Result<SecretValue, Infallible> {
    text.parse()
}

/// Returns `true` if the value of the setting must not be shown.
pub(super) fn is_secret(setting: &Arg) -> bool {
    setting.get_value_parser().type_id() == TypeId::of::<SecretValue>()
}

/// Returns `true` if a secret has an empty value, as of a variable of the shell that is not set.
pub(super) fn is_empty(setting: &Arg, matches: &ArgMatches) -> bool {
    let values = matches.try_get_many::<OsString>(&super::id(setting)).ok().flatten();
    is_secret(setting) && values.is_some_and(|mut values| values.any(|value| value.is_empty()))
}

/// From now on the value of a secret setting is not shown.
pub(super) fn remember(setting: &Arg, matches: &ArgMatches) {
    let values = matches.try_get_many::<SecretValue>(setting.get_id().as_str()).ok().flatten();
    values.into_iter().flatten().for_each(|value| redaction::remember(value.expose()));
}

/// Why a secret cannot be read.
type Problem = (ErrorKind, String);

impl<'a> File<'a> {
    /// Those of a setting, if it is a secret with a flag.
    pub(super) fn of(secret: &'a Arg) -> Option<Self> {
        let flag = secret.get_long().filter(|_| is_secret(secret) && secret.get_action().takes_values())?;
        Some(Self { secret, flag })
    }

    /// Its flag.
    pub(super) fn long(&self) -> String {
        format!("{}-file", self.flag)
    }

    /// Its variable, if the secret has one.
    pub(super) fn variable(&self) -> Option<OsString> {
        let mut name = self.secret.get_env()?.to_owned();
        name.push("_FILE");
        Some(name)
    }

    pub(super) fn id(&self) -> String {
        format!("{}:file", super::id(self.secret))
    }

    /// The argument of the program's command.
    pub(super) fn arg(&self) -> Arg {
        let variable = self.variable().map(|name| format!(" [env: {}]", name.display())).unwrap_or_default();
        Arg::new(self.id())
            .long(self.long())
            .value_name("FILE")
            .help(format!("File with the value of --{}{variable}", self.flag))
            .help_heading(self.secret.get_help_heading().unwrap_or(super::HEADING).to_owned())
            .hide(self.secret.is_hide_set())
            .value_parser(ValueParser::path_buf())
            .global(true)
    }

    /// The flag and the variable for the file, for a message.
    pub(super) fn ways(&self) -> String {
        let variable = self.variable().map(|name| format!(" or {}", name.display())).unwrap_or_default();
        format!("`--{}`{variable}", self.long())
    }

    /// The value in the file, if a file is named. A flag takes precedence over a variable.
    pub(super) fn value(
        &self,
        matches: &ArgMatches,
        variable: impl Fn(&OsStr) -> Option<OsString>,
    ) -> Result<Option<String>, Problem> {
        let (flag, long) = (self.flag, self.long());
        let on_line = super::is_on_line(self.secret, matches);
        let id = self.id();
        if matches.value_source(&id) == Some(ValueSource::CommandLine) {
            if on_line {
                let problem = format!("`--{flag}` and `--{long}` exclude each other: remove one of them");
                return Err((ErrorKind::ArgumentConflict, problem));
            }
            let path = matches.get_one::<PathBuf>(&id).map(PathBuf::as_path).unwrap_or(Path::new(""));
            return content(path, &format!("`--{long}`")).map(Some);
        }
        let Some(name) = self.variable().filter(|_| !on_line) else { return Ok(None) };
        let Some(path) = variable(&name) else { return Ok(None) };
        let name = name.display();
        if let Some(other) = self.secret.get_env().filter(|other| variable(other).is_some()) {
            let problem = format!(
                "the environment variables {} and {name} exclude each other: unset one of them",
                other.display()
            );
            return Err((ErrorKind::ArgumentConflict, problem));
        }
        content(Path::new(&path), &name.to_string()).map(Some)
    }
}

/// The value in a file, without the line break at its end.
fn content(path: &Path, origin: &str) -> Result<String, Problem> {
    let problem = |why: String| (ErrorKind::Io, format!("the file {} set by {origin} {why}", path.display()));
    let bytes = fs::read(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| problem("is not UTF-8".to_owned()))?;
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() { Err(problem("is empty".to_owned())) } else { Ok(value.to_owned()) }
}
