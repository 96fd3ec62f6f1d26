//! The figure: memory and time against the number of objects, as SVG that is legible on light and dark pages.

use std::fmt::Write as _;

use crate::program::Program;
use crate::sizes::Point;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 358.0;
/// The inside of a panel; its left side depends on which panel it is.
const TOP: f64 = 46.0;
const BOTTOM: f64 = 270.0;
const PANEL: f64 = 270.0;
/// Distance of the labels from the axis.
const GAP: f64 = 8.0;
/// Names that are nearer to each other than this are moved apart.
const LINE: f64 = 15.0;

/// Returns a program's name in the figure and the class of its color.
fn look(program: &str) -> (&str, &'static str) {
    match program {
        "go-kooper" => ("Kooper for Go", "go"),
        "controller-runtime" => ("controller-runtime", "runtime"),
        "kube" => ("kube", "kube"),
        Program::OURS => ("Kooper", "ours"),
        other => (other, ""),
    }
}

/// A value of a point, the title of its axis and where the panel begins.
struct Panel {
    title: &'static str,
    left: f64,
    value: fn(&Point) -> f64,
    label: fn(f64) -> String,
}

const PANELS: [Panel; 2] = [
    Panel { title: "Peak memory", left: 62.0, value: |point| point.peak, label: megabytes },
    Panel { title: "Time to the last object handled", left: 492.0, value: |point| point.wall, label: seconds },
];

