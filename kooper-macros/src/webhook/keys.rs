//! The keys of `#[validate]` and `#[mutate]`.
//!
//! A new key is a row here, a case in `controller/mistakes/webhooks.txt`, a webhook in `ui-tests/pass`, and a section in
//! `webhook.md`; `KOOPER_BLESS=1 cargo test -p kooper-macros` writes the reference page.

use proc_macro2::{Group, Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Type, token};

use crate::controller::key::{FLAG, Key, Mentions, PARENTHESES, Table};
use crate::controller::setting::{Emit, Setting, Stage, call, keep};
use crate::controller::value::{Value, numbers, paths, strings, words};
use crate::support::crate_path::CratePath;
use crate::support::errors::message;
use crate::support::spanned::Spanned;
use crate::support::suggest;
use crate::webhook::args::{Args, Operation};

/// The table of both attributes.
pub(crate) const WEBHOOK: Table<Args> = Table {
    noun: "key",
    example: "resource = Shop",
    keys: KEYS,
    others: &[
        ("kind", "resource"),
        ("for", "resource"),
        ("on", "operations"),
        ("operation", "operations"),
        ("verbs", "operations"),
        ("failure_policy", "failure"),
        ("on_failure", "failure"),
        ("timeout_seconds", "timeout"),
        ("state", "init"),
        ("context", "init"),
        ("access", "rbac"),
        ("rules", "rbac"),
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
        mentions: Mentions::KINDS,
        read: keep!(resource, kind),
        ..Key::EQUALS
    },
    Key {
        name: "name",
        form: "a DNS label",
        example: "name = \"check-seats\"",
        default: "the function's name in kebab case",
        doc: "The webhook's name in its path, in metrics, and in the messages of the API server, at most 63 characters.",
        read: keep!(name, strings::label),
        ..Key::EQUALS
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
            args.settings.push(Setting::new("operations", operations));
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
        name: "overwrite",
        shapes: FLAG,
        form: "no value",
        example: "overwrite",
        default: "off",
        doc: "Only for `mutate`: the function may change and remove existing values. Two clients that apply the same object \
              then conflict with each other about these fields.",
        read: call!(overwrite, words::flag),
        ..Key::EQUALS
    },
    Key {
        name: "init",
        form: "the path of an `async fn(…) -> Result<S, E>`",
        example: "init = connect",
        default: "none",
        doc: "Builds the state that the function takes as `State<S>`, once per process. Controllers with the same `init` \
              share the state.",
        mentions: Mentions::FUNCTIONS,
        read: call!(init, paths::path, Stage::State),
        ..Key::EQUALS
    },
    Key {
        name: "rbac",
        shapes: PARENTHESES,
        form: "rules in parentheses",
        example: "rbac(\"apps/deployments: get\", \"pods/log: get\")",
        default: "none",
        doc: "RBAC rules for the requests of a `Client`. `rbac()`: none.",
        read: call!(rbac, strings::rules),
        ..Key::EQUALS
    },
    Key {
        name: "type_name",
        form: "a name",
        example: "type_name = CheckWebhook",
        default: "the function's name",
        doc: "The name of the generated type, if another type or module has the function's name.",
        read: keep!(type_name, words::ident),
        ..Key::EQUALS
    },
    Key {
        name: "crate",
        form: "a path",
        example: "crate = my_platform::kooper",
        default: "`::kooper`",
        doc: "The path of kooper, if another crate re-exports it.",
        read: keep!(krate, paths::path),
        ..Key::EQUALS
    },
];

fn kind(value: &Value<'_>) -> syn::Result<Spanned<Type>> {
    if !value.input.peek(token::Bracket) {
        return paths::ty(value);
    }
    let list: Group = value.input.parse()?;
    Err(syn::Error::new(list.span(), message!("a webhook is for one kind: write a function for each kind")))
}

/// The operations, with their names in the runtime.
const OPERATIONS: [(&str, &str); 3] = [("create", "Create"), ("update", "Update"), ("delete", "Delete")];

impl Emit for Vec<Operation> {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let variants = self.iter().map(|operation| Ident::new(operation.variant, operation.word.span()));
        quote!([#(#runtime::webhooks::Operation::#variants),*])
    }
}

fn operations(value: &Value<'_>) -> syn::Result<Spanned<Vec<Operation>>> {
    value.set(|input| {
        let word = input.call(Ident::parse_any).map_err(|error| value.wrong(error.span()))?;
        let text = word.to_string();
        match OPERATIONS.iter().find(|(known, _)| *known == text) {
            Some(&(_, variant)) => Ok(Operation { word, variant }),
            None => {
                let known = OPERATIONS.map(|(known, _)| known);
                let meant = suggest::meant(&text.to_lowercase(), &known, &[("patch", "update"), ("apply", "update")]);
                Err(syn::Error::new(word.span(), suggest::unknown("operation", &text, meant, &known)))
            }
        }
    })
}

/// A failure policy, as a variant of the runtime's type.
struct Failure(Ident);

impl Emit for Failure {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let variant = &self.0;
        quote!(#runtime::webhooks::FailurePolicy::#variant)
    }
}

fn failure(value: &Value<'_>) -> syn::Result<Spanned<Failure>> {
    let policies = words::one_of(value, [("fail", "Fail"), ("ignore", "Ignore")])?;
    Ok(policies.map(Failure))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_described_and_has_one_name() {
        for (i, key) in WEBHOOK.keys.iter().enumerate() {
            assert!([key.form, key.default, key.doc].iter().all(|text| !text.is_empty()), "{}", key.name);
            assert!(WEBHOOK.keys.iter().skip(i + 1).all(|other| other.name != key.name), "{}", key.name);
        }
        assert!(WEBHOOK.others.iter().all(|(_, ours)| WEBHOOK.find(ours).is_some()));
    }
}
