//! The attribute macros of [kooper](https://docs.rs/kooper), which re-exports them.
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used))]

mod controller;
mod explore;
mod partial;
mod support;
mod test;
mod webhook;

use proc_macro::TokenStream;

use controller::signature::Role;

// The examples are tested in `kooper`: as a dependency of a macro crate's examples, it would be compiled once more.
#[cfg_attr(not(doctest), doc = include_str!("attribute.md"))]
#[proc_macro_attribute]
pub fn controller(attribute: TokenStream, item: TokenStream) -> TokenStream {
    controller::expand(Role::Controller, attribute.into(), &item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("task.md"))]
#[proc_macro_attribute]
pub fn task(attribute: TokenStream, item: TokenStream) -> TokenStream {
    controller::expand(Role::Task, attribute.into(), &item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("validate.md"))]
#[proc_macro_attribute]
pub fn validate(attribute: TokenStream, item: TokenStream) -> TokenStream {
    webhook::expand(Role::Validate, attribute.into(), &item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("mutate.md"))]
#[proc_macro_attribute]
pub fn mutate(attribute: TokenStream, item: TokenStream) -> TokenStream {
    webhook::expand(Role::Mutate, attribute.into(), &item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("test.md"))]
#[proc_macro_attribute]
pub fn test(attribute: TokenStream, item: TokenStream) -> TokenStream {
    test::expand(attribute.into(), &item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("explore.md"))]
#[proc_macro_attribute]
pub fn explore(attribute: TokenStream, item: TokenStream) -> TokenStream {
    explore::expand(attribute.into(), &item.into()).into()
}

#[cfg_attr(not(doctest), doc = include_str!("partial.md"))]
#[proc_macro_derive(Partial, attributes(partial))]
pub fn partial(item: TokenStream) -> TokenStream {
    partial::expand(item.into()).into()
}
