//! The rules of finalizers, former names, leader election and related kinds.

use kooper_grammar::name;
use quote::ToTokens;

use crate::controller::args::{Args, Resource};
use crate::controller::election;
use crate::controller::signature::Handler;
use crate::support::errors::{Errors, say};

/// Notes what does not fit, of all but the former names.
pub(super) fn check(args: &Args, handler: &Handler, errors: &mut Errors) {
    check_cleanup(args, handler, errors);
    check_leave(args, errors);
    check_election(args, errors);
    check_related(args, errors);
}

fn check_cleanup(args: &Args, handler: &Handler, errors: &mut Errors) {
    if let Some(cleanup) = &args.cleanup {
        if !args.tries("finalizer") {
            let fallback = || name::kebab(&handler.ident.to_string());
            let name = args.name.as_ref().map_or_else(fallback, |name| name.value.clone());
            errors.add(
                cleanup.key,
                say!(
                    "`cleanup` needs the name of its finalizer: write `finalizer = \"your.domain/{name}\"` with a domain of yours"
                ),
            );
        }
        if args.has("retriever") {
            errors.add(
                cleanup.key,
                say!(
                    "`cleanup` marks objects of the API, and a retriever of your own may bring others: leave `retriever` out, or write `deleted` in place of `cleanup`"
                ),
            );
        }
    }
    if let Some(finalizer) = &args.finalizer
        && !args.tries("cleanup")
    {
        errors.add(
            finalizer.key,
            say!("`finalizer` guards nothing without `cleanup`: write `cleanup = path`, or leave `finalizer` out"),
        );
    }
}

fn check_leave(args: &Args, errors: &mut Errors) {
    let Some(leave) = &args.on_leave else { return };
    if !args.tries("cleanup") {
        errors.add(
            leave.key,
            say!("`on_leave` changes nothing without `cleanup`: write `cleanup = path`, or leave `on_leave` out"),
        );
    } else if !args.tries("labels") && !args.tries("fields") {
        errors.add(
            leave.key,
            say!(
                "`on_leave` changes nothing without a selector, as no object leaves: leave it out, or write `labels` or `fields`"
            ),
        );
    }
}

fn check_election(args: &Args, errors: &mut Errors) {
    let Some(given) = &args.leader_election else { return };
    election::check(given, errors);
    let list = args.resource.as_ref().is_some_and(|resource| matches!(resource.value, Resource::Each(_)));
    if let Some(lease) = given.value.lease.as_ref().filter(|_| list) {
        errors.add(lease.span(), say!("a list makes a controller of each kind, with a Lease each: leave `lease` out"));
    }
}

fn check_related(args: &Args, errors: &mut Errors) {
    let owns = args.owns.iter().flat_map(|owns| &owns.value);
    twice(owns, errors);
    let watches = args.watches.iter().flat_map(|watches| &watches.value);
    twice(watches.map(|(kind, map)| Map { kind, map }), errors);
    let sources = args.sources.iter().flat_map(|sources| &sources.value);
    twice(sources, errors);
}

/// A kind and its fn, as they are written.
struct Map<'a> {
    kind: &'a syn::Type,
    map: &'a syn::Path,
}

impl ToTokens for Map<'_> {
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        let Self { kind, map } = self;
        tokens.extend(quote::quote!(#kind => #map));
    }
}

/// Notes each that stands there already.
fn twice<T: ToTokens>(all: impl Iterator<Item = T>, errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for one in all {
        let tokens = one.to_token_stream();
        let text = tokens.to_string();
        if seen.contains(&text) {
            errors.push(syn::Error::new_spanned(tokens, say!("`{text}` is listed twice: write it once")));
        }
        seen.push(text);
    }
}

/// Notes former names and finalizers that are not former ones. `names` are those of the controllers.
pub(super) fn check_former(args: &Args, names: &[&str], errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for former in args.former_names.iter().flat_map(|former| &former.value) {
        let text = former.value();
        if seen.contains(&text) {
            errors.add(former.span(), say!("the former name \"{text}\" is listed twice: write it once"));
        } else if names.contains(&text.as_str()) {
            errors.add(former.span(), say!("\"{text}\" is the controller's current name: list only earlier ones"));
        }
        seen.push(text);
    }
    let Some(finalizers) = &args.former_finalizers else { return };
    if !args.tries("cleanup") && !args.tries("finalizer") {
        errors.add(
            finalizers.key,
            say!(
                "former finalizers are removed by `cleanup`: write `cleanup = path, finalizer = \"…\"`, or leave `former_finalizers` out"
            ),
        );
    }
    let current = args.finalizer.as_ref().map(|finalizer| finalizer.value.as_str());
    let mut seen: Vec<String> = Vec::new();
    for former in &finalizers.value {
        let text = former.value();
        if seen.contains(&text) {
            errors.add(former.span(), say!("the former finalizer \"{text}\" is listed twice: write it once"));
        } else if current == Some(text.as_str()) {
            errors.add(former.span(), say!("\"{text}\" is the current finalizer: list only earlier ones"));
        }
        seen.push(text);
    }
}
