//! The rules of `cleanup` and `deletion`, and of the keys that have no effect without them.

use kooper_grammar::name;
use syn::LitStr;

use crate::controller::args::Args;
use crate::controller::model::{Cleanup, Deletion};
use crate::controller::setting::LiteralOrConstant;
use crate::controller::signature::Handler;
use crate::support::errors::{Errors, message};

/// Combines the keys, and notes all errors.
pub(super) fn model<'a>(args: &'a Args, handler: &Handler, errors: &mut Errors) -> Option<Cleanup<'a>> {
    if args.tries("cleanup") || args.tries("deletion") {
        check_finalizer(args, handler, errors);
        check_others(args, errors);
    } else {
        check_alone(args, errors);
    }
    let finalizer = args.finalizer.as_ref().map(|finalizer| &finalizer.value);
    for previous in args.previous_finalizers.iter().flat_map(|previous| &previous.value) {
        let text = previous.value();
        if finalizer.and_then(LiteralOrConstant::literal).map(LitStr::value).as_ref() == Some(&text) {
            errors.add(previous.span(), message!("\"{text}\" is the current finalizer: list only earlier ones"));
        }
    }
    let cleanup = args.cleanup.as_ref();
    let deletion = match &args.deletion {
        Some(ordered) => Deletion::Ordered { ordered, cleanup },
        None => Deletion::Cleanup(cleanup?),
    };
    Some(Cleanup {
        deletion,
        finalizer: finalizer?,
        previous: args.previous_finalizers.as_ref(),
        on_leave: args.on_leave.as_ref(),
    })
}

fn check_finalizer(args: &Args, handler: &Handler, errors: &mut Errors) {
    let key = ["cleanup", "deletion"].into_iter().find_map(|name| args.key(name).map(|key| (name, key)));
    if let Some((needs, key)) = key.filter(|_| !args.tries("finalizer")) {
        let fallback = || name::kebab(&handler.ident.to_string());
        let name = args.name.as_ref().map_or_else(fallback, |name| name.value.value());
        errors.add(
            key,
            message!(
                "`{needs}` needs the name of its finalizer: write `finalizer = \"your.domain/{name}\"` with your own \
                 domain"
            ),
        );
    }
}

fn check_others(args: &Args, errors: &mut Errors) {
    if let Some(key) = args.key("deletion").filter(|_| !args.tries("children")) {
        errors.add(
            key,
            message!("`deletion` has no effect without `children`: add `children = [path]`, or remove `deletion`"),
        );
    }
    if let Some(key) = args.key("cleanup").filter(|_| args.has("retriever") && !args.has("children")) {
        errors.add(
            key,
            message!(
                "`cleanup` sets a finalizer on objects of the API server, but a custom retriever may return others: \
                 remove `retriever`, or write `deleted` instead of `cleanup`"
            ),
        );
    }
    if let Some(key) = args.key("while_deleting").filter(|_| !args.has("children")) {
        errors.add(
            key,
            message!(
                "`cleanup` is called instead of the handler for an object that is being deleted: remove \
                 `while_deleting`"
            ),
        );
    }
    // A value of `namespaces` that is refused may be a selector.
    let has_namespaces = args.calls("namespace_selector") || args.tries("namespaces") && !args.calls("namespaces");
    let has_selector = args.tries("labels") || args.tries("fields") || has_namespaces;
    if let Some(key) = args.key("on_leave").filter(|_| !has_selector) {
        errors.add(
            key,
            message!(
                "`on_leave` has no effect without a selector: add `labels`, `fields` or `namespaces(labels = \"…\")`, or \
                 remove `on_leave`"
            ),
        );
    }
}

fn check_alone(args: &Args, errors: &mut Errors) {
    if let Some(key) = args.key("finalizer") {
        errors.add(
            key,
            message!("`finalizer` has no effect without `cleanup`: add `cleanup = path`, or remove `finalizer`"),
        );
    }
    if let Some(key) = args.key("on_leave") {
        errors.add(
            key,
            message!("`on_leave` has no effect without `cleanup`: add `cleanup = path`, or remove `on_leave`"),
        );
    }
    if let Some(key) = args.key("previous_finalizers").filter(|_| !args.tries("finalizer")) {
        errors.add(
            key,
            message!(
                "previous finalizers are removed by `cleanup`: add `cleanup = path, finalizer = \"…\"`, or remove `previous_finalizers`"
            ),
        );
    }
}
