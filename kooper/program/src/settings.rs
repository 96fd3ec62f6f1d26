//! The type of the program's own settings.

#[cfg(feature = "cli")]
use std::any::TypeId;

#[cfg(feature = "cli")]
use clap::{ArgMatches, Command};

#[cfg(feature = "cli")]
use kooper_access::internal::GivenSettings;
#[cfg(feature = "cli")]
use kooper_access::{ConfigError, Controller};

/// A type that can be the settings of a program.
#[cfg(feature = "cli")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the settings of a program",
    label = "not the settings of a program",
    note = "write `#[derive(clap::Args)]` above it, and add clap with its feature `derive` to the dependencies"
)]
pub trait ProgramSettings: clap::Args + Send + Sync + 'static {}

#[cfg(feature = "cli")]
#[diagnostic::do_not_recommend]
impl<T: clap::Args + Send + Sync + 'static> ProgramSettings for T {}

/// A type that can be the settings of a program. Without the feature `cli` nothing
/// reads them.
#[cfg(not(feature = "cli"))]
pub trait ProgramSettings: Send + Sync + 'static {}

#[cfg(not(feature = "cli"))]
impl<T: Send + Sync + 'static> ProgramSettings for T {}

/// The types of settings that a program declares: one, if it is right.
#[derive(Debug, Default)]
pub struct Declared {
    #[cfg(feature = "cli")]
    types: Vec<SettingsType>,
}

/// A type of settings, and how it is read.
#[cfg(feature = "cli")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingsType {
    type_id: TypeId,
    /// Its path.
    pub(crate) name: &'static str,
    /// Adds its flags to a command.
    pub(crate) augment: fn(Command) -> Command,
    /// Reads its values.
    pub(crate) read: fn(&ArgMatches, &mut GivenSettings) -> Result<(), clap::Error>,
}

impl Declared {
    /// Adds a type. A type that is declared several times is one.
    #[cfg(feature = "cli")]
    pub fn add<T: ProgramSettings>(&mut self) {
        let declared = SettingsType {
            type_id: TypeId::of::<T>(),
            name: std::any::type_name::<T>(),
            augment: T::augment_args,
            read: |matches, given| T::from_arg_matches(matches).map(|settings| given.give(settings)),
        };
        if !self.types.iter().any(|known| known.type_id == declared.type_id) {
            self.types.push(declared);
        }
    }

    /// Nothing reads settings without the feature `cli`.
    #[cfg(not(feature = "cli"))]
    pub fn add<T: ProgramSettings>(&mut self) {}

    /// The only type, if there is one.
    #[cfg(feature = "cli")]
    pub(crate) fn only(&self) -> Result<Option<SettingsType>, TwoTypes> {
        match self.types[..] {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            [one, other, ..] => Err(TwoTypes { one: one.name, other: other.name }),
        }
    }
}

/// A program has settings of two types.
#[cfg(feature = "cli")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this program has the settings `{one}` and `{other}`, but only one type is possible: make one a field of the \
     other, with `#[command(flatten)]`"
)]
pub(crate) struct TwoTypes {
    one: &'static str,
    other: &'static str,
}

/// Returns an error if a controller takes settings of another type than the program's.
#[cfg(feature = "cli")]
pub(crate) fn check(controller: &Controller, declared: Option<&SettingsType>) -> Result<(), ConfigError> {
    let is_other = |type_id| declared.is_none_or(|declared| declared.type_id != type_id);
    let Some(need) = controller.plan().settings().iter().find(|need| is_other(need.type_id)) else { return Ok(()) };
    Err(controller.lacks_settings(
        need,
        &match declared {
            Some(declared) => format!("the settings of this program are `{}`", declared.name),
            None => "write `settings = …` in the attribute, or in `kooper::main!` if there are several controllers"
                .to_owned(),
        },
    ))
}
