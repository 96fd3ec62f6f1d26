//! `#[validate]` and `#[mutate]`: as `#[controller]`, the tokens are parsed into one validated model, from which code is
//! generated.

mod check;
mod emit;
pub(crate) mod keys;

use proc_macro2::TokenStream;

use crate::controller::attribute;
use crate::controller::signature::{Handler, Role};
use crate::support::errors::Errors;

/// Expands the attribute and the item below it.
pub(crate) fn expand(role: Role, attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = attribute::parse(role, attribute, &mut errors);
    let function = Handler::parse(role, item, &args, &mut errors);
    let model = function.as_ref().and_then(|function| check::model(role, &args, function, &mut errors));
    match (errors.check(), model) {
        (Ok(()), Some(model)) => emit::webhook(item, &model),
        (result, _) => emit::fallback(item, &args, function.as_ref(), result.err()),
    }
}

#[cfg(test)]
mod tests;
