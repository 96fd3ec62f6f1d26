//! CSIDrivers.

use serde_json::{Value, json};

use super::row::{Row, or_none, plain};
use super::strategy::Strategy;

pub(super) struct CsiDriver;

impl Strategy for CsiDriver {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let tokens = row.at("/spec/tokenRequests").as_array();
        let tokens = tokens.map_or_else(
            || "<unset>".to_owned(),
            |all| all.iter().map(|one| plain(&one["audience"])).collect::<Vec<_>>().join(","),
        );
        let modes: Vec<_> = row.items("/spec/volumeLifecycleModes").iter().map(plain).collect();
        Some(vec![
            row.name(),
            json!(row.at("/spec/attachRequired") != false),
            json!(row.flag("/spec/podInfoOnMount")),
            json!(row.flag("/spec/storageCapacity")),
            json!(tokens),
            json!(row.flag("/spec/requiresRepublish")),
            or_none(modes.join(",")),
            row.age(),
        ])
    }
}
