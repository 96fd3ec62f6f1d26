//! Leases.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;

pub(super) struct Lease;

impl Strategy for Lease {
    fn validate(&self, object: &FieldValue<'_>, _: Write<'_>) {
        let spec = object.field("spec");
        if spec.field("leaseDurationSeconds").number().is_some_and(|seconds| seconds <= 0) {
            spec.field("leaseDurationSeconds").invalid("must be greater than 0");
        }
        spec.field("leaseTransitions").not_negative();
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.text("/spec/holderIdentity")), row.age()])
    }
}
