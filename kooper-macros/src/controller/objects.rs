//! Objects of a kind, possibly only some of them: `(Secret, labels = "app=shop")`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Type;
use syn::parse::ParseStream;

use crate::controller::key::{FLAG, Key, Table, call};
use crate::controller::setting::{Element, Emit, Setting};
use crate::support::crate_path::CratePath;
use crate::support::errors::Errors;
use crate::support::place::Place;
use crate::support::text::text;

/// The objects of a kind that an entry of `owns`, `watches` or `reads` names.
pub(crate) struct Objects {
    pub(crate) kind: Type,
    settings: Vec<Setting>,
    /// As written.
    tokens: TokenStream,
}

/// What a `Reader` reads, as its tokens show.
#[derive(Clone)]
pub(crate) struct Read {
    pub(crate) kind: Type,
    pub(crate) metadata_only: bool,
}

impl Read {
    /// The parameter of the `Reader`.
    pub(crate) fn parameter(&self) -> String {
        let kind = text(&self.kind);
        if self.metadata_only { format!("PartialObjectMeta<{kind}>") } else { kind }
    }
}

/// The settings after a kind.
#[derive(Default)]
pub(crate) struct Selection {
    settings: Vec<Setting>,
}

/// The table of the settings.
pub(crate) const SELECTION: Table<Selection> = Table {
    noun: "setting of a kind",
    example: "labels = \"app=shop\"",
    keys: SETTINGS,
    others: &[
        ("label", "labels"),
        ("selector", "labels"),
        ("label_selector", "labels"),
        ("field", "fields"),
        ("field_selector", "fields"),
        ("name", "names"),
        ("namespace", "namespaces"),
        ("metadata", "metadata_only"),
    ],
};

const SETTINGS: &[Key<Selection>] = &[
    Key {
        name: "labels",
        form: "a label selector",
        example: "labels = \"app=shop\"",
        default: "all",
        doc: "Only objects that match this label selector. `apply_owned` rejects a child that does not.",
        read: call!(labels, label_selector),
        ..Key::EQUALS
    },
    Key {
        name: "fields",
        form: "a field selector",
        example: "fields = \"type=Opaque\"",
        default: "all",
        doc: "Only objects that match this field selector. The API server supports a few fields for each kind. `metadata.name=…` also limits the role.",
        read: call!(fields, field_selector),
        ..Key::EQUALS
    },
    Key {
        name: "names",
        form: "a list of names of objects",
        example: "names = [\"settings\"]",
        default: "all",
        doc: "Only objects with these names. Each has a watch of its own, and the role is limited to them.",
        read: call!(names, subdomains),
        ..Key::EQUALS
    },
    Key {
        name: "namespaces",
        form: "a list of names of namespaces",
        example: "namespaces = [\"shop\"]",
        default: "those of the controller",
        doc: "Only objects in these namespaces, whichever the controller watches. The role is limited to them.",
        read: call!(namespaces, labels),
        ..Key::EQUALS
    },
    Key {
        name: "secret",
        shapes: FLAG,
        form: "no value",
        example: "secret",
        default: "off, but on for Secrets",
        doc: "The objects hold secrets: they are compressed each by itself, and their size is not published. This holds for the kind in all controllers of the program.",
        read: call!(secret, flag),
        ..Key::EQUALS
    },
    Key {
        name: "metadata_only",
        shapes: FLAG,
        form: "no value",
        example: "metadata_only",
        default: "off",
        doc: "Only the metadata of the objects. A function of `watches` takes `&PartialObjectMeta<T>`.",
        read: call!(metadata_only, flag),
        ..Key::EQUALS
    },
];

impl Objects {
    /// All objects of a kind.
    pub(crate) fn all(kind: Type) -> Self {
        Self { tokens: kind.to_token_stream(), kind, settings: Vec::new() }
    }

    /// The objects that the settings after the kind select.
    pub(crate) fn some(kind: Type, settings: ParseStream<'_>, tokens: TokenStream) -> syn::Result<Self> {
        let (mut selection, mut errors) = (Selection::default(), Errors::new());
        SELECTION.read(settings, &mut selection, &mut errors, |_| None);
        errors.check()?;
        let mut settings = selection.settings;
        // It changes the type of the objects, so a message about another setting names the kind itself.
        settings.sort_by_key(|setting| setting.method == "metadata_only");
        Ok(Self { kind, settings, tokens })
    }

    /// Whether it says which objects, or that they are secret.
    pub(crate) fn selects(&self) -> bool {
        self.settings.iter().any(|setting| setting.method != "metadata_only")
    }

    /// The `Reader` of these objects.
    pub(crate) fn read(&self) -> Read {
        let metadata_only = self.settings.iter().any(|setting| setting.method == "metadata_only");
        Read { kind: self.kind.clone(), metadata_only }
    }

    /// Whether it is all of each object of the kind.
    pub(crate) fn is_all(&self) -> bool {
        self.settings.iter().all(|setting| setting.method == "secret")
    }
}

impl ToTokens for Objects {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.tokens.to_tokens(tokens);
    }
}

impl Emit for Objects {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let kind = &self.kind;
        let place = Place::of(kind).start;
        let here = runtime.at(place);
        let all = quote_spanned!(place=> #here::all::<#kind>());
        let calls = self.settings.iter().map(|setting| {
            let method = Ident::new(setting.method, setting.key);
            let arguments = setting.value.arguments(runtime);
            quote_spanned!(setting.key=> .#method(#arguments))
        });
        quote!(#all #(#calls)*)
    }
}

impl Element for Objects {
    fn place(&self) -> Place {
        Place::of(&self.kind)
    }
}

#[cfg(test)]
mod tests {
    use syn::parse::Parser;

    use super::*;

    #[test]
    fn every_example_is_read() {
        for key in SELECTION.keys {
            let read = |input: ParseStream<'_>| Objects::some(syn::parse_str("Secret")?, input, TokenStream::new());
            let objects = read.parse_str(key.example).expect(key.example);
            assert_eq!(objects.settings.len(), 1);
            assert!([key.form, key.default, key.doc].iter().all(|text| !text.is_empty()), "{}", key.name);
        }
        assert!(SELECTION.others.iter().all(|(_, ours)| SELECTION.find(ours).is_some()));
    }
}
