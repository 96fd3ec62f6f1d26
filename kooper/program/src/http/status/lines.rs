//! The last ten minutes of a controller, as lines.

use std::fmt::{self, Write};

use super::model::shown;
use crate::http::history::{EVERY, KEPT, Sample};

/// The size of a line. A sample is two units wide.
const WIDTH: usize = 2 * (KEPT - 1);
const HEIGHT: f64 = 40.0;

/// A value of a controller in the course of time.
struct Line {
    name: &'static str,
    /// Its values, the newest one last; `None` where there is none.
    values: Vec<Option<f64>>,
    written: fn(f64) -> String,
}

/// Writes the lines of a controller: its queue, its calls, how long they take, and those that fail.
pub(super) fn write(html: &mut String, samples: &[Sample]) -> fmt::Result {
    // Rates need two samples.
    if samples.len() < 2 {
        return Ok(());
    }
    html.push_str("<div class=\"lines\">\n");
    for line in lines(samples) {
        line.write(html)?;
    }
    html.push_str("</div>\n");
    Ok(())
}

fn lines(samples: &[Sample]) -> [Line; 4] {
    let steps = || samples.iter().zip(samples.iter().skip(1));
    let rate = |of: fn(&Sample) -> u64| {
        let rate = |(before, after)| Some(of(after).saturating_sub(of(before)) as f64 / EVERY.as_secs_f64());
        steps().map(rate).collect()
    };
    let mean = |(before, after): (&Sample, &Sample)| {
        let calls = after.ended.saturating_sub(before.ended);
        (calls > 0).then(|| after.took.saturating_sub(before.took).as_secs_f64() / calls as f64)
    };
    let queued = samples.iter().skip(1).map(|sample| Some(sample.queued as f64)).collect();
    [
        Line { name: "keys that wait for a worker", values: queued, written: |keys| format!("{keys:.0}") },
        Line { name: "calls", values: rate(|sample| sample.ended), written: a_second },
        Line { name: "call duration", values: steps().map(mean).collect(), written: duration },
        Line { name: "failed calls", values: rate(|sample| sample.failed), written: a_second },
    ]
}

fn a_second(rate: f64) -> String {
    format!("{rate:.1}/s")
}

fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{:.1}ms", seconds * 1_000.0);
    }
    shown(std::time::Duration::from_secs_f64(seconds))
}

impl Line {
    fn write(&self, html: &mut String) -> fmt::Result {
        let most = self.values.iter().flatten().copied().fold(0.0, f64::max);
        let (now, name) = (self.values.last().copied().flatten(), self.name);
        let now = now.map_or_else(|| "none".to_owned(), self.written);
        let limit = (self.written)(most);
        write!(
            html,
            "<figure><figcaption>{name} <b>{now}</b> · at most {limit}</figcaption>\n\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{name} in the last ten minutes: {now} now, at most {limit}\">"
        )?;
        let first = KEPT - 1 - self.values.len().min(KEPT - 1);
        // A single value is a dot: a path of one point is not drawn, unless its ends are round.
        let mut is_open = false;
        html.push_str("<path d=\"");
        for (index, value) in self.values.iter().enumerate() {
            let Some(value) = value else {
                is_open = false;
                continue;
            };
            let height = if most > 0.0 { value / most } else { 0.0 };
            let (x, y) = (2 * (first + index), HEIGHT - 2.0 - height * (HEIGHT - 4.0));
            if is_open {
                write!(html, "L{x} {y:.1}")?;
            } else {
                write!(html, "M{x} {y:.1}h0")?;
            }
            is_open = true;
        }
        html.push_str("\"/></svg></figure>\n");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn html(samples: &[Sample]) -> String {
        let mut html = String::new();
        write(&mut html, samples).expect("a string");
        html
    }

    #[test]
    fn rates_are_those_between_two_samples() {
        let sample =
            |queued, ended, failed, millis| Sample { queued, ended, failed, took: Duration::from_millis(millis) };
        assert_eq!(html(&[sample(1, 2, 3, 4)]), "", "there is no rate yet");
        let html = html(&[sample(9, 0, 0, 0), sample(4, 10, 5, 200), sample(2, 10, 5, 200)]);
        for part in [
            "keys that wait for a worker <b>2</b> · at most 4<",
            ">calls <b>0.0/s</b> · at most 2.0/s<",
            ">call duration <b>none</b> · at most 20.0ms<",
            ">failed calls <b>0.0/s</b> · at most 1.0/s<",
            // The newest value is at the right end.
            "<path d=\"M236 2.0h0L238 20.0\"/>",
            "<path d=\"M236 2.0h0L238 38.0\"/>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn a_controller_that_was_started_again_has_no_negative_rate() {
        let html = html(&[Sample { ended: 100, ..Sample::default() }, Sample { ended: 3, ..Sample::default() }]);
        assert!(html.contains("calls <b>0.0/s</b> · at most 0.0/s"), "{html}");
    }
}
