//! A history that is not as it should be.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::plan::{self, REPLAY};
use super::problem::{Oracle, Problem};
use super::trial::Trial;

/// A history of an [`Exploration`](super::Exploration) that is not as it should be:
/// what went wrong at which point, what came of it, the seed, and the file that
/// repeats this history alone. It displays all of that.
pub struct Finding(Box<FoundProblem>);

struct FoundProblem {
    test: String,
    seed: u64,
    trial: Trial,
    problem: Problem,
    /// The file, unless no fault is needed, or why there is none.
    file: Option<io::Result<PathBuf>>,
    requests: Vec<String>,
}

impl Finding {
    pub(super) fn new(test: &str, seed: u64, trial: Trial, problem: Problem, requests: Vec<String>) -> Self {
        let is_disturbed = trial != Trial::Undisturbed;
        let file = is_disturbed.then(|| plan::write(test, &trial));
        Self(Box::new(FoundProblem { test: test.to_owned(), seed, trial, problem, file, requests }))
    }

    /// The oracle that found it.
    #[must_use]
    pub fn oracle(&self) -> Oracle {
        self.0.problem.oracle()
    }

    /// The sentence: what went wrong, and what came of it.
    #[must_use]
    pub fn summary(&self) -> String {
        let sentence = format!("{}, {}", self.0.trial, self.0.problem);
        let mut chars = sentence.chars();
        chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
    }

    /// The file that repeats the history with `KOOPER_REPLAY`; `None` for one without faults, and if it cannot be
    /// written.
    #[must_use]
    pub fn file(&self) -> Option<&std::path::Path> {
        self.0.file.as_ref()?.as_deref().ok()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}.", self.summary())?;
        if !self.0.requests.is_empty() {
            writeln!(f, "\nthe last requests:")?;
            for request in &self.0.requests {
                writeln!(f, "  {request}")?;
            }
        }
        writeln!(f, "\nseed {}", self.0.seed)?;
        match &self.0.file {
            Some(Ok(file)) => {
                let test = if self.0.test.is_empty() { "NAME" } else { self.0.test.as_str() };
                write!(f, "{REPLAY}={} cargo test {test} repeats only this history", file.display())
            }
            // The seed repeats it, among others.
            Some(Err(error)) => write!(f, "there is no file of this history: {error}"),
            None => write!(f, "it needs no fault"),
        }
    }
}

/// As it is displayed, so that a test that returns it shows it.
impl fmt::Debug for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Finding {}

#[cfg(test)]
mod tests {
    use super::{Finding, Problem, Trial};

    #[test]
    fn a_finding_shows_how_to_repeat_it_also_if_the_name_of_its_test_is_unknown() {
        for (test, shown) in [("tests::a", " cargo test tests::a repeats"), ("", " cargo test NAME repeats")] {
            let trial = Trial::Storm { seed: 1, again: None };
            let finding = Finding::new(test, 7, trial, Problem::Failed("it is late".to_owned()), Vec::new());
            let text = finding.to_string();
            assert!(text.contains("\nseed 7\nKOOPER_REPLAY=") && text.contains(shown), "{text}");
            let file = finding.file().expect("it can be written");
            std::fs::remove_file(file).expect("it can be removed");
        }
    }
}
