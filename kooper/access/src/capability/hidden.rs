//! Children that a narrow cache would not have.

use kooper_grammar::selector::{Comparator, Requirement};
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::watch::selected::{Selected, SelectorMismatch};
use kooper_runtime::object::Object;
use serde_json::{Value, json};

use super::error::AccessError;
use super::owner::Parent;
use super::patch::PatchBody;
use super::request::{Operation, ResourceClient};

impl ResourceClient<'_> {
    /// Returns the selections of the children's caches; empty if one of them has
    /// all objects.
    fn narrow(&self) -> Vec<&'static Selected> {
        let caches = self.controller.caches.of_kind(&self.kind);
        let children = caches.filter(|(id, _)| self.children.caches.contains(id));
        let selected: Option<Vec<_>> = children.map(|(id, _)| id.selected.filter(|one| one.hides())).collect();
        selected.unwrap_or_default()
    }

    /// Returns whether a child may exist that is in none of the children's caches.
    pub(super) fn may_be_hidden(&self) -> bool {
        self.children.are_shared || !self.narrow().is_empty()
    }

    /// Rejects a child that no cache of children would have: its changes would not
    /// call the handler.
    pub(super) fn check_shown(&self, key: &ObjectKey, body: &Value) -> Result<(), AccessError> {
        let mut first = None;
        for selected in self.narrow() {
            match selected.first_miss(body, false) {
                Some(miss) => first = first.or(Some((selected, miss))),
                None => return Ok(()),
            }
        }
        first.map_or(Ok(()), |(selected, miss)| Err(self.hidden(key, selected, &miss, "it was not applied")))
    }

    /// Removes labels that other clients have set, and that hide an applied child
    /// from the caches of children. A child that stays hidden is an error.
    pub(super) async fn restore_selected_labels(
        &self,
        parent: &Parent,
        key: &ObjectKey,
        body: &Value,
        applied: Option<Object>,
    ) -> Result<Option<Object>, AccessError> {
        let narrow = self.narrow();
        // Of several selections, the one that the child was applied for.
        let selected = narrow.iter().find(|selected| selected.first_miss(body, false).is_none());
        let (Some(mut object), Some(selected)) = (applied.as_ref(), selected) else { return Ok(applied) };
        if narrow.iter().any(|selected| selected.selects(object)) {
            return Ok(applied);
        }
        let value: Value = object.decode()?;
        let set = |label: &&Requirement| body["metadata"]["labels"].get(label.key()).is_some();
        let live = |label: &Requirement| value["metadata"]["labels"].get(label.key()).and_then(Value::as_str);
        let foreign: Vec<_> = selected
            .labels
            .requirements()
            .iter()
            .filter(|label| !label.matches(live(label)) && !set(label))
            .map(Requirement::key)
            .collect();
        let mut revealed = None;
        if !foreign.is_empty() {
            let labels: Value =
                foreign.iter().map(|key| ((*key).to_owned(), Value::Null)).collect::<serde_json::Map<_, _>>().into();
            let patch = PatchBody::merge(json!({"metadata": {"labels": labels}})).of_uid(object.uid());
            revealed = self.send(key, Operation::Patch(patch, self.repair_manager())).await?;
            let (kind, labels) = (&self.kind.kind, foreign.join("`, `"));
            let text = format!(
                "the label `{labels}` of {kind} `{key}` was set by another client and has been removed: with it `owns` does \
                 not select the object"
            );
            self.report(parent, revealed.as_ref(), "ForeignEntryRemoved", text);
            if let Some(revealed) = &revealed {
                object = revealed;
            }
        }
        if !narrow.iter().any(|selected| selected.selects(object)) {
            let value: Value = object.decode()?;
            if let Some(miss) = selected.first_miss(&value, true) {
                return Err(self.hidden(
                    key,
                    selected,
                    &miss,
                    "it was applied, but its changes do not trigger the handler",
                ));
            }
        }
        Ok(revealed.or(applied))
    }

    /// The error for a child that is not selected; `done` is what was written.
    fn hidden(&self, key: &ObjectKey, selected: &Selected, miss: &SelectorMismatch<'_>, done: &str) -> AccessError {
        let (kind, advice) = (&self.kind.kind, advice(miss));
        AccessError::wrong(format!("{kind} `{key}` is not selected by `owns` ({selected}): {advice}; {done}"))
    }
}

/// Advice on how to change a child so that it is selected.
fn advice(miss: &SelectorMismatch<'_>) -> String {
    match miss {
        SelectorMismatch::Label(label, found) => {
            let key = label.key();
            let found = found
                .map_or_else(|| format!("it has no label `{key}`"), |found| format!("its label `{key}` is `{found}`"));
            format!("{found}: {}", remedy(label))
        }
        SelectorMismatch::Field(field, true, wanted) => format!("set `{field}` to `{wanted}`"),
        SelectorMismatch::Field(field, false, wanted) => format!("set `{field}` to another value than `{wanted}`"),
        SelectorMismatch::Name => "give it one of these names".to_owned(),
    }
}

fn remedy(label: &Requirement) -> String {
    let (key, values) = (label.key(), label.values());
    let all = values.join("`, `");
    match (label.operator(), values.len()) {
        (Comparator::In, 1) => format!("set the label `{key}` to `{all}`"),
        (Comparator::In, _) => format!("set the label `{key}` to one of `{all}`"),
        (Comparator::NotIn, _) => format!("remove the label `{key}`, or set it to another value than `{all}`"),
        (Comparator::Exists, _) => format!("set the label `{key}`"),
        (Comparator::DoesNotExist, _) => format!("remove the label `{key}`"),
        (Comparator::GreaterThan, _) => format!("set the label `{key}` to a number above `{all}`"),
        (Comparator::LessThan, _) => format!("set the label `{key}` to a number below `{all}`"),
    }
}
