//! Validates the arguments: the rules that involve several values.

mod cleanup;
mod task;

use kooper_grammar::{field_path, name};
use proc_macro2::Span;
use syn::Type;

use crate::controller::args::Args;
use crate::controller::model::{Kinds, Model};
use crate::controller::resource::Resource;
use crate::controller::setting::Change;
use crate::controller::signature::{ARGUMENTS, Handler, Role};
use crate::support::crate_path::CratePath;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::text::text;
use crate::support::types::{ReaderTarget, is_children, last_word, reader, resource_of, settings, shared};

/// Compares the values with each other and with the function, and notes all errors.
pub(crate) fn model<'a>(role: Role, args: &'a Args, handler: &'a Handler, errors: &mut Errors) -> Option<Model<'a>> {
    check_metadata(args, errors);
    check_retriever(args, errors);
    check_namespaces(args, errors);
    check_lease(args, errors);
    check_shards(args, errors);
    check_settings(args, handler, errors);
    check_reads(args, handler, errors);
    match role {
        Role::Task => task::check(args, handler, errors),
        _ => check_children(args, handler, errors),
    }
    let cleanup = cleanup::model(args, handler, errors);
    let kinds = match role {
        Role::Task => task::times(args, handler, errors),
        _ => kinds(args, handler, errors),
    };
    check_previous_names(args, kinds.as_ref(), errors);
    Some(Model {
        runtime: CratePath::new(args.krate.as_ref().map(|path| &path.value)),
        handler,
        kinds: kinds?,
        namespaced: args.has("namespace") || args.has("namespaces") || args.by_namespace,
        installs_crd: args.has("install_crd"),
        children: args.children.as_ref(),
        previous_children: args.previous_children.as_ref().map(|kinds| &kinds.value[..]).unwrap_or_default(),
        reports: args.no_status.is_none(),
        cleanup,
        own: args.own.as_ref().map(|own| &own.value),
        changed: &args.changed,
        settings: &args.settings,
        main: args.main.is_none(),
    })
}

fn check_metadata(args: &Args, errors: &mut Errors) {
    for change in args.changed.iter().filter(|_| args.has("metadata_only")) {
        match change {
            Change::Section(word, _) if word == "status" => {
                let text = message!("`metadata_only` does not retrieve the status: remove `status` or `metadata_only`");
                errors.add(word.span(), text);
            }
            Change::Field(path) if field_path::names(&path.value()).next() != Some("metadata") => {
                let text = message!("`metadata_only` does not retrieve this field: remove it or `metadata_only`");
                errors.add(path.span(), text);
            }
            Change::Section(..) | Change::Field(_) => {}
        }
    }
}

fn check_retriever(args: &Args, errors: &mut Errors) {
    if !args.has("retriever") {
        return;
    }
    for name in ["namespace", "namespaces", "labels", "fields"] {
        if let Some(key) = args.key(name) {
            errors.add(key, message!("a custom retriever decides what it retrieves: remove `{name}`"));
        }
    }
    if let Some(key) = args.key("install_crd") {
        errors.add(
            key,
            message!("a custom retriever may return objects without a CRD: remove `install_crd` or `retriever`"),
        );
    }
    if let Some(key) = args.key("daemon") {
        let text = message!(
            "a daemon needs objects of the API server, and a custom retriever may return others: remove `retriever` or `daemon`"
        );
        errors.add(key, text);
    }
}

fn check_namespaces(args: &Args, errors: &mut Errors) {
    if let Some(key) = args.key("namespace").filter(|_| args.has("namespaces")) {
        // Only a name can be listed; the namespace of the operator is not known yet.
        let text = if args.calls("own_namespace") {
            message!("`namespace = own` and `namespaces` exclude each other: remove one of the two")
        } else if args.calls("namespace_selector") {
            message!("`namespace` and `namespaces(labels = …)` exclude each other: remove one of the two")
        } else {
            message!("`namespace` and `namespaces` exclude each other: list all of them in `namespaces`")
        };
        errors.add(key, text);
    }
}

