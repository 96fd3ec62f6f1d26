//! The settings of a leader election, which have their own table of keys. Shards share those of Leases.

use std::time::Duration;

use kooper_grammar::lease::{self, Timing, TimingError};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{parenthesized, token};

use crate::controller::key::{Key, Table};
use crate::controller::setting::{Emit, LiteralOrConstant, Setting, call};
use crate::controller::value::{Value, numbers, strings, words};
use crate::support::crate_path::CratePath;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// The settings in the parentheses of `leader_election(…)`, or of `shards(…)`.
#[derive(Default)]
pub(crate) struct Leases {
    pub(crate) settings: Vec<Setting>,
    /// The place of the Lease's name.
    pub(crate) lease: Option<Span>,
    pub(crate) lease_duration: Option<Spanned<LiteralOrConstant<Duration>>>,
    pub(crate) renew_deadline: Option<Spanned<LiteralOrConstant<Duration>>>,
    pub(crate) retry_period: Option<Spanned<LiteralOrConstant<Duration>>>,
    /// The number of shards; none for a leader election.
    pub(crate) count: Option<Spanned<LiteralOrConstant<u32>>>,
    /// The shards of objects follow from their namespaces.
    pub(crate) by_namespace: bool,
}

/// The table of the settings.
pub(crate) const ELECTION: Table<Leases> = Table {
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
        |leases, value| {
            let timing = numbers::duration_or_constant(value)?;
            leases.$field = Some(timing.clone());
            leases.settings.push(Setting::new(stringify!($field), timing));
            Ok(())
        }
    };
}

const SETTINGS: &[Key<Leases>] = &[
    Key {
        name: "lease",
        form: "a name",
        example: "lease = \"echo\"",
        default: "`<program>-<name>`",
        doc: "The name of the Lease. Not allowed for a list of kinds, as each has its own Lease.",
        read: |leases, value| {
            let lease = strings::subdomain(value)?;
            leases.lease = Some(lease.value.span());
            leases.settings.push(Setting::new("lease", lease));
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

impl Leases {
    /// Parses settings in parentheses, of which there is at least one.
    pub(crate) fn parse(table: &Table<Self>, value: &Value<'_>) -> syn::Result<Spanned<Self>> {
        let content;
        let parentheses = parenthesized!(content in value.input);
        let span = parentheses.span.join();
        if content.is_empty() {
            return Err(value.wrong(span));
        }
        Ok(value.spanned(table.parse(&content)?, span))
    }

    /// The error in the timings, defaults included, and its place if one of the compared timings
    /// was written. Constants are compared when the controller is built.
    pub(crate) fn mistake(&self) -> Option<(Option<Place>, String)> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = self;
        let value = |timing: &Option<Spanned<LiteralOrConstant<Duration>>>, default| match timing {
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

impl Emit for Leases {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let calls = self.settings.iter().map(|setting| setting.call(runtime));
        match self.count.as_ref().map(|count| count.value.arguments(runtime)) {
            Some(count) => quote!(#runtime::Shards::new(#count) #(#calls)*),
            None => quote!(#runtime::LeaderElection::new() #(#calls)*),
        }
    }
}

/// The value of `leader_election`: nothing, or settings in parentheses.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<Spanned<Leases>> {
    if !value.input.peek(token::Paren) {
        return words::flag(value).map(|flag| flag.map(|()| Leases::default()));
    }
    let election = Leases::parse(&ELECTION, value)?;
    if let Some((place, text)) = election.value.mistake() {
        value.note(place.unwrap_or(election.place), text);
    }
    Ok(election)
}
