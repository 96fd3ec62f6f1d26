//! `derive(Partial)`: a type with some of the fields of another one.

mod emit;
mod model;

use proc_macro2::TokenStream;
use quote::quote;

use crate::support::errors::Errors;

/// Expands the derive of a struct.
pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let mut errors = Errors::new();
    let model = model::parse(item, &mut errors);
    match (errors.check(), model) {
        (Ok(()), Some(model)) => emit::emit(&model),
        (result, model) => {
            let errors = result.err().map(syn::Error::into_compile_error);
            // The import of the type is in use, whatever else is wrong.
            let full = model.map(|model| model.full);
            let used = full.map(|full| quote!(const _: fn(&#full) = |_| {};));
            quote!(#errors #used)
        }
    }
}

#[cfg(test)]
mod tests;
