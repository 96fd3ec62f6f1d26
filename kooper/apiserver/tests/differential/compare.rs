//! Where the answers of two servers differ.

use std::fmt;

use serde_json::Value;

use crate::case::{Case, Step};
use crate::diff;
use crate::normal::normal;
use crate::server::Answer;

/// A request of a history that two servers answer differently.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) case: String,
    pub(crate) step: Step,
    /// Description, the same for differences of the same kind.
    pub(crate) what: String,
    ours: Answer,
    theirs: Answer,
}

/// All differences of a history.
pub(crate) fn differences(case: &Case, ours: Vec<Answer>, theirs: Vec<Answer>) -> Vec<Difference> {
    let answers = normal(ours).into_iter().zip(normal(theirs));
    between(case, answers)
}

/// The differences of answers that are normal already.
pub(crate) fn between(case: &Case, answers: impl Iterator<Item = (Answer, Answer)>) -> Vec<Difference> {
    let pairs = case.steps.iter().zip(answers).filter(|(_, (ours, theirs))| ours != theirs);
    let difference = |(step, (ours, theirs)): (&Step, (Answer, Answer))| {
        let what = what(step, &ours, &theirs);
        Difference { case: case.name.clone(), step: step.clone(), what, ours, theirs }
    };
    pairs.map(difference).collect()
}

impl Difference {
    /// Returns a sort key that is larger for differences that probably follow from others: a watch
    /// that was opened early shows the effects of later requests, and an event that only one server
    /// has sent shifts the ranks of all later versions.
    pub(crate) fn indirectness(&self) -> (bool, bool) {
        let unranked = |answer: &Answer| Answer { body: without_ranks(&answer.body), ..answer.clone() };
        (self.step.is_watch(), unranked(&self.ours) == unranked(&self.theirs))
    }

    /// The line of `known.txt` that stands for it: where owners of fields differ, it does not say which.
    pub(crate) fn line(&self) -> String {
        let owners = self.what.find("managedFields").map_or(self.what.len(), |at| at + "managedFields".len());
        format!("{}: {} ({})", self.case, self.step.path, &self.what[..owners])
    }
}

/// A body in which all versions are the same.
fn without_ranks(body: &str) -> String {
    ["VERSION-", "AFTER-"].into_iter().fold(body.to_owned(), |body, before| {
        let mut parts = body.split(before);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| all + part.trim_start_matches(|char: char| char.is_ascii_digit()))
    })
}

fn what(step: &Step, ours: &Answer, theirs: &Answer) -> String {
    let media = step.header("content-type").and_then(|media| media.split('/').nth(1)).unwrap_or_default();
    let collection: Vec<_> = step.path.split('?').next().unwrap_or_default().split('/').collect();
    let kind = collection.get(collection.iter().position(|part| *part == "$ns").map_or(0, |at| at + 1));
    let place = if ours.status != theirs.status {
        "status".to_owned()
    } else if ours.headers != theirs.headers {
        "headers".to_owned()
    } else {
        place(&ours.body, &theirs.body)
    };
    let kind = kind.copied().unwrap_or_default();
    format!("{} {media} {kind} {}/{} {place}", step.method, ours.status, theirs.status)
}

/// Where two bodies differ first.
fn place(ours: &str, theirs: &str) -> String {
    if let (Ok(ours), Ok(theirs)) = (serde_json::from_str::<Value>(ours), serde_json::from_str::<Value>(theirs)) {
        return path(&ours, &theirs);
    }
    let mut lines = ours.lines().zip(theirs.lines()).filter(|(ours, theirs)| ours != theirs);
    match lines.next() {
        Some((ours, theirs)) => match (serde_json::from_str(ours), serde_json::from_str(theirs)) {
            (Ok(ours), Ok(theirs)) => format!("event{}", path(&ours, &theirs)),
            _ => "line".to_owned(),
        },
        None => "number of events".to_owned(),
    }
}

fn path(ours: &Value, theirs: &Value) -> String {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let keys = ours.keys().chain(theirs.keys());
            let key = keys.min_by_key(|key| (ours.get(*key) == theirs.get(*key), key.to_string()));
            let Some(key) = key else { return String::new() };
            let null = Value::Null;
            format!("/{key}{}", path(ours.get(key).unwrap_or(&null), theirs.get(key).unwrap_or(&null)))
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            let pair = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
            pair.map_or_else(|| "/length".to_owned(), |(ours, theirs)| format!("/_{}", path(ours, theirs)))
        }
        _ => String::new(),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { line, method, path, headers, body, .. } = &self.step;
        writeln!(f, "\n{}: line {line}: {method} {path} {headers:?}\n{body}\n({})", self.case, self.what)?;
        if self.ours.status != self.theirs.status || self.ours.headers != self.theirs.headers {
            writeln!(f, "  ours   {} {:?}", self.ours.status, self.ours.headers)?;
            writeln!(f, "  theirs {} {:?}", self.theirs.status, self.theirs.headers)?;
        }
        for (mark, line) in diff::lines(&self.ours.body, &self.theirs.body) {
            writeln!(f, "  {mark} {line}")?;
        }
        Ok(())
    }
}
