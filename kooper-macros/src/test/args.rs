//! The arguments of `#[kooper::test]`.

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, LitBool, Path, Token};

use crate::support::controllers::{self, quoted};
use crate::support::entries;
use crate::support::errors::{Errors, message};

/// The controllers that run during the test, their settings, whether its clock is paused, and the path to kooper.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) controllers: Vec<Path>,
    /// The key, where its value is `true`.
    pub(crate) start_paused: Option<Ident>,
    pub(crate) krate: Option<Path>,
    /// The program's own settings.
    pub(crate) settings: Option<Expr>,
}

impl Args {
    /// Reads the attribute's tokens. What cannot be read is noted and passed over.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let read = |input: ParseStream<'_>| {
            let mut keys = Vec::new();
            let entries = entries::read(input, errors, unfinished, |input| {
                entries::once(input, &mut keys)?;
                entry(&mut args, input)
            });
            args.controllers = controllers::unique(entries, "listed", errors);
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            errors.push(error);
        }
        args
    }
}

fn unfinished(place: Span) -> syn::Error {
    syn::Error::new(
        place,
        message!(
            "a test takes the names of controllers, with commas between them: write `#[kooper::test(shops, orders)]`"
        ),
    )
}

fn not_a_boolean(place: Span) -> syn::Error {
    syn::Error::new(place, message!("`start_paused` is `true` or `false`: write `start_paused = true`"))
}

/// Reads a controller, or a key whose value is stored.
fn entry(args: &mut Args, input: ParseStream<'_>) -> syn::Result<Option<Path>> {
    if let Some((place, name)) = quoted(input)? {
        return Err(syn::Error::new(place, message!("a controller is named by its function: write `{name}`")));
    }
    if let Some(key) = entries::key(input) {
        if key != "crate" && key != "start_paused" && key != "settings" {
            return Err(syn::Error::new(
                key.span(),
                message!(
                    "unknown key `{key}` of a test: expected one of `start_paused`, `settings`, `crate`; controllers are listed by their names, as in `#[kooper::test(shops)]`"
                ),
            ));
        }
        let key = input.call(Ident::parse_any)?;
        input.parse::<Token![=]>()?;
        let place = input.span();
        if key == "start_paused" {
            let paused = input.parse::<LitBool>().map_err(|_| not_a_boolean(place))?;
            args.start_paused = paused.value.then_some(key);
        } else if key == "settings" {
            let settings = input.parse::<Expr>().map_err(|_| {
                syn::Error::new(place, message!("`settings` takes a value: write `settings = ShopSettings {{ .. }}`"))
            })?;
            args.settings = Some(settings);
        } else {
            let path = input.call(Path::parse_mod_style).map_err(|_| {
                syn::Error::new(place, message!("`crate` takes a path: write `crate = my_platform::kooper`"))
            })?;
            args.krate = Some(path);
        }
        return Ok(None);
    }
    let place = input.span();
    let path = input.call(Path::parse_mod_style).map_err(|_| unfinished(place))?;
    // The other keys may be the names of controllers.
    if path.is_ident("start_paused") { Err(not_a_boolean(place)) } else { Ok(Some(path)) }
}
