//! The attribute macro of kooper.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used))]

mod controller;
mod support;

use proc_macro::TokenStream;

/// Makes a controller of an async fn.
#[proc_macro_attribute]
pub fn controller(attribute: TokenStream, item: TokenStream) -> TokenStream {
    controller::expand(attribute.into(), &item.into()).into()
}
