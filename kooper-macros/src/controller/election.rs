//! The settings of a leader election, which have their own table of keys.

use std::time::Duration;

use kooper_grammar::lease::{self, Timing, TimingError};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{parenthesized, token};

use crate::controller::key::{Key, Table};
use crate::controller::setting::{Emit, Given, Setting, call};
use crate::controller::value::{Value, strings, words};
use crate::support::crate_path::CratePath;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// The settings in the parentheses of `leader_election(…)`.
#[derive(Default)]
pub(crate) struct Election {
    pub(crate) settings: Vec<Setting>,
    /// The place of the Lease's name.
    pub(crate) lease: Option<Span>,
    timings: Timings,
}

/// The timings of Leases, as far as they were written.
#[derive(Default)]
pub(crate) struct Timings {
    pub(crate) lease_duration: Option<Spanned<Given<Duration>>>,
    pub(crate) renew_deadline: Option<Spanned<Given<Duration>>>,
    pub(crate) retry_period: Option<Spanned<Given<Duration>>>,
}

/// The table of the settings.
pub(crate) const ELECTION: Table<Election> = Table {
    noun: "`leader_election` setting",
    example: "lease_duration = \"30s\"",
    keys: SETTINGS,
    others: &[
        ("lease", "name lease_name id"),
        ("namespace", "lease_namespace"),
        ("lease_duration", "duration ttl"),
        ("renew_deadline", "renew"),
    ],
};

/// Parses a duration that is compared with the others.
macro_rules! timing {
    ($field:ident) => {
        |keys, value| {
            let timing = $crate::controller::value::numbers::duration_or_constant(value)?;
            keys.timings.$field = Some(timing.clone());
            keys.settings.push($crate::controller::setting::Setting::new(stringify!($field), timing));
            Ok(())
        }
    };
}
pub(crate) use timing;

const SETTINGS: &[Key<Election>] = &[
    Key {
        name: "lease",
        form: "a name",
        example: "lease = \"echo\"",
        default: "`<program>-<name>`",
        doc: "The name of the Lease. Not allowed for a list of kinds, as each has its own Lease.",
        read: |election, value| {
            let lease = strings::subdomain(value)?;
            election.lease = Some(lease.value.span());
            election.settings.push(Setting::new("lease", lease));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "namespace",
        form: "a name",
        example: "namespace = \"shop\"",
        default: "that of the pod",
        doc: "The namespace of the Lease.",
        read: call!(namespace, strings::label),
        ..Key::EQUALS
    },
    Key {
        name: "lease_duration",
        form: "a duration",
        example: "lease_duration = \"15s\"",
        default: "`\"15s\"`",
        doc: "How long standbys wait for a leader that does not renew the Lease.",
        read: timing!(lease_duration),
        ..Key::EQUALS
    },
    Key {
        name: "renew_deadline",
        form: "a duration",
        example: "renew_deadline = \"10s\"",
        default: "`\"10s\"`",
        doc: "How long the leader tries to renew the Lease before it stops leading, at most two thirds of `lease_duration`.",
        read: timing!(renew_deadline),
        ..Key::EQUALS
    },
    Key {
        name: "retry_period",
        form: "a duration",
        example: "retry_period = \"2s\"",
        default: "`\"2s\"`",
        doc: "The time between two attempts. `renew_deadline` is more than 1.2 times this.",
        read: timing!(retry_period),
        ..Key::EQUALS
    },
];

impl Timings {
    /// The error in the timings, defaults included, and its place if one of the compared timings
    /// was written. Constants are compared when the controller is built.
    pub(crate) fn mistake(&self) -> Option<(Option<Place>, String)> {
        let Self { lease_duration, renew_deadline, retry_period } = self;
        let value = |timing: &Option<Spanned<Given<Duration>>>, default| match timing {
            Some(given) => given.value.literal().copied(),
            None => Some(default),
        };
        let lease = value(lease_duration, lease::LEASE_DURATION)?;
        let renew = value(renew_deadline, lease::RENEW_DEADLINE)?;
        let retry = value(retry_period, lease::RETRY_PERIOD)?;
        let error = lease::check(lease, renew, retry).err()?;
        let compared = match &error {
            TimingError::RenewTooLong { .. } => [renew_deadline, lease_duration],
            TimingError::RetryTooLong { .. } => [renew_deadline, retry_period],
            TimingError::TooShort { timing: Timing::LeaseDuration, .. } => [lease_duration, &None],
            TimingError::TooShort { timing: Timing::RenewDeadline, .. } => [renew_deadline, &None],
            _ => [retry_period, &None],
        };
        let place = compared.into_iter().flatten().next().map(|given| given.place);
        Some((place, error.to_string()))
    }
}

impl Emit for Election {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let calls = self.settings.iter().map(|setting| setting.call(runtime));
        quote!(#runtime::LeaderElection::new() #(#calls)*)
    }
}

/// The value of `leader_election`: nothing, or settings in parentheses.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<Spanned<Election>> {
    if !value.input.peek(token::Paren) {
        return words::flag(value).map(|flag| flag.map(|()| Election::default()));
    }
    let content;
    let parentheses = parenthesized!(content in value.input);
    let span = parentheses.span.join();
    if content.is_empty() {
        return Err(value.wrong(span));
    }
    let election = ELECTION.parse(&content)?;
    if let Some((place, text)) = election.timings.mistake() {
        value.note(place.unwrap_or_else(|| span.into()), text);
    }
    Ok(value.spanned(election, span))
}

#[cfg(test)]
mod tests {
    use syn::parse::{ParseStream, Parser};

    use super::*;

    #[test]
    fn every_example_is_read() {
        for key in ELECTION.keys {
            let read = |input: ParseStream<'_>| ELECTION.parse(input);
            let election = read.parse_str(key.example).expect(key.example);
            assert_eq!(election.settings.len(), 1);
        }
        ELECTION.check();
    }
}
