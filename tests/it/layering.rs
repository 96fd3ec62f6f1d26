//! The folders of the runtime are in the order in which an object flows through
//! them: a file imports only from its own folder or an earlier one, and neither
//! the folders nor the modules within one import each other in a circle.
//! The modules of the other crates form no circles either.

use kooper_tests::layers::{CRATES, circles, imports};

/// The folders of `kooper/runtime/src` in order, as in `docs/contributing/architecture.md`.
const FOLDERS: [&str; 6] = ["held", "object", "watch", "queue", "call", "controller"];

/// The other modules of the crate's root: its own file, and what other crates of Kooper use.
const ROOT: [&str; 2] = ["lib", "internal"];

fn position(folder: &str) -> usize {
    let found = FOLDERS.iter().position(|known| *known == folder);
    found.unwrap_or_else(|| panic!("`{folder}` is not a folder of the runtime: put the file into one of {FOLDERS:?}"))
}

#[test]
fn a_file_imports_only_from_its_own_or_an_earlier_folder() {
    let imports = imports("kooper/runtime");
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
    let verbs_import_store = imports("kooper/apiserver")
        .iter()
        .any(|(from, to)| from[0] == "verbs" && to.iter().any(|path| path[0] == "store"));
    assert!(verbs_import_store, "the scan finds imports");
    for krate in CRATES {
        assert_eq!(circles(krate), [""; 0], "in {krate}");
    }
}
