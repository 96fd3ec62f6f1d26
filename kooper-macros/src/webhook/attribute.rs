//! Parsing of the attribute's tokens.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};

use crate::controller::attribute::lone_kind;
use crate::support::errors::{Errors, message};
use crate::webhook::args::Args;
use crate::webhook::keys::WEBHOOK;

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
    let text = match input.fork().call(syn::Ident::parse_any).ok()?.to_string().as_str() {
        "main" => message!("a webhook has no key `main`: list the function in `kooper::main!(…)` instead"),
        "settings" => message!("the settings belong to the program: write `kooper::main!(settings = …, …)` instead"),
        _ => return lone_kind(input),
    };
    Some(("", syn::Error::new(input.span(), text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_read() {
        WEBHOOK.check();
        for key in WEBHOOK.keys {
            let tokens = key.example.parse().expect(key.name);
            let mut errors = Errors::new();
            let args = parse(tokens, &mut errors);
            assert!(errors.check().is_ok(), "{}", key.example);
            assert!(args.key(key.name).is_some());
        }
    }
}
