//! Objects that are read from files.

mod line;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kooper_grammar::name;
use serde_json::Value;

/// The metadata that only a server sets.
pub(super) const OF_SERVER: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The annotation from which `kubectl apply` learns which fields were removed from a file.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object, and its place in a file. A generated object has no source.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) object: Value,
    pub(super) source: Option<Source>,
}

/// The part of a file that contains an object.
#[derive(Debug, Clone)]
pub(super) struct Source {
    file: Arc<str>,
    /// The first line, from 1.
    line: usize,
    text: Arc<str>,
}

/// Why a file cannot be read, or an object cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error("{file} cannot be read: {error}")]
    Unreadable { file: String, error: io::Error },
    #[error("the folder {folder} has no file whose name ends in .yaml, .yml or .json")]
    Empty { folder: String },
    #[error("the files contain no objects")]
    NoObjects,
    #[error("{file}:{line}: {problem}")]
    Invalid { file: String, line: usize, problem: String },
    #[error("{object}: {problem}")]
    Rejected { object: String, problem: String },
}

/// Reads the objects of files and folders, in this order. Files without any object are an error.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Document>, DocumentError> {
    let mut documents = Vec::new();
    for path in paths {
        for file in files(path)? {
            documents.extend(parse(&shown(&file), &text(&file)?)?);
        }
    }
    if documents.is_empty() && !paths.is_empty() { Err(DocumentError::NoObjects) } else { Ok(documents) }
}

/// Reads the objects of a string in YAML or JSON.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Document>, DocumentError> {
    // Editors and shells on Windows begin a file with it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    let is_json = is_json(file, text);
    for (line, text) in if is_json { json(file, text)? } else { yaml(text) } {
        let source = Source { file: file.into(), line, text: text.into() };
        let object = if is_json { from_json(text) } else { from_yaml(text) };
        let object = object.map_err(|(line, problem)| source.error(line, &problem))?;
        add(object, source, &mut documents)?;
    }
    Ok(documents)
}

/// The file at a path, or the files of a folder in the order of their names. Like kubectl, it ignores other extensions.
fn files(path: &Path) -> Result<Vec<PathBuf>, DocumentError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| DocumentError::Unreadable { file: shown(path), error };
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(unreadable)?;
    let is_manifest = |file: &PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        file.is_file() && extension.is_some_and(|extension| ["yaml", "yml", "json"].contains(&extension))
    };
    let mut files: Vec<_> = entries.iter().map(fs::DirEntry::path).filter(is_manifest).collect();
    files.sort();
    if files.is_empty() { Err(DocumentError::Empty { folder: shown(path) }) } else { Ok(files) }
}

fn text(file: &Path) -> Result<String, DocumentError> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    read.map_err(|error| DocumentError::Unreadable { file: shown(file), error })
}

fn shown(file: &Path) -> String {
    if file == Path::new("-") { "stdin".to_owned() } else { file.display().to_string() }
}

/// Returns `true` for JSON. YAML can begin with a brace, too, but rarely with a quoted key.
fn is_json(file: &str, text: &str) -> bool {
    let first = text.trim_start().strip_prefix('{').map(str::trim_start);
    file.ends_with(".json") || first.is_some_and(|rest| rest.starts_with('"'))
}

/// The documents of a stream of JSON, each with its first line.
fn json<'a>(file: &str, text: &'a str) -> Result<Vec<(usize, &'a str)>, DocumentError> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let before = stream.byte_offset();
        let begin = before + (text[before..].len() - text[before..].trim_start().len());
        let line = 1 + text[..begin].matches('\n').count();
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(_)) => documents.push((line, &text[begin..stream.byte_offset()])),
            Some(Err(error)) => {
                let problem = without_place(&error.to_string());
                return Err(DocumentError::Invalid { file: file.to_owned(), line: error.line(), problem });
            }
        }
    }
}

/// The documents of a stream of YAML, each with its first line. In YAML, `---` at the start of a line always begins a
/// document, even inside of a block.
fn yaml(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut first, mut begin, mut at) = (1, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let marker = |marker| {
            line.strip_prefix(marker)
                .is_some_and(|rest: &str| rest.trim_end().is_empty() || rest.starts_with([' ', '\t']))
        };
        if marker("---") || marker("...") {
            documents.push((first, &text[begin..at]));
            (first, begin) = (number + 1, at + 3);
        }
        at += line.len();
    }
    documents.push((first, &text[begin..]));
    let has_content =
        |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#') && !line.starts_with('%');
    documents.retain(|(_, text)| text.lines().any(has_content));
    documents
}

