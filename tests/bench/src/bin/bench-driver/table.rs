//! The Markdown tables.

use std::fmt::Write as _;

use kooper_bench::{Kind, Report, median};

use crate::program::Program;
use crate::sample::{Sample, Stage};

/// One column: its title, where its value comes from and how many digits it has.
struct Column {
    title: &'static str,
    value: fn(&Sample) -> Option<f64>,
    digits: usize,
    /// `true` if ours is compared with the others.
    compared: bool,
}

const fn column(title: &'static str, digits: usize, value: fn(&Sample) -> Option<f64>) -> Column {
    Column { title, value, digits, compared: true }
}

const fn aside(title: &'static str, digits: usize, value: fn(&Sample) -> Option<f64>) -> Column {
    Column { title, value, digits, compared: false }
}

const WALL: Column = column("wall, s", 2, |sample| sample.wall);
const CPU: Column = column("CPU, s", 2, |sample| sample.cpu);
const SERVER: Column = column("server's CPU, s", 2, |sample| sample.server);
const SHARE: Column = aside("CPU, % of a core", 2, |sample| sample.share);
const PEAK: Column = column("peak RSS, MB", 0, |sample| sample.peak);
const RESIDENT: Column = column("RSS after, MB", 0, |sample| sample.resident);
const RATE: Column = aside("written/s", 0, |sample| sample.rate);
const CPU_EACH: Column = column("CPU per event, µs", 0, |sample| sample.cpu_each);
const P50: Column = column("p50, ms", 1, |sample| report(sample, |report| report.p50_us as f64 / 1e3));
const P99: Column = column("p99, ms", 1, |sample| report(sample, |report| report.p99_us as f64 / 1e3));
const CALLS: Column = aside("handler calls", 0, |sample| report(sample, |report| report.calls as f64));
const SEEN: Column = aside("changes seen", 0, |sample| report(sample, |report| report.changes as f64));

fn report(sample: &Sample, value: fn(&Report) -> f64) -> Option<f64> {
    sample.report.as_ref().map(value)
}

fn columns(stage: Stage) -> &'static [Column] {
    match stage {
        Stage::Sync => &[WALL, CPU, PEAK, SERVER],
        Stage::Idle => &[SHARE, RESIDENT],
        Stage::Latency(_) => &[P50, P99, CPU_EACH, RATE, SEEN],
        Stage::Relist => &[WALL, CPU, PEAK, SERVER, RESIDENT, CALLS, SEEN],
        Stage::Churn => &[PEAK, RESIDENT, CPU_EACH, P50, P99, RATE, SEEN],
    }
}

/// A table for each stage of one kind.
pub(crate) fn of_kind(kind: Kind, programs: &[Program], samples: &[Sample]) -> String {
    let mut stages: Vec<Stage> = Vec::new();
    for sample in samples {
        if !stages.contains(&sample.stage) {
            stages.push(sample.stage);
        }
    }
    let mut text = String::new();
    for stage in stages {
        let of_stage: Vec<&Sample> = samples.iter().filter(|sample| sample.stage == stage).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n### {stage}, {kind}\n\n{}", of_stage_table(columns(stage), programs, &of_stage));
    }
    text
}

fn of_stage_table(columns: &[Column], programs: &[Program], samples: &[&Sample]) -> String {
    let values = |program: &str, column: &Column| {
        let of_program = samples.iter().filter(|sample| sample.program == program);
        Spread::of(of_program.filter_map(|sample| (column.value)(sample)).collect())
    };
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let mut text = format!("| program | {} |\n|---|{}", titles.join(" | "), "--:|".repeat(columns.len()));
    for program in programs.iter().filter(|program| samples.iter().any(|sample| sample.program == program.name)) {
        let _ = write!(text, "\n| {} |", program.name);
        for column in columns {
            let Some(spread) = values(program.name, column) else {
                text.push_str(" – |");
                continue;
            };
            let _ = write!(text, " {}", spread.show(column.digits));
            let ours = values(Program::OURS, column).filter(|_| column.compared && program.compared);
            if let Some(ratio) = ours.map(|ours| ours.median / spread.median).filter(|ratio| ratio.is_finite()) {
                let _ = write!(text, ", ours {ratio:.2}×");
            }
            text.push_str(" |");
        }
    }
    text
}

/// The median of some runs between the lowest and the highest.
#[derive(Debug, PartialEq)]
struct Spread {
    lowest: f64,
    median: f64,
    highest: f64,
    runs: usize,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        Some(Self { lowest, median: median(values.iter().copied()), highest, runs: values.len() })
    }

    fn show(&self, digits: usize) -> String {
        let Self { lowest, median, highest, runs } = self;
        match runs {
            1 => format!("{median:.digits$}"),
            _ => format!("{median:.digits$} ({lowest:.digits$}–{highest:.digits$})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_shows_the_median_between_its_ends() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).map(|spread| spread.show(1));
        assert_eq!(spread.as_deref(), Some("2.0 (1.0–3.0)"));
        let even = Spread::of(vec![4.0, 1.0]).map(|spread| spread.median);
        assert_eq!(even, Some(2.5));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
