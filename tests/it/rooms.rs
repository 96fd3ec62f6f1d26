//! The folders of the runtime are in the order in which an object flows through
//! them: a file imports only from its own folder or an earlier one, and neither
//! the folders nor the modules within one import each other in a circle.
//! The modules of the API server form no circle either.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folders in order, as in `docs/contributing/architecture.md`.
const ROOMS: [&str; 17] = [
    "error",
    "clock",
    "backoff",
    "executor",
    "metrics",
    "client",
    "object",
    "watch",
    "leader",
    "rehearsal",
    "queue",
    "call",
    "controller",
    "cluster",
    "program",
    "testing",
    "private",
];

/// The other modules of the crate's root: its own file, and the code of the documentation.
const ROOT: [&str; 2] = ["lib", "doctests"];

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

/// The path of a module from the crate's root.
type Module = Vec<String>;

/// The modules that the code names after `start`, such as `crate::`.
fn named(code: &str, start: &str, base: &[String], modules: &BTreeSet<Module>) -> Vec<Module> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(start) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        // `a::{b, c::d}` names two, and `super::super::a` goes up twice.
        let mut base = base.to_vec();
        let mut rest = &code[at + start.len()..];
        while let Some(more) = rest.strip_prefix("super::") {
            base.pop();
            rest = more;
        }
        follow(&base, rest, modules, &mut found);
    }
    found
}

fn follow(base: &[String], rest: &str, modules: &BTreeSet<Module>, found: &mut Vec<Module>) {
    if let Some(list) = rest.strip_prefix('{') {
        let mut depth = 0;
        let mut item = 0;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    follow(base, list[item..at].trim(), modules, found);
                    item = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
        return;
    }
    let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut next = base.to_vec();
    next.push(if word == "__private" { "private".to_owned() } else { word.clone() });
    match rest[word.len()..].strip_prefix("::") {
        Some(rest) if modules.contains(&next) => follow(&next, rest, modules, found),
        _ if modules.contains(&next) => found.push(next),
        _ => found.push(base.to_vec()),
    }
}

/// The modules that each module of a crate names, outside of comments and tests.
fn imports(krate: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let module = |file: &Path| -> Module {
        let inside = file.strip_prefix(&root).unwrap().with_extension("");
        inside.components().map(|part| part.as_os_str().to_str().unwrap().to_owned()).collect()
    };
    files.retain(|file| !module(file).iter().any(|part| part == "tests"));
    let modules: BTreeSet<Module> = files.iter().map(|file| module(file)).collect();
    let mut imports = BTreeMap::new();
    for file in &files {
        let own = module(file);
        let text = std::fs::read_to_string(file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = lines.join("\n");
        let mut found = named(&code, "crate::", &[], &modules);
        found.extend(named(&code, "super::", &own[..own.len() - 1], &modules));
        found.extend(named(&code, "self::", &own, &modules));
        imports.insert(own, found.into_iter().filter(|path| !path.is_empty()).collect());
    }
    imports
}

fn position(room: &str) -> usize {
    let found = ROOMS.iter().position(|known| *known == room);
    found.unwrap_or_else(|| panic!("`{room}` is not a folder of the runtime: put the file into one of {ROOMS:?}"))
}

#[test]
fn a_file_imports_only_from_its_own_or_an_earlier_folder() {
    let imports = imports("kooper");
    let calls_queue = imports.iter().any(|(from, to)| from[0] == "call" && to.iter().any(|path| path[0] == "queue"));
    assert!(calls_queue, "the scan finds imports");
    for (module, named) in imports.iter().filter(|(module, _)| !ROOT.contains(&&*module[0])) {
        for other in named {
            assert!(
                position(&other[0]) <= position(&module[0]),
                "`{}` imports `{}`, which is in a later folder",
                module.join("::"),
                other.join("::"),
            );
        }
    }
}

#[test]
fn the_modules_of_a_folder_do_not_import_each_other_in_a_circle() {
    find_circles("kooper");
}

#[test]
fn the_modules_of_the_api_server_do_not_import_each_other_in_a_circle() {
    let verbs_import_store = imports("kooper/apiserver")
        .iter()
        .any(|(from, to)| from[0] == "verbs" && to.iter().any(|path| path[0] == "store"));
    assert!(verbs_import_store, "the scan finds imports");
    find_circles("kooper/apiserver");
}

fn find_circles(krate: &str) {
    fn visit<'a>(module: &'a str, edges: &'a BTreeMap<String, BTreeSet<String>>, path: &mut Vec<&'a str>) {
        assert!(!path.contains(&module), "a circle: {} → {module}", path.join(" → "));
        path.push(module);
        for name in edges.get(module).into_iter().flatten() {
            visit(name, edges, path);
        }
        path.pop();
    }
    // For each folder, the imports between its children.
    let mut folders: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, named) in imports(krate) {
        for other in named {
            let shared = module.iter().zip(&other).take_while(|(one, two)| one == two).count();
            if let (Some(from), Some(to)) = (module.get(shared), other.get(shared)) {
                let folder = folders.entry(module[..shared].to_vec()).or_default();
                folder.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    for (folder, edges) in &folders {
        println!("{}", folder.join("::"));
        for module in edges.keys() {
            visit(module, edges, &mut Vec::new());
        }
    }
}
