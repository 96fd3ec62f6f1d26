//! The settings of shards, which have their own table of keys.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{parenthesized, token};

use crate::controller::election::{Timings, timing};
use crate::controller::key::{Key, Table};
use crate::controller::setting::{Emit, Given, Setting, call};
use crate::controller::value::{Value, numbers, strings, words};
use crate::support::crate_path::CratePath;
use crate::support::errors::message;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// The most shards.
const MOST: u32 = 256;

/// The value of `shards`: their number, or settings in parentheses.
#[derive(Default)]
pub(crate) struct Shards {
    settings: Vec<Setting>,
    count: Option<Spanned<Given<u32>>>,
    by_namespace: bool,
    /// The place of the Lease's name.
    lease: Option<Span>,
    timings: Timings,
}

/// The call of the builder for the value of `shards`, and what is compared with other keys.
pub(crate) struct Read {
    pub(crate) setting: Setting,
    /// The shards of objects follow from their namespaces.
    pub(crate) by_namespace: bool,
    pub(crate) lease: Option<Span>,
}

/// The table of the settings.
pub(crate) const SHARDS: Table<Shards> = Table {
    noun: "`shards` setting",
    example: "count = 32",
    keys: SETTINGS,
    others: &[
        ("count", "shards number"),
        ("members", "replicas"),
        ("by", "key field"),
        ("lease", "lease_name name"),
        ("namespace", "lease_namespace"),
        ("lease_duration", "duration ttl"),
        ("renew_deadline", "renew"),
    ],
};

const SETTINGS: &[Key<Shards>] = &[
    Key {
        name: "count",
        form: "a power of two, at most 256",
        example: "count = 32",
        default: "required",
        doc: "The number of shards, best eight for each replica. It can be raised later. With one shard, one replica works and the others stand by.",
        read: |shards, value| {
            shards.count = Some(count(value)?);
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "by",
        form: "`uid` or `namespace`",
        example: "by = namespace",
        default: "`uid`",
        doc: "What decides the shard of an object. With `namespace`, all objects of a namespace are in the same shard.",
        read: |shards, value| {
            shards.by_namespace = words::uid_or_namespace(value)?;
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "members",
        form: "a number from 2 to 64",
        example: "members = 16",
        default: "`8`",
        doc: "The most replicas that work at the same time, including those that a rolling update adds, from 2 to 64. Each has its own Lease.",
        read: |shards, value| {
            let members = numbers::number_from_one(value, "u8")?;
            if members.value.literal().is_some_and(|members| !(2..=64).contains(members)) {
                return Err(value.wrong(members.place));
            }
            shards.settings.push(Setting::new("members", members));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "lease",
        form: "a name",
        example: "lease = \"echo\"",
        default: "`<program>-<name>`",
        doc: "The name of the Lease with the map; those of the replicas are named after it. Not allowed for a list of kinds, as each has its own Leases.",
        read: |shards, value| {
            let lease = strings::subdomain(value)?;
            shards.lease = Some(lease.value.span());
            shards.settings.push(Setting::new("lease", lease));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "namespace",
        form: "a name",
        example: "namespace = \"shop\"",
        default: "that of the pod",
        doc: "The namespace of the Leases.",
        read: call!(namespace, strings::label),
        ..Key::EQUALS
    },
    Key {
        name: "lease_duration",
        form: "a duration",
        example: "lease_duration = \"15s\"",
        default: "`\"15s\"`",
        doc: "How long other replicas wait for one that does not renew its Lease.",
        read: timing!(lease_duration),
        ..Key::EQUALS
    },
    Key {
        name: "renew_deadline",
        form: "a duration",
        example: "renew_deadline = \"10s\"",
        default: "`\"10s\"`",
        doc: "How long a replica tries to renew its Lease before it stops working, at most two thirds of `lease_duration`.",
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

/// A power of two.
fn count(value: &Value<'_>) -> syn::Result<Spanned<Given<u32>>> {
    let count = numbers::number_from_one(value, "u16")?;
    let Some(&number) = count.value.literal().filter(|number| !number.is_power_of_two() || **number > MOST) else {
        return Ok(count);
    };
    let near = if number > MOST { MOST } else { number.next_power_of_two() };
    let text = message!("the number of shards is a power of two, at most {MOST}: write `{near}`");
    Err(count.place.error(text))
}

impl Emit for Shards {
    fn arguments(&self, runtime: &CratePath) -> TokenStream {
        let count = self.count.as_ref().map(|count| count.value.arguments(runtime));
        let calls = self.settings.iter().map(|setting| setting.call(runtime));
        quote!(#runtime::Shards::new(#count) #(#calls)*)
    }
}

/// Reads the value of `shards`.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<Read> {
    if !value.input.peek(token::Paren) {
        let count = count(value)?;
        let place = count.place;
        let shards = Shards { count: Some(count), ..Shards::default() };
        let setting = Setting::new("shards", value.spanned(shards, place));
        return Ok(Read { setting, by_namespace: false, lease: None });
    }
    let content;
    let parentheses = parenthesized!(content in value.input);
    let span = parentheses.span.join();
    if content.is_empty() {
        return Err(value.wrong(span));
    }
    let shards = SHARDS.parse(&content)?;
    if shards.count.is_none() {
        value.note(span, message!("the number of shards is missing: write `shards(count = 32, …)`"));
    }
    if let Some((place, text)) = shards.timings.mistake() {
        value.note(place.unwrap_or_else(|| Place::from(span)), text);
    }
    let (by_namespace, lease) = (shards.by_namespace, shards.lease);
    let method = if by_namespace { "shards_by_namespace" } else { "shards" };
    Ok(Read { setting: Setting::new(method, value.spanned(shards, span)), by_namespace, lease })
}

#[cfg(test)]
mod tests {
    use syn::parse::{ParseStream, Parser};

    use super::*;

    #[test]
    fn every_example_is_read() {
        for key in SHARDS.keys {
            let read = |input: ParseStream<'_>| SHARDS.parse(input);
            read.parse_str(key.example).map(drop).expect(key.example);
        }
        SHARDS.check();
    }
}