fn from_json(text: &str) -> Result<Value, (usize, String)> {
    serde_json::from_str(text).map_err(|error| (error.line(), without_place(&error.to_string())))
}

/// Parses a document, or returns the line and the message of the error.
fn from_yaml(text: &str) -> Result<Value, (usize, String)> {
    // As for kubectl, `0644` is octal.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error: serde_saphyr::Error| {
        let line = error.location().map_or(1, |place| usize::try_from(place.line()).unwrap_or(1));
        let message = error.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter);
        (line, without_place(&message))
    })
}

/// The first line of a parser's message, without its ` at line 3 column 4`.
fn without_place(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    let message = message.rsplit_once(" at line ").map_or(message, |(problem, _)| problem);
    let is_place = |before: &str| before.starts_with("line ");
    match message.split_once(": ") {
        Some((before, problem)) if is_place(before) => problem.to_owned(),
        _ => message.to_owned(),
    }
}

/// Adds an object, or the items of a list.
fn add(mut object: Value, source: Source, documents: &mut Vec<Document>) -> Result<(), DocumentError> {
    if object.is_null() {
        return Ok(());
    }
    let Value::Object(fields) = &object else {
        return Err(source.error(1, "it is not an object: write `apiVersion`, `kind` and `metadata`"));
    };
    for field in ["apiVersion", "kind"] {
        if fields.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            let problem = format!("`{field}` is missing: write it as a string");
            return Err(source.at(field, &problem));
        }
    }
    if let Some(Value::Array(items)) = fields.get("items")
        && fields["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
    {
        for (index, item) in items.iter().enumerate() {
            add(item.clone(), source.part(&format!("items[{index}]")), documents)?;
        }
        return Ok(());
    }
    let name = &object["metadata"]["name"];
    let problem = match name.as_str() {
        None if !name.is_null() => Some("`metadata.name` is not a string: write it in quotes"),
        None | Some("") => Some("`metadata.name` is missing: write the name of the object"),
        // In a path, the rest would be a subresource.
        Some(name) if name.contains('/') => Some("`metadata.name` has a `/`: write a name without it"),
        Some(_) => None,
    };
    if let Some(problem) = problem {
        return Err(source.at("metadata.name", problem));
    }
    // As for kubectl, an empty namespace is none.
    if object["metadata"]["namespace"] == ""
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("namespace");
    }
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        name::label(namespace).map_err(|error| source.at("metadata.namespace", &error.to_string()))?;
    }
    documents.push(Document { object, source: Some(source) });
    Ok(())
}

impl Document {
    /// Kind and name, as kubectl prints them: `pod/hello`.
    pub(super) fn shown(&self) -> String {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text(&self.object["kind"]).to_lowercase(), text(&self.object["metadata"]["name"]))
    }

    /// An error in a field, such as `spec.replicas`.
    pub(super) fn error(&self, field: &str, problem: &str) -> DocumentError {
        match &self.source {
            Some(source) => source.at(field, problem),
            None => DocumentError::Rejected { object: self.shown(), problem: problem.to_owned() },
        }
    }
}

impl Source {
    /// An error in a line of this part; the first line is 1.
    fn error(&self, line: usize, problem: &str) -> DocumentError {
        let line = self.line + line.saturating_sub(1);
        DocumentError::Invalid { file: self.file.to_string(), line, problem: problem.to_owned() }
    }

    /// An error in a field.
    fn at(&self, field: &str, problem: &str) -> DocumentError {
        self.error(line::of(&self.text, field), problem)
    }

    /// The part that begins with a field.
    fn part(&self, field: &str) -> Self {
        let line = line::of(&self.text, field);
        let begin: usize = self.text.split_inclusive('\n').take(line - 1).map(str::len).sum();
        Self { file: self.file.clone(), line: self.line + line - 1, text: self.text[begin..].into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let documents = parse("shop.yaml", text).unwrap_or_else(|error| panic!("{error}"));
        documents
            .iter()
            .map(|document| format!("{}:{}", document.shown(), document.source.as_ref().expect("a file").line))
            .collect()
    }

    fn refused(text: &str) -> String {
        parse("shop.yaml", text).expect_err(text).to_string()
    }

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";

    #[test]
    fn a_file_has_any_number_of_objects() {
        assert_eq!(names(POD), ["pod/a:1"]);
        assert_eq!(names(&format!("# two\n---\n{POD}---\n# nothing\n---\n{POD}...\n")), ["pod/a:2", "pod/a:8"]);
        assert_eq!(names(&format!("%YAML 1.2\n---\n{POD}")), ["pod/a:2"]);
        assert_eq!(names(""), [""; 0]);
        // Indented hyphens are not a marker.
        assert_eq!(names(&format!("{POD}data:\n  a: |\n    ---\n    b\n")), ["pod/a:1"]);
    }

    #[test]
    fn json_is_read_too_several_objects_of_it_and_lists() {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}"#;
        assert_eq!(names(pod), ["pod/a:1"]);
        assert_eq!(names(&format!("{pod}\n\n{pod}")), ["pod/a:1", "pod/a:3"]);
        let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: b\n";
        assert_eq!(names(list), ["pod/a:4", "pod/b:7"]);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_object() {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}"#;
        for (file, text) in [("shop.json", pod), ("shop.yaml", POD)] {
            let documents = parse(file, &format!("\u{feff}{text}")).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(documents.iter().map(Document::shown).collect::<Vec<_>>(), ["pod/a"], "{file}");
        }
    }

