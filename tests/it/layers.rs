//! The rows of `docs/contributing/architecture.md`: a module imports from rows
//! above its own or, without cycles, from its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const ROWS: [&[&str]; 6] = [
    &[
        "action",
        "backoff",
        "error",
        "health",
        "held",
        "installation",
        "key",
        "kind",
        "metrics",
        "reason",
        "refusal",
        "review",
    ],
    &["call", "events", "extract", "handler", "leader", "lookup", "object", "plan", "queue", "retriever", "store"],
    &["capability", "crd", "finalizer", "informer", "worker"],
    &["controller"],
    &["operator", "program", "rbac", "testing"],
    &["cli", "doctests", "http", "lib", "private"],
];

fn row(module: &str) -> usize {
    ROWS.iter().position(|row| row.contains(&module)).unwrap_or_else(|| panic!("`{module}` is in no row: give it one"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Which modules of the runtime each of them names, outside comments and tests.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kooper/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
        let inside = file.strip_prefix(&root).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let named = imports.entry(module.clone()).or_default();
        for path in lines.flat_map(|line| line.split("crate::").skip(1)) {
            // `use crate::{a, b};` names several.
            let list = path.strip_prefix('{').and_then(|list| list.split('}').next()).unwrap_or(path);
            for item in if path.starts_with('{') { list.split(',').collect() } else { vec![list] } {
                let name: String = item.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let name = if name == "__private" { "private".to_owned() } else { name };
                let exists = root.join(format!("{name}.rs")).exists();
                if exists && name != module {
                    named.insert(name);
                }
            }
        }
    }
    imports
}

#[test]
fn modules_import_from_rows_above_or_their_own() {
    for (module, named) in imports() {
        for name in named.iter().filter(|_| module != "lib") {
            assert!(
                row(name) <= row(&module),
                "`{module}` (row {}) imports `{name}` (row {})",
                row(&module),
                row(name)
            );
        }
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    fn visit<'a>(module: &'a str, imports: &'a BTreeMap<String, BTreeSet<String>>, path: &mut Vec<&'a str>) {
        assert!(!path.contains(&module), "a circle: {} → {module}", path.join(" → "));
        path.push(module);
        for name in imports.get(module).into_iter().flatten() {
            visit(name, imports, path);
        }
        path.pop();
    }
    let imports = imports();
    assert!(imports["worker"].contains("queue"), "the scan finds imports");
    for module in imports.keys().filter(|module| *module != "lib") {
        visit(module, &imports, &mut Vec::new());
    }
}
