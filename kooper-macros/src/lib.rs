//! The attribute macro of [kooper](https://docs.rs/kooper), which re-exports it.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used))]

mod controller;
mod support;

use proc_macro::TokenStream;

#[doc = include_str!("attribute.md")]
#[proc_macro_attribute]
pub fn controller(attribute: TokenStream, item: TokenStream) -> TokenStream {
    controller::expand(attribute.into(), &item.into()).into()
}
