//! Each message of the macro and of the runtime's traits has a case, and so has each key.
//!
//! The cases are the programs of `fail`, and those of the macro crate's own table, which need no compiler.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// The text of all files with this ending below a folder of the workspace.
fn texts(folder: &Path, extension: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts.extend(self::texts(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            texts.push(fs::read_to_string(&path).expect("a file of text"));
        }
    }
    texts
}

/// All messages that some case shows.
fn shown() -> String {
    let table = texts(&workspace("kooper-macros/src/controller/mistakes"), "txt");
    let programs = texts(&workspace("ui-tests/fail"), "stderr");
    table.into_iter().chain(programs).collect::<Vec<_>>().join("\n")
}

fn workspace(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

/// The first string of each `message!`.
fn messages(tokens: TokenStream, found: &mut Vec<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for window in tokens.windows(3) {
        if let [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Group(group)] = window
            && name == "message"
            && let Some(TokenTree::Literal(text)) = group.stream().into_iter().next()
        {
            let text: syn::LitStr = syn::parse_str(&text.to_string()).expect("a text");
            found.push(text.value());
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            messages(group.stream(), found);
        }
    }
}

/// The texts of each `#[diagnostic::on_unimplemented(…)]`.
fn diagnostics(tokens: TokenStream, found: &mut Vec<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        if matches!(before, Some(TokenTree::Ident(name)) if name == "on_unimplemented") {
            literals(group.stream(), found);
        } else {
            diagnostics(group.stream(), found);
        }
    }
}

/// The texts in code.
fn literals(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(text) => {
                found.extend(syn::parse_str::<syn::LitStr>(&text.to_string()).map(|text| text.value()));
            }
            _ => {}
        }
    }
}

/// The texts of each `impl Display for Type`, by the type.
fn displays(tokens: TokenStream) -> Vec<(String, Vec<String>)> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let displays = tokens.windows(4).filter_map(|window| match window {
        [TokenTree::Ident(display), TokenTree::Ident(_), TokenTree::Ident(name), TokenTree::Group(body)]
            if display == "Display" =>
        {
            let mut found = Vec::new();
            literals(body.stream(), &mut found);
            Some((name.to_string(), found))
        }
        _ => None,
    });
    displays.collect()
}

/// The messages of the grammars' errors. One with a placeholder for the words of a type, such as `{form}` for those
/// of `Form`, is repeated with each of them, up to the word.
fn errors_of_grammars() -> Vec<String> {
    let sources = texts(&workspace("kooper/grammar/src"), "rs");
    let displays: Vec<_> =
        sources.iter().flat_map(|source| displays(source.parse().expect("a file of Rust"))).collect();
    let (errors, words): (Vec<_>, Vec<_>) = displays.into_iter().partition(|(name, _)| name.ends_with("Error"));
    let mut messages: Vec<String> = errors.into_iter().flat_map(|(_, texts)| texts).collect();
    for (name, words) in words {
        if words.iter().any(|word| word.contains('{')) {
            continue;
        }
        let hole = format!("{{{}}}", name.to_lowercase());
        let begins: Vec<_> =
            messages.iter().filter_map(|text| text.split_once(&hole)).map(|(begin, _)| begin).collect();
        let all: Vec<_> =
            begins.iter().flat_map(|begin| words.iter().map(move |word| format!("{begin}{word}"))).collect();
        messages.extend(all);
    }
    messages
}

