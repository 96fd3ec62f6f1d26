//! Metrics of the process, with the names of Prometheus' own libraries.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Opts};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::metrics::table::{self, Metric};

/// CPU, memory and files of this process, read at each scrape.
#[derive(Debug)]
pub(crate) struct Process {
    cpu: Counter,
    memory: Gauge,
    start: Gauge,
    files: Gauge,
    most_files: Gauge,
}

impl Process {
    /// The metrics of this process, which is taken to start now.
    pub(crate) fn new() -> prometheus::Result<Self> {
        let gauge = |metric: &Metric| Gauge::with_opts(Opts::new(metric.name, metric.help));
        let process = Self {
            cpu: Counter::with_opts(Opts::new(table::PROCESS_CPU.name, table::PROCESS_CPU.help))?,
            memory: gauge(&table::PROCESS_MEMORY)?,
            start: gauge(&table::PROCESS_START)?,
            files: gauge(&table::PROCESS_FILES)?,
            most_files: gauge(&table::PROCESS_MOST_FILES)?,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        process.start.set(now.as_secs_f64());
        Ok(process)
    }

    fn parts(&self) -> [&dyn Collector; 5] {
        [&self.cpu, &self.memory, &self.start, &self.files, &self.most_files]
    }

    /// Updates the metrics. A value that cannot be read is left unchanged.
    fn read(&self) {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
        self.cpu.inc_by((used - self.cpu.get()).max(0.0));
        if let Some(bytes) = fs::read_to_string("/proc/self/status").ok().and_then(|status| resident_bytes(&status)) {
            self.memory.set(bytes as f64);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // The folder itself is open, too.
            self.files.set(files.count().saturating_sub(1) as f64);
        }
        let most = getrlimit(Resource::Nofile).current;
        self.most_files.set(most.map_or(f64::INFINITY, |most| most as f64));
    }
}

/// The resident memory in bytes, from `/proc/self/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read();
        self.parts().into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Registry, TextEncoder};

    use super::*;

    #[test]
    fn the_metrics_of_the_process_are_read_at_each_scrape() {
        let registry = Registry::new();
        registry.register(Box::new(Process::new().expect("good names"))).expect("an empty registry");
        let values = || {
            let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
            let value = |metric: &Metric| -> f64 {
                let line = text.lines().find_map(|line| line.strip_prefix(metric.name)?.strip_prefix(' '));
                line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{} in {text}", metric.name))
            };
            [&table::PROCESS_CPU, &table::PROCESS_MEMORY, &table::PROCESS_FILES, &table::PROCESS_MOST_FILES].map(value)
        };
        let before = values();
        let _file = fs::File::open("/proc/self/status").expect("it exists");
        let after = values();
        assert!(before[0] > 0.0 && after[0] >= before[0], "{before:?} {after:?}");
        assert!(after[1] > 1e5, "{after:?}");
        // Tests beside this one open files, too.
        assert!(after[2] >= 3.0 && after[3] > after[2], "{after:?}");
    }

    #[test]
    fn the_resident_memory_is_in_bytes() {
        assert_eq!(resident_bytes("VmHWM:\t   2000 kB\nVmRSS:\t    1000 kB\n"), Some(1_024_000));
        assert_eq!(resident_bytes("VmRSS:\t many kB\n"), None);
        assert_eq!(resident_bytes(""), None);
    }
}
