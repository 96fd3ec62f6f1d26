use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::*;
use kooper::shards::Shards;
use kooper_runtime::leader::LeaderElection;

/// With all of them, or none.
fn controllers(all: bool) -> Vec<Controller> {
    let builder = |name: &str| Controller::builder::<Pod>(name).handler(async || {});
    let (pods, maps) = (builder("pods"), builder("maps").shards(Shards::new(32)));
    let controllers = if all { vec![pods.leader_election(LeaderElection::default()), maps] } else { vec![pods] };
    controllers.into_iter().map(|builder| builder.build().expect("a controller")).collect()
}

fn webhooks() -> [String; 1] {
    ["/validate-example-com-v1-shop/check".to_owned()]
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().expect("a list")
}

#[test]
fn every_metric_of_the_table_is_on_the_dashboard_or_has_a_twin_there() {
    // Those of Kooper for Go, and one that has the same value under another name.
    const TWINS: [&Metric; 11] = [
        &table::QUEUED_EVENTS,
        &table::IN_QUEUE,
        &table::PROCESSED,
        &table::QUEUE_LENGTH,
        &table::RECONCILE_ERRORS,
        &table::WORK_DURATION,
        &table::UNFINISHED_WORK,
        &table::HANDLER_TIMEOUTS,
        &table::PROCESS_START,
        &table::PROCESS_FILES,
        &table::PROCESS_MOST_FILES,
    ];
    let text = dashboard("shop", &controllers(true), &webhooks()).to_string();
    for metric in table::ALL {
        let is_shown =
            text.contains(&format!("{}{{", metric.name)) || text.contains(&format!("{}_bucket{{", metric.name));
        let has_twin = TWINS.iter().any(|twin| twin.name == metric.name);
        assert!(is_shown != has_twin, "{}: shown {is_shown}", metric.name);
    }
}

#[test]
fn panels_have_a_place_of_their_own_and_queries_of_the_chosen_series() {
    let dashboard = dashboard("shop", &controllers(true), &webhooks());
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels(&dashboard) {
        assert!(ids.insert(panel["id"].as_u64()), "{panel}");
        let place = &panel["gridPos"];
        let of = |side: &str| place[side].as_u64().expect("a number");
        for x in of("x")..of("x") + of("w") {
            for y in of("y")..of("y") + of("h") {
                assert!(x < u64::from(COLUMNS) && places.insert((x, y)), "{panel}");
            }
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().expect("a string");
            assert!(query.contains("namespace=~\"$namespace\", job=~\"$job\""), "{query}");
            let legend = target["legendFormat"].as_str().expect("a string");
            let is_quantile = query.starts_with("histogram_quantile");
            assert_eq!(legend.ends_with(" in {{namespace}}"), !is_quantile, "{target}");
        }
        assert!(panel["type"] == "row" || !panel["description"].as_str().unwrap_or_default().is_empty(), "{panel}");
    }
}

#[test]
fn a_program_without_leader_election_shards_and_webhooks_has_no_panels_for_them() {
    let titles = |elected, webhooks: &[String]| {
        let dashboard = dashboard("shop", &controllers(elected), webhooks);
        let rows = panels(&dashboard).iter().filter(|panel| panel["type"] == "row");
        rows.map(|row| row["title"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles(false, &[]), ["Calls", "Work queue", "Watches", "Process"]);
    assert_eq!(titles(true, &[]), ["Calls", "Work queue", "Watches", "Leader election", "Shards", "Process"]);
    assert_eq!(titles(false, &webhooks()), ["Calls", "Work queue", "Watches", "Webhooks", "Process"]);
}

#[test]
fn the_uid_is_as_long_as_grafana_allows_and_differs_for_names_that_only_differ_at_their_end() {
    let fits = "a".repeat(LONGEST_UID - "kooper-".len());
    assert_eq!(uid(&fits), format!("kooper-{fits}"));
    let [one, other] = ["a", "b"].map(|end| uid(&(fits.clone() + end)));
    assert_eq!([one.len(), other.len()], [LONGEST_UID; 2]);
    assert_ne!(one, other);
}

#[test]
fn a_program_with_webhooks_alone_is_found_by_its_installations() {
    let text = dashboard("shop", &[], &webhooks())["templating"].to_string().replace("\\\"", "'");
    let query = "label_values(kooper_webhook_last_probe_timestamp_seconds{installation=~'shop([.].*)?'}, namespace)";
    assert!(text.contains(query), "{text}");
    assert!(text.contains("controller=~'webhook-check'}") && !text.contains("controller=~''"), "{text}");
}

#[test]
fn a_certificate_that_has_expired_is_at_the_beginning_of_the_axis() {
    let dashboard = dashboard("shop", &[], &webhooks());
    let panel = panels(&dashboard).iter().find(|panel| panel["title"] == "Time until certificates expire");
    let panel = panel.expect("a panel of certificates");
    let query = panel["targets"][0]["expr"].as_str().expect("a string");
    assert!(query.starts_with("clamp_min(min by ") && query.ends_with(" - time(), 0)"), "{query}");
    assert_eq!(panel["fieldConfig"]["defaults"]["min"], 0);
}
