//! YAML that programs print.

use serde_json::Value;

/// The documents of a text, without those that are empty.
pub fn documents(yaml: &str) -> Vec<Value> {
    let mut texts = vec![String::new()];
    for line in yaml.lines() {
        if line == "---" {
            texts.push(String::new());
        } else if let Some(text) = texts.last_mut() {
            text.extend([line, "\n"]);
        }
    }
    let has_content = |text: &&String| text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let parse = |text: &String| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    texts.iter().filter(has_content).map(parse).collect()
}
