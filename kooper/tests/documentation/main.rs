//! Compares the names in the documentation with the code.

mod messages;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources of the library.
const SOURCES: [&str; 11] = [
    "kooper/src",
    "kooper/runtime/src",
    "kooper/access/src",
    "kooper/base/src",
    "kooper/children/src",
    "kooper/program/src",
    "kooper/serving/src",
    "kooper/sharding/src",
    "kooper/testing/src",
    "kooper/webhooks/src",
    "kooper/workloads/src",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files in a folder and those below it whose names have this extension.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
}

/// The texts of the files of Rust in these folders.
fn sources<'a>(folders: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    folders.into_iter().for_each(|folder| files(&root().join(folder), "rs", &mut found));
    found.into_iter().map(|path| fs::read_to_string(path).unwrap())
}

/// The README and every page of `docs`, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = vec![root().join("README.md")];
    files(&root().join("docs"), "md", &mut found);
    found
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// The version of a name in the workspace's `Cargo.toml`.
fn version(name: &str) -> String {
    let workspace = text("Cargo.toml");
    let line = workspace.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap();
    line.split('"').nth(1).unwrap().to_owned()
}

#[test]
fn every_flag_and_variable_is_in_the_reference() {
    let page = text("docs/reference/cli.md");
    let code = text("kooper/program/src/cli/args/flags.rs") + &text("kooper/program/src/cli/args/installation.rs");
    let flags: Vec<_> =
        code.lines().filter_map(|line| line.trim().strip_prefix("name: \"")?.strip_suffix("\",")).collect();
    assert!(flags.len() > 5, "the flags are found in the code");
    for flag in flags {
        let variable = format!("| `KOOPER_{}` |", flag.replace('-', "_").to_uppercase());
        let named = [format!("`--{flag} "), format!("`--{flag}`")];
        let is_row = |line: &&str| {
            let cell = line.split(" | ").next().unwrap_or_default();
            cell.starts_with("| `") && named.iter().any(|name| cell.contains(name))
        };
        let row = page.lines().find(is_row);
        assert!(row.is_some_and(|row| row.contains(&variable)), "--{flag} has a row with {variable}");
    }
}

#[test]
fn the_reference_has_every_series_and_no_other() {
    const FAMILIES: [&str; 6] =
        ["kooper_", "controller_runtime_", "workqueue_", "rest_client_", "leader_election_", "process_"];
    let is_series = |name: &&str| FAMILIES.iter().any(|family| name.starts_with(family));
    let code = text("kooper/program/src/metrics/table.rs");
    let series: BTreeSet<_> = code.split('"').skip(1).step_by(2).filter(is_series).collect();
    assert!(series.len() > 20, "the series are found in the code");
    let page = text("docs/reference/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.filter(is_series).collect::<BTreeSet<_>>(), series);
}

#[test]
fn versions_are_those_of_the_workspace() {
    let rust = format!("Rust {} or newer", version("rust-version"));
    for readme in ["README.md", "kooper/README.md"] {
        assert!(text(readme).contains(&rust), "{readme} says: {rust}");
    }
    let custom = ["k8s-openapi", "kube", "schemars", "serde", "serde_json"];
    let pages = [
        ("docs/guide/01-first-controller.md", &custom[..1]),
        ("docs/guide/03-custom-resources.md", &custom),
        ("examples/template/Cargo.toml.liquid", &custom),
        ("examples/template/Cargo.toml.liquid", &["tokio"]),
    ];
    for (page, names) in pages {
        let guide = text(page);
        for name in names {
            let line = guide.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap();
            let (shown, real) = (line.split('"').nth(1).unwrap(), version(name));
            assert!(real == shown || real.starts_with(&format!("{shown}.")), "{name} is {real}, {page} says {shown}");
        }
    }
    let template = text("examples/template/Cargo.toml.liquid");
    assert!(
        template.contains(&format!("rust-version = \"{}\"", version("rust-version"))),
        "the template's rust-version"
    );
}

/// The anchors of a page's headings, in GitHub's form.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|char| char.is_alphanumeric() || ['-', '_'].contains(char)).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_between_pages_have_a_target() {
    for (page, text) in pages() {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            let there = if file.is_empty() { page.clone() } else { page.with_file_name("").join(file) };
            assert!(there.exists(), "{}: {target}", page.display());
            let Some(anchor) = anchor else { continue };
            let there = fs::read_to_string(&there).unwrap();
            assert!(anchors(&there).contains(anchor), "{}: {target} has no such heading", page.display());
        }
    }
}

