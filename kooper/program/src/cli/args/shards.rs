//! The flags of the command `shards`.

use kooper_sharding::Change;

use super::Subcommand;
use super::flags::{Flag, not_empty, set};

/// The settings of `shards`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShardsSettings {
    /// The only controller; `None` for all.
    pub(crate) controller: Option<String>,
    pub(crate) changes: Vec<Change>,
}

pub(super) static FLAGS: [Flag; 5] = [
    Flag {
        name: "controller",
        value: "NAME",
        help: "Controller whose shards are meant [default: all that have shards]",
        of: &[Subcommand::Shards],
        take: |settings, text| set(&mut settings.shards.controller, not_empty(text, "write the name of a controller")),
        ..Flag::DEFAULT
    },
    Flag {
        name: "move",
        value: "SHARD=REPLICA",
        help: "Shard that a replica should own, until --undo-move or the end of the replica; can be repeated",
        repeatable: true,
        of: &[Subcommand::Shards],
        take: |settings, text| {
            let advice = "write the number of a shard and the name of a replica, such as `3=shop-7d4b9c8f6d-x2x9z`";
            let (shard, replica) = text.split_once('=').filter(|(_, replica)| !replica.is_empty()).ok_or(advice)?;
            let shard = shard.parse().map_err(|_| advice)?;
            let is_moved = |change: &Change| matches!(change, Change::Move(moved, _) if *moved == shard);
            if settings.shards.changes.iter().any(is_moved) {
                return Err(format!("shard {shard} is moved twice: write the replica that should own it"));
            }
            settings.shards.changes.push(Change::Move(shard, replica.to_owned()));
            Ok(())
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "undo-move",
        value: "SHARD",
        help: "Shard that was moved, and may have any owner again; can be repeated",
        repeatable: true,
        of: &[Subcommand::Shards],
        take: |settings, text| {
            let shard = text.parse().map_err(|_| "write the number of a shard")?;
            settings.shards.changes.push(Change::UndoMove(shard));
            Ok(())
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "drain",
        value: "REPLICA",
        help: "Replica that should own no shards, until --undo-drain or its end; can be repeated",
        repeatable: true,
        of: &[Subcommand::Shards],
        take: |settings, text| {
            settings.shards.changes.push(Change::Drain(not_empty(text, "write the name of a replica")?));
            Ok(())
        },
        ..Flag::DEFAULT
    },
    Flag {
        name: "undo-drain",
        value: "REPLICA",
        help: "Replica that was drained, and may own shards again; can be repeated",
        repeatable: true,
        of: &[Subcommand::Shards],
        take: |settings, text| {
            settings.shards.changes.push(Change::UndoDrain(not_empty(text, "write the name of a replica")?));
            Ok(())
        },
        ..Flag::DEFAULT
    },
];
