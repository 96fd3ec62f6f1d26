//! The mistakes that the attributes report: the files of `mistakes`, one for each theme.
//!
//! A case is a title and a program. Below each line of the program are its messages, under the words
//! that they are about:
//!
//! ```text
//! # workers is zero
//! #[controller(resource = Pod, workers = 0)]
//!                                        ^ `workers` takes a number of at least 1: write `workers = 4`
//! async fn echo(pod: Arc<Pod>) {}
//! ```
//!
//! `KOOPER_BLESS=1 cargo test -p kooper-macros` writes the messages. Read the difference before you
//! keep it: users read it. Mistakes that only the compiler can find are in `ui-tests/fail`.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use super::expand;
use super::signature::Role;
use crate::explore::expand as explore;
use crate::partial::expand as partial;
use crate::test::expand as expand_test;
use crate::webhook::expand as webhook;

/// The file of a theme, with its cases.
struct Theme {
    path: PathBuf,
    cases: Vec<Case>,
}

/// A program that is rejected.
struct Case {
    title: String,
    lines: Vec<String>,
    /// The text of the file.
    written: String,
}

/// A message and its place; lines and columns begin at 0.
struct Message {
    line: usize,
    columns: (usize, usize),
    text: String,
}

fn themes() -> Vec<Theme> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/controller/mistakes");
    let files = fs::read_dir(folder).expect("the folder of themes").map(|file| file.expect("a theme").path());
    let mut themes: Vec<_> = files
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a theme is text");
            Theme {
                path,
                cases: text.split("\n\n").map(str::trim_end).filter(|case| !case.is_empty()).map(case).collect(),
            }
        })
        .collect();
    themes.sort_by(|one, other| one.path.cmp(&other.path));
    themes
}

fn case(written: &str) -> Case {
    let (title, program) = written.split_once('\n').expect("a title and a program");
    let title = title.strip_prefix("# ").expect("a case begins with `# ` and its title").to_owned();
    let is_message = |line: &&str| line.trim_start().starts_with('^');
    let lines = program.lines().filter(|line| !is_message(line)).map(str::to_owned).collect();
    Case { title, lines, written: written.to_owned() }
}

/// A program's attribute: its name, the tokens in its parentheses, and its place.
struct ProgramAttribute {
    name: String,
    tokens: TokenStream,
    place: (Span, Span),
}

/// The attribute and the item below it.
fn parts(program: &str) -> (ProgramAttribute, TokenStream) {
    split(program.parse().expect("the program is tokens")).expect("the program begins with an attribute")
}

/// The attribute, if there is one, and what is below it.
fn split(program: TokenStream) -> Option<(ProgramAttribute, TokenStream)> {
    let (mut before, mut attribute) = (None, None);
    let mut item = TokenStream::new();
    for token in program {
        match (&attribute, &token) {
            (None, TokenTree::Punct(pound)) => before = Some(pound.span()),
            (None, TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
                let (mut name, mut tokens) = (String::new(), TokenStream::new());
                for token in group.stream() {
                    match token {
                        TokenTree::Ident(word) => name = word.to_string(),
                        TokenTree::Group(group) => tokens = group.stream(),
                        _ => {}
                    }
                }
                attribute = Some((name, tokens, group.span()));
            }
            _ => item.extend([token]),
        }
    }
    let (name, tokens, span) = attribute?;
    Some((ProgramAttribute { name, tokens, place: (before?, span) }, item))
}

/// The messages in an expansion. One without a place is about the whole attribute.
fn messages(expansion: TokenStream, attribute: (Span, Span)) -> Vec<Message> {
    let tokens: Vec<_> = expansion.into_iter().collect();
    let errors = tokens.windows(3).filter_map(|window| match window {
        [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Group(text)] if name == "compile_error" => {
            let text: syn::LitStr = syn::parse2(text.stream()).expect("an error has a string");
            let of_the_whole = name.span().byte_range().is_empty();
            let (start, end) = if of_the_whole { attribute } else { (name.span(), text.span()) };
            let (start, end) = (start.start(), end.end());
            assert_eq!(start.line, end.line, "{}", text.value());
            Some(Message { line: start.line - 1, columns: (start.column, end.column), text: text.value() })
        }
        _ => None,
    });
    errors.collect()
}