    #[test]
    fn a_number_that_begins_with_zero_is_octal() {
        let text = "modes: [0644, 0400, 0o644, 644, 0, 0.5]\nname: \"0644\"\n";
        let expected = serde_json::json!({"modes": [420, 256, 420, 644, 0, 0.5], "name": "0644"});
        assert_eq!(from_yaml(text).expect("it is valid"), expected);
    }

    #[test]
    fn an_error_names_file_line_and_problem() {
        let text = format!("{POD}---\napiVersion: v1\nkind: [\n");
        assert!(
            refused(&text).starts_with("shop.yaml:6: ") || refused(&text).starts_with("shop.yaml:7: "),
            "{}",
            refused(&text)
        );
        let text = format!("{POD}---\nkind: Pod\n");
        assert_eq!(refused(&text), "shop.yaml:5: `apiVersion` is missing: write it as a string");
        let text = format!("{POD}---\napiVersion: v1\nkind: Pod\nmetadata:\n  labels: {{}}\n");
        assert_eq!(refused(&text), "shop.yaml:7: `metadata.name` is missing: write the name of the object");
        assert_eq!(refused("a\n"), "shop.yaml:1: it is not an object: write `apiVersion`, `kind` and `metadata`");
        let json = refused("{\n\"apiVersion\": \"v1\",\n\"kind\": }");
        assert!(json.starts_with("shop.yaml:3: ") && !json.contains(" at line "), "{json}");
        let twice = refused(&format!("{POD}kind: Pod\n"));
        assert_eq!(twice, "shop.yaml:4: duplicate mapping key `kind` is not allowed here");
    }

    #[test]
    fn a_name_or_namespace_that_no_path_can_have_is_refused_and_an_empty_namespace_is_none() {
        let pod = |metadata: &str| format!("apiVersion: v1\nkind: Pod\nmetadata:\n  {metadata}\n");
        for (metadata, problem) in [
            ("name: 5", "shop.yaml:4: `metadata.name` is not a string: write it in quotes"),
            ("name: a/status", "shop.yaml:4: `metadata.name` has a `/`: write a name without it"),
            ("name: a\n  namespace: A B", "shop.yaml:5: \"A B\" is not a DNS label: "),
        ] {
            let refused = refused(&pod(metadata));
            assert!(refused.starts_with(problem), "{refused}");
        }
        let documents = parse("shop.yaml", &pod("name: a\n  namespace: ''")).expect("it is valid");
        assert_eq!(documents[0].object["metadata"], serde_json::json!({"name": "a"}));
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_names() {
        let directory = tempfile::tempdir().expect("a folder");
        let folder = directory.path().to_owned();
        let unreadable = read(&[folder.join("none.yaml")]).expect_err("there is none").to_string();
        assert!(unreadable.contains("none.yaml cannot be read: "), "{unreadable}");
        assert!(
            read(std::slice::from_ref(&folder))
                .expect_err("it is empty")
                .to_string()
                .ends_with("ends in .yaml, .yml or .json")
        );
        let json = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}"#;
        fs::write(folder.join("b.yml"), "# nothing\n---\n").expect("a file");
        let none = read(std::slice::from_ref(&folder)).expect_err("it has no objects").to_string();
        assert_eq!(none, "the files contain no objects");
        fs::write(folder.join("c.json"), json).expect("a file");
        for (name, pod) in [("b.yml", "b"), ("a.yaml", "a"), ("readme.md", "d")] {
            fs::write(folder.join(name), POD.replace("{name: a}", &format!("{{name: {pod}}}"))).expect("a file");
        }
        let read = read(std::slice::from_ref(&folder)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.iter().map(Document::shown).collect::<Vec<_>>(), ["pod/a", "pod/b", "pod/c"]);
    }
}
