//! Series for which each alert must or must not fire.

/// Series over time, in promtool's notation: a value for each minute.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) alert: &'static str,
    pub(super) series: &'static [(&'static str, &'static str)],
    /// When the alert must not fire.
    pub(super) quiet: &'static [&'static str],
    /// When it fires, with which labels and which summary.
    pub(super) fires: Option<(&'static str, Labels, &'static str)>,
}

type Labels = &'static [(&'static str, &'static str)];

const CONTROLLER: Labels = &[("controller", "metrics")];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a watch receives nothing any more",
        alert: "KooperWatchSilent",
        series: &[(r#"kooper_watch_last_heard_seconds{controller="metrics", watch="pods"}"#, "0+30x60")],
        quiet: &["6m", "8m"],
        fires: Some((
            "9m",
            &[("controller", "metrics"), ("watch", "pods")],
            "The controller metrics has received nothing about pods for 4m 30s",
        )),
    },
    Case {
        name: "an idle watch receives bookmarks",
        alert: "KooperWatchSilent",
        series: &[(r#"kooper_watch_last_heard_seconds{controller="metrics", watch="pods"}"#, "60 10 70 190 5x60")],
        quiet: &["3m", "10m", "60m"],
        fires: None,
    },
    Case {
        name: "the watch of another program receives nothing",
        alert: "KooperWatchSilent",
        series: &[(r#"kooper_watch_last_heard_seconds{controller="other", watch="pods"}"#, "900x60")],
        quiet: &["30m"],
        fires: None,
    },
    Case {
        name: "a watch is forbidden",
        alert: "KooperWatchFailing",
        series: &[
            (r#"kooper_watch_errors_total{controller="metrics", reason="forbidden"}"#, "0x5 1+1x60"),
            (r#"kooper_watch_errors_total{controller="metrics", reason="server"}"#, "0x60"),
        ],
        quiet: &["5m", "15m"],
        fires: Some((
            "30m",
            &[("controller", "metrics"), ("reason", "forbidden")],
            "Lists or watches of the controller metrics fail: forbidden",
        )),
    },
    Case {
        name: "a watch fails once",
        alert: "KooperWatchFailing",
        series: &[(r#"kooper_watch_errors_total{controller="metrics", reason="server"}"#, "0x5 1x60")],
        quiet: &["6m", "12m", "30m"],
        fires: None,
    },
    Case {
        name: "the queue grows",
        alert: "KooperQueueGrowing",
        series: &[(r#"workqueue_depth{controller="metrics", name="metrics"}"#, "0x20 1+5x60")],
        quiet: &["20m", "35m"],
        fires: Some((
            "60m",
            &[("controller", "metrics"), ("name", "metrics")],
            "The queue of the controller metrics is never empty and grows",
        )),
    },
    Case {
        name: "the queue is long at the start and is worked off",
        alert: "KooperQueueGrowing",
        series: &[(r#"workqueue_depth{controller="metrics", name="metrics"}"#, "9000-100x90")],
        quiet: &["10m", "40m", "80m"],
        fires: None,
    },
    Case {
        name: "the queue grows now and then and is emptied",
        alert: "KooperQueueGrowing",
        series: &[(r#"workqueue_depth{controller="metrics", name="metrics"}"#, "0+10x9 0+10x9 0+10x9 0+10x9 0+10x9")],
        quiet: &["19m", "29m", "39m", "49m"],
        fires: None,
    },
    Case {
        name: "two keys keep failing",
        alert: "KooperKeysFailing",
        series: &[(r#"kooper_failing_keys{controller="metrics"}"#, "0x5 2x60")],
        quiet: &["5m", "30m"],
        fires: Some(("40m", CONTROLLER, "Objects of the controller metrics keep failing: 2")),
    },
    Case {
        name: "a key fails and recovers",
        alert: "KooperKeysFailing",
        series: &[(r#"kooper_failing_keys{controller="metrics"}"#, "0x5 1x20 0x5 1x20 0x10")],
        quiet: &["25m", "50m"],
        fires: None,
    },
    Case {
        name: "most calls fail",
        alert: "KooperErrorRatio",
        series: &[
            (r#"controller_runtime_reconcile_errors_total{controller="metrics"}"#, "0+6x60"),
            (r#"controller_runtime_reconcile_total{controller="metrics", result="error"}"#, "0+6x60"),
            (r#"controller_runtime_reconcile_total{controller="metrics", result="success"}"#, "0+4x60"),
        ],
        quiet: &["10m"],
        fires: Some(("30m", CONTROLLER, "60% of the calls of the controller metrics fail")),
    },
    Case {
        name: "there are no calls",
        alert: "KooperErrorRatio",
        series: &[
            (r#"controller_runtime_reconcile_errors_total{controller="metrics"}"#, "0x60"),
            (r#"controller_runtime_reconcile_total{controller="metrics", result="success"}"#, "0x60"),
        ],
        quiet: &["30m"],
        fires: None,
    },
    Case {
        name: "a handler panics",
        alert: "KooperPanics",
        series: &[(r#"controller_runtime_reconcile_panics_total{controller="metrics"}"#, "0x5 1x60")],
        quiet: &["5m", "30m"],
        fires: Some(("6m", CONTROLLER, "The handler of the controller metrics panics")),
    },
    Case {
        name: "a call is stuck",
        alert: "KooperCallsStuck",
        series: &[
            (r#"kooper_stuck_calls{controller="metrics", instance="a"}"#, "0x5 1x60"),
            (r#"kooper_stuck_calls{controller="metrics", instance="b"}"#, "0x60"),
        ],
        quiet: &["5m", "6m"],
        fires: Some(("7m", CONTROLLER, "Calls of the controller metrics do not end: 1")),
    },
    Case {
        name: "no replica leads",
        alert: "KooperNoLeader",
        series: &[
            (r#"leader_election_master_status{name="metrics-metrics", instance="a"}"#, "1x10 0x50"),
            (r#"leader_election_master_status{name="metrics-metrics", instance="b"}"#, "0x60"),
        ],
        quiet: &["10m", "12m"],
        fires: Some(("13m", &[("name", "metrics-metrics")], "No replica has the Lease metrics-metrics")),
    },
    Case {
        name: "another replica takes over",
        alert: "KooperNoLeader",
        series: &[
            (r#"leader_election_master_status{name="metrics-metrics", instance="a"}"#, "1x10 0x50"),
            (r#"leader_election_master_status{name="metrics-metrics", instance="b"}"#, "0x11 1x50"),
            (r#"leader_election_master_status{name="other", instance="c"}"#, "0x60"),
        ],
        quiet: &["11m", "13m", "40m"],
        fires: None,
    },
    Case {
        name: "the leader changes each minute",
        alert: "KooperLeaderChanges",
        series: &[
            (r#"kooper_leader_transitions_total{controller="metrics", instance="a"}"#, "0+1x120"),
            (r#"kooper_leader_transitions_total{controller="metrics", instance="b"}"#, "0+1x120"),
        ],
        quiet: &["1m"],
        fires: Some(("100m", CONTROLLER, "The leader of the controller metrics has changed 120 times in an hour")),
    },
    Case {
        name: "a roll-out changes the leader",
        alert: "KooperLeaderChanges",
        series: &[
            (r#"kooper_leader_transitions_total{controller="metrics", instance="a"}"#, "0 0 1x60"),
            (r#"kooper_leader_transitions_total{controller="metrics", instance="b"}"#, "0 0 0 1x60"),
        ],
        quiet: &["5m", "40m"],
        fires: None,
    },
    Case {
        name: "an object does not decode",
        alert: "KooperObjectsUndecodable",
        series: &[(r#"kooper_decode_errors_total{controller="metrics"}"#, "0x5 1x60")],
        quiet: &["5m", "30m"],
        fires: Some(("6m", CONTROLLER, "Objects do not decode as the types of the controller metrics")),
    },
    Case {
        name: "objects do not decode before the first scrape",
        alert: "KooperObjectsUndecodable",
        series: &[(r#"kooper_decode_errors_total{controller="metrics"}"#, "_x5 4x60")],
        quiet: &["4m", "30m"],
        fires: Some(("7m", CONTROLLER, "Objects do not decode as the types of the controller metrics")),
    },
    Case {
        name: "objects that did not decode long ago are scraped again after a gap",
        alert: "KooperObjectsUndecodable",
        series: &[(r#"kooper_decode_errors_total{controller="metrics"}"#, "0x5 4x40 _x20 4x60")],
        quiet: &["40m", "70m", "100m"],
        fires: Some(("7m", CONTROLLER, "Objects do not decode as the types of the controller metrics")),
    },
    Case {
        name: "an object leaves the selector",
        alert: "KooperObjectsAbandoned",
        series: &[(r#"kooper_abandoned_total{controller="metrics"}"#, "0x5 1x120")],
        quiet: &["5m", "70m"],
        fires: Some((
            "6m",
            CONTROLLER,
            "Objects with the finalizer of the controller metrics no longer match its selector",
        )),
    },
    Case {
        name: "Events are lost",
        alert: "KooperEventsDropped",
        series: &[(r#"kooper_events_dropped_total{controller="metrics"}"#, "0x5 1x120")],
        quiet: &["5m", "70m"],
        fires: Some(("6m", CONTROLLER, "The controller metrics cannot write all of its Kubernetes Events")),
    },
    Case {
        name: "the program is down",
        alert: "KooperAbsent",
        series: &[(
            r#"controller_runtime_max_concurrent_reconciles{controller="metrics", job="shop", namespace="a"}"#,
            "3x20",
        )],
        // A series is known for five minutes after its last value.
        quiet: &["20m", "34m"],
        fires: Some(("40m", CONTROLLER, "The controller metrics has no metrics")),
    },
    Case {
        name: "one of two installations is down",
        alert: "KooperAbsent",
        series: &[
            (
                r#"controller_runtime_max_concurrent_reconciles{controller="metrics", job="shop", namespace="a"}"#,
                "3x200",
            ),
            (
                r#"controller_runtime_max_concurrent_reconciles{controller="metrics", job="shop", namespace="b"}"#,
                "3x20",
            ),
        ],
        // After an hour it counts as uninstalled.
        quiet: &["20m", "34m", "90m"],
        fires: Some((
            "40m",
            &[("controller", "metrics"), ("job", "shop"), ("namespace", "b")],
            "The controller metrics has no metrics",
        )),
    },
    Case {
        name: "shards have no owner, and one of the replicas restarts again and again",
        alert: "KooperShardsUnowned",
        series: &[
            (r#"kooper_shards_unowned_seconds{controller="shards", instance="a"}"#, "0x5 30+60x60"),
            (r#"process_start_time_seconds{instance="a"}"#, "0x70"),
            (r#"kooper_shards_unowned_seconds{controller="shards", instance="b"}"#, "5x70"),
            (r#"process_start_time_seconds{instance="b"}"#, "0+60x70"),
        ],
        quiet: &["6m", "7m"],
        fires: Some((
            "8m",
            &[("controller", "shards")],
            "Shards of the controller shards have had no owner for 2m 30s",
        )),
    },
    Case {
        name: "one of two replicas cannot read the Leases of the shards",
        alert: "KooperShardsUnowned",
        series: &[
            (r#"kooper_shards_unowned_seconds{controller="shards", instance="a"}"#, "0x5 30+60x60"),
            (r#"process_start_time_seconds{instance="a"}"#, "0x70"),
            (r#"kooper_shards_unowned_seconds{controller="shards", instance="b"}"#, "0x70"),
            (r#"process_start_time_seconds{instance="b"}"#, "0x70"),
        ],
        quiet: &["8m", "60m"],
        fires: None,
    },
    Case {
        name: "a webhook fails",
        alert: "KooperWebhookFailing",
        series: &[
            (
                r#"controller_runtime_webhook_requests_total{webhook="/validate-example-com-v1-shop/check", code="500"}"#,
                "0x5 1+1x60",
            ),
            (
                r#"controller_runtime_webhook_requests_total{webhook="/validate-example-com-v1-shop/check", code="200"}"#,
                "0+9x60",
            ),
        ],
        quiet: &["5m", "15m"],
        fires: Some((
            "30m",
            &[("webhook", "/validate-example-com-v1-shop/check"), ("code", "500")],
            "Requests to the webhook /validate-example-com-v1-shop/check fail with 500",
        )),
    },
    Case {
        name: "a program with webhooks is down",
        alert: "KooperWebhookAbsent",
        series: &[(r#"kooper_webhook_last_probe_timestamp_seconds{installation="webhooks"}"#, "0+60x20")],
        quiet: &["20m", "34m"],
        fires: Some(("40m", &[("installation", "webhooks")], "The webhooks have no metrics")),
    },
    Case {
        name: "no API server reaches the webhooks",
        alert: "KooperWebhookUnreached",
        series: &[(r#"kooper_webhook_last_probe_timestamp_seconds{installation="webhooks"}"#, "0x60")],
        quiet: &["5m", "15m"],
        fires: Some((
            "20m",
            &[("installation", "webhooks")],
            "No API server has reached the webhooks of webhooks for 20m 0s",
        )),
    },
    Case {
        name: "an API server reaches the webhooks every minute, by one of two replicas",
        alert: "KooperWebhookUnreached",
        series: &[
            (r#"kooper_webhook_last_probe_timestamp_seconds{installation="webhooks", pod="a"}"#, "0+60x60"),
            (r#"kooper_webhook_last_probe_timestamp_seconds{installation="webhooks", pod="b"}"#, "0x60"),
        ],
        quiet: &["20m", "50m"],
        fires: None,
    },
    Case {
        name: "a certificate is not renewed",
        alert: "KooperWebhookCertificateExpires",
        series: &[
            (
                r#"kooper_webhook_certificate_expiry_timestamp_seconds{installation="webhooks", certificate="serving"}"#,
                "172000x90",
            ),
            (
                r#"kooper_webhook_certificate_expiry_timestamp_seconds{installation="webhooks", certificate="authority"}"#,
                "900000x90",
            ),
        ],
        quiet: &["30m", "59m"],
        fires: Some((
            "61m",
            &[("installation", "webhooks"), ("certificate", "serving")],
            "The serving certificate of the webhooks of webhooks expires in 1d 22h 45m 40s",
        )),
    },
];
