//! The date and the machine, for the heading.

use std::fs;
use std::thread;

use jiff::Timestamp;

use crate::arguments::Arguments;

/// Hardware of the machine, which the results depend on.
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    gigabytes: f64,
}

impl Machine {
    /// Looks at this one.
    pub(crate) fn look() -> Self {
        let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
        let kibibytes: f64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned()),
            gigabytes: kibibytes * 1024.0 / 1e9,
        }
    }

    /// The heading of the results.
    pub(crate) fn describe(&self, arguments: &Arguments) -> String {
        let Self { cores, processor, gigabytes } = self;
        let Arguments { objects, churn, versions, figure, .. } = arguments;
        let how = if figure.is_some() {
            "The cold sync, once for each number of pods".to_owned()
        } else {
            let runs = arguments.runs();
            format!(
                "Medians of {runs} interleaved runs with {objects} objects, lowest and highest in parentheses; \
                 churn ran once, for {churn} s"
            )
        };
        format!(
            "# Benchmark of {date}\n\n\
             {cores} cores ({processor}), {gigabytes:.0} GB, shared with the API server, etcd and the loader. {versions}\n\n\
             {how}. 4 workers, no resync; every handler reads a field of the spec. MB are 10⁶ bytes.",
            date = Timestamp::now().strftime("%Y-%m-%d"),
        )
    }
}

/// The first value of a field in a file of `name: value` lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let values = text.lines().filter_map(|line| line.split_once(':'));
    values.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// The memory that programs can still take, in megabytes.
pub(crate) fn free_megabytes() -> Option<f64> {
    let kibibytes: f64 = field("/proc/meminfo", "MemAvailable")?.trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}