#[test]
fn the_book_has_every_page_once() {
    let summary = text("docs/SUMMARY.md");
    let linked = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut linked: Vec<_> = linked.map(PathBuf::from).collect();
    linked.sort_unstable();
    let docs = root().join("docs");
    let pages = pages().into_iter().filter_map(|(path, _)| Some(path.strip_prefix(&docs).ok()?.to_owned()));
    let mut pages: Vec<_> = pages.filter(|page| page != Path::new("SUMMARY.md")).collect();
    pages.sort_unstable();
    assert_eq!(linked, pages);
}

#[test]
fn every_block_of_rust_is_compiled() {
    let compiled = text("kooper/src/doctests.rs");
    for (page, text) in pages() {
        let fences: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("```")).collect();
        for opening in fences.iter().step_by(2) {
            assert!(!opening.is_empty(), "{}: a block has a language", page.display());
            assert!(!opening.contains("ignore"), "{}: nothing is ignored", page.display());
        }
        let name = page.file_name().unwrap().to_string_lossy();
        let has_rust = fences.iter().any(|fence| fence.starts_with("rust"));
        assert!(!has_rust || compiled.contains(&format!("/{name}\"")), "{name} is in kooper/src/doctests.rs");
    }
}

/// The names under `kooper.rs/` in a text.
fn written(text: &str) -> impl Iterator<Item = String> {
    let is_part = |char: char| char.is_ascii_lowercase() || char == '-';
    let names = text.split("kooper.rs/").skip(1).map(move |rest| rest.split(|char| !is_part(char)).next());
    names.flatten().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[test]
fn each_name_that_is_written_into_the_cluster_is_in_the_reference() {
    let found: BTreeSet<_> = sources(SOURCES).flat_map(|text| written(&text).collect::<Vec<_>>()).collect();
    assert_eq!(written(&text("docs/reference/written-to-the-cluster.md")).collect::<BTreeSet<_>>(), found);
}

/// The names of the tests in a file.
fn tests(text: &str) -> Vec<String> {
    let (mut found, mut marked) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        match name.and_then(|line| line.split('(').next()) {
            Some(name) if marked => {
                found.push(name.to_owned());
                marked = false;
            }
            _ => marked |= ["#[test]", "#[tokio::test", "#[kooper::test"].iter().any(|test| line.starts_with(test)),
        }
    }
    found
}

#[test]
fn each_row_of_the_page_for_go_users_names_an_existing_test() {
    let folders = SOURCES.into_iter().chain(["kooper/grammar/tests", "tests/it", "examples/tests"]);
    let found: BTreeSet<_> = sources(folders).flat_map(|text| tests(&text)).collect();
    let page = text("docs/from-go-kooper.md");
    let tables = page.split("| proved by |").skip(1);
    let rows: Vec<_> = tables
        .flat_map(|table| table.lines().skip(2).take_while(|line| line.starts_with('|')))
        .filter_map(|row| row.trim_end_matches('|').rsplit(" | ").next())
        .collect();
    assert!(rows.len() > 30, "the rows are found on the page: {}", rows.len());
    for row in rows.into_iter().filter(|row| row.trim() != "the compiler") {
        let names: Vec<_> = row.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "a row names its test: {row}");
        for name in names {
            assert!(found.contains(name), "{name} is a test");
        }
    }
}

#[test]
fn each_step_of_a_walk_names_an_existing_function_and_a_walk_has_at_most_eight_files() {
    let page = text("docs/contributing/architecture.md");
    let walks: Vec<_> = page.split("\n##").filter_map(|section| section.strip_prefix("# From ")).collect();
    assert_eq!(walks.len(), 5, "the walks are found");
    for walk in walks {
        let rows = walk.lines().filter(|line| line.ends_with("` |"));
        let mut files = BTreeSet::new();
        for step in rows.map(|row| row.split('`').collect::<Vec<_>>()) {
            let [.., file, _, function, _] = step[..] else { panic!("{step:?} has a file and a function") };
            files.insert(file);
            let code =
                text(&if file.starts_with("kooper") { file.to_owned() } else { format!("kooper/runtime/src/{file}") });
            let is_there =
                [format!("fn {function}("), format!("fn {function}<")].iter().any(|name| code.contains(name));
            assert!(
                is_there,
                "`{file}` has no function `{function}`: a walk of docs/contributing/architecture.md names it"
            );
        }
        assert!((5..=8).contains(&files.len()), "{} files: {files:?}", files.len());
    }
}