fn check_lease(args: &Args, errors: &mut Errors) {
    if let Some(lease) = args.lease.filter(|_| args.lists_kinds()) {
        errors.add(lease, message!("each kind in the list has its own controller and Lease: remove `lease`"));
    }
}

fn check_shards(args: &Args, errors: &mut Errors) {
    if let Some(key) = args.key("shards").filter(|_| args.has("leader_election")) {
        let text = message!(
            "`shards` and `leader_election` exclude each other: with shards every replica works. Remove one of the two"
        );
        errors.add(key, text);
    }
    if let Some(key) = args.key("shards").filter(|_| args.calls("namespace_selector")) {
        errors.add(key, message!("`shards` and `namespaces(labels = …)` exclude each other: remove one of the two"));
    }
}

/// A program whose `main` is generated here has the settings that its handler takes.
fn check_settings(args: &Args, handler: &Handler, errors: &mut Errors) {
    if args.tries("settings") || args.has("main") {
        return;
    }
    for taken in handler.arguments.iter().filter_map(settings) {
        let name = text(taken);
        errors.add(
            Place::of(taken),
            message!("`{name}` is not the type of the program's settings: write `settings = {name}` in the attribute"),
        );
    }
}

/// Checks that an argument reads the objects that `reads` selects. Other functions, and types
/// with other names, may read them too: then the controller's builder checks it.
fn check_reads(args: &Args, handler: &Handler, errors: &mut Errors) {
    let others = ["children", "init", "cleanup", "daemon", "deleted", "watches"].iter().any(|key| args.tries(key));
    if others || !handler.arguments.iter().all(|argument| ARGUMENTS.contains(&last_word(argument).as_str())) {
        return;
    }
    let taken: Vec<_> = handler.arguments.iter().filter_map(reader).collect();
    for read in &args.reads {
        let is_taken = |taken: &ReaderTarget| {
            taken.metadata_only == read.metadata_only && last_word(&taken.kind) == last_word(&read.kind)
        };
        if !taken.iter().any(is_taken) {
            let parameter = read.parameter();
            let text = message!(
                "`{}` takes no `Reader<{parameter}>`: add the argument, or remove this from `reads`",
                handler.ident
            );
            errors.add(Place::of(&read.kind), text);
        }
    }
}

/// Children are declared for whole objects of one kind, and for a handler that is called before the deletion.
fn check_children(args: &Args, handler: &Handler, errors: &mut Errors) {
    let Some(key) = args.key("children") else {
        let taken = handler.arguments.iter().find(|argument| is_children(argument));
        if let Some(taken) = taken.filter(|_| !args.tries("children")) {
            let text = message!(
                "the controller has no declared children: write `children = [path]` in the attribute, with the functions that return them"
            );
            errors.add(Place::of(taken), text);
        }
        if let Some(status) = args.key("status").filter(|_| !args.tries("children")) {
            errors.add(status, message!("`status` has no effect without `children`: remove it"));
        }
        if let Some(previous) = args.key("previous_children").filter(|_| !args.tries("children")) {
            let text = message!(
                "`previous_children` has no effect without `children`: add `children = [path]`, or `children = []` if no slot is left"
            );
            errors.add(previous, text);
        }
        return;
    };
    if let Some(list) = args.children.as_ref().filter(|list| list.value.is_empty() && !args.tries("previous_children"))
    {
        let text = message!(
            "`children` lists no function: add one, or write `previous_children = [Ingress]` with the kinds of the removed slots"
        );
        errors.add(list.place, text);
    }
    let slots = args.children.iter().flat_map(|children| &children.value);
    for keep in slots.filter_map(|slot| slot.flag("keep")).filter(|_| !args.tries("deletion")) {
        let text = message!(
            "Kubernetes deletes a child with its owner: to `keep` it, add `deletion = ordered` and a `finalizer`, so that it is released first"
        );
        errors.add(keep.key, text);
    }
    if args.lists_kinds() {
        errors.add(key, message!("`children` belong to one kind: write a separate handler for each kind"));
    }
    if let Some(key) = args.key("metadata_only") {
        errors.add(key, message!("the functions of `children` take the whole object: remove `metadata_only`"));
    }
    if let Some(key) = args.key("retriever") {
        let text = message!(
            "`children` belong to objects of the API server, and a custom retriever may return others: remove `retriever`"
        );
        errors.add(key, text);
    }
    if let Some(key) = args.key("while_deleting") {
        let text = message!("`children` are not applied for an object that is being deleted: remove `while_deleting`");
        errors.add(key, text);
    }
}

