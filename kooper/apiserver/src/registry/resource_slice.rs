//! ResourceSlices.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let [node, driver, pool] = ["/spec/nodeName", "/spec/driver", "/spec/pool/name"].map(|at| json!(row.text(at)));
        Some(vec![row.name(), node, driver, pool, row.age()])
    }
}
