//! Two programs side by side.

use std::array;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// A program that is measured.
#[derive(Debug)]
pub struct Program {
    /// Its name in the table.
    pub name: &'static str,
    /// Its file.
    pub command: PathBuf,
}

/// Measures both programs in turn, and prints a table with the medians and their ratios. Each column has a title and
/// a number of digits.
pub async fn compare<const N: usize>(
    title: &str,
    columns: [(&str, usize); N],
    programs: &[Program; 2],
    rounds: usize,
    measure: impl AsyncFn(&Program) -> Result<[f64; N]>,
) -> Result<()> {
    let titles = columns.map(|(title, _)| title);
    println!("\n| {title} | {} |\n|---|{}", titles.join(" | "), "--:|".repeat(N));
    let mut measured = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for turn in 0..2 {
            let at = (round + turn) % 2;
            measured[at].push(measure(&programs[at]).await.with_context(|| programs[at].name)?);
        }
    }
    let [before, ours] = measured.map(|rounds: Vec<[f64; N]>| {
        array::from_fn::<_, N, _>(|column| median(rounds.iter().map(|values| values[column])))
    });
    for (program, values) in programs.iter().zip([before, ours]) {
        let cells = values.iter().zip(columns).map(|(value, (_, digits))| format!("{value:.digits$}"));
        println!("| {} | {} |", program.name, cells.collect::<Vec<_>>().join(" | "));
    }
    let ratios = before.iter().zip(ours).map(|(before, ours)| format!("{:.2}×", ours / before));
    println!("| ratio | {} |", ratios.collect::<Vec<_>>().join(" | "));
    Ok(())
}

/// The median of at least one value.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.into_iter().collect();
    all.sort_unstable_by(f64::total_cmp);
    f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2])
}
