//! `#[controller]`: the tokens of the attribute and of the function are parsed into one
//! validated model, from which code is generated. All errors are found before; emitting cannot fail.

mod args;
mod attribute;
mod check;
mod election;
mod emit;
mod fallback;
mod key;
mod keys;
mod mentioned;
mod model;
mod objects;
mod resource;
mod setting;
mod shards;
mod signature;
mod slots;
mod value;

use proc_macro2::TokenStream;

use crate::support::errors::Errors;

/// Expands the attribute and the item below it.
pub(crate) fn expand(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let args = attribute::parse(attribute, &mut errors);
    let handler = signature::Handler::parse(item, &args, &mut errors);
    let model = handler.as_ref().and_then(|handler| check::model(&args, handler, &mut errors));
    match (errors.check(), model) {
        (Ok(()), Some(model)) => emit::controller(item, &model),
        (result, _) => fallback::controller(item, &args, handler.as_ref(), result.err()),
    }
}

#[cfg(test)]
mod documents;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;
