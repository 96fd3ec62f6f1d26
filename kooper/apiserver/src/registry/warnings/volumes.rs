//! Volumes with files of which one hides another.

use serde_json::Value;

use super::{items, text};
use crate::patch::format::quote;

/// A file that a volume is to have.
struct File<'a> {
    path: &'a str,
    /// Where it comes from, in a volume of several sources.
    source: String,
}

impl File<'_> {
    /// Returns whether the paths are equal, or one of them is a parent of the other.
    fn overlaps(&self, other: &Self) -> bool {
        let is_below = |path: &str, folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (one, other) = (self.path, other.path);
        !one.is_empty() && !other.is_empty() && (is_below(one, other) || is_below(other, one))
    }

    fn shown(&self) -> String {
        let path = quote(self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }
}

/// Adds a warning for each pair of files that overlap.
pub(super) fn warn(volumes: &Value, to: &mut Vec<String>) {
    for (_, volume) in items(volumes) {
        let name = quote(text(volume, "name"));
        for (what, files) in sources(volume) {
            for (index, file) in files.iter().enumerate() {
                for other in files[..index].iter().filter(|other| file.overlaps(other)) {
                    let (file, other) = (file.shown(), other.shown());
                    to.push(format!("volume {name} ({what}): overlapping paths: {file} with {other}"));
                }
            }
        }
    }
}

/// Returns the sources of a volume: their descriptions for warnings, and their files.
fn sources(volume: &Value) -> Vec<(String, Vec<File<'_>>)> {
    let mut found = Vec::new();
    for (key, name) in [("configMap", "name"), ("secret", "secretName"), ("downwardAPI", "")] {
        let source = &volume[key];
        if source.is_object() {
            found.push((described(key, text(source, name)), listed(source, "")));
        }
    }
    if volume["projected"].is_object() {
        let files = items(&volume["projected"]["sources"]).flat_map(|(_, source)| projected(source)).collect();
        found.push(("Projected".to_owned(), files));
    }
    found
}

/// The files of one source of a projected volume.
fn projected(source: &Value) -> Vec<File<'_>> {
    for key in ["configMap", "secret", "downwardAPI"] {
        if source[key]["items"].is_array() {
            return listed(&source[key], &described(key, text(&source[key], "name")));
        }
    }
    let token = &source["serviceAccountToken"];
    if token.is_object() {
        return vec![file(token, "path", "ServiceAccountToken".to_owned())];
    }
    let bundle = &source["clusterTrustBundle"];
    if bundle.is_object() {
        let name = bundle["name"].as_str().unwrap_or_else(|| text(bundle, "signerName"));
        return vec![file(bundle, "path", format!("ClusterTrustBundle {}", quote(name)))];
    }
    let certificate = &source["podCertificate"];
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let given = parts.into_iter().filter(|(key, _)| !text(certificate, key).is_empty());
    given.map(|(key, what)| file(certificate, key, what.to_owned())).collect()
}

fn described(key: &str, name: &str) -> String {
    match key {
        "configMap" => format!("ConfigMap {}", quote(name)),
        "secret" => format!("Secret {}", quote(name)),
        _ => "DownwardAPI".to_owned(),
    }
}

fn listed<'a>(source: &'a Value, of: &str) -> Vec<File<'a>> {
    items(&source["items"]).map(|(_, item)| file(item, "path", of.to_owned())).collect()
}

fn file<'a>(item: &'a Value, key: &str, source: String) -> File<'a> {
    File { path: text(item, key).trim_end_matches('/'), source }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::warn;

    #[test]
    fn each_pair_of_files_that_overlap_is_named() {
        let volumes = json!([
            {"name": "a", "configMap": {"name": "m", "items": [{"key": "x", "path": "d/"}, {"key": "y", "path": "d/e"}, {"key": "z", "path": "de"}]}},
            {"name": "b", "projected": {"sources": [
                {"secret": {"name": "s", "items": [{"key": "x", "path": "token"}]}},
                {"serviceAccountToken": {"path": "token"}},
                {"downwardAPI": {"items": [{"path": "name"}]}},
                {"podCertificate": {"keyPath": "name/key", "certificateChainPath": "chain"}}
            ]}},
            {"name": "c", "emptyDir": {}}
        ]);
        let mut found = Vec::new();
        warn(&volumes, &mut found);
        let expected = [
            r#"volume "a" (ConfigMap "m"): overlapping paths: "d/e" with "d""#,
            r#"volume "b" (Projected): overlapping paths: "token" (ServiceAccountToken) with "token" (Secret "s")"#,
            r#"volume "b" (Projected): overlapping paths: "name/key" (PodCertificate key) with "name" (DownwardAPI)"#,
        ];
        assert_eq!(found, expected);
    }
}
