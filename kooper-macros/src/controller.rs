//! `#[controller]` and `#[task]`: the tokens of the attribute and of the function are parsed into one
//! validated model, from which code is generated. All errors are found before; emitting cannot fail.

pub(crate) mod args;
pub(crate) mod attribute;
pub(crate) mod check;
mod election;
pub(crate) mod emit;
pub(crate) mod fallback;
pub(crate) mod key;
pub(crate) mod keys;
pub(crate) mod mentioned;
mod model;
mod namespaces;
mod objects;
pub(crate) mod resource;
pub(crate) mod setting;
mod shards;
pub(crate) mod signature;
mod slots;
pub(crate) mod value;

use proc_macro2::TokenStream;

use self::attribute::{Stray, kind_of_task, lone_kind};
use self::keys::{CONTROLLER, TASK};
use self::signature::{Handler, Role};
use crate::support::errors::Errors;

/// Expands the attribute and the item below it.
pub(crate) fn expand(role: Role, attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let (keys, stray): (_, Stray) = match role {
        Role::Task => (&TASK, kind_of_task),
        _ => (&CONTROLLER, lone_kind),
    };
    let args = attribute::parse(keys, stray, attribute, &mut errors);
    let handler = Handler::parse(role, item, &args, &mut errors);
    let model = handler.as_ref().and_then(|handler| check::model(role, &args, handler, &mut errors));
    match (errors.check(), model) {
        (Ok(()), Some(model)) => emit::controller(item, &model),
        (result, _) => fallback::controller(role, item, &args, handler.as_ref(), result.err()),
    }
}

#[cfg(test)]
mod documents;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;