/// The program of the template, with the values of its placeholders' defaults and without its tests.
fn template() -> String {
    let program = text("examples/template/src/main.rs");
    let values = [("kind | snake_case", "site"), ("kind", "Site"), ("group", "example.com"), ("project-name", "site")];
    let program =
        values.iter().fold(program, |program, (name, value)| program.replace(&format!("{{{{{name}}}}}"), value));
    program.replace("#[cfg(test)]\nmod tests;\n\n", "")
}

#[test]
fn programs_on_the_pages_are_those_that_are_compiled() {
    let template = template();
    for page in [
        "docs/guide/00-walk.md",
        "docs/from-kube-rs.md",
        "docs/from-controller-runtime.md",
        "docs/from-josdk.md",
        "docs/from-kopf.md",
    ] {
        assert!(text(page).contains(&template), "{page} has the program of examples/template");
    }
    let java = "josdk/src/main/java/com/example/site";
    let others = [
        ("docs/from-controller-runtime.md", "go", "types.go".to_owned()),
        ("docs/from-controller-runtime.md", "go", "main.go".to_owned()),
        ("docs/from-kopf.md", "python", "kopf/site.py".to_owned()),
        ("docs/from-josdk.md", "java", format!("{java}/Site.java")),
        ("docs/from-josdk.md", "java", format!("{java}/SiteDeployment.java")),
        ("docs/from-josdk.md", "java", format!("{java}/SiteReconciler.java")),
    ];
    for (page, language, file) in others {
        let program = format!("```{language}\n{}```", text(&format!("tests/bench/peers/site/{file}")));
        assert!(text(page).contains(&program), "{page} has {file}");
    }
}

#[test]
fn the_comparison_shows_the_programs_and_their_lines() {
    let page = text("docs/comparison.md");
    let folder = "tests/bench/peers/wiki";
    let programs: String =
        ["examples/wiki.rs".to_owned(), format!("{folder}/main.go"), format!("{folder}/kopf/wiki.py")]
            .into_iter()
            .chain(
                ["WikiReconciler", "Children"]
                    .map(|class| format!("{folder}/josdk/src/main/java/com/example/wiki/{class}.java")),
            )
            .map(|file| text(&file))
            .collect();
    let blocks: Vec<_> = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect();
    assert!(blocks.len() >= 4, "one for each framework");
    for (language, block) in blocks {
        assert!(programs.contains(block), "{language}: a program has these lines:\n{block}");
    }

    let counted = Command::new("bash").arg(root().join(folder).join("count")).output().unwrap();
    let table = String::from_utf8(counted.stdout).unwrap();
    assert!(page.contains(&table), "the page has the table that `count` prints:\n{table}");
    let lines = table.lines().skip(2).map(|row| row.split('|').nth_back(1).unwrap().trim().parse::<u32>().unwrap());
    let (ours, others): (Vec<_>, Vec<_>) = lines.enumerate().partition(|(row, _)| *row == 0);
    let shortest = others.into_iter().map(|(_, lines)| lines).min().unwrap();
    assert!(ours[0].1 * 3 <= shortest, "it is at most a third of the shortest");
}

#[test]
fn arguments_and_their_rules_are_the_same_in_the_guide_and_in_the_documentation_of_the_crate() {
    // Only the first and the last column: the links are different.
    let rows = |page: &str| -> BTreeSet<(String, String)> {
        let cells = |line: &str| -> Option<Vec<String>> {
            let line = line.trim_start_matches("//! ").strip_prefix("| ")?.strip_suffix('|')?;
            Some(line.split('|').map(|cell| cell.trim().to_owned()).collect())
        };
        let rows = page.lines().skip_while(|line| !line.contains("| argument |")).skip(2).map_while(cells);
        rows.map(|row| {
            let argument = row[0].trim_start_matches('[').split(']').next().unwrap().to_owned();
            (argument, row.last().unwrap().clone())
        })
        .collect()
    };
    let guide = rows(&text("docs/guide/02-handler.md"));
    assert!(guide.len() > 10, "{guide:?}");
    assert_eq!(rows(&text("kooper/src/lib.rs")), guide);
}

#[test]
fn an_example_says_what_to_try_and_is_short_or_gives_the_reason() {
    let mut count = 0;
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        count += 1;
        let source = fs::read_to_string(&path).unwrap();
        let program = source.split("#[cfg(test)]").next().unwrap();
        let head: String = program.lines().take_while(|line| line.starts_with("//!")).collect();
        for part in ["//! Run it without a cluster", "//! Try", "cargo run --bin "] {
            assert!(head.contains(part), "{} has no `{part}`", path.display());
        }
        let lines = program.lines().count();
        let reason = head.contains("It is longer than other examples, because");
        assert!(lines <= 60 || reason, "{} has {lines} lines and no reason for it", path.display());
    }
    assert!(count > 10);
}
