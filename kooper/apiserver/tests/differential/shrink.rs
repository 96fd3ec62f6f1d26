//! A history that shows a difference is made as short as it can be.

use serde_json::Value;

use crate::case::Case;

/// Maximum number of shorter histories that are tried.
const MOST_TRIES: usize = 150;

/// The shortest history found that still differs, by removing requests and then fields of bodies.
///
/// `differing` is the id of the request whose answers differ.
pub(crate) async fn shrink(case: Case, differing: usize, differs: impl AsyncFn(&Case) -> bool) -> Case {
    let mut shrinking = Shrinking { best: case, tries: 0, differs };
    shrinking.remove_watches(differing).await;
    shrinking.remove_later(differing).await;
    shrinking.remove_steps().await;
    shrinking.remove_fields().await;
    shrinking.best
}

struct Shrinking<F> {
    best: Case,
    tries: usize,
    differs: F,
}

impl<F: AsyncFn(&Case) -> bool> Shrinking<F> {
    /// Tries a history, and keeps it if it differs.
    async fn attempt(&mut self, mut case: Case) -> bool {
        if self.tries >= MOST_TRIES {
            return false;
        }
        self.tries += 1;
        let name = case.name.clone();
        // A namespace of its own for each try.
        case.name = format!("{name}-{}", self.tries);
        let differs = (self.differs)(&case).await;
        case.name = name;
        if differs {
            self.best = case;
        }
        differs
    }

    /// Other watches, for whose events each try would wait.
    async fn remove_watches(&mut self, differing: usize) {
        let mut case = self.best.clone();
        case.steps.retain(|step| !step.is_watch() || step.id == differing);
        self.attempt(case).await;
    }

    /// Removes the requests after the one whose answers differ. A stream may need them.
    async fn remove_later(&mut self, differing: usize) {
        let mut case = self.best.clone();
        case.steps.retain(|step| step.id <= differing);
        self.attempt(case).await;
    }

    async fn remove_steps(&mut self) {
        let mut size = self.best.steps.len() / 2;
        while size > 0 {
            // From the end: later requests depend on earlier ones.
            let mut end = self.best.steps.len();
            while end > 1 {
                let start = end.saturating_sub(size).max(1);
                let shorter = without(&self.best, start..end);
                if shorter.steps.len() < self.best.steps.len() {
                    self.attempt(shorter).await;
                }
                end = start.min(self.best.steps.len());
            }
            size /= 2;
        }
    }

    async fn remove_fields(&mut self) {
        let mut at = 1;
        while at < self.best.steps.len() {
            let mut field = 0;
            while let Some(body) = without_field(&self.best.steps[at].body, field) {
                let mut case = self.best.clone();
                case.steps[at].body = body;
                if !self.attempt(case).await {
                    field += 1;
                }
            }
            at += 1;
        }
    }
}

/// A history without some requests and those that refer to them.
fn without(case: &Case, range: std::ops::Range<usize>) -> Case {
    let mut removed: Vec<_> = case.steps[range].iter().map(|step| step.id).collect();
    let mut steps = Vec::new();
    for step in &case.steps {
        if removed.contains(&step.id) || step.references().iter().any(|id| removed.contains(id)) {
            removed.push(step.id);
        } else {
            steps.push(step.clone());
        }
    }
    Case { name: case.name.clone(), steps }
}

/// A body without one of its fields or items, counted from the outside in.
fn without_field(body: &str, mut at: usize) -> Option<String> {
    let mut body: Value = serde_json::from_str(body).ok()?;
    remove(&mut body, &mut at).then(|| body.to_string())
}

fn remove(value: &mut Value, at: &mut usize) -> bool {
    match value {
        Value::Object(entries) => {
            if let Some(key) = entries.keys().nth(*at).cloned() {
                entries.remove(&key);
                return true;
            }
            *at -= entries.len();
            entries.values_mut().any(|value| remove(value, at))
        }
        Value::Array(items) => {
            if *at < items.len() {
                items.remove(*at);
                return true;
            }
            *at -= items.len();
            items.iter_mut().any(|value| remove(value, at))
        }
        _ => false,
    }
}