fn check_previous_names(args: &Args, kinds: Option<&Kinds<'_>>, errors: &mut Errors) {
    let names = kinds.map_or_else(Vec::new, Kinds::names);
    for previous in &args.previous_names {
        let text = previous.value();
        if names.contains(&text.as_str()) {
            errors
                .add(previous.span(), message!("\"{text}\" is the controller's current name: list only earlier ones"));
        }
    }
}

fn kinds<'a>(args: &'a Args, handler: &'a Handler, errors: &mut Errors) -> Option<Kinds<'a>> {
    let Some(resource) = &args.resource else {
        if !args.tries("resource") {
            let setting = match handler.arguments.iter().find_map(shared) {
                _ if handler.type_parameter().is_some() => "resource = [Pod, Service]".to_owned(),
                Some(kind) => resource_of(kind),
                None => "resource = Pod".to_owned(),
            };
            errors.add(
                Span::call_site(),
                message!("`resource` is missing: write `#[controller({setting})]` with your kind"),
            );
        }
        return None;
    };
    let fn_name = &handler.ident;
    match (&resource.value, handler.type_parameter()) {
        (Resource::One(kind), None) => {
            let name = name_of("controller", args, handler, None, errors)?;
            Some(Kinds::One { kind, name })
        }
        (Resource::Each(kinds), Some(parameter)) => {
            let mut named: Vec<(&Type, String)> = Vec::with_capacity(kinds.len());
            for kind in kinds {
                let suffix = last_word(kind).to_lowercase();
                let name = name_of("controller", args, handler, Some(suffix.as_str()), errors)?;
                if named.iter().any(|(_, earlier)| *earlier == name) {
                    errors.add(
                        Place::of(kind),
                        message!("two controllers would be named \"{name}\": write a separate handler for this kind"),
                    );
                }
                named.push((kind, name));
            }
            Some(Kinds::Each { parameter: &parameter.ident, generics: &handler.generics, kinds: named })
        }
        (Resource::One(kind), Some(parameter)) => {
            let kind = text(kind);
            errors.add(
                Place::of(parameter),
                message!("a generic handler needs a list of kinds: write `resource = [{kind}]`, or replace the parameter with the kind"),
            );
            None
        }
        (Resource::Each(_), None) => {
            let object = if args.has("metadata_only") { "PartialObjectMeta<K>" } else { "K" };
            errors.add(
                resource.place,
                message!(
                    "a list of kinds needs a generic handler: write `async fn {fn_name}<K: Kind>(object: Arc<{object}>)`"
                ),
            );
            None
        }
    }
}

/// The name of a controller or a webhook. That of a controller in a list ends in its kind.
pub(crate) fn name_of(
    noun: &str,
    args: &Args,
    handler: &Handler,
    kind: Option<&str>,
    errors: &mut Errors,
) -> Option<String> {
    let (base, place) = match &args.name {
        Some(name) => (name.value.value(), name.place),
        None if args.has("name") => return None,
        None => (name::kebab(&handler.ident.to_string()), handler.ident.span().into()),
    };
    let full = kind.map_or_else(|| base.clone(), |kind| format!("{base}-{kind}"));
    if let Err(error) = name::label(&full) {
        errors.add(place, message!("the {noun}'s name is invalid: {error}; set another with `name = \"…\"`"));
        return None;
    }
    // The runtime names the controller of the daemon like this.
    if args.has("daemon")
        && let Err(error) = name::label(&format!("{full}-daemon"))
    {
        errors.add(place, message!("the name of its daemon is invalid: {error}; set another with `name = \"…\"`"));
        return None;
    }
    Some(full)
}
