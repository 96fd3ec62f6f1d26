//! The value of `namespaces`: a list of names, or a selector in parentheses.

use syn::{LitStr, parenthesized, token};

use crate::controller::key::{Key, Mentions, Table};
use crate::controller::setting::{LiteralOrConstant, Setting, keep};
use crate::controller::value::{Value, strings};
use crate::support::spanned::Spanned;

/// The selector in the parentheses of `namespaces(…)`.
#[derive(Default)]
pub(crate) struct Namespaces {
    labels: Option<Spanned<LiteralOrConstant<LitStr>>>,
}

/// The table of the settings.
const NAMESPACES: Table<Namespaces> = Table {
    noun: "`namespaces` setting",
    example: "labels = \"team=a\"",
    keys: &[Key {
        name: "labels",
        form: "a label selector",
        example: "labels = \"team=a\"",
        default: "required",
        doc: "The labels of the namespaces.",
        mentions: Mentions::Constants,
        read: keep!(labels, strings::labels_or_constant),
        ..Key::EQUALS
    }],
    others: &[("labels", "selector label_selector matching")],
};

/// The call of the builder for the value of `namespaces`.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<Setting> {
    if !value.input.peek(token::Paren) {
        return strings::labels(value).map(|names| Setting::new("namespaces", names));
    }
    let content;
    let parentheses = parenthesized!(content in value.input);
    let labels = NAMESPACES.parse(&content)?.labels.ok_or_else(|| value.wrong(parentheses.span.join()))?;
    // The compiler names the key of a cluster-scoped kind.
    Ok(Setting::new("namespace_selector", value.spanned(labels.value, labels.place)))
}
