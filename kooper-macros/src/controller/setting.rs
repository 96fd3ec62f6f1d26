//! Calls of the builder, which most keys become.

use std::time::Duration;

use kooper_grammar::access::Rule;
use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{LitStr, Path};

use crate::support::crate_path::CratePath;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// A call of a method, with the places of its key and value.
pub(crate) struct Setting {
    pub(crate) method: &'static str,
    pub(crate) stage: Stage,
    /// The place of the key.
    pub(crate) key: Span,
    /// The place of the value.
    pub(crate) place: Place,
    pub(crate) value: Box<dyn Emit>,
}

/// The order of the calls: the builder's types must be known before the methods that depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It changes the type of the objects.
    Object,
    /// It changes the type of the state.
    State,
    /// It changes no type.
    Rest,
}

impl Setting {
    /// A call with this value.
    pub(crate) fn new<T: Emit + 'static>(method: &'static str, given: Spanned<T>) -> Self {
        let Spanned { value, key, place } = given;
        Self { method, stage: Stage::Rest, key, place, value: Box::new(value) }
    }

    /// The same call at another stage.
    pub(crate) fn stage(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }

    /// The call of the method, after the value of another builder.
    pub(crate) fn call(&self, runtime: &CratePath) -> TokenStream {
        let method = Ident::new(self.method, Span::call_site());
        let arguments = self.value.arguments(runtime);
        quote!(.#method(#arguments))
    }

    /// A call for each element of a list, at the place of the element.
    pub(crate) fn each<T: Element + 'static>(
        method: &'static str,
        given: Spanned<Vec<T>>,
    ) -> impl Iterator<Item = Self> {
        let key = given.key;
        given.value.into_iter().map(move |value| {
            let (place, method) = (value.place(), value.method(method));
            Self::new(method, Spanned { value, key, place })
        })
    }
}

/// Parses the value of a key that becomes a call of the builder.
macro_rules! call {
    ($method:ident, $read:path) => {
        call!($method, $read, $crate::controller::setting::Stage::Rest)
    };
    ($method:ident, $read:path, $stage:expr) => {
        |keys, value| {
            let setting = $crate::controller::setting::Setting::new(stringify!($method), $read(value)?);
            keys.settings.push(setting.stage($stage));
            Ok(())
        }
    };
}
pub(crate) use call;

/// Parses a list that becomes a call of the builder for each element.
macro_rules! calls {
    ($method:ident, $read:path) => {
        |keys, value| {
            keys.settings.extend($crate::controller::setting::Setting::each(stringify!($method), $read(value)?));
            Ok(())
        }
    };
}
pub(crate) use calls;

/// Parses a value that is stored for the checks and the model. A word after the parser is its other argument.
macro_rules! keep {
    ($field:ident, $read:path $(, $argument:expr)?) => {
        |keys, value| {
            keys.$field = Some($read(value $(, $argument)?)?);
            Ok(())
        }
    };
}
pub(crate) use keep;

/// A value as the arguments of a call.
pub(crate) trait Emit {
    /// The types that are written explicitly.
    fn types(&self) -> TokenStream {
        TokenStream::new()
    }

    /// The arguments in the parentheses.
    fn arguments(&self, runtime: &CratePath) -> TokenStream;
}

/// An element of a list, where each has a separate call.
pub(crate) trait Element: Emit {
    /// The place of the message about its type.
    fn place(&self) -> Place;

    /// The builder's method, if it is another one than that of the key.
    fn method(&self, key: &'static str) -> &'static str {
        key
    }
}

impl Emit for () {
    fn arguments(&self, _: &CratePath) -> TokenStream {
        TokenStream::new()
    }
}

impl Emit for u32 {
    fn arguments(&self, _: &CratePath) -> TokenStream {
        Literal::u32_unsuffixed(*self).to_token_stream()
    }
}

impl Emit for Duration {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let seconds = Literal::u64_unsuffixed(self.as_secs());
        let nanos = Literal::u32_unsuffixed(self.subsec_nanos());
        quote!(#runtime::Duration::new(#seconds, #nanos))
    }
}

/// A value that is written out, or a constant.
#[derive(Clone)]
pub(crate) enum LiteralOrConstant<T> {
    Literal(T),
    Constant(Constant),
}

impl<T> LiteralOrConstant<T> {
    /// The value that is written out. That of a constant is not known, and checked when the controller is built.
    pub(crate) fn literal(&self) -> Option<&T> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Constant(_) => None,
        }
    }
}

