//! The real server's answers to the cases, kept in `recorded`: a file for each file of cases.
//!
//! Each case begins with a line that has its name and a digest of its
//! requests; a line for each answer follows.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::case::Case;
use crate::server::Answer;

/// A file of cases.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) cases: Vec<Case>,
}

/// A file or folder of these tests.
pub(crate) fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("differential").join(name)
}

/// The files of cases, in the order of their names.
pub(crate) fn files() -> Vec<File> {
    let entries = fs::read_dir(place("cases")).expect("there are cases");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    paths.sort();
    let file = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let cases = Case::parse_all(&name, &fs::read_to_string(path).expect("a case is text"));
        File { name, cases }
    };
    paths.iter().map(file).collect()
}

/// Writes a file of cases.
pub(crate) fn write_cases(file: &File) {
    let text = file.cases.iter().fold(String::new(), |text, case| format!("{text}{case}"));
    fs::write(place("cases").join(format!("{}.http", file.name)), text).expect("the cases can be written");
}

/// Writes the answers to the cases of a file.
pub(crate) fn write(file: &File, answers: &[Vec<Answer>]) {
    let mut text = String::new();
    for (case, answers) in file.cases.iter().zip(answers) {
        let _ = writeln!(text, "{}", json!({"case": case.name, "digest": digest(case)}));
        for answer in answers {
            let body: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| json!(answer.body));
            let _ = writeln!(text, "{}", json!([answer.status, answer.headers, body]));
        }
    }
    fs::create_dir_all(place("recorded")).expect("the folder can be made");
    fs::write(path(&file.name), text).expect("the answers can be written");
}

/// The answers to the cases of a file: those of a case that was changed since are left out.
pub(crate) fn read(file: &File) -> Vec<(Case, Vec<Answer>)> {
    let text = fs::read_to_string(path(&file.name)).unwrap_or_default();
    let mut recorded: Vec<(Value, Vec<Answer>)> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a recording has JSON lines");
        match &line {
            Value::Object(_) => recorded.push((line, Vec::new())),
            _ => recorded.last_mut().expect("a case comes first").1.push(answer(&line)),
        }
    }
    let of = |case: &Case| {
        let head = json!({"case": case.name, "digest": digest(case)});
        let found = recorded.iter().find(|(other, _)| *other == head)?;
        Some((case.clone(), found.1.clone()))
    };
    file.cases.iter().filter_map(of).collect()
}

fn path(file: &str) -> PathBuf {
    place("recorded").join(format!("{file}.jsonl"))
}

fn answer(line: &Value) -> Answer {
    let body = match &line[2] {
        Value::String(text) => text.clone(),
        // A stream of one event.
        event if event.get("type").is_some() && event.get("object").is_some() => event.to_string(),
        body => serde_json::to_string_pretty(body).expect("a value can be written"),
    };
    Answer {
        status: line[0].as_u64().and_then(|status| status.try_into().ok()).expect("an answer has a status"),
        headers: serde_json::from_value(line[1].clone()).expect("an answer has headers"),
        body,
    }
}

/// A number that changes with the requests of a case (FNV-1a).
fn digest(case: &Case) -> String {
    let text = case.to_string();
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}