/// The points as a table.
pub(crate) fn table(points: &[Point]) -> String {
    let mut text = "\n| program | pods | wall, s | CPU, s | peak RSS, MB |\n|---|--:|--:|--:|--:|".to_owned();
    for Point { program, objects, replayed, wall, cpu, peak } in points {
        let replayed = if *replayed { ", replayed" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n| {program} | {objects}{replayed} | {wall:.2} | {cpu:.2} | {peak:.0} |");
    }
    text
}

/// The figure with all points.
pub(crate) fn draw(points: &[Point]) -> String {
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="title desc">
  <title id="title">Memory and time against the number of pods</title>
  <desc id="desc">{}</desc>
  <style>
    text {{ fill: #727b85; }}
    .title {{ font-size: 14px; font-weight: 600; }}
    .axis {{ stroke: #727b85; stroke-width: 1; fill: none; }}
    .grid {{ stroke: #727b85; stroke-opacity: 0.25; }}
    .line {{ stroke-width: 2.5; fill: none; }}
    .go {{ stroke: #1a7f8e; }} .kube {{ stroke: #c4620a; }} .ours {{ stroke: #2f6feb; }} .runtime {{ stroke: #8250df; }}
    text.go {{ fill: #1a7f8e; stroke: none; }} text.kube {{ fill: #c4620a; stroke: none; }}
    text.ours {{ fill: #2f6feb; stroke: none; font-weight: 600; }} text.runtime {{ fill: #8250df; stroke: none; }}
    circle.go {{ fill: #1a7f8e; }} circle.kube {{ fill: #c4620a; }} circle.ours {{ fill: #2f6feb; }} circle.runtime {{ fill: #8250df; }}
    circle.replayed {{ fill-opacity: 0; stroke-width: 2; }}
  </style>
"##,
        description(points)
    );
    for panel in &PANELS {
        panel.draw(points, &mut svg);
    }
    let note = "Both axes are logarithmic. ";
    let replayed = if points.iter().any(|point| point.replayed) {
        "A hollow point was measured with a server that replays a recorded list. "
    } else {
        ""
    };
    let _ = writeln!(svg, r#"  <text x="62" y="{}">{note}{replayed}</text>"#, HEIGHT - 30.0);
    // The name of a line is at its end; a single point has its name here.
    let mut x = 62.0;
    for program in programs(points) {
        let own: Vec<&Point> = points.iter().filter(|point| point.program == program).collect();
        let ((name, class), [point]) = (look(program), own.as_slice()) else { continue };
        let text = format!("{name}, measured with {} pods only", count(point.objects));
        let (dot, y) = (x + 4.0, HEIGHT - 12.0);
        let _ = writeln!(svg, r#"  <circle class="{class}" cx="{dot}" cy="{}" r="4"/>"#, y - 4.0);
        let _ = writeln!(svg, r#"  <text class="{class}" x="{}" y="{y}">{text}</text>"#, x + 14.0);
        x += 400.0;
    }
    svg.push_str("</svg>\n");
    svg
}

/// The figure in words, for those who cannot see it.
fn description(points: &[Point]) -> String {
    let each = points.iter().map(|point| {
        let (name, _) = look(point.program);
        format!("{name} with {}: {} and {}", count(point.objects), megabytes(point.peak), seconds(point.wall))
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The decades that contain all values.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let from = logs.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let to = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
        if from.is_finite() { Self { from, to: to.max(from + 1.0) } } else { Self { from: 0.0, to: 1.0 } }
    }

    /// Where a value is between 0 and 1.
    fn place(&self, value: f64) -> f64 {
        (value.max(f64::MIN_POSITIVE).log10() - self.from) / (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.from as i32..=self.to as i32).map(|power| 10f64.powi(power))
    }
}

impl Panel {
    fn draw(&self, points: &[Point], svg: &mut String) {
        let (across, up) =
            (Scale::of(points.iter().map(|point| point.objects.into())), Scale::of(points.iter().map(self.value)));
        let x = |value: f64| self.left + across.place(value) * PANEL;
        let y = |value: f64| BOTTOM - up.place(value) * (BOTTOM - TOP);
        let (left, right) = (self.left, self.left + PANEL);
        let _ = writeln!(svg, "\n  <text class=\"title\" x=\"{left}\" y=\"{}\">{}</text>", TOP - 20.0, self.title);
        for value in up.decades() {
            let (at, label) = (y(value), (self.label)(value));
            let _ = writeln!(svg, r#"  <path class="axis grid" d="M{left} {at:.1}H{right}"/>"#);
            let (x, y) = (left - GAP, at + 4.0);
            let _ = writeln!(svg, r#"  <text x="{x}" y="{y:.1}" text-anchor="end">{label}</text>"#);
        }
        for value in across.decades() {
            let (at, y) = (x(value), BOTTOM + 18.0);
            let label = count(value as u32);
            let _ = writeln!(svg, r#"  <text x="{at:.1}" y="{y}" text-anchor="middle">{label}</text>"#);
        }
        let _ = writeln!(svg, r#"  <path class="axis" d="M{left} {TOP}V{BOTTOM}H{right}"/>"#);
        let middle = left + PANEL / 2.0;
        let _ = writeln!(svg, r#"  <text x="{middle}" y="{}" text-anchor="middle">pods</text>"#, BOTTOM + 36.0);

        let mut names = Vec::new();
        for program in programs(points) {
            let (name, class) = look(program);
            let own: Vec<&Point> = points.iter().filter(|point| point.program == program).collect();
            let corners: Vec<String> = own
                .iter()
                .map(|point| format!("{:.1} {:.1}", x(point.objects.into()), y((self.value)(point))))
                .collect();
            let _ = writeln!(svg, r#"  <path class="line {class}" d="M{}"/>"#, corners.join("L"));
            for point in &own {
                let (x, y) = (x(point.objects.into()), y((self.value)(point)));
                let replayed = if point.replayed { " replayed" } else { "" };
                let _ = writeln!(svg, r#"  <circle class="{class}{replayed}" cx="{x:.1}" cy="{y:.1}" r="4"/>"#);
            }
            if let [_, .., last] = own.as_slice() {
                names.push((x(last.objects.into()) + GAP, y((self.value)(last)) + 4.0, name, class));
            }
        }
        names.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let mut above = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (x, y, name, class) in names {
            // Only names of programs that got equally far are below each other.
            above = (x, if above.0 == x { y.max(above.1 + LINE) } else { y });
            let _ = writeln!(svg, r#"  <text class="{class}" x="{x:.1}" y="{:.1}">{name}</text>"#, above.1);
        }
    }
}

/// Each program once.
fn programs(points: &[Point]) -> Vec<&'static str> {
    let mut programs = Vec::new();
    for point in points {
        if !programs.contains(&point.program) {
            programs.push(point.program);
        }
    }
    programs
}

fn count(objects: u32) -> String {
    match objects {
        1_000_000.. if objects.is_multiple_of(1_000_000) => format!("{} million", objects / 1_000_000),
        1_000.. if objects.is_multiple_of(1_000) => format!("{} 000", objects / 1_000),
        _ => objects.to_string(),
    }
}

fn megabytes(value: f64) -> String {
    if value >= 1_000.0 { format!("{} GB", short(value / 1e3)) } else { format!("{} MB", short(value)) }
}

fn seconds(value: f64) -> String {
    format!("{} s", short(value))
}

/// Two digits are enough.
fn short(value: f64) -> String {
    let digits = if value < 10.0 && (value - value.round()).abs() > 0.04 { 1 } else { 0 };
    if value < 0.95 { format!("{value:.2}").trim_end_matches('0').to_owned() } else { format!("{value:.digits$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(program: &'static str, objects: u32, wall: f64, peak: f64, replayed: bool) -> Point {
        Point { program, objects, replayed, wall, cpu: wall, peak }
    }

    #[test]
    fn each_point_is_drawn_in_both_panels() {
        let points = [
            point("go-kooper", 1_000, 0.2, 60.0, false),
            point("go-kooper", 10_000, 1.0, 200.0, false),
            point("kooper", 1_000, 0.1, 12.0, false),
            point("kooper", 1_000_000, 60.0, 1_400.0, true),
        ];
        let svg = draw(&points);
        assert_eq!(svg.matches("<circle class=\"").count(), 8);
        assert_eq!(svg.matches("class=\"ours replayed\"").count(), 2);
        assert!(svg.contains("Kooper with 1 million: 1.4 GB and 60 s"), "{svg}");
        assert!(svg.contains("a recorded list"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_single_point_has_its_name_below_the_figure() {
        let line = [1_000, 10_000].map(|pods| point("kooper", pods, 1.0, 20.0, false));
        let svg = draw(&[line.as_slice(), &[point("controller-runtime", 20_000, 3.0, 530.0, false)]].concat());
        assert_eq!(svg.matches(">Kooper</text>").count(), 2);
        assert_eq!(svg.matches("controller-runtime, measured with 20 000 pods only").count(), 1);
    }

    #[test]
    fn a_scale_has_all_values_between_its_ends() {
        let scale = Scale::of([0.3, 60.0].into_iter());
        assert_eq!(scale.decades().collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0]);
        assert!(scale.place(0.3) > 0.0 && scale.place(60.0) < 1.0);
        assert_eq!(short(0.1), "0.1");
        assert_eq!(short(1.44), "1.4");
    }
}
