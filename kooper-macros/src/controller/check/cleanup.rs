//! The rules of `cleanup`, and of the keys that mean nothing without it.

use kooper_grammar::name;
use syn::LitStr;

use crate::controller::args::Args;
use crate::controller::model::Cleanup;
use crate::controller::signature::Handler;
use crate::support::errors::{Errors, message};

/// Puts the keys together, and notes what does not fit.
pub(super) fn model<'a>(args: &'a Args, handler: &Handler, errors: &mut Errors) -> Option<Cleanup<'a>> {
    if args.tries("cleanup") {
        check_cleanup(args, handler, errors);
    } else {
        check_alone(args, errors);
    }
    let finalizer = args.finalizer.as_ref().map(|finalizer| &finalizer.value);
    for former in args.former_finalizers.iter().flat_map(|former| &former.value) {
        let text = former.value();
        if finalizer.map(LitStr::value).as_ref() == Some(&text) {
            errors.add(former.span(), message!("\"{text}\" is the current finalizer: list only earlier ones"));
        }
    }
    Some(Cleanup {
        path: args.cleanup.as_ref()?,
        finalizer: finalizer?,
        former: args.former_finalizers.as_ref(),
        on_leave: args.on_leave.as_ref(),
    })
}

fn check_cleanup(args: &Args, handler: &Handler, errors: &mut Errors) {
    if let Some(key) = args.key("cleanup").filter(|_| !args.tries("finalizer")) {
        let fallback = || name::kebab(&handler.ident.to_string());
        let name = args.name.as_ref().map_or_else(fallback, |name| name.value.value());
        errors.add(
            key,
            message!(
                "`cleanup` needs the name of its finalizer: write `finalizer = \"your.domain/{name}\"` with a domain of yours"
            ),
        );
    }
    if let Some(key) = args.key("cleanup").filter(|_| args.has("retriever")) {
        errors.add(
            key,
            message!(
                "`cleanup` marks objects of the API, and a retriever of your own may bring others: leave `retriever` out, or write `deleted` in place of `cleanup`"
            ),
        );
    }
    if let Some(key) = args.key("on_leave").filter(|_| !args.tries("labels") && !args.tries("fields")) {
        errors.add(
            key,
            message!(
                "`on_leave` changes nothing without a selector, as no object leaves: leave it out, or write `labels` or `fields`"
            ),
        );
    }
}

fn check_alone(args: &Args, errors: &mut Errors) {
    if let Some(key) = args.key("finalizer") {
        errors.add(
            key,
            message!("`finalizer` guards nothing without `cleanup`: write `cleanup = path`, or leave `finalizer` out"),
        );
    }
    if let Some(key) = args.key("on_leave") {
        errors.add(
            key,
            message!("`on_leave` changes nothing without `cleanup`: write `cleanup = path`, or leave `on_leave` out"),
        );
    }
    if let Some(key) = args.key("former_finalizers").filter(|_| !args.tries("finalizer")) {
        errors.add(
            key,
            message!(
                "former finalizers are removed by `cleanup`: write `cleanup = path, finalizer = \"…\"`, or leave `former_finalizers` out"
            ),
        );
    }
}
