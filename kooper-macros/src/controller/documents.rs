//! Documents that are generated from the tables of keys.
//!
//! `KOOPER_BLESS=1 cargo test -p kooper-macros` writes them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::args::Args;
use super::election::{ELECTION, Leases};
use super::key::{Key, KeySyntax};
use super::keys::{CONTROLLER, TASK};
use super::objects::{SELECTION, Selection};
use super::shards::SHARDS;
use super::slots::FLAGS;
use crate::webhook::keys::WEBHOOK;

#[test]
fn every_key_has_a_description_and_an_example_that_is_read() {
    for table in [CONTROLLER, TASK, WEBHOOK] {
        table.check(Args::default);
    }
    for table in [ELECTION, SHARDS] {
        table.check(Leases::default);
    }
    SELECTION.check(Selection::default);
}

/// A table of the reference page, from the rows of a table of keys.
fn table<T>(keys: &[Key<T>]) -> String {
    let mut table = "| key | written | default | meaning |\n|---|---|---|---|\n".to_owned();
    for key in keys {
        let flag = if key.syntaxes == [KeySyntax::Flag] { ", a flag" } else { "" };
        let row = [key.name, key.example, key.default, key.doc].map(|cell| cell.replace('|', "\\|"));
        let [name, example, default, doc] = row;
        writeln!(table, "| `{name}` | `{example}`{flag} | {default} | {doc} |").expect("a string grows");
    }
    table
}

/// A page with its tables, each between two comments that mark its beginning and end.
fn with_tables(page: &str, tables: &[(&str, String)]) -> String {
    let mut page = page.to_owned();
    for (name, table) in tables {
        let begin = format!(
            "<!-- The {name} are written by a test of kooper-macros: KOOPER_BLESS=1 cargo test -p kooper-macros -->\n\n"
        );
        let end = format!("\n<!-- End of the {name}. -->\n");
        let (before, rest) = page.split_once(&begin).expect("the page has a place for the table");
        let (_, after) = rest.split_once(&end).expect("the table has an end");
        page = format!("{before}{begin}{table}{end}{after}");
    }
    page
}

#[test]
fn the_reference_page_has_every_key() {
    let tables = [
        ("keys", table(CONTROLLER.keys)),
        ("settings", table(ELECTION.keys)),
        ("settings of shards", table(SHARDS.keys)),
        ("settings of a kind", table(SELECTION.keys)),
        ("flags of a slot", table(FLAGS.keys)),
    ];
    is_written("../docs/reference/attribute.md", |page| with_tables(page, &tables));
}

#[test]
fn the_pages_of_tasks_have_every_key() {
    let tables = [("keys", table(TASK.keys))];
    for page in ["../docs/reference/task-attribute.md", "src/task.md"] {
        is_written(page, |page| with_tables(page, &tables));
    }
}

#[test]
fn the_pages_of_webhooks_have_every_key() {
    let tables = [("keys", table(WEBHOOK.keys))];
    for page in ["../docs/reference/webhook-attributes.md", "src/validate.md"] {
        is_written(page, |page| with_tables(page, &tables));
    }
}

/// The keys for the completion in editors: all but `crate`, which cannot be the name of an item.
fn completions() -> String {
    let keys = CONTROLLER.keys.iter().filter(|key| key.name != "crate");
    let modules = keys.map(|key| format!("/// `{}`: {}\npub mod {} {{}}\n", key.example, key.doc, key.name));
    format!(
        "//! The keys of the attribute, each a module for editors to complete.\n//!\n//! A test of kooper-macros \
         writes this file: `KOOPER_BLESS=1 cargo test -p kooper-macros`.\n\n{}",
        modules.collect::<Vec<_>>().join("\n")
    )
}

#[test]
fn an_editor_finds_every_key() {
    is_written("../kooper/src/private/keys.rs", |_| completions());
}

/// The attribute's rustdoc with each key's description in the first paragraph of its section.
fn described(rustdoc: &str) -> String {
    let mut described = rustdoc.to_owned();
    for key in CONTROLLER.keys {
        let heading = format!("\n## `{}`\n\n", key.name);
        let (before, section) = described.split_once(&heading).expect(key.name);
        let (_, rest) = section.split_once("\n\n").expect(key.name);
        let default = match key.default.strip_prefix("required") {
            Some(when) => format!("Required{when}."),
            None => format!("Default: {}.", key.default),
        };
        described = format!("{before}{heading}{} {default}\n\n{rest}", key.doc);
    }
    described
}

#[test]
fn the_rustdoc_describes_every_key() {
    is_written("src/attribute.md", described);
}

/// Compares a file with its generated text, or writes it.
fn is_written(file: &str, write: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let found = fs::read_to_string(&path).expect(file);
    let written = write(&found);
    if std::env::var_os("KOOPER_BLESS").is_some() {
        fs::write(&path, written).expect(file);
    } else {
        assert_eq!(found, written, "{file} is outdated: KOOPER_BLESS=1 writes it");
    }
}
