//! A dashboard for Grafana: panels of the metrics of a program.

mod panels;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::query::{Scope, one_of, watchers};
use crate::metrics::table;
use crate::metrics::table::Metric;
use kooper_access::Controller;
use kooper_runtime::internal::watch::retriever::fnv1a;
use panels::{Panel, rows};

/// The columns of a dashboard.
const COLUMNS: u32 = 24;

/// The width and height of a panel.
const PANEL: (u32, u32) = (8, 7);

/// The version of the format, which Grafana updates when it reads an older one.
const SCHEMA: u32 = 39;

/// The longest uid that Grafana accepts.
const LONGEST_UID: usize = 40;

/// The dashboard of a program, for every installation of it. Its webhooks are known by their paths.
pub(crate) fn dashboard(program: &str, controllers: &[Controller], webhooks: &[String]) -> Value {
    let has = |feature: fn(&Controller) -> bool| controllers.iter().any(feature);
    let (elected, shared) = (has(Controller::has_leader_election), has(Controller::has_shards));
    json!({
        "uid": uid(program),
        "title": format!("Controllers of {program}"),
        "description": format!("The Kubernetes controllers of {program}: calls, queue, watches, leader election and shards"),
        "tags": ["kooper", "kubernetes"],
        "schemaVersion": SCHEMA,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables(program, controllers, webhooks)},
        "panels": placed(&rows(&scope(), elected, shared, !webhooks.is_empty())),
    })
}

/// The uid of the dashboard. One that is too long ends with a hash of the whole name: two programs of one uid would
/// replace each other's dashboard.
fn uid(program: &str) -> String {
    let uid = format!("kooper-{program}");
    if uid.len() <= LONGEST_UID {
        return uid;
    }
    let hash = format!("-{:016x}", fnv1a(program.as_bytes()));
    let begin: String = uid.chars().take(LONGEST_UID - hash.len()).collect();
    begin + &hash
}

/// The series that the variables of the dashboard choose.
fn scope() -> Scope {
    Scope {
        target: vec![r#"namespace=~"$namespace""#.to_owned(), r#"job=~"$job""#.to_owned()],
        controllers: Some(r#"controller=~"$controller""#.to_owned()),
        ..Scope::default()
    }
}

/// Where the series come from: each variable narrows the next one.
fn variables(program: &str, controllers: &[Controller], webhooks: &[String]) -> Vec<Value> {
    let watchers = watchers(webhooks);
    let names = one_of(controllers.iter().map(Controller::name).chain(watchers.iter().map(String::as_str)));
    let by_controller = (&table::MAX_WORKERS, format!("controller=~\"{names}\""));
    // Webhooks that read nothing have no controllers.
    let by_installation = (&table::WEBHOOK_PROBED, format!("installation=~\"{program}([.].*)?\""));
    let of = |(metric, known): &(&Metric, String), matchers: &[&str]| {
        let matchers: Vec<_> = matchers.iter().copied().chain([&**known]).collect();
        format!("{}{{{}}}", metric.name, matchers.join(", "))
    };
    let place = if controllers.is_empty() { &by_installation } else { &by_controller };
    let target = scope().target;
    let variable = |name: &str, label: &str, selector: String| {
        let query = format!("label_values({selector}, {name})");
        // All of them are those that the query finds, and not those of other programs.
        json!({
            "name": name, "label": label, "type": "query", "datasource": source(),
            "query": {"query": query, "refId": name},
            // With each change of the time range; sorted by name.
            "refresh": 2, "sort": 1, "multi": true, "includeAll": true,
            "current": {"selected": true, "text": ["All"], "value": ["$__all"]},
        })
    };
    vec![
        json!({"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}),
        variable("namespace", "Namespace", of(place, &[])),
        variable("job", "Job", of(place, &[&target[0]])),
        variable("controller", "Controller", of(&by_controller, &[&target[0], &target[1]])),
    ]
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// The panels in their places, each row below a heading.
fn placed(rows: &[(&str, Vec<Panel>)]) -> Vec<Value> {
    let (mut placed, mut top) = (Vec::new(), 0);
    let mut id = 0;
    let mut next_id = || {
        id += 1;
        id
    };
    for (title, panels) in rows {
        placed.push(json!({
            "id": next_id(), "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
        }));
        top += 1;
        let mut left = 0;
        for panel in panels {
            if left + PANEL.0 > COLUMNS {
                (left, top) = (0, top + PANEL.1);
            }
            placed.push(shown(panel, next_id(), (left, top)));
            left += PANEL.0;
        }
        top += PANEL.1;
    }
    placed
}

fn shown(panel: &Panel, id: u32, (left, top): (u32, u32)) -> Value {
    let targets = panel.queries.iter().enumerate().map(|(at, (query, legend))| {
        // Quantiles are those of all namespaces.
        let place = if query.contains("by (namespace, ") { " in {{namespace}}" } else { "" };
        let legend = format!("{legend}{place}");
        json!({
            "refId": format!("Q{at}"), "datasource": source(), "expr": query, "legendFormat": legend, "range": true,
        })
    });
    json!({
        "id": id, "type": "timeseries", "title": panel.title, "description": panel.description,
        "datasource": source(),
        "gridPos": {"x": left, "y": top, "w": PANEL.0, "h": PANEL.1},
        "targets": targets.collect::<Vec<_>>(),
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"},
            },
            "overrides": [],
        },
        "options": {
            "legend": {"showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    })
}
