//! Documents that are written from the tables of keys.
//!
//! `KOOPER_BLESS=1 cargo test -p kooper-macros` writes them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::election::ELECTION;
use super::key::{FLAG, Key};
use super::keys::CONTROLLER;

/// A table of the reference page, as the rows of a table of keys have it.
fn table<T>(keys: &[Key<T>]) -> String {
    let mut table = "| key | written | default | meaning |\n|---|---|---|---|\n".to_owned();
    for key in keys {
        let flag = if key.shapes == FLAG { ", a flag" } else { "" };
        let row = [key.name, key.example, key.default, key.doc].map(|cell| cell.replace('|', "\\|"));
        let [name, example, default, doc] = row;
        writeln!(table, "| `{name}` | `{example}`{flag} | {default} | {doc} |").expect("a string grows");
    }
    table
}

/// What the reference page shows of the keys.
fn reference() -> String {
    let (keys, settings) = (table(CONTROLLER.keys), table(ELECTION.keys));
    format!("{keys}\nThe settings in the parentheses of `leader_election(…)`:\n\n{settings}")
}

#[test]
fn the_reference_page_has_every_key() {
    const BEGIN: &str =
        "<!-- The table is written by a test of kooper-macros: KOOPER_BLESS=1 cargo test -p kooper-macros -->\n\n";
    const END: &str = "\n<!-- End of the table. -->\n";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/attribute.md");
    let reference = reference();
    let text = fs::read_to_string(&page).unwrap_or_default();
    let parts = text.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?)));
    if std::env::var_os("KOOPER_BLESS").is_some() {
        let (head, tail) = parts.map_or(("# The keys of `#[controller]`\n\n", ""), |(head, (_, tail))| (head, tail));
        fs::create_dir_all(page.with_file_name("")).expect("the folder of the page");
        fs::write(&page, format!("{head}{BEGIN}{reference}{END}{tail}")).expect("the page");
        return;
    }
    let (_, (found, _)) = parts.expect("docs/reference/attribute.md has the table: KOOPER_BLESS=1 writes it");
    assert_eq!(found, reference, "the table is old: KOOPER_BLESS=1 writes it");
}

/// The keys as an editor finds them: all but `crate`, which no item can be named.
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
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kooper/src/private/keys.rs");
    if std::env::var_os("KOOPER_BLESS").is_some() {
        fs::create_dir_all(file.with_file_name("")).expect("the folder of the file");
        fs::write(&file, completions()).expect("the file");
        return;
    }
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), completions(), "it is old: KOOPER_BLESS=1 writes it");
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
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/attribute.md");
    let rustdoc = fs::read_to_string(&file).expect("the rustdoc");
    if std::env::var_os("KOOPER_BLESS").is_some() {
        fs::write(&file, described(&rustdoc)).expect("the rustdoc");
        return;
    }
    assert_eq!(rustdoc, described(&rustdoc), "it is old: KOOPER_BLESS=1 writes it");
}
