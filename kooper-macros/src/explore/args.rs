//! The arguments of `#[kooper::explore]`.

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, LitInt, LitStr, Path, Token, bracketed};

use crate::support::controllers::{self, quoted};
use crate::support::entries;
use crate::support::errors::{Errors, message};

/// The controllers that are explored, the states of an object, what is not compared, how many histories are run, their
/// seed, the program's own settings, and the path to kooper.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) controllers: Vec<Path>,
    pub(crate) states: Vec<Expr>,
    pub(crate) ignored: Vec<LitStr>,
    pub(crate) limit: Option<LitInt>,
    pub(crate) seed: Option<LitInt>,
    pub(crate) settings: Option<Expr>,
    pub(crate) krate: Option<Path>,
}

impl Args {
    /// Reads the attribute's tokens. What cannot be read is noted and passed over.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let mut broken = false;
        let read = |input: ParseStream<'_>| {
            let mut notes = Errors::new();
            let mut keys = Vec::new();
            let entries = entries::read(input, &mut notes, unfinished, |input| {
                entries::once(input, &mut keys)?;
                entry(&mut args, input)
            });
            if let Err(noted) = notes.check() {
                broken = true;
                noted.into_iter().for_each(|error| errors.push(error));
            }
            args.controllers = controllers::unique(entries, "explored", errors);
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            errors.push(error);
        } else if args.controllers.is_empty() && !broken {
            errors.add(
                Span::call_site(),
                message!("an exploration needs a controller: write its function, as in `#[kooper::explore(shops)]`"),
            );
        }
        args
    }
}

fn unfinished(place: Span) -> syn::Error {
    syn::Error::new(
        place,
        message!(
            "an exploration takes the names of controllers and then its keys, with commas between them: write `#[kooper::explore(shops, states = [small(), large()])]`"
        ),
    )
}

/// Reads a controller, or a key whose value is stored.
fn entry(args: &mut Args, input: ParseStream<'_>) -> syn::Result<Option<Path>> {
    if let Some((place, name)) = quoted(input)? {
        return Err(syn::Error::new(
            place,
            message!("an explored controller is named by its function: write `{name}`"),
        ));
    }
    if let Some(key) = entries::key(input) {
        input.call(Ident::parse_any)?;
        input.parse::<Token![=]>()?;
        return value(args, &key, input).map(|()| None);
    }
    let place = input.span();
    input.call(Path::parse_mod_style).map(Some).map_err(|_| unfinished(place))
}

/// Reads and stores the value of a key.
fn value(args: &mut Args, key: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    let place = input.span();
    let wrong = |message| move |_| syn::Error::new(place, message);
    match key.to_string().as_str() {
        "states" => {
            args.states = list::<Expr>(input)
                .map_err(wrong(message!("`states` takes a list of objects: write `states = [small(), large()]`")))?;
        }
        "ignore" => {
            args.ignored = list::<LitStr>(input)
                .map_err(wrong(message!("`ignore` takes a list of fields: write `ignore = [\"status.lastRun\"]`")))?;
        }
        "limit" => {
            let limit = input
                .parse::<LitInt>()
                .and_then(|limit| if limit.base10_parse::<usize>()? > 0 { Ok(limit) } else { Err(input.error("")) })
                .map_err(wrong(message!("`limit` takes a number of at least 1: write `limit = 200`")))?;
            args.limit = Some(limit);
        }
        "seed" => {
            let seed = input
                .parse::<LitInt>()
                .and_then(|seed| seed.base10_parse::<u64>().map(|_| seed))
                .map_err(wrong(message!("`seed` takes a number from 0 to 2^64 - 1: write `seed = 1`")))?;
            args.seed = Some(seed);
        }
        "settings" => {
            let settings = input.parse::<Expr>().map_err(wrong(message!(
                "`settings` of an exploration takes a value: write `settings = ShopSettings {{ .. }}`"
            )))?;
            args.settings = Some(settings);
        }
        "crate" => {
            let path = input.call(Path::parse_mod_style).map_err(wrong(message!(
                "`crate` of an exploration takes a path: write `crate = my_platform::kooper`"
            )))?;
            args.krate = Some(path);
        }
        _ => {
            return Err(syn::Error::new(
                key.span(),
                message!(
                    "unknown key `{key}` of an exploration: expected one of `states`, `ignore`, `limit`, `seed`, `settings`, `crate`"
                ),
            ));
        }
    }
    Ok(())
}

/// A list in brackets that is not empty.
fn list<T: syn::parse::Parse>(input: ParseStream<'_>) -> syn::Result<Vec<T>> {
    let content;
    bracketed!(content in input);
    let items = Punctuated::<T, Token![,]>::parse_terminated(&content)?;
    if items.is_empty() { Err(input.error("it is empty")) } else { Ok(items.into_iter().collect()) }
}
