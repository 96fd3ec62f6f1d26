//! Each program of `fail` is rejected, with the messages beside it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn programs_are_rejected_with_these_messages() {
    trybuild::TestCases::new().compile_fail("fail/*/*.rs");
}

#[test]
fn each_program_is_small_and_its_name_is_a_sentence() {
    for program in programs() {
        let name = program.file_stem().and_then(OsStr::to_str).expect("a file has a name");
        assert!(name.split('_').count() >= 3, "{name}: let the name be a sentence");
        let text = fs::read_to_string(&program).expect("a program can be read");
        assert!(text.lines().count() <= 15, "{name}: show one idea in 15 lines");
        let words = fs::read_to_string(program.with_extension("stderr")).expect("each program has its words");
        let errors = words.lines().filter(|line| line.starts_with("error")).count();
        assert!(words.lines().count() <= 40 * errors.max(1), "{name}: a message is shorter than this");
    }
}

#[test]
fn a_mistake_causes_no_warnings() {
    for program in programs() {
        let words = fs::read_to_string(program.with_extension("stderr")).expect("each program has its words");
        assert!(!words.lines().any(|line| line.starts_with("warning")), "{}\n{words}", program.display());
    }
}

#[test]
fn one_mistake_is_one_error() {
    for program in programs() {
        let words = fs::read_to_string(program.with_extension("stderr")).expect("each program has its words");
        let errors = words.lines().filter(|line| line.starts_with("error")).count();
        let name = program.file_stem().and_then(OsStr::to_str).expect("a file has a name");
        let expected = match name {
            // Several mistakes, each reported.
            "several_arguments_are_references" | "a_mistake_hides_no_import" => 5,
            "several_mistakes_are_reported_together" => 4,
            "two_arguments_are_not_extractors" => 2,
            // The attribute's message at the type, and another one at the call, whose result has no type either.
            "a_type_is_not_an_index" => 2,
            // The compiler's own message beside the attribute's.
            "a_controller_of_a_module_generates_a_main"
            | "a_controller_with_a_type_name_is_in_a_module"
            | "a_partial_field_has_no_default"
            | "two_controllers_generate_a_main_each" => 2,
            "a_type_of_the_fns_name_is_taken" => 2,
            _ => 1,
        };
        assert_eq!(errors, expected, "{name}\n{words}");
    }
}

fn programs() -> Vec<PathBuf> {
    let fail = Path::new(env!("CARGO_MANIFEST_DIR")).join("fail");
    let themes = fs::read_dir(fail).expect("the folder of programs");
    let files = themes.flat_map(|theme| fs::read_dir(theme.expect("a theme").path()).expect("a theme is a folder"));
    let programs: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension() == Some(OsStr::new("rs")))
        .collect();
    assert!(programs.len() >= 50);
    programs
}
