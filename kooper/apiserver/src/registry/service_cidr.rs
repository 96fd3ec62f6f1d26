//! ServiceCIDRs.

use serde_json::{Value, json};

use super::row::{Row, plain};
use super::strategy::Strategy;

pub(super) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let ranges: Vec<_> = row.items("/spec/cidrs").iter().map(plain).collect();
        Some(vec![row.name(), json!(ranges.join(",")), row.age()])
    }
}
