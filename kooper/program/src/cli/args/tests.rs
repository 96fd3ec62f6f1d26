mod own;

use std::collections::HashMap;

use super::*;

/// A program without settings of its own.
const ECHO: ProgramInfo<'static> = ProgramInfo { name: "echo", version: "1.2.3", doc: &[], own: None };

fn parsed(line: &str, environment: &[(&str, &str)]) -> Result<Settings, String> {
    parsed_line(line, environment).map(|(_, settings)| settings)
}

fn parsed_line(line: &str, environment: &[(&str, &str)]) -> Result<(Subcommand, Settings), String> {
    let environment: HashMap<_, _> = environment.iter().copied().collect();
    let line = ["echo"].into_iter().chain(line.split_whitespace()).map(OsString::from);
    match parse(&ECHO, line, |name| environment.get(name).map(OsString::from)) {
        Ok(parsed) => Ok(parsed),
        Err(error) => Err(format!("{}: {error}", error.exit_code())),
    }
}

fn refused(line: &str, environment: &[(&str, &str)]) -> String {
    parsed(line, environment).expect_err("the line is invalid")
}

fn at(address: &str) -> Listen {
    Listen::At(address.parse().expect("an address"))
}

fn read(line: &str) -> Settings {
    parsed(line, &[]).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn without_flags_every_setting_has_its_default() {
    for line in ["", "run"] {
        let settings = read(line);
        assert_eq!(settings.kubeconfig, None);
        assert_eq!(settings.context, None);
        assert!(settings.namespaces.is_empty());
        assert_eq!(settings.workers, None);
        assert_eq!(settings.resync, None);
        assert_eq!(settings.listen, Listen::Default);
        assert_eq!(settings.log_format, LogFormat::Text);
        assert_eq!(settings.log_level, logging::levels("info").expect("a level"));
        assert_eq!(settings.drain_timeout(), Duration::from_secs(20));
    }
}

#[test]
fn every_flag_and_its_variable_have_the_same_effect() {
    type Check = fn(&Settings) -> bool;
    let cases: [(&str, &str, &str, Check); 32] = [
        ("webhook-port", "KOOPER_WEBHOOK_PORT", "9443", |s| s.webhook_port == Some(9443)),
        ("webhook-url", "KOOPER_WEBHOOK_URL", "https://a:1/", |s| s.webhook_url.as_deref() == Some("https://a:1")),
        ("allow-crd-change", "KOOPER_ALLOW_CRD_CHANGE", "a.x@1,b.x@2", |s| s.allowed_crd_changes == ["a.x@1", "b.x@2"]),
        ("kubeconfig", "KOOPER_KUBECONFIG", "/a/b", |s| s.kubeconfig == Some("/a/b".into())),
        ("context", "KOOPER_CONTEXT", "kind", |s| s.context.as_deref() == Some("kind")),
        ("namespace", "KOOPER_NAMESPACE", "a", |s| s.namespaces == ["a"]),
        ("namespace", "KOOPER_NAMESPACE", "a,b,a", |s| s.namespaces == ["a", "b"]),
        ("workers", "KOOPER_WORKERS", "7", |s| s.workers == Some(7)),
        ("resync", "KOOPER_RESYNC", "90s", |s| s.resync == Some(Resync(Some(Duration::from_secs(90))))),
        ("resync", "KOOPER_RESYNC", "off", |s| s.resync == Some(Resync(None))),
        ("wire", "KOOPER_WIRE", "json", |s| s.json_only),
        ("wire", "KOOPER_WIRE", "auto", |s| !s.json_only),
        ("listen", "KOOPER_LISTEN", "127.0.0.1:9", |s| s.listen == at("127.0.0.1:9")),
        ("listen", "KOOPER_LISTEN", ":9", |s| s.listen == at("[::]:9")),
        ("listen", "KOOPER_LISTEN", "off", |s| s.listen == Listen::Off),
        ("listen-probes", "KOOPER_LISTEN_PROBES", ":9", |s| s.listen_probes == Some(at("[::]:9"))),
        ("listen-probes", "KOOPER_LISTEN_PROBES", "off", |s| s.listen_probes == Some(Listen::Off)),
        ("metrics-auth", "KOOPER_METRICS_AUTH", "token", |s| s.metrics_auth == Some(true)),
        ("metrics-auth", "KOOPER_METRICS_AUTH", "none", |s| s.metrics_auth == Some(false)),
        ("metrics-audience", "KOOPER_METRICS_AUDIENCE", "shop", |s| s.metrics_audience.as_deref() == Some("shop")),
        ("metrics-cert-file", "KOOPER_METRICS_CERT_FILE", "/a", |s| s.metrics_certificate == Some("/a".into())),
        ("metrics-key-file", "KOOPER_METRICS_KEY_FILE", "/a", |s| s.metrics_key == Some("/a".into())),
        ("status-page", "KOOPER_STATUS_PAGE", "on", |s| s.status_page == Some(true)),
        ("status-page", "KOOPER_STATUS_PAGE", "off", |s| s.status_page == Some(false)),
        ("log-format", "KOOPER_LOG_FORMAT", "json", |s| s.log_format == LogFormat::Json),
        ("log-format", "KOOPER_LOG_FORMAT", "text", |s| s.log_format == LogFormat::Text),
        ("log-level", "KOOPER_LOG_LEVEL", "debug", |s| logging::levels("debug").as_ref() == Ok(&s.log_level)),
        ("drain-timeout", "KOOPER_DRAIN_TIMEOUT", "1m", |s| s.drain_timeout() == Duration::from_secs(60)),
        ("lease-namespace", "KOOPER_LEASE_NAMESPACE", "a", |s| s.lease_namespace.as_deref() == Some("a")),
        ("instance", "KOOPER_INSTANCE", "blue", |s| s.instance.as_deref() == Some("blue")),
        ("leader-election", "KOOPER_LEADER_ELECTION", "on", |s| s.leader_election == Some(true)),
        ("leader-election", "KOOPER_LEADER_ELECTION", "off", |s| s.leader_election == Some(false)),
    ];
    for (flag, variable, value, check) in cases {
        for line in [format!("--{flag} {value}"), format!("--{flag}={value} run"), format!("run --{flag} {value}")] {
            assert!(check(&read(&line)), "{line}");
            // The invalid variable is not read.
            let settings = parsed(&line, &[(variable, "\u{1}")]).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(check(&settings), "{line} takes precedence over {variable}");
        }
        for line in ["", "run"] {
            let settings = parsed(line, &[(variable, value)]).unwrap_or_else(|error| panic!("{variable}: {error}"));
            assert!(check(&settings), "{variable}={value}");
        }
        parsed("", &[(variable, "")]).unwrap_or_else(|error| panic!("an empty {variable} is none: {error}"));
    }
}

#[test]
fn rust_log_sets_the_levels_where_neither_the_flag_nor_its_variable_does() {
    let levels = |line: &str, environment: &[(&str, &str)]| {
        let settings = parsed(line, environment).unwrap_or_else(|error| panic!("{line}: {error}"));
        (settings.log_level, settings.rust_log)
    };
    let level = |text| logging::levels(text).expect("levels");
    let rust_log = ("RUST_LOG", "info,kube=debug");
    assert_eq!(levels("run", &[rust_log]), (level("info,kube=debug"), None));
    assert_eq!(levels("run --log-level warn", &[rust_log]), (level("warn"), None));
    assert_eq!(levels("run", &[rust_log, ("KOOPER_LOG_LEVEL", "error")]), (level("error"), None));
    assert_eq!(levels("run", &[("RUST_LOG", "")]), (level("info"), None));
    // The log of `diff` is about the differences.
    assert_eq!(levels("diff -f a", &[]), (level("warn"), None));
    assert_eq!(levels("diff -f a", &[rust_log]), (level("info,kube=debug"), None));

    let (default, problem) = levels("run", &[("RUST_LOG", "kube[request]=loud")]);
    assert_eq!(default, level("info"));
    assert!(problem.is_some_and(|problem| problem.contains("`loud` is not a log level")));
    let environment = [rust_log, ("KOOPER_NAMESPACE", "a")];
    assert!(!parsed("run", &environment).expect("good values").given.contains_key("log-level"), "no pod gets it");
}

#[test]
fn namespaces_are_combined_and_replace_those_of_the_environment() {
    assert_eq!(read("--namespace a --namespace b,c").namespaces, ["a", "b", "c"]);
    let settings = parsed("--namespace a", &[("KOOPER_NAMESPACE", "b,c")]).expect("good values");
    assert_eq!(settings.namespaces, ["a"]);
}

#[test]
fn invalid_values_are_reported_with_their_flag_and_what_to_write() {
    for (flag, variable, value, problem) in [
        ("namespace", "KOOPER_NAMESPACE", "Team_A", "\"Team_A\" is not a DNS label: write lower-case letters"),
        ("namespace", "KOOPER_NAMESPACE", "a,,b", "is not a DNS label"),
        ("workers", "KOOPER_WORKERS", "0", "write a whole number from 1 to 65535"),
        ("workers", "KOOPER_WORKERS", "many", "write a whole number from 1 to 65535"),
        ("webhook-port", "KOOPER_WEBHOOK_PORT", "0", "write a whole number from 1 to 65535"),
        ("webhook-url", "KOOPER_WEBHOOK_URL", "https://a", "write `https://HOST:PORT`"),
        ("webhook-url", "KOOPER_WEBHOOK_URL", "https://me:pw@a:1", "write `https://HOST:PORT`"),
        ("webhook-url", "KOOPER_WEBHOOK_URL", "https://a:1?b=c", "write `https://HOST:PORT`"),
        ("webhook-url", "KOOPER_WEBHOOK_URL", "https://a:1#b", "write `https://HOST:PORT`"),
        ("resync", "KOOPER_RESYNC", "5", "has no unit: write \"5s\" for seconds"),
        ("resync", "KOOPER_RESYNC", "0s", "or `off` for no resync"),
        ("wire", "KOOPER_WIRE", "protobuf", "write `auto` or `json`"),
        ("listen", "KOOPER_LISTEN", "8080", "such as `[::]:8080`, `127.0.0.1:8080` or `:8080`, or `off`"),
        ("listen", "KOOPER_LISTEN", "localhost:8080", "write an IP address and a port"),
        ("listen-probes", "KOOPER_LISTEN_PROBES", "8081", "write an IP address and a port"),
        ("metrics-auth", "KOOPER_METRICS_AUTH", "basic", "write `none` or `token`"),
        ("status-page", "KOOPER_STATUS_PAGE", "true", "write `on` or `off`"),
        ("log-format", "KOOPER_LOG_FORMAT", "xml", "write `text` or `json`"),
        ("log-level", "KOOPER_LOG_LEVEL", "loud", "`loud` is not a log level: write off, error, warn"),
        ("lease-namespace", "KOOPER_LEASE_NAMESPACE", "A", "\"A\" is not a DNS label"),
        ("leader-election", "KOOPER_LEADER_ELECTION", "yes", "write `on` or `off`"),
        ("drain-timeout", "KOOPER_DRAIN_TIMEOUT", "-5s", "the duration \"-5s\" has a sign: write it without"),
        ("drain-timeout", "KOOPER_DRAIN_TIMEOUT", "never", "write a number and a unit, such as \"30s\""),
    ] {
        let by_flag = refused(&format!("--{flag} {value}"), &[]);
        assert!(by_flag.starts_with(&format!("2: error: invalid value '{value}' for '--{flag} <")), "{by_flag}");
        assert!(by_flag.contains(problem), "{by_flag}");
        let by_variable = refused("run", &[(variable, value)]);
        let named = format!("2: error: invalid value '{value}' for the environment variable {variable} (--{flag}): ");
        assert!(by_variable.starts_with(&named), "{by_variable}");
        assert!(by_variable.contains(problem), "{by_variable}");
    }
}

#[test]
fn other_mistakes_are_reported_too() {
    assert!(refused("--kubeconfig=", &[]).contains("write the path of a file"));
    assert!(refused("--worker 3", &[]).contains("a similar argument exists: '--workers'"));
    assert!(refused("runn", &[]).contains("a similar subcommand exists: 'run'"));
    assert!(refused("--workers", &[]).contains("a value is required for '--workers <N>'"));
    assert!(refused("--workers 1 --workers 2", &[]).contains("cannot be used multiple times"));
    for line in ["--worker 3", "runn", "--workers", "--workers 1 --workers 2"] {
        assert!(refused(line, &[]).starts_with("2: "), "{line}");
    }
}

#[test]
fn a_flag_with_values_before_and_after_the_command_is_an_error() {
    for line in ["--workers 2 run --workers 3", "--namespace a check --namespace b"] {
        let error = refused(line, &[]);
        assert!(error.starts_with("2: ") && error.contains("write it after it only"), "{error}");
    }
    let error = refused("--workers 2 run --workers 3", &[]);
    assert!(error.contains("`--workers <N>` is written before and after `run`"), "{error}");
    assert_eq!(read("--workers 2 run --resync 1m").workers, Some(2));
    assert_eq!(read("--namespace a check").namespaces, ["a"]);
}

#[test]
fn help_lists_every_flag_and_how_variables_are_named() {
    let help = refused("--help", &[]);
    assert!(help.starts_with("0: "), "{help}");
    for (name, _, about) in SUBCOMMANDS {
        assert!(help.contains(&format!("  {name} ")) && help.contains(about), "{help}");
    }
    for flag in every_flag().filter(|flag| flag.is_global()) {
        let value = if flag.value.is_empty() { String::new() } else { format!(" <{}>", flag.value) };
        assert!(help.contains(&format!("--{}{value}", flag.name)), "{help}");
        assert!(help.contains(flag.help), "{help}");
    }
    assert!(help.contains("KOOPER_LOG_LEVEL for --log-level"), "{help}");
    assert!(help.lines().all(|line| line.len() <= 125), "{help}");
    assert_eq!(refused("--version", &[]), "0: echo 1.2.3\n");
}

#[test]
fn the_help_of_a_command_lists_its_own_flags_before_those_of_all_commands() {
    let help = refused("manifests --help", &[]);
    let at =
        |flag: &str| help.find(&format!("  --{flag} ")).or_else(|| help.find(&format!(", --{flag} "))).expect(flag);
    for own in ["install-namespace", "image", "replicas", "settings-secret", "output"] {
        assert!(at(own) < at("kubeconfig"), "{own}: {help}");
    }
    assert!(at("kubeconfig") < at("allow-crd-change") && at("allow-crd-change") < at("help"), "{help}");
}

#[test]
fn the_help_of_a_command_lists_its_flags_and_no_others() {
    for (name, subcommand, _) in SUBCOMMANDS {
        let help = refused(&format!("{name} --help"), &[]);
        for flag in every_flag() {
            let listed =
                help.lines().any(|line| line.split_whitespace().any(|word| word == format!("--{}", flag.name)));
            let known = every_flag().any(|other| other.name == flag.name && other.of.contains(&subcommand));
            assert_eq!(listed, known, "{name} --{}: {help}", flag.name);
        }
    }
}

#[test]
fn each_command_exists_and_has_the_common_flags() {
    for (name, expected, _) in SUBCOMMANDS {
        let required = match expected {
            Subcommand::Manifests => "--image a",
            Subcommand::Diff => "-f a",
            _ => "",
        };
        let line = format!("{name} --namespace a {required}");
        let (subcommand, settings) = parsed_line(&line, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((subcommand, &settings.namespaces[..]), (expected, &["a".to_owned()][..]));
    }
}

#[test]
fn manifests_takes_an_image_and_keeps_what_was_given_for_the_pod() {
    let line =
        "manifests --image a:1 --replicas 0 --with network-policy --with service-monitor,network-policy --workers 2";
    let settings = parsed(line, &[("KOOPER_NAMESPACE", "a,b"), ("KOOPER_OUTPUT", "c")]).expect("good values");
    let manifests = settings.manifests;
    assert_eq!((manifests.image.as_deref(), manifests.replicas), (Some("a:1"), Some(0)));
    assert_eq!(manifests.with, [Addition::NetworkPolicy, Addition::ServiceMonitor].into());
    assert_eq!((manifests.format, manifests.output), (Format::Yaml, Some("c".into())));
    let pod = pod_flags().filter_map(|flag| Some((flag.variable(), settings.given.get(flag.name)?.join(","))));
    let expected = [("KOOPER_NAMESPACE", "a,b"), ("KOOPER_WORKERS", "2")];
    assert_eq!(pod.collect::<Vec<_>>(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(refused("manifests", &[]).starts_with("2: error: the image of the program is missing"));
    assert!(refused("manifests --image=", &[]).contains("write an image such as"));
    assert!(refused("run --image a", &[]).contains("unexpected argument '--image'"));
}

#[test]
fn shards_are_moved_and_replicas_drained() {
    use kooper_sharding::Change;

    let settings = read("shards --move 3=pod-a --move 4=pod-b --drain pod-c --undo-move 5 --undo-drain pod-d").shards;
    let pod = |name: &str| name.to_owned();
    let moved = [Change::Move(3, pod("pod-a")), Change::Move(4, pod("pod-b")), Change::UndoMove(5)];
    let drained = [Change::Drain(pod("pod-c")), Change::UndoDrain(pod("pod-d"))];
    assert_eq!(settings.changes, [&moved[..], &drained[..]].concat());
    for line in ["shards --move 3", "shards --move a=pod", "shards --move 3="] {
        assert!(refused(line, &[]).contains("write the number of a shard and the name of a replica"), "{line}");
    }
    assert!(refused("shards --move 3=pod-a --move 3=pod-b", &[]).contains("shard 3 is moved twice"));
    assert_eq!((read("dev --replicas 3").processes, read("dev").processes), (Some(3), None));
    assert!(refused("dev --replicas 0", &[]).contains("write a whole number from 1 to 16"));
}

#[test]
fn uninstall_has_switches_and_a_timeout() {
    assert_eq!(read("uninstall").uninstall, UninstallSettings::default());
    let settings = read("uninstall --dry-run --orphan --keep-crds --timeout 1m");
    assert!(settings.dry_run);
    let settings = settings.uninstall;
    let timeout = Duration::from_secs(60);
    assert_eq!(settings, UninstallSettings { orphan: true, keep_crds: true, timeout });
}

#[test]
fn a_dry_run_is_never_mistaken_for_a_run() {
    for line in ["--dry-run", "run --dry-run", "--dry-run run", "--dry-run uninstall"] {
        assert!(read(line).dry_run, "{line}");
    }
    assert!(parsed("run", &[("KOOPER_DRY_RUN", "true")]).expect("a good value").dry_run);
    assert!(!parsed("run", &[("KOOPER_DRY_RUN", "")]).expect("an unset value").dry_run);
    for command in ["crd", "dev", "check"] {
        for line in [format!("{command} --dry-run"), format!("--dry-run {command}")] {
            let expected = format!("2: error: `{command}` has no `--dry-run`: remove it");
            assert!(refused(&line, &[]).starts_with(&expected), "{}", refused(&line, &[]));
        }
    }
}

#[test]
fn diff_needs_files_and_check_acts_as_a_service_account() {
    assert!(refused("diff", &[]).starts_with("2: error: the objects are missing: write `-f FILE`"));
    assert_eq!(read("diff -f a -f -").files, ["a", "-"].map(PathBuf::from));
    assert_eq!(
        ["auto", "always", "never"].map(|color| read(&format!("diff -f a --color {color}")).color),
        [None, Some(true), Some(false),]
    );
    assert!(refused("diff -f a --color red", &[]).contains("write `auto`, `always` or `never`"));
    for account in ["shop/web", "system:serviceaccount:shop:web"] {
        let settings = read(&format!("check --as {account}"));
        assert_eq!(settings.impersonated.as_deref(), Some("system:serviceaccount:shop:web"));
    }
    assert!(
        refused("check --as web", &[]).contains("write `NAMESPACE/NAME` or `system:serviceaccount:NAMESPACE:NAME`")
    );
    assert!(refused("check --as shop/Web", &[]).starts_with("2: "));
    assert!(refused("run --as shop/web", &[]).contains("unexpected argument '--as'"));
}

#[test]
fn rbac_and_manifests_have_the_namespace_of_the_installation() {
    assert_eq!(read("rbac").install_namespace(), "default");
    assert_eq!(read("rbac --install-namespace a").install_namespace(), "a");
    let settings = parsed("rbac", &[("KOOPER_INSTALL_NAMESPACE", "a")]).expect("a good value");
    assert_eq!(settings.install_namespace(), "a");
    parsed("run", &[("KOOPER_INSTALL_NAMESPACE", "\u{1}")]).expect("it is not read");
    assert!(refused("run --install-namespace a", &[]).contains("unexpected argument '--install-namespace'"));
}

#[test]
fn dev_takes_files_a_port_and_a_switch_and_no_cluster() {
    let settings = read("dev -f a.yaml --filename b -f - --port 7000 --workers 2");
    assert_eq!(settings.files, ["a.yaml", "b", "-"].map(PathBuf::from));
    assert_eq!((settings.port, settings.clean, settings.workers), (Some(7000), false, Some(2)));
    assert!(read("dev --clean").clean);
    let settings = parsed("dev", &[("KOOPER_FILENAME", "a.yaml"), ("KOOPER_PORT", "0"), ("KOOPER_CLEAN", "true")]);
    let settings = settings.expect("good values");
    assert_eq!((settings.files, settings.port, settings.clean), (vec!["a.yaml".into()], Some(0), true));
    // `dev` ignores the variables of `run` that name a cluster.
    assert_eq!(parsed("dev", &[("KOOPER_KUBECONFIG", "a")]).expect("it is not read").kubeconfig, None);
    for flag in ["kubeconfig", "context"] {
        for line in [format!("dev --{flag} a"), format!("--{flag} a dev")] {
            let expected = format!("2: error: `dev` starts its own API server: remove `--{flag}`");
            assert!(refused(&line, &[]).starts_with(&expected), "{}", refused(&line, &[]));
        }
    }
    assert!(refused("dev --port 70000", &[]).contains("write a port from 1 to 65535, or 0 for any"));
    assert!(refused("run -f a", &[]).contains("unexpected argument '-f'"));
    assert!(refused("dev --clean=never", &[]).starts_with("2: "));
}

#[test]
fn probes_are_beside_the_metrics_unless_these_are_secured_or_a_flag_separates_them() {
    let probes = |line: &str| read(line).probes();
    for line in ["", "--listen off", "--listen :9", "--metrics-auth none"] {
        assert_eq!(probes(line), None, "{line}");
    }
    assert_eq!(probes("manifests --image a --metrics-auth none"), None);
    for line in [
        "--metrics-auth token",
        "--metrics-cert-file a",
        "manifests --image a",
        "manifests --image a --metrics-auth none --metrics-secret b",
    ] {
        assert_eq!(probes(line), Some(Listen::Default), "{line}");
    }
    assert_eq!(probes("--listen-probes :9"), Some(at("[::]:9")));
    assert_eq!(probes("--metrics-auth token --listen-probes off"), Some(Listen::Off));
    assert_eq!(
        probes("--metrics-auth token --listen off"),
        Some(Listen::Off),
        "without a listener there are no probes"
    );
    assert_eq!(probes("--metrics-auth token --listen off --listen-probes :9"), Some(at("[::]:9")));
    assert!(!read("--metrics-auth token --listen off").reviews_tokens());
}

#[test]
fn alerts_have_formats_of_their_own() {
    assert_eq!(read("alerts").alerts, AlertFormat::Rules);
    assert_eq!(read("alerts --format prometheusrule").alerts, AlertFormat::PrometheusRule);
    assert!(refused("alerts --format helm", &[]).contains("write `rules` or `prometheusrule`"));
    assert!(refused("manifests --image a --format rules", &[]).contains("write `yaml` or `helm`"));
    assert!(refused("dashboard --format rules", &[]).contains("unexpected argument '--format'"));
}