impl<T: Emit> Emit for LiteralOrConstant<T> {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        match self {
            Self::Literal(value) => value.arguments(runtime),
            Self::Constant(constant) => constant.arguments(runtime),
        }
    }
}

/// The path of a constant, with the name of its type in the runtime.
#[derive(Clone)]
pub(crate) struct Constant {
    pub(crate) path: Path,
    pub(crate) ty: &'static str,
}

impl Emit for Constant {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let path = &self.path;
        let place = Place::of(path).start;
        let (here, ty) = (runtime.at(place), Ident::new(self.ty, place));
        // A constant again, because its type is then required at the path, not inferred from the method's parameter.
        quote_spanned!(place=> { const __CONSTANT: #here::#ty = #path; __CONSTANT })
    }
}

impl<T: Emit> Emit for Option<T> {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        match self {
            Some(value) => {
                let value = value.arguments(runtime);
                quote!(#runtime::Option::Some(#value))
            }
            None => quote!(#runtime::Option::None),
        }
    }
}

impl<A: Emit, B: Emit> Emit for (A, B) {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let (first, second) = (self.0.arguments(runtime), self.1.arguments(runtime));
        quote!(#first, #second)
    }
}

impl Emit for LitStr {
    fn arguments(&self, _: &CratePath) -> TokenStream {
        self.to_token_stream()
    }
}

impl Emit for Path {
    fn arguments(&self, _: &CratePath) -> TokenStream {
        self.to_token_stream()
    }
}

impl<T: Emit> Emit for Vec<T> {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let elements = self.iter().map(|element| element.arguments(runtime));
        quote!([#(#elements),*])
    }
}

impl Emit for Vec<Rule> {
    fn arguments(&self, _: &CratePath) -> TokenStream {
        let rules = self.iter().map(ToString::to_string);
        // An empty list still has an element type.
        if self.is_empty() { quote!([""; 0]) } else { quote!([#(#rules),*]) }
    }
}

/// A part of an object whose change triggers the handler.
#[derive(Clone)]
pub(crate) enum Change {
    /// The word of the attribute, and the name in the runtime.
    Section(Ident, &'static str),
    /// The path of a field.
    Field(LitStr),
}

impl ToTokens for Change {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Section(word, _) => word.to_tokens(tokens),
            Self::Field(path) => path.to_tokens(tokens),
        }
    }
}

impl Emit for Change {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let variant = match self {
            Self::Section(word, variant) => Ident::new(variant, word.span()).to_token_stream(),
            Self::Field(path) => quote!(Field(#path)),
        };
        quote!(#runtime::Changed::#variant)
    }
}

/// A variant of a type of the runtime.
pub(crate) struct Variant {
    /// The path of the type.
    pub(crate) of: TokenStream,
    pub(crate) name: Ident,
}

impl Emit for Variant {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let Self { of, name } = self;
        quote!(#runtime::#of::#name)
    }
}

/// A function of the user's.
#[derive(Clone)]
pub(crate) enum Function {
    Path(Path),
    /// A closure, and whether it states the types of its arguments.
    Closure {
        tokens: TokenStream,
        is_typed: bool,
    },
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Path(path) => path.to_tokens(tokens),
            Self::Closure { tokens: closure, .. } => closure.to_tokens(tokens),
        }
    }
}

impl Emit for Function {
    fn arguments(&self, _: &CratePath) -> TokenStream {
        self.to_token_stream()
    }
}

/// A function that makes a source.
impl Element for Function {
    fn place(&self) -> Place {
        Place::of(self)
    }
}

/// The path of a function that makes a layer.
pub(crate) struct Layer(pub(crate) Path);

impl Emit for Layer {
    fn arguments(&self, _: &CratePath) -> TokenStream {
        let function = &self.0;
        let call = parentheses(TokenStream::new(), self.place().end);
        quote!(#function #call)
    }
}

impl Element for Layer {
    fn place(&self) -> Place {
        Place::of(&self.0)
    }
}

/// The path of a file that becomes part of the program.
pub(crate) struct File(pub(crate) LitStr);

impl ToTokens for File {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

impl Emit for File {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let path = &self.0;
        // The path is relative to the file in which the call stands, and that is where the path does.
        let here = runtime.at(path.span());
        quote_spanned!(path.span()=> #path, #here::include_str!(#path))
    }
}

impl Element for File {
    fn place(&self) -> Place {
        self.0.span().into()
    }
}

/// Arguments in parentheses with this place.
pub(crate) fn parentheses(arguments: TokenStream, place: Span) -> Group {
    let mut group = Group::new(Delimiter::Parenthesis, arguments);
    group.set_span(place);
    group
}
