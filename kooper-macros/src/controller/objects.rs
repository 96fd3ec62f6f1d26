//! Objects of a kind, possibly only some of them: `(Secret, labels = "app=shop")`.

use proc_macro2::{Group, Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::ParseStream;
use syn::{Token, Type, parenthesized, token};

use crate::controller::key::{Key, Table};
use crate::controller::setting::{Element, Emit, Function, Setting, call};
use crate::controller::value::paths::{next_function, next_kind};
use crate::controller::value::{Value, strings, words};
use crate::support::crate_path::CratePath;
use crate::support::errors::message;
use crate::support::place::Place;
use crate::support::spanned::Spanned;
use crate::support::text::text;
use crate::support::types::ReaderTarget;

/// The objects of a kind that an entry of `owns`, `watches` or `reads` names.
pub(crate) struct Objects {
    pub(crate) kind: Type,
    settings: Vec<Setting>,
    /// As written.
    tokens: TokenStream,
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
        ("labels", "label selector label_selector"),
        ("fields", "field field_selector"),
        ("names", "name"),
        ("namespaces", "namespace"),
        ("metadata_only", "metadata"),
    ],
};

const SETTINGS: &[Key<Selection>] = &[
    Key {
        name: "labels",
        form: "a label selector",
        example: "labels = \"app=shop\"",
        default: "all",
        doc: "Only objects that match this label selector. `apply_owned` rejects a child that does not.",
        read: call!(labels, strings::labels_or_constant),
        ..Key::EQUALS
    },
    Key {
        name: "fields",
        form: "a field selector",
        example: "fields = \"type=Opaque\"",
        default: "all",
        doc: "Only objects that match this field selector. The API server supports a few fields for each kind. `metadata.name=…` also limits the role.",
        read: call!(fields, strings::fields_or_constant),
        ..Key::EQUALS
    },
    Key {
        name: "names",
        form: "a list of names of objects",
        example: "names = [\"settings\"]",
        default: "all",
        doc: "Only objects with these names. Each has its own watch, and the role is limited to them.",
        read: call!(names, strings::object_names),
        ..Key::EQUALS
    },
    Key {
        name: "namespaces",
        form: "a list of names of namespaces",
        example: "namespaces = [\"shop\"]",
        default: "those of the controller",
        doc: "Only objects in these namespaces, regardless of those that the controller watches. The role is limited \
              to them.",
        read: call!(namespaces, strings::labels),
        ..Key::EQUALS
    },
    Key {
        name: "secret",
        example: "secret",
        default: "off, but on for Secrets",
        doc: "The objects contain secrets: each of them is compressed separately, and their size is not published. \
              This applies to the kind in all controllers of the program.",
        read: call!(secret, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "metadata_only",
        example: "metadata_only",
        default: "off",
        doc: "Only the metadata of the objects. A function of `watches` takes `&PartialObjectMeta<T>`.",
        read: call!(metadata_only, words::flag),
        ..Key::FLAG
    },
];

impl Objects {
    /// All objects of a kind.
    pub(crate) fn all(kind: Type) -> Self {
        Self { tokens: kind.to_token_stream(), kind, settings: Vec::new() }
    }

    /// The objects that the settings after the kind select.
    pub(crate) fn some(kind: Type, settings: ParseStream<'_>, tokens: TokenStream) -> syn::Result<Self> {
        let mut settings = SELECTION.parse(settings)?.settings;
        // It changes the type of the objects, so a message about another setting names the kind itself.
        settings.sort_by_key(|setting| setting.method == "metadata_only");
        Ok(Self { kind, settings, tokens })
    }

    /// Returns `true` if the settings limit the objects or mark them as secret.
    pub(crate) fn selects(&self) -> bool {
        self.settings.iter().any(|setting| setting.method != "metadata_only")
    }

    /// The `Reader` of these objects.
    pub(crate) fn read(&self) -> ReaderTarget {
        let metadata_only = self.settings.iter().any(|setting| setting.method == "metadata_only");
        ReaderTarget { kind: self.kind.clone(), metadata_only }
    }

    /// Returns `true` if it covers every object of the kind, with all fields.
    pub(crate) fn is_all(&self) -> bool {
        self.settings.iter().all(|setting| setting.method == "secret")
    }

    /// Returns `true` if it is the kind alone.
    fn is_bare(&self) -> bool {
        self.settings.is_empty()
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

/// Objects of a kind, and the function that maps them.
pub(crate) struct Map {
    pub(crate) objects: Objects,
    pub(crate) function: Function,
}

impl ToTokens for Map {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { objects, function } = self;
        tokens.extend(quote!(#objects => #function));
    }
}

impl Emit for Map {
    fn types(&self) -> TokenStream {
        if !self.objects.is_bare() {
            return TokenStream::new();
        }
        // A missing bound of the function is reported at the function.
        let inferred = quote_spanned!(self.place().start=> _, _);
        let kind = &self.objects.kind;
        quote_spanned!(Place::of(kind).start=> ::<#kind, #inferred>)
    }

    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let Self { objects, function } = self;
        if objects.is_bare() {
            return function.to_token_stream();
        }
        let objects = objects.arguments(runtime);
        quote!(#objects, #function)
    }
}

impl Element for Map {
    fn place(&self) -> Place {
        Place::of(&self.function)
    }

    fn method(&self, key: &'static str) -> &'static str {
        if self.objects.is_bare() { key } else { "watches_only" }
    }
}

/// Kinds of children, each once, or several times with different selections.
pub(crate) fn children(value: &Value<'_>) -> syn::Result<Spanned<Vec<Objects>>> {
    let children = value.set(|input| objects(value, input))?;
    for some in children.value.iter().filter(|objects| !objects.is_all()) {
        let kind = text(&some.kind);
        if children.value.iter().any(|objects| objects.is_all() && text(&objects.kind) == kind) {
            let advice = message!(
                "the list also has `{kind}` without settings, which selects all objects: remove one of the two"
            );
            value.note(Place::of(&some.kind), advice);
        }
    }
    Ok(children)
}

/// The selections of readers, one for each kind.
pub(crate) fn readers(value: &Value<'_>) -> syn::Result<Spanned<Vec<Objects>>> {
    let readers = value.set(|input| objects(value, input))?;
    let mut known: Vec<String> = Vec::new();
    for objects in &readers.value {
        let (place, parameter) = (Place::of(&objects.kind), objects.read().parameter());
        if !objects.selects() {
            let advice = message!(
                "a `Reader<{parameter}>` reads all objects anyway: select some, such as `(Secret, labels = \"app=shop\")`"
            );
            value.note(place, advice);
        } else if known.contains(&parameter) {
            let advice = message!(
                "there are two selections for `Reader<{parameter}>`: write one of them as a type that implements \
                 `Subset`, and name it, as in `Reader<{parameter}, OfShop>`"
            );
            value.note(place, advice);
        }
        known.push(parameter);
    }
    Ok(readers)
}

/// A kind, or a kind with settings in parentheses that select some of its objects.
fn objects(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<Objects> {
    if !input.peek(token::Paren) {
        return Ok(Objects::all(next_kind(value, input)?));
    }
    let written: Group = input.fork().parse()?;
    let content;
    let parentheses = parenthesized!(content in input);
    let wrong = |place: Place| {
        place.error(message!("write the kind first, and its settings after it: `(Secret, labels = \"app=shop\")`"))
    };
    if content.is_empty() || content.peek2(Token![=]) {
        return Err(wrong(parentheses.span.join().into()));
    }
    let kind = next_kind(value, &content)?;
    if !content.is_empty() {
        let place = content.span().into();
        let _: Token![,] = content.parse().map_err(|_| wrong(place))?;
    }
    Objects::some(kind, &content, written.into_token_stream())
}

pub(crate) fn maps(value: &Value<'_>) -> syn::Result<Spanned<Vec<Map>>> {
    value.set(|input| {
        let objects = objects(value, input)?;
        let arrow: syn::Result<Token![=>]> = input.parse();
        if arrow.is_err() {
            let written = text(&objects);
            return Err(Place::of(&objects)
                .error(message!("a kind needs a function that maps its objects to keys: write `{written} => path`")));
        }
        let function = next_function(value, input)?;
        if let Function::Closure { is_typed: false, .. } = function {
            // The compiler does not infer them, because the function may take one argument or two.
            let kind = objects.read().parameter();
            value.note(
                Place::of(&function),
                message!("a closure for `watches` states the types of its arguments: write `|object: &{kind}| …`"),
            );
        }
        Ok(Map { objects, function })
    })
}