impl Case {
    /// The case with the actual messages.
    fn rendered(&self) -> String {
        let (ProgramAttribute { name, tokens, place }, item) = parts(&self.lines.join("\n"));
        let expansion = match &*name {
            "controller" => expand(Role::Controller, tokens, &item),
            "task" => expand(Role::Task, tokens, &item),
            "derive" => partial(item),
            "explore" => explore(tokens, &item),
            "test" => expand_test(tokens, &item),
            "validate" => webhook(Role::Validate, tokens, &item),
            "mutate" => webhook(Role::Mutate, tokens, &item),
            other => panic!("{}: `{other}` is not an attribute of this crate", self.title),
        };
        let found = messages(expansion.clone(), place);
        assert!(!found.is_empty(), "{} is accepted", self.title);
        syn2::parse_file(&expansion.to_string()).unwrap_or_else(|error| panic!("{}: {error}", self.title));
        let mut rendered = format!("# {}", self.title);
        for (number, line) in self.lines.iter().enumerate() {
            rendered += &format!("\n{line}");
            for Message { columns: (start, end), text, .. } in found.iter().filter(|message| message.line == number) {
                rendered += &format!("\n{}{} {text}", " ".repeat(*start), "^".repeat(end - start));
            }
        }
        rendered
    }
}

#[test]
fn each_mistake_has_its_message_under_its_words() {
    for Theme { path, cases } in themes() {
        let rendered: Vec<_> = cases.iter().map(Case::rendered).collect();
        if std::env::var_os("KOOPER_BLESS").is_some() {
            fs::write(&path, rendered.join("\n\n") + "\n").expect("the theme is written");
            continue;
        }
        for (case, rendered) in cases.iter().zip(rendered) {
            assert_eq!(case.written, rendered, "{}: KOOPER_BLESS=1 writes it", path.display());
        }
    }
}

#[test]
fn each_title_is_a_unique_sentence() {
    let mut titles: Vec<_> = themes().into_iter().flat_map(|theme| theme.cases).map(|case| case.title).collect();
    assert!(titles.len() >= 100);
    assert!(titles.iter().all(|title| title.split(' ').count() >= 3), "each title is a sentence: {titles:?}");
    titles.sort();
    let all = titles.len();
    titles.dedup();
    assert_eq!(titles.len(), all, "a title is given twice");
}

/// The stack for mutated programs. syn recurses for each type within a type: that of rustc, 8 MiB, is enough for some 130
/// of them without optimization, and mutations repeat what they find.
const STACK: usize = 256 << 20;

#[test]
fn mutated_programs_are_expanded_or_refused() {
    let fuzzing = std::thread::Builder::new().stack_size(STACK).spawn(fuzz).expect("a thread");
    fuzzing.join().expect("no panic");
}

fn fuzz() {
    let cases = themes().into_iter().flat_map(|theme| theme.cases);
    let seeds: Vec<_> = cases.map(|case| case.lines.join("\n").into_bytes()).collect();
    let words = &[
        "resource = Pod",
        "workers",
        "\"3m\"",
        "off",
        "=",
        ",",
        "::",
        "=>",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        "&",
        "|",
        "async fn",
        "self",
        "crate",
        "'a",
        "#",
        "states",
        "ignore",
    ];
    kooper_fuzz::fuzz("attributes", seeds, words, |input| {
        let Ok(program) = String::from_utf8_lossy(input).parse::<TokenStream>() else { return };
        let Some((ProgramAttribute { tokens, .. }, item)) = split(program) else { return };
        let controller = |tokens, item: &_| expand(Role::Controller, tokens, item);
        let task = |tokens, item: &_| expand(Role::Task, tokens, item);
        let validate = |tokens, item: &_| webhook(Role::Validate, tokens, item);
        let mutate = |tokens, item: &_| webhook(Role::Mutate, tokens, item);
        for expand in [expand_test, explore, controller, task, validate, mutate] {
            drop(expand(tokens.clone(), &item));
        }
        // Otherwise the text of every program is kept.
        drop((tokens, item));
        proc_macro2::extra::invalidate_current_thread_spans();
    });
}
