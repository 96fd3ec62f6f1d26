//! The struct and its attributes, parsed.

use kooper_grammar::field_name::letters;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Field, Fields, ItemStruct, LitStr, Path, Type};

use crate::support::errors::{Errors, message};
use crate::support::place::Place;

/// A struct with some of the fields of another one.
pub(crate) struct Model {
    pub(crate) ident: Ident,
    /// The type that has all fields.
    pub(crate) full: Path,
    pub(crate) krate: Option<Path>,
    pub(crate) fields: Vec<PartialField>,
}

pub(crate) struct PartialField {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// The name that it has in JSON, but for capitals and underscores.
    pub(crate) name: String,
}

/// Reads the struct, and notes what is wrong with it.
pub(crate) fn parse(item: TokenStream, errors: &mut Errors) -> Option<Model> {
    // After the attributes, which are groups.
    let is_keyword = |word: &Ident| word == "enum" || word == "struct" || word == "union";
    let keyword = item.clone().into_iter().find(|token| matches!(token, TokenTree::Ident(word) if is_keyword(word)));
    let place = keyword.map_or_else(Span::call_site, |keyword| keyword.span());
    let Ok(ItemStruct { attrs, ident, generics, fields: Fields::Named(named), .. }) = syn::parse2(item) else {
        errors.add(place, message!("`Partial` can be derived only for a struct with named fields"));
        return None;
    };
    if !generics.params.is_empty() {
        errors.add(Place::of(&generics.params), message!("a partial type cannot have generic parameters: remove them"));
    }
    let (mut full, mut krate) = (None, None);
    let is_read = read(&attrs, errors, |meta| {
        let (key, example, slot) = if meta.path.is_ident("of") {
            ("of", "Pod", &mut full)
        } else if meta.path.is_ident("crate") {
            ("crate", "my_platform::kooper", &mut krate)
        } else {
            return Err(meta.error(message!("unknown key: write `#[partial(of = Pod)]` with the full type")));
        };
        if slot.is_some() {
            return Err(meta.error(message!("`{key}` is given twice: write it once")));
        }
        let wrong =
            |place: Place| place.error(message!("`{key}` takes a path without quotes: write `{key} = {example}`"));
        let value = meta.value().map_err(|_| wrong(Place::of(&meta.path)))?;
        let place = value.span();
        let path = value.call(Path::parse_mod_style).map_err(|_| wrong(place.into()))?;
        *slot = Some(path);
        Ok(())
    });
    let fields: Vec<_> = named.named.into_iter().filter_map(|field| self::field(field, errors)).collect();
    let mut seen = Vec::new();
    for PartialField { ident, name, .. } in &fields {
        let name_letters: Vec<u8> = letters(name).collect();
        if seen.contains(&name_letters) {
            let text = message!(
                "two fields have the name `{name}` in JSON: remove one, or rename it with `#[partial(rename = \"…\")]`"
            );
            errors.add(ident.span(), text);
        }
        seen.push(name_letters);
    }
    if full.is_none() && is_read {
        errors.add(
            ident.span(),
            message!("the full type is missing: write `#[partial(of = Pod)]` above `struct {ident}`"),
        );
    }
    Some(Model { ident, full: full?, krate, fields })
}

fn field(field: Field, errors: &mut Errors) -> Option<PartialField> {
    let ident = field.ident?;
    let mut name: Option<String> = None;
    read(&field.attrs, errors, |meta| {
        if !meta.path.is_ident("rename") {
            return Err(
                meta.error(message!("unknown key: write `#[partial(rename = \"…\")]` with the field's name in JSON"))
            );
        }
        if name.is_some() {
            return Err(meta.error(message!("`rename` is given twice: write it once")));
        }
        let wrong = |place: Place| {
            place.error(message!("`rename` takes the field's name in JSON: write `rename = \"nodeName\"`"))
        };
        let value = meta.value().map_err(|_| wrong(Place::of(&meta.path)))?;
        let place = value.span();
        let written: LitStr = value.parse().map_err(|_| wrong(place.into()))?;
        if letters(&written.value()).next().is_none() {
            return Err(wrong(written.span().into()));
        }
        name = Some(written.value());
        Ok(())
    });
    let name = name.unwrap_or_else(|| ident.unraw().to_string());
    Some(PartialField { ident, ty: field.ty, name })
}

/// Returns `true` if there is no mistake in the keys.
fn read(
    attributes: &[Attribute],
    errors: &mut Errors,
    mut key: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>,
) -> bool {
    let mut is_read = true;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("partial")) {
        if let Err(error) = attribute.parse_nested_meta(&mut key) {
            errors.push(error);
            is_read = false;
        }
    }
    is_read
}
