//! The parser of the attribute.

use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Type, TypePath};

use crate::controller::args::Args;
use crate::controller::keys::CONTROLLER;
use crate::support::entries;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::types::resource_of;

/// Parses the attribute's tokens. Entries that cannot be parsed are noted and skipped.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let read = |input: ParseStream<'_>| {
        args.entries = CONTROLLER.read(input, &mut args, errors, lone_kind);
        Ok(())
    };
    if let Err(error) = read.parse2(tokens) {
        errors.push(error);
    }
    args
}

/// The error for a kind in the place of a key.
pub(crate) fn lone_kind(input: ParseStream<'_>) -> Option<(&'static str, syn::Error)> {
    let ahead = input.fork();
    let kind: TypePath = ahead.parse().ok()?;
    let last = kind.path.segments.last()?.ident.to_string();
    if !(entries::ended(&ahead) && last.starts_with(char::is_uppercase)) {
        return None;
    }
    let kind = Type::Path(kind);
    let setting = resource_of(&kind);
    Some(("resource", Place::of(&kind).error(message!("a kind needs a key: write `{setting}`"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_read() {
        for key in CONTROLLER.keys {
            let tokens = key.example.parse().expect(key.name);
            let mut errors = Errors::new();
            let args = parse(tokens, &mut errors);
            assert!(errors.check().is_ok(), "{}", key.example);
            assert!(args.has(key.name));
        }
    }
}
