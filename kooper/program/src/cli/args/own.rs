//! The flags of the program's own settings.
//!
//! The command line is read twice. First by a command with all flags, where those of
//! the settings are optional and may be before or after the command's name. Then
//! by a command with the settings alone, as their type describes them, so that
//! everything holds that clap knows: what is required, groups, conflicts, defaults.

mod pod;
mod secret;

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Id};

use super::every_flag;
use crate::SettingsType;
use kooper_access::internal::GivenSettings;
pub(crate) use pod::PodSettings;

/// The heading of the settings in `--help`.
const HEADING: &str = "Settings";

/// The flags of the program's own settings.
#[derive(Debug, Clone)]
pub(crate) struct OwnSettings {
    declared: SettingsType,
    /// As the type describes them.
    args: Vec<Arg>,
}

/// A flag of the program's own settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnFlag {
    /// Without its dashes.
    pub(crate) name: String,
    pub(crate) help: String,
    /// The only values that it takes, with their aliases; empty for any.
    pub(crate) values: Vec<String>,
    /// `true` if it takes these values in capital letters, too.
    pub(crate) ignores_case: bool,
    pub(crate) takes_values: bool,
    /// `true` if a value is kept as it is written, and not parsed.
    pub(crate) is_text: bool,
    /// `true` if the value is the path of a file with a secret.
    pub(crate) is_file: bool,
}