/// The parts of a format's text that stand in every message made with it.
fn fixed_parts(text: &str) -> Vec<String> {
    let plain = text.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let mut parts = Vec::new();
    let mut rest = plain.as_str();
    while let Some((part, after)) = rest.split_once('{') {
        parts.push(part.to_owned());
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    parts.push(rest.to_owned());
    parts.iter().map(|part| part.replace('\u{1}', "{").replace('\u{2}', "}")).collect()
}

fn has_in_order(line: &str, parts: &[String]) -> bool {
    let mut rest = line;
    parts.iter().all(|part| match rest.split_once(part.as_str()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[test]
fn every_message_has_a_case() {
    let mut found = Vec::new();
    for source in texts(&workspace("kooper-macros/src"), "rs") {
        messages(source.parse().expect("a file of Rust"), &mut found);
    }
    assert!(found.len() >= 30, "the messages are written with `message!`: {}", found.len());
    for message in &found {
        let says = |part: &String| part.contains(char::is_alphabetic);
        assert!(fixed_parts(message).iter().any(says), "this message has no fixed words to search for: {message}");
    }
    let errors = errors_of_grammars();
    assert!(errors.len() >= 40, "the errors of the grammars are found: {errors:#?}");
    all_are_seen(found.into_iter().chain(errors));
}

#[test]
fn every_diagnostic_of_a_trait_has_a_case() {
    let mut found = Vec::new();
    let crates = ["kooper", "kooper/runtime", "kooper/access", "kooper/program", "kooper/testing", "kooper/webhooks"];
    let folders = crates.map(|name| format!("{name}/src"));
    for source in folders.iter().flat_map(|folder| texts(&workspace(folder), "rs")) {
        diagnostics(source.parse().expect("a file of Rust"), &mut found);
    }
    assert!(found.len() >= 40, "the diagnostics are found: {found:#?}");
    all_are_seen(found);
}

fn all_are_seen(messages: impl IntoIterator<Item = String>) {
    let shown = shown();
    for message in messages {
        let parts = fixed_parts(&message);
        assert!(shown.lines().any(|line| has_in_order(line, &parts)), "no case shows: {message}");
    }
}

/// The names in a table of keys.
fn keys(table: &str) -> Vec<String> {
    let table = fs::read_to_string(workspace("kooper-macros/src").join(table)).expect("the table");
    let names = table.lines().filter_map(|line| line.trim().strip_prefix("name: \"")?.strip_suffix("\","));
    names.map(str::to_owned).collect()
}

#[test]
fn every_key_has_an_accepted_and_a_rejected_case() {
    let accepted = texts(&workspace("ui-tests/pass"), "rs").join("\n");
    let shown = shown();
    let tables = [
        ("controller/keys.rs", &["controller("][..], 20),
        ("controller/keys/calls.rs", &["controller("], 8),
        ("controller/keys/annotations.rs", &["controller("], 2),
        ("controller/keys/tasks.rs", &["task("], 1),
        ("webhook/keys.rs", &["validate(", "mutate("], 8),
    ];
    for (table, attributes, least) in tables {
        let keys = keys(table);
        assert!(keys.len() >= least, "{keys:?}");
        for key in keys {
            let written = [" = ", "(", ",", ")"].map(|after| format!("{key}{after}"));
            let of_one = |line: &&str| attributes.iter().any(|attribute| line.contains(attribute));
            let in_attribute = |line: &&str| of_one(line) && written.iter().any(|key| line.contains(key));
            assert!(accepted.lines().any(|line| in_attribute(&line)), "no program of `pass` has `{key}`");
            assert!(shown.contains(&format!("`{key}` takes ")), "no case has a wrong `{key}`");
        }
    }
}

#[test]
fn every_missing_capability_has_a_case() {
    let code = fs::read_to_string(workspace("kooper/access/src/capability.rs")).expect("the capabilities");
    let aliases = code.lines().filter(|line| line.contains("= Access<"));
    let names: Vec<_> = aliases.filter_map(|line| line.strip_prefix("pub type ")?.split(['<', ' ']).next()).collect();
    assert!(names.len() >= 8, "the capabilities are found in the code: {names:?}");
    let said = texts(&workspace("ui-tests/fail/capabilities"), "stderr").join("\n");
    for name in names {
        let taken = |line: &str| line.starts_with("error[E0277]: this argument may not") && line.contains(name);
        assert!(said.lines().any(taken), "no program of `fail` is advised to take `{name}`");
    }
}

/// A message without the parts that depend on its program: quoted words, and numbers.
fn skeleton(message: &str) -> String {
    let mut skeleton = String::new();
    let mut quote = None;
    for c in message.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if c == '`' || c == '"' => {
                skeleton.push(c);
                quote = Some(c);
            }
            None if c.is_ascii_digit() => {}
            None => skeleton.push(c),
        }
    }
    skeleton
}

#[test]
fn every_compiler_error_in_the_documentation_is_one_of_these() {
    let shown: Vec<_> = shown().lines().map(|line| skeleton(line.trim_start_matches([' ', '^']))).collect();
    let mut quoted = 0;
    for page in texts(&workspace("docs"), "md") {
        let lines: Vec<_> = page.lines().collect();
        for pair in lines.windows(2) {
            let [message, place] = pair else { continue };
            if message.starts_with("error") && place.trim_start().starts_with("--> ") {
                let text = message.split_once(": ").map_or(*message, |(_, text)| text);
                let wanted = skeleton(text);
                assert!(shown.iter().any(|line| line.ends_with(&wanted)), "no case shows: {message}");
                quoted += 1;
            }
        }
    }
    assert!(quoted >= 3, "the errors in the documentation are found: {quoted}");
}
