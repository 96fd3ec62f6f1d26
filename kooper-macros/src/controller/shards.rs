//! The settings of shards, which have their own table of keys.

use syn::token;

use crate::controller::election::{ELECTION, Leases};
use crate::controller::key::{Key, Table};
use crate::controller::setting::{LiteralOrConstant, Setting};
use crate::controller::value::{Value, numbers, words};
use crate::support::errors::message;
use crate::support::spanned::Spanned;

/// The most shards.
const MOST: u32 = 256;

/// The table of the settings.
pub(crate) const SHARDS: Table<Leases> = Table {
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

const SETTINGS: &[Key<Leases>] = &[
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
        doc: "The name of the Lease with the map; those of the replicas are named after it. Not allowed for a list of kinds, as each has its own Leases.",
        ..Key::of(ELECTION.keys, "lease")
    },
    Key { doc: "The namespace of the Leases.", ..Key::of(ELECTION.keys, "namespace") },
    Key {
        doc: "How long other replicas wait for one that does not renew its Lease.",
        ..Key::of(ELECTION.keys, "lease_duration")
    },
    Key {
        doc: "How long a replica tries to renew its Lease before it stops working, at most two thirds of `lease_duration`.",
        ..Key::of(ELECTION.keys, "renew_deadline")
    },
    Key::of(ELECTION.keys, "retry_period"),
];

/// A power of two.
fn count(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<u32>>> {
    let count = numbers::number_from_one(value, "u16")?;
    let Some(&number) = count.value.literal().filter(|number| !number.is_power_of_two() || **number > MOST) else {
        return Ok(count);
    };
    let near = if number > MOST { MOST } else { number.next_power_of_two() };
    let text = message!("the number of shards is a power of two, at most {MOST}: write `{near}`");
    Err(count.place.error(text))
}

/// The value of `shards`: their number, or settings in parentheses.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<Spanned<Leases>> {
    if !value.input.peek(token::Paren) {
        let count = count(value)?;
        let place = count.place;
        return Ok(value.spanned(Leases { count: Some(count), ..Leases::default() }, place));
    }
    let shards = Leases::parse(&SHARDS, value)?;
    if shards.value.count.is_none() {
        value.note(shards.place, message!("the number of shards is missing: write `shards(count = 32, …)`"));
    }
    if let Some((place, text)) = shards.value.mistake() {
        value.note(place.unwrap_or(shards.place), text);
    }
    Ok(shards)
}
