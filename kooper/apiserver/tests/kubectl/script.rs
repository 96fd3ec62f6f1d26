//! Scripts: blocks of bash with an empty line between them, each with an output of its own.

use std::path::Path;

/// A case.
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// One block.
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) command: String,
}

impl Script {
    /// All scripts of a folder, by name.
    pub(crate) fn read_all(folder: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(folder).expect("there are cases");
        let mut files: Vec<_> = entries.map(|file| file.expect("it can be read").path()).collect();
        files.sort();
        let read = |path: &Path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Self::parse(name, &std::fs::read_to_string(path).expect("a case is text"))
        };
        files.iter().map(|path| read(path)).collect()
    }

    fn parse(name: String, text: &str) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        let mut open = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                open = false;
            } else if open {
                let step = steps.last_mut().expect("a step is open");
                step.command.push('\n');
                step.command.push_str(line);
            } else if !line.starts_with('#') {
                steps.push(Step { line: number + 1, command: line.to_owned() });
                open = true;
            }
        }
        Self { name, steps }
    }
}
