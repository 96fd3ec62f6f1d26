//! IngressClasses.

use serde_json::{Value, json};

use super::row::{Row, plain};
use super::strategy::Strategy;

pub(super) struct IngressClass;

impl Strategy for IngressClass {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let parameters = row.at("/spec/parameters");
        let shown = if parameters.is_object() {
            let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", plain(&parameters["kind"]), plain(&parameters["name"]))
        } else {
            "<none>".to_owned()
        };
        let name = row.marked("ingressclass.kubernetes.io/is-default-class");
        Some(vec![name, json!(row.text("/spec/controller")), json!(shown), row.age()])
    }
}
