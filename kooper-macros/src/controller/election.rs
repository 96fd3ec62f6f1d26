//! The settings of a leader election, each a key of its own.

use std::time::Duration;

use kooper_grammar::{duration, lease, name};
use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{LitStr, Token};

use crate::controller::args::skip_entry;
use crate::controller::value::checked;
use crate::support::errors::{Errors, say};
use crate::support::spanned::Spanned;
use crate::support::suggest;

/// What stands in the parentheses of `leader_election(…)`.
#[derive(Default)]
pub(crate) struct Election {
    pub(crate) lease: Option<LitStr>,
    pub(crate) namespace: Option<LitStr>,
    pub(crate) lease_duration: Option<(Duration, Span)>,
    pub(crate) renew_deadline: Option<(Duration, Span)>,
    pub(crate) retry_period: Option<(Duration, Span)>,
}

/// The settings, each with one that is right.
const SETTINGS: [(&str, &str); 5] = [
    ("lease", "\"echo\""),
    ("namespace", "\"shop\""),
    ("lease_duration", "\"15s\""),
    ("renew_deadline", "\"10s\""),
    ("retry_period", "\"2s\""),
];

/// Words that other tools use for them.
const OTHERS: [(&str, &str); 7] = [
    ("name", "lease"),
    ("lease_name", "lease"),
    ("id", "lease"),
    ("lease_namespace", "namespace"),
    ("duration", "lease_duration"),
    ("ttl", "lease_duration"),
    ("renew", "renew_deadline"),
];

impl Election {
    /// Reads the settings; all that are wrong are said together.
    pub(crate) fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut election = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        let mut wrong: Option<syn::Error> = None;
        while !input.is_empty() {
            if let Err(error) = election.setting(input, &mut seen) {
                skip_entry(input);
                match &mut wrong {
                    Some(wrong) => wrong.combine(error),
                    None => wrong = Some(error),
                }
            }
            let _: Option<Token![,]> = input.parse()?;
        }
        wrong.map_or(Ok(election), Err)
    }

    fn setting(&mut self, input: ParseStream<'_>, seen: &mut Vec<&'static str>) -> syn::Result<()> {
        let ident = input.call(Ident::parse_any).map_err(|error| {
            syn::Error::new(error.span(), say!("a setting belongs here: write it such as `lease_duration = \"30s\"`"))
        })?;
        let word = ident.to_string();
        let Some(&(name, example)) = SETTINGS.iter().find(|(name, _)| *name == word) else {
            let known = SETTINGS.map(|(name, _)| name);
            let meant = suggest::meant(&word, &known, &OTHERS);
            return Err(syn::Error::new(
                ident.span(),
                suggest::unknown("`leader_election` setting", &word, meant, &known),
            ));
        };
        if seen.contains(&name) {
            return Err(syn::Error::new(ident.span(), say!("`{name}` is given twice: write it once")));
        }
        seen.push(name);
        let form = if name == "lease" || name == "namespace" { "a name" } else { "a duration" };
        let wrong = |span: Span| syn::Error::new(span, say!("`{name}` takes {form}: write `{name} = {example}`"));
        let _: Token![=] = input.parse().map_err(|_| wrong(ident.span()))?;
        let span = input.span();
        let text: LitStr = input.parse().map_err(|_| wrong(span))?;
        if !(input.is_empty() || input.peek(Token![,])) {
            return Err(wrong(input.span()));
        }
        match name {
            "lease" => {
                checked(&text, name::subdomain)?;
                self.lease = Some(text);
            }
            "namespace" => {
                checked(&text, name::label)?;
                self.namespace = Some(text);
            }
            timing => {
                let value = Some((checked(&text, duration::parse)?, text.span()));
                match timing {
                    "lease_duration" => self.lease_duration = value,
                    "renew_deadline" => self.renew_deadline = value,
                    _ => self.retry_period = value,
                }
            }
        }
        Ok(())
    }
}

/// Checks that the timings can hold, those that are left out too.
pub(crate) fn check(election: &Spanned<Election>, errors: &mut Errors) {
    let Election { lease_duration, renew_deadline, retry_period, .. } = &election.value;
    let value = |timing: &Option<(Duration, Span)>, default| timing.map_or(default, |(value, _)| value);
    let lease = value(lease_duration, lease::LEASE_DURATION);
    let renew = value(renew_deadline, lease::RENEW_DEADLINE);
    let retry = value(retry_period, lease::RETRY_PERIOD);
    if let Err(error) = lease::check(lease, renew, retry) {
        // Where the first of those stands that are compared, and were written.
        let compared = match &error {
            lease::LeaseError::RenewTooLong { .. } => [renew_deadline, lease_duration],
            lease::LeaseError::RetryTooLong { .. } => [renew_deadline, retry_period],
            lease::LeaseError::TooShort { timing: lease::Timing::LeaseDuration, .. } => [lease_duration, &None],
            lease::LeaseError::TooShort { timing: lease::Timing::RenewDeadline, .. } => [renew_deadline, &None],
            _ => [retry_period, &None],
        };
        let place = compared.into_iter().flatten().next().map_or(election.place, |(_, span)| (*span).into());
        errors.add(place, error.to_string());
    }
}
