//! `#[validate]` and `#[mutate]`: as `#[controller]`, the tokens are parsed into one validated model, from which code is
//! generated.

mod check;
mod emit;
pub(crate) mod keys;

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::ParseStream;

use self::keys::WEBHOOK;
use crate::controller::attribute::{self, lone_kind};
use crate::controller::signature::{Handler, Role};
use crate::support::errors::{Errors, message};

/// Expands the attribute and the item below it.
pub(crate) fn expand(role: Role, attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = attribute::parse(&WEBHOOK, stray, attribute, &mut errors);
    let function = Handler::parse(role, item, &args, &mut errors);
    let model = function.as_ref().and_then(|function| check::model(role, &args, function, &mut errors));
    match (errors.check(), model) {
        (Ok(()), Some(model)) => emit::webhook(item, &model),
        (result, _) => emit::fallback(item, &args, function.as_ref(), result.err()),
    }
}

/// The error for a kind in the place of a key, and for what belongs to the whole program.
fn stray(input: ParseStream<'_>) -> Option<(&'static str, syn::Error)> {
    let text = match input.fork().call(Ident::parse_any).ok()?.to_string().as_str() {
        "main" => message!("a webhook has no key `main`: list the function in `kooper::main!(…)` instead"),
        "settings" => message!("the settings belong to the program: write `kooper::main!(settings = …, …)` instead"),
        _ => return lone_kind(input),
    };
    Some(("", syn::Error::new(input.span(), text)))
}

#[cfg(test)]
mod tests;
