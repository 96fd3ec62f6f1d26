use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use super::*;
use kooper_runtime::leader::LeaderElection;

fn place() -> Place {
    Place::shop(Some("blue"), "shops")
}

fn controllers(elected: bool) -> [Controller; 2] {
    let pods = Controller::builder::<Pod>("pods").handler(async || {});
    let pods = if elected { pods.leader_election(LeaderElection::default()) } else { pods };
    let maps = Controller::builder::<ConfigMap>("maps").shards(Shards::new(32)).handler(async || {});
    [pods.build().expect("a controller"), maps.build().expect("a controller")]
}

fn names(alerts: &[Alert]) -> Vec<&str> {
    alerts.iter().map(|alert| alert.name).collect()
}

const PATH: &str = "/validate-example-com-v1-shop/check";

fn webhooks() -> [String; 1] {
    [PATH.to_owned()]
}

#[test]
fn alerts_are_for_the_controllers_and_leases_of_the_program() {
    let alerts = of_program(&controllers(true), &webhooks(), &place());
    for alert in &alerts {
        let expression = alert.expression();
        let matcher = match alert.name {
            "KooperAbsent" => r#"{controller=""#,
            "KooperNoLeader" => r#"{name=~"shop-pods[.]blue"}"#,
            "KooperWebhookFailing" => &format!(r#"{{webhook=~"{PATH}", code!="200"}}"#),
            webhooks if webhooks.starts_with("KooperWebhook") => r#"{installation="shop.blue"}"#,
            _ => r#"{controller=~"pods|maps|webhook-check"}"#,
        };
        assert!(expression.contains(matcher), "{}: {expression}", alert.name);
    }
    assert_eq!(names(&alerts).iter().filter(|name| **name == "KooperAbsent").count(), 2);
    assert_eq!(
        alerts[0].expression(),
        "absent(controller_runtime_max_concurrent_reconciles{controller=\"pods\"}) or on (controller) (group by \
         (namespace, job, controller) (last_over_time(controller_runtime_max_concurrent_reconciles{controller=\"pods\"}[1h])) unless group \
         by (namespace, job, controller) (controller_runtime_max_concurrent_reconciles{controller=\"pods\"}))"
    );
    let without = of_program(&controllers(false), &[], &place());
    assert!(!names(&without).iter().any(|name| *name == "KooperNoLeader" || name.starts_with("KooperWebhook")));
}

#[test]
fn webhooks_alone_have_an_alert_when_the_program_is_down() {
    let expressions: Vec<_> = of_program(&[], &webhooks(), &place()).iter().map(Alert::expression).collect();
    let is_in_one = |part: &str| expressions.iter().any(|expression| expression.contains(part));
    assert!(is_in_one("absent(kooper_webhook_last_probe_timestamp_seconds{"), "{expressions:#?}");
    assert!(is_in_one(r#"kooper_watch_errors_total{controller=~"webhook-check"}"#), "{expressions:#?}");
    assert!(!is_in_one(r#"controller=~"""#), "series of other programs have no such label: {expressions:#?}");
}

#[test]
fn alerts_of_an_installation_are_for_its_target_only() {
    for alert in of_target(&controllers(false), true, vec![r#"namespace="shops""#.into(), r#"job="shop""#.into()]) {
        let expression = alert.expression();
        let metrics = expression.matches('{').count();
        assert_eq!(expression.matches(r#"{namespace="shops", job="shop""#).count(), metrics, "{expression}");
    }
}

#[test]
fn only_the_ratio_of_failed_calls_leaves_out_daemons() {
    let clocks = Controller::builder::<ConfigMap>("clocks").handler(async || {}).daemon(async || {});
    let controllers: Vec<_> = clocks.build().expect("a controller").with_daemon().collect();
    let alerts = of_program(&controllers, &[], &place());
    for alert in alerts.iter().filter(|alert| alert.name != "KooperAbsent") {
        let (all, handlers) = (r#"{controller=~"clocks|clocks-daemon"}"#, r#"{controller=~"clocks"}"#);
        let [wanted, other] = if alert.name == "KooperErrorRatio" { [handlers, all] } else { [all, handlers] };
        let expression = alert.expression();
        assert!(expression.contains(wanted) && !expression.contains(other), "{}: {expression}", alert.name);
    }
    assert!(names(&alerts).contains(&"KooperErrorRatio"));
}

#[test]
fn shards_may_be_without_an_owner_for_the_longest_lease_and_for_a_minute_at_least() {
    let controller = |name: &str, lease: u64| {
        let shards = Shards::new(32).lease_duration(Duration::from_millis(lease));
        Controller::builder::<ConfigMap>(name).shards(shards).handler(async || {}).build().expect("a controller")
    };
    for (leases, settled, longest) in [([15_000, 20_000], 120, 60), ([299_500, 15_000], 600, 300)] {
        let controllers = [controller("maps", leases[0]), controller("others", leases[1])];
        let alerts = of_program(&controllers, &[], &place());
        let alert = alerts.iter().find(|alert| alert.name == "KooperShardsUnowned").expect("they have shards");
        let end = format!(" - process_start_time_seconds < {settled}) > {longest}");
        assert!(alert.expression().ends_with(&end), "{}", alert.expression());
    }
}

#[test]
fn no_two_rules_have_the_same_name_and_labels() {
    let alerts = of_program(&controllers(true), &webhooks(), &place());
    let rules = rules(&"shop".into(), &alerts);
    let rules = rules["groups"][0]["rules"].as_array().expect("a list");
    let known: BTreeSet<_> = rules.iter().map(|rule| format!("{}{}", rule["alert"], rule["labels"])).collect();
    assert_eq!(known.len(), rules.len());
    let quoted = |metric: &str| table::ALL.iter().any(|known| known.name == metric);
    assert!(alerts.iter().all(|alert| alert.description.split([' ', ',', '.']).all(|word| {
        !["kooper_", "workqueue_", "controller_runtime_"].iter().any(|family| word.starts_with(family)) || quoted(word)
    })));
}

#[test]
fn the_reference_lists_every_alert_and_no_other() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Kooper")?.split('`').next());
    let listed: BTreeSet<_> = rows.map(|rest| format!("Kooper{rest}")).collect();
    let alerts = of_program(&controllers(true), &webhooks(), &place());
    let expected: BTreeSet<_> = alerts.iter().map(|alert| alert.name.to_owned()).collect();
    assert_eq!(listed, expected);
    for alert in &alerts {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` | ", alert.name))).unwrap_or_default();
        let severity = format!(" | {} | ", alert.severity.label());
        assert!(row.contains(&severity), "{}: {row}", alert.name);
    }
}
