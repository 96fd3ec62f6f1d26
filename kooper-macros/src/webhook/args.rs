//! The attribute as written: each key with its value, parsed but not yet compared.

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Path, Type};

use crate::controller::attribute::lone_kind;
use crate::controller::key::Entry;
use crate::controller::setting::Setting;
use crate::support::errors::{Errors, message};
use crate::support::spanned::Spanned;
use crate::webhook::keys::{Operation, WEBHOOK};

/// The values of all keys that could be parsed.
#[derive(Default)]
pub(crate) struct Args {
    /// The settings that become calls of the builder unchanged.
    pub(crate) settings: Vec<Setting>,

    // The keys that are compared with others, or are not calls.
    pub(crate) resource: Option<Spanned<Type>>,
    pub(crate) name: Option<Spanned<LitStr>>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) type_name: Option<Spanned<Ident>>,
    pub(crate) krate: Option<Spanned<Path>>,

    /// All entries of the attribute, valid or not.
    pub(crate) entries: Vec<Entry>,
}

impl Args {
    /// The place of a key in the attribute, with any value.
    pub(crate) fn key(&self, name: &str) -> Option<Span> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.key == Some(name)).and_then(|entry| entry.word.as_ref()).map(Ident::span)
    }

    /// Returns `true` if the user tried to write a key, even under another name.
    pub(crate) fn tries(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.meant == Some(name))
    }

    /// The operation, if the attribute names it.
    pub(crate) fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.word == name)
    }
}

/// Parses the attribute's tokens. Entries that cannot be parsed are noted and skipped.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let read = |input: ParseStream<'_>| {
        args.entries = WEBHOOK.read(input, &mut args, errors, stray);
        Ok(())
    };
    if let Err(error) = read.parse2(tokens) {
        errors.push(error);
    }
    args
}

/// The error for a kind in the place of a key, and for what belongs to the whole program.
fn stray(input: ParseStream<'_>) -> Option<(&'static str, syn::Error)> {
    let text = match input.fork().call(Ident::parse_any).ok()?.to_string().as_str() {
        "main" => message!("a webhook has no `main` of its own: write `kooper::main!(…)` with all functions instead"),
        "settings" => message!("the settings are those of the program: write `kooper::main!(settings = …, …)` instead"),
        _ => return lone_kind(input),
    };
    Some(("", syn::Error::new(input.span(), text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_read() {
        for key in WEBHOOK.keys {
            let tokens = key.example.parse().expect(key.name);
            let mut errors = Errors::new();
            let args = parse(tokens, &mut errors);
            assert!(errors.check().is_ok(), "{}", key.example);
            assert!(args.key(key.name).is_some());
        }
    }
}