/// A type of settings that a program cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OwnError {
    #[error(
        "the setting `{setting}` of `{ty}` has the flag `{flag}`, which conflicts with the program's own `{taken}`: \
         choose another one, such as `#[arg(long = \"my-{setting}\")]`"
    )]
    Flag { ty: &'static str, setting: String, flag: String, taken: String },
    #[error(
        "the setting `{setting}` of `{ty}` reads the environment variable {variable}, which the program already uses \
         for `--{taken}`: choose another one"
    )]
    Variable { ty: &'static str, setting: String, variable: String, taken: &'static str },
    #[error("the settings `{one}` and `{other}` of `{ty}` both have {what}: change one of them")]
    Twice { ty: &'static str, one: String, other: String, what: String },
    #[error("the setting `{setting}` of `{ty}` has no flag: write `#[arg(long)]` above it")]
    Positional { ty: &'static str, setting: String },
    #[error("`{ty}` has subcommands, which settings cannot have: write a field with `#[arg(long)]` instead")]
    Subcommands { ty: &'static str },
}

impl OwnSettings {
    /// The settings of a type, if their flags and variables are not taken.
    pub(crate) fn new(declared: SettingsType) -> Result<Self, OwnError> {
        let model = (declared.augment)(Command::new(HEADING).next_help_heading(HEADING));
        let ty = declared.name;
        if model.has_subcommands() {
            return Err(OwnError::Subcommands { ty });
        }
        let args: Vec<_> = model.get_arguments().cloned().collect();
        for (at, arg) in args.iter().enumerate() {
            let setting = || arg.get_id().to_string();
            let names = names(arg);
            if names.is_empty() {
                return Err(OwnError::Positional { ty, setting: setting() });
            }
            for flag in names {
                if let Some(taken) = taken(&flag) {
                    return Err(OwnError::Flag { ty, setting: setting(), flag, taken });
                }
                if let Some(one) = args.iter().take(at).find(|one| self::names(one).contains(&flag)) {
                    let one = one.get_id().to_string();
                    return Err(OwnError::Twice { ty, one, other: setting(), what: format!("the flag `{flag}`") });
                }
            }
            let Some(variable) = arg.get_env() else { continue };
            if let Some(taken) = every_flag().find(|flag| variable == OsStr::new(&flag.variable())) {
                let variable = variable.display().to_string();
                return Err(OwnError::Variable { ty, setting: setting(), variable, taken: taken.name });
            }
            if let Some(one) = args.iter().take(at).find(|one| one.get_env() == Some(variable)) {
                let (one, what) = (one.get_id().to_string(), format!("the variable {}", variable.display()));
                return Err(OwnError::Twice { ty, one, other: setting(), what });
            }
        }
        Ok(Self { declared, args })
    }

    /// Their type.
    pub(super) fn declared(&self) -> SettingsType {
        self.declared
    }

    /// The long flags, without secrets but with those for their files.
    pub(super) fn flags(&self) -> Vec<OwnFlag> {
        let texts = [TypeId::of::<String>(), TypeId::of::<OsString>(), TypeId::of::<PathBuf>()];
        let flag = |arg: &Arg, is_file: bool| {
            let is_possible = arg.get_action().takes_values() && arg.get_value_delimiter().is_none();
            let values = if is_possible { arg.get_possible_values() } else { Vec::new() };
            Some(OwnFlag {
                name: arg.get_long()?.to_owned(),
                help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
                values: values.iter().flat_map(|value| value.get_name_and_aliases().map(str::to_owned)).collect(),
                ignores_case: arg.is_ignore_case_set(),
                takes_values: arg.get_action().takes_values(),
                is_text: texts.iter().any(|text| arg.get_value_parser().type_id() == *text),
                is_file,
            })
        };
        let plain = self.args.iter().filter(|arg| !secret::is_secret(arg)).filter_map(|arg| flag(arg, false));
        plain.chain(self.files().filter_map(|(_, file)| flag(&file.arg(), true))).collect()
    }

    /// Adds the flags to the program's command.
    pub(super) fn add_to(&self, command: Command) -> Command {
        command.args(self.args.iter().map(shown)).args(self.files().map(|(_, file)| file.arg()))
    }

    /// The secrets, each with the flag and the variable for a file with its value.
    fn files(&self) -> impl Iterator<Item = (&Arg, secret::File<'_>)> {
        let free = |name: &str| {
            let flag = format!("--{name}");
            taken(&flag).is_none() && !self.args.iter().any(|arg| names(arg).contains(&flag))
        };
        self.args.iter().filter_map(move |arg| Some((arg, secret::File::of(arg).filter(|file| free(&file.long()))?)))
    }

    /// Reads the settings from the flags that `matches` has, and from the environment. With `pod`, values that only a pod
    /// has are not read.
    pub(super) fn read(
        &self,
        command: &mut Command,
        matches: &ArgMatches,
        environment: &impl Fn(&str) -> Option<OsString>,
        pod: Option<&PodSettings>,
    ) -> Result<GivenSettings, clap::Error> {
        let variable = |name: &OsStr| environment(name.to_str()?).filter(|value| !value.is_empty());
        if let Some(empty) = self.args.iter().find(|arg| is_on_line(arg, matches) && secret::is_empty(arg, matches)) {
            let flag = names(empty).into_iter().next().unwrap_or_default();
            let problem = format!("the value of `{flag}` is empty: write the secret, or remove the flag");
            return Err(command.error(ErrorKind::InvalidValue, problem));
        }
        let mut line = Vec::new();
        let (mut unread, mut unknown) = (Vec::new(), Vec::new());
        for arg in &self.args {
            tokens(arg, matches, &mut line);
        }
        for (arg, file) in self.files() {
            let value = match pod {
                Some(_) if is_on_line(arg, matches) => None,
                Some(pod) => {
                    arg.get_env().and_then(variable).and_then(|value| value.into_string().ok()).or_else(|| {
                        let is_in_pod = is_given(&file.id(), matches) || pod.has_secret(arg);
                        is_in_pod.then(|| {
                            unknown.push(arg.get_id().clone());
                            "a value of the pod".to_owned()
                        })
                    })
                }
                None => file.value(matches, variable).map_err(|(kind, problem)| command.error(kind, problem))?,
            };
            if let Some(value) = value {
                line.push(assigned(&format!("--{}", arg.get_long().unwrap_or_default()), value.as_ref()));
                unread.push(arg.get_id().clone());
            }
        }
        let mut reader = (self.declared.augment)(Command::new(command.get_name().to_owned()))
            .no_binary_name(true)
            .disable_help_flag(true)
            .disable_version_flag(true)
            // An empty variable counts as unset, as for the program's own flags.
            .mut_args(|arg| {
                // The value in a pod is not known, so it cannot be checked.
                let arg =
                    if unknown.contains(arg.get_id()) { arg.value_parser(ValueParser::new(secret::any)) } else { arg };
                let set = arg.get_env().is_some_and(|name| variable(name).is_some());
                if set && !unread.contains(arg.get_id()) { arg } else { arg.env(None::<&'static str>) }
            });
        let mut given = GivenSettings::default();
        let read = reader.try_get_matches_from_mut(line);
        if let Ok(matches) = &read {
            self.args.iter().for_each(|arg| secret::remember(arg, matches));
        }
        match read.and_then(|matches| (self.declared.read)(&matches, &mut given)) {
            Ok(()) => Ok(given),
            Err(error) => {
                let in_files = if pod.is_some() { &[][..] } else { &unread };
                Err(command.error(error.kind(), self.explained(&error, matches, in_files)))
            }
        }
    }

    /// The message of an error, with the environment variables of the affected settings, and the files of those that
    /// were read from one.
    fn explained(&self, error: &clap::Error, matches: &ArgMatches, in_files: &[Id]) -> String {
        let find = |shown: &str| {
            let flag = shown.split([' ', '=']).next().unwrap_or_default();
            self.args.iter().find(|arg| names(arg).iter().any(|name| name == flag))
        };
        match (error.kind(), error.get(ContextKind::InvalidArg)) {
            (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
                let ways: Vec<_> = missing.iter().map(|shown| self.ways(shown, find(shown))).collect();
                let (noun, verb) = if ways.len() == 1 { ("setting", "is") } else { ("settings", "are") };
                format!("{} {noun} {verb} missing: set {}", ways.len(), ways.join("; "))
            }
            (_, Some(ContextValue::String(shown))) => {
                let mut text = body(error);
                if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
                    && find(shown).is_some_and(secret::is_secret)
                {
                    text = text.replacen(&format!("value '{value}'"), "value", 1);
                }
                let by_file = find(shown).filter(|arg| in_files.contains(arg.get_id())).and_then(|arg| self.file(arg));
                if let Some(file) = by_file {
                    return text.replace(&format!("for '{shown}'"), &format!("in the file of {}", file.ways()));
                }
                let by_variable = find(shown).filter(|arg| !is_on_line(arg, matches)).and_then(Arg::get_env);
                match by_variable {
                    Some(variable) => {
                        let flag = shown.split([' ', '=']).next().unwrap_or_default();
                        let named = format!("the environment variable {} ({flag})", variable.display());
                        text.replace(&format!("'{shown}'"), &named)
                    }
                    None => text,
                }
            }
            _ => body(error),
        }
    }

    /// The ways to set a setting, for a message.
    fn ways(&self, shown: &str, arg: Option<&Arg>) -> String {
        let mut ways = vec![format!("`{shown}`")];
        ways.extend(arg.and_then(Arg::get_env).map(|name| format!("the variable {}", name.display())));
        let file = arg.and_then(|arg| self.file(arg));
        ways.extend(file.map(|file| format!("{} to a file with its value", file.ways())));
        ways.join(", or ")
    }

    /// The flag and the variable for a file with the value of this setting.
    fn file(&self, arg: &Arg) -> Option<secret::File<'_>> {
        self.files().find(|(secret, _)| secret.get_id() == arg.get_id()).map(|(_, file)| file)
    }
}

/// The message of an error, without usage and advice.
pub(super) fn body(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage: ", "\n\nFor more information"].iter().filter_map(|part| text.find(part)).min();
    text.get(..end.unwrap_or(text.len())).unwrap_or_default().trim_end().to_owned()
}

/// The flags of a setting, as they are written.
fn names(arg: &Arg) -> Vec<String> {
    let longs = arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten());
    let shorts = arg.get_short().into_iter().chain(arg.get_all_short_aliases().into_iter().flatten());
    longs.map(|long| format!("--{long}")).chain(shorts.map(|short| format!("-{short}"))).collect()
}

/// The flag of every program that has this name, if there is one.
fn taken(name: &str) -> Option<String> {
    let built_in = [("--help", 'h'), ("--version", 'V')].map(|(long, short)| (long.to_owned(), Some(short)));
    let ours = every_flag().map(|flag| (format!("--{}", flag.name), flag.short));
    let is_it =
        |(long, short): &(String, Option<char>)| long == name || short.is_some_and(|short| name == format!("-{short}"));
    built_in.into_iter().chain(ours).find(is_it).map(|(long, _)| long)
}

/// The name of a setting's argument among all arguments of the program.
fn id(arg: &Arg) -> String {
    format!("setting:{}", arg.get_id())
}

/// Returns `true` if a setting is on the command line.
fn is_on_line(arg: &Arg, matches: &ArgMatches) -> bool {
    is_given(&id(arg), matches)
}

fn is_given(id: &str, matches: &ArgMatches) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// A setting as an optional flag of the program, for its help and the first reading.
fn shown(arg: &Arg) -> Arg {
    let takes_values = arg.get_action().takes_values();
    let mut shown = Arg::new(id(arg))
        .short(arg.get_short())
        .global(true)
        .action(arg.get_action().clone())
        .help_heading(arg.get_help_heading().unwrap_or(HEADING).to_owned())
        .aliases(arg.get_aliases().into_iter().flatten().map(str::to_owned))
        .visible_aliases(arg.get_visible_aliases().into_iter().flatten().map(str::to_owned))
        .short_aliases(arg.get_all_short_aliases().into_iter().flatten())
        .hide(arg.is_hide_set())
        .hide_default_value(arg.is_hide_default_value_set() || secret::is_secret(arg))
        .hide_possible_values(arg.is_hide_possible_values_set())
        .ignore_case(arg.is_ignore_case_set());
    if let Some(long) = arg.get_long() {
        shown = shown.long(long.to_owned());
    }
    let variable = arg.get_env().filter(|_| !arg.is_hide_env_set());
    // Its value is not shown, as it may be a secret.
    let variable = variable.map(|name| format!("[env: {}]", name.display()));
    let required = arg.is_required_set().then(|| "[required]".to_owned());
    let notes: Vec<_> = variable.into_iter().chain(required).collect();
    let with_notes = |help: &dyn std::fmt::Display, between: &str| {
        std::iter::once(help.to_string())
            .chain(notes.iter().cloned())
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(between)
    };
    shown = shown.help(with_notes(&arg.get_help().map(ToString::to_string).unwrap_or_default(), " "));
    if let Some(long) = arg.get_long_help() {
        shown = shown.long_help(with_notes(&long, "\n\n"));
    }
    if !takes_values {
        return shown;
    }
    // Delimited values are left to the second reading, and so are secrets, which no message may
    // quote.
    let later = arg.get_value_delimiter().is_some() || secret::is_secret(arg);
    let parser = if later { ValueParser::os_string() } else { arg.get_value_parser().clone() };
    shown = shown
        .value_parser(parser)
        .default_values(arg.get_default_values().to_vec())
        .allow_hyphen_values(arg.is_allow_hyphen_values_set())
        .allow_negative_numbers(arg.is_allow_negative_numbers_set())
        .require_equals(arg.is_require_equals_set());
    if let Some(names) = arg.get_value_names() {
        shown = shown.value_names(names.to_vec());
    }
    match arg.get_num_args() {
        Some(count) => shown.num_args(count),
        None => shown,
    }
}

/// A setting as it is on the command line, if it is.
fn tokens(arg: &Arg, matches: &ArgMatches, line: &mut Vec<OsString>) {
    if !is_on_line(arg, matches) {
        return;
    }
    let Some(name) = names(arg).into_iter().next() else { return };
    if !arg.get_action().takes_values() {
        let id = id(arg);
        // A switch is once on the line, a counter as often as it counts.
        let count = matches.try_get_one::<u8>(&id).ok().flatten().copied().unwrap_or(1);
        line.extend((0..count).map(|_| name.clone().into()));
        return;
    }
    for occurrence in matches.get_raw_occurrences(&id(arg)).into_iter().flatten() {
        let values: Vec<_> = occurrence.collect();
        match values[..] {
            [value] => line.push(assigned(&name, value)),
            _ => {
                line.push(name.clone().into());
                line.extend(values.into_iter().map(OsStr::to_owned));
            }
        }
    }
}

/// `--name=value`
fn assigned(name: &str, value: &OsStr) -> OsString {
    let mut token = OsString::from(name);
    token.push("=");
    token.push(value);
    token
}
