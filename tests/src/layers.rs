//! The modules of a crate by its sources: their lines, the imports between them, and circles of those.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folders of the crates in the repository that users depend on.
pub const CRATES: [&str; 15] = [
    "kooper",
    "kooper/grammar",
    "kooper/protobuf",
    "kooper/base",
    "kooper/runtime",
    "kooper/access",
    "kooper/serving",
    "kooper/webhooks",
    "kooper/program",
    "kooper/apiserver",
    "kooper/sharding",
    "kooper/workloads",
    "kooper/children",
    "kooper/testing",
    "kooper-macros",
];

/// The crates that each crate depends on, without those that only its tests need.
pub fn dependencies() -> BTreeMap<&'static str, BTreeSet<String>> {
    let manifest = |krate: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("Cargo.toml");
        std::fs::read_to_string(path).unwrap()
    };
    let names = |krate| {
        let text = manifest(krate);
        let dependencies = text.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let ours = dependencies.lines().filter(|line| line.starts_with("kooper"));
        ours.filter_map(|line| Some(line.split(['.', ' ']).next()?.to_owned())).collect()
    };
    CRATES.into_iter().map(|krate| (krate, names(krate))).collect()
}

/// The path of a module from the crate's root.
pub type Module = Vec<String>;

/// The modules of a crate with their code, without tests.
fn sources(krate: &str) -> BTreeMap<Module, String> {
    fn visit(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src");
    let mut files = Vec::new();
    visit(&root, &mut files);
    let read = |file: PathBuf| {
        let inside = file.strip_prefix(&root).unwrap().with_extension("");
        let module: Module = inside.components().map(|part| part.as_os_str().to_str().unwrap().to_owned()).collect();
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        (module, code.to_owned())
    };
    let sources: BTreeMap<Module, String> = files.into_iter().map(read).collect();
    let tests: BTreeSet<Module> = sources.iter().flat_map(|(module, code)| test_modules(module, code)).collect();
    let is_test = |module: &Module| (1..=module.len()).any(|end| tests.contains(&module[..end]));
    sources.into_iter().filter(|(module, _)| !is_test(module)).collect()
}

/// The modules that a module has only for tests.
fn test_modules(module: &Module, code: &str) -> Vec<Module> {
    // Those of the crate's own file are in the root.
    let parent = if module.as_slice() == ["lib"] { &[][..] } else { module };
    let declared = code.split("#[cfg(test)]\n").skip(1).filter_map(|rest| rest.lines().next());
    let names = declared.filter_map(|line| line.rsplit_once("mod ")?.1.strip_suffix(';'));
    names.map(|name| [parent, &[name.to_owned()]].concat()).collect()
}

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
/// The crate is named by its folder in the repository.
pub fn imports(krate: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let sources = sources(krate);
    let modules: BTreeSet<Module> = sources.keys().cloned().collect();
    let mut imports = BTreeMap::new();
    for (own, code) in sources {
        let lines: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = lines.join("\n");
        let mut found = named(&code, "crate::", &[], &modules);
        found.extend(named(&code, "super::", &own[..own.len() - 1], &modules));
        found.extend(named(&code, "self::", &own, &modules));
        imports.insert(own, found.into_iter().filter(|path| !path.is_empty()).collect());
    }
    imports
}

/// The lines besides tests of each child of a crate's root, with comments and blank ones.
pub fn lines(krate: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for (module, code) in sources(krate) {
        *lines.entry(module[0].clone()).or_default() += code.lines().count();
    }
    lines
}

/// The imports between the children of each folder, as edges of a graph.
pub fn edges(krate: &str) -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
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
    folders
}

/// The circles among the children of each folder, each once, such as `queue: state → writes → state`.
pub fn circles(krate: &str) -> Vec<String> {
    fn visit<'a>(
        module: &'a str,
        edges: &'a BTreeMap<String, BTreeSet<String>>,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
        found: &mut Vec<String>,
    ) {
        if let Some(start) = path.iter().position(|known| *known == module) {
            found.push(format!("{} → {module}", path[start..].join(" → ")));
        } else if !done.contains(module) {
            path.push(module);
            for name in edges.get(module).into_iter().flatten() {
                visit(name, edges, path, done, found);
            }
            path.pop();
            done.insert(module);
        }
    }
    let mut circles = Vec::new();
    for (folder, edges) in edges(krate) {
        let (mut done, mut found) = (BTreeSet::new(), Vec::new());
        for module in edges.keys() {
            visit(module, &edges, &mut Vec::new(), &mut done, &mut found);
        }
        circles.extend(found.into_iter().map(|circle| format!("{}: {circle}", folder.join("::"))));
    }
    circles
}
