//! The keys of `#[validate]` and `#[mutate]`.
//!
//! A new key is a row here, a case in `controller/mistakes/webhooks.txt`, a webhook in `ui-tests/pass`, and a section in
//! `webhook.md`; `KOOPER_BLESS=1 cargo test -p kooper-macros` writes the reference page.

use kooper_grammar::name;
use kooper_grammar::selector::{Comparator, Requirement, Selector};
use proc_macro2::{Group, Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::Parse;
use syn::{LitStr, Token, parenthesized, token};

use crate::controller::args::Args;
use crate::controller::key::{Key, Mentions, Table};
use crate::controller::keys::CONTROLLER;
use crate::controller::resource::Resource;
use crate::controller::setting::{Emit, Setting, Variant, call, keep};
use crate::controller::value::{Value, numbers, paths, strings, words};
use crate::support::crate_path::CratePath;
use crate::support::errors::message;
use crate::support::spanned::Spanned;
use crate::support::suggest;

/// The table of both attributes.
pub(crate) const WEBHOOK: Table<Args> = Table {
    noun: "key",
    example: "resource = Shop",
    keys: KEYS,
    others: &[
        ("resource", "kind for"),
        ("operations", "on operation verbs"),
        ("failure", "failure_policy on_failure"),
        ("timeout", "timeout_seconds"),
        ("match_conditions", "conditions match_condition"),
        ("namespace_selector", "namespaces"),
        ("subresources", "subresource"),
        ("init", "state context"),
        ("rbac", "access rules"),
    ],
};

/// The longest time that an API server waits, in seconds.
const LONGEST: u64 = 30;

/// All keys, in the order of the reference page.
const KEYS: &[Key<Args>] = &[
    Key {
        name: "resource",
        form: "a kind",
        example: "resource = Shop",
        default: "required",
        doc: "The kind of the objects.",
        mentions: Mentions::Kinds,
        read: keep!(resource, kind),
        ..Key::EQUALS
    },
    Key {
        example: "name = \"check-seats\"",
        doc: "The webhook's name in its path, in metrics, and in the messages of the API server, at most 63 characters.",
        ..Key::of(CONTROLLER.keys, "name")
    },
    Key {
        name: "operations",
        form: "a list of `create`, `update` and `delete`",
        example: "operations = [create, update]",
        default: "`[create, update]`",
        doc: "The operations for which the function is called. A mutating webhook is not called for `delete`.",
        read: |args, value| {
            let operations = operations(value)?;
            args.operations.clone_from(&operations.value);
            args.settings.push(Setting::new("operations", operations.map(variants)));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "failure",
        form: "`fail` or `ignore`",
        example: "failure = ignore",
        default: "`fail` for custom resources, required for other kinds",
        doc: "What happens to a request if the webhook fails or cannot be reached: `fail` denies the request, and `ignore` \
              admits it.",
        read: call!(failure, failure),
        ..Key::EQUALS
    },
    Key {
        name: "timeout",
        form: "a whole number of seconds, from \"1s\" to \"30s\"",
        example: "timeout = \"5s\"",
        default: "`\"5s\"`",
        doc: "How long the API server waits for a response. The function is cancelled after nine tenths of this time.",
        read: call!(timeout, seconds),
        ..Key::EQUALS
    },
    Key {
        name: "match_conditions",
        form: "a list of pairs of a name and an expression in CEL",
        example: "match_conditions = [(\"not-a-test\", \"!object.metadata.name.startsWith('test')\")]",
        default: "no updates of an object that is being deleted that change only its status and metadata other than \
                  labels and annotations, such as finalizers; for custom resources, only updates that change the spec, the labels or the annotations",
        doc: "Expressions that the API server evaluates before a call. All of them must be true. They replace the default.",
        read: call!(match_conditions, conditions),
        ..Key::EQUALS
    },
    Key {
        name: "namespace_selector",
        form: "a label selector",
        example: "namespace_selector = \"environment=production, !legacy\"",
        default: "all namespaces; for Kubernetes' own kinds, all except `kube-system`, `kube-node-lease` and that of the program",
        doc: "The function is called for objects in namespaces with these labels.",
        read: call!(namespace_selector, namespaces),
        ..Key::EQUALS
    },
    Key {
        name: "subresources",
        form: "a list of subresources",
        example: "subresources = [status]",
        default: "none",
        doc: "Only for `validate`: the function is also called for these subresources, whose requests contain the whole \
              object, such as `status`. `Admission::subresource` returns the name of the subresource.",
        read: call!(subresources, subresources),
        ..Key::EQUALS
    },
    Key {
        name: "overwrite",
        example: "overwrite",
        default: "off",
        doc: "Only for `mutate`: the function may change and remove existing values. Two clients that apply the same object \
              then conflict with each other about these fields.",
        read: call!(overwrite, words::flag),
        ..Key::FLAG
    },
    Key {
        doc: "Builds the state that the function takes as `State<S>`, once per process. Controllers with the same `init` \
              share the state.",
        ..Key::of(CONTROLLER.keys, "init")
    },
    Key {
        example: "rbac(\"apps/deployments: get\", \"pods/log: get\")",
        doc: "RBAC rules for the requests of a `Client`. `rbac()`: none.",
        ..Key::of(CONTROLLER.keys, "rbac")
    },
    Key { example: "type_name = CheckWebhook", ..Key::of(CONTROLLER.keys, "type_name") },
    Key::of(CONTROLLER.keys, "crate"),
];

fn kind(value: &Value<'_>) -> syn::Result<Spanned<Resource>> {
    if !value.input.peek(token::Bracket) {
        return Ok(paths::ty(value)?.map(|kind| Resource::One(Box::new(kind))));
    }
    let list: Group = value.input.parse()?;
    Err(syn::Error::new(list.span(), message!("a webhook is for one kind: write a function for each kind")))
}

/// The operations, with their names in the runtime.
const OPERATIONS: [(&str, &str); 3] = [("create", "Create"), ("update", "Update"), ("delete", "Delete")];

fn operations(value: &Value<'_>) -> syn::Result<Spanned<Vec<Ident>>> {
    let known = OPERATIONS.map(|(known, _)| known);
    value.set(|input| {
        let word = input.call(Ident::parse_any).map_err(|error| value.wrong(error.span()))?;
        let text = word.to_string();
        if known.contains(&text.as_str()) {
            return Ok(word);
        }
        let meant = suggest::meant(&text, &known, &[("update", "patch apply")]);
        Err(syn::Error::new(word.span(), suggest::unknown("operation", &text, meant, &known)))
    })
}

fn variants(operations: Vec<Ident>) -> Vec<Variant> {
    let variant = |word: Ident| {
        let &(_, name) = OPERATIONS.iter().find(|(known, _)| word == known)?;
        Some(Variant { of: quote!(webhooks::Operation), name: Ident::new(name, word.span()) })
    };
    operations.into_iter().filter_map(variant).collect()
}

fn failure(value: &Value<'_>) -> syn::Result<Spanned<Variant>> {
    words::one_of(value, quote!(webhooks::FailurePolicy), [("fail", "Fail"), ("ignore", "Ignore")])
}

/// A condition of a call.
struct Condition {
    name: LitStr,
    expression: LitStr,
}

impl Emit for Condition {
    fn arguments(&self, _: &CratePath) -> TokenStream {
        let Self { name, expression } = self;
        quote!((#name, #expression))
    }
}

fn conditions(value: &Value<'_>) -> syn::Result<Spanned<Vec<Condition>>> {
    let conditions = value.list_in(value.input, |input| {
        if !input.peek(token::Paren) {
            return Err(value.wrong(input.span()));
        }
        let content;
        let parentheses = parenthesized!(content in input);
        let texts = content.parse_terminated(<LitStr as Parse>::parse, Token![,]);
        let texts: Vec<_> = texts.map_err(|error| value.wrong(error.span()))?.into_iter().collect();
        let [name, expression] = <[LitStr; 2]>::try_from(texts).map_err(|_| value.wrong(parentheses.span.join()))?;
        name::label(&name.value()).map_err(|error| syn::Error::new(name.span(), error))?;
        if expression.value().trim().is_empty() {
            return Err(syn::Error::new(expression.span(), message!("the expression is empty: write one in CEL")));
        }
        Ok(Condition { name, expression })
    })?;
    let mut seen = Vec::new();
    for Condition { name, .. } in &conditions.value {
        if seen.contains(&name.value()) {
            let text = name.value();
            value.note(name.span(), message!("two conditions have the name `{text}`: give one of them another name"));
        }
        seen.push(name.value());
    }
    Ok(conditions)
}

/// The labels of namespaces, which an API server does not compare as numbers.
fn namespaces(value: &Value<'_>) -> syn::Result<Spanned<LitStr>> {
    let text = strings::label_selector(value)?;
    let selector = Selector::parse(&text.value.value()).unwrap_or_default();
    let is_number = |one: &Requirement| matches!(one.operator(), Comparator::GreaterThan | Comparator::LessThan);
    if selector.requirements().iter().any(is_number) {
        let advice = message!(
            "an API server does not compare labels of namespaces with `<` or `>`: write values, such as `tier in (1, 2)`"
        );
        return Err(text.place.error(advice));
    }
    Ok(text)
}

/// The subresources whose requests have objects of another kind.
const OTHERS: [&str; 9] = ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "scale", "token"];

fn subresources(value: &Value<'_>) -> syn::Result<Spanned<Vec<LitStr>>> {
    let words = value.set(|input| {
        let word = input.call(Ident::parse_any).map_err(|error| value.wrong(error.span()))?;
        if OTHERS.iter().any(|other| word == other) {
            let text = message!("requests for `{word}` have objects of another kind: remove it");
            return Err(syn::Error::new(word.span(), text));
        }
        name::label(&word.to_string()).map_err(|error| syn::Error::new(word.span(), error))?;
        Ok(word)
    })?;
    Ok(words.map(|words| words.iter().map(|word| LitStr::new(&word.to_string(), word.span())).collect()))
}

/// A duration that an API server can wait for.
fn seconds(value: &Value<'_>) -> syn::Result<Spanned<std::time::Duration>> {
    let duration = numbers::duration(value)?;
    let is_whole = duration.value.subsec_nanos() == 0;
    if is_whole && (1..=LONGEST).contains(&duration.value.as_secs()) {
        Ok(duration)
    } else {
        Err(value.wrong(duration.place))
    }
}
