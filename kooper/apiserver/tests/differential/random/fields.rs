//! The fields of the kinds of random histories, with values that meet again.

use super::subject::Subject;

/// A field of a kind, and the values that it gets.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) path: &'static [&'static str],
    /// In how many of a thousand objects it is.
    pub(crate) often: u32,
    pub(crate) valid: &'static [&'static str],
    pub(crate) invalid: &'static [&'static str],
}

const fn field(
    path: &'static [&'static str],
    often: u32,
    valid: &'static [&'static str],
    invalid: &'static [&'static str],
) -> Field {
    Field { path, often, valid, invalid }
}

/// The fields of a kind beside its metadata.
pub(crate) fn fields(subject: &Subject) -> &'static [Field] {
    match subject.kind {
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "Pod" => POD,
        "Service" => SERVICE,
        "Deployment" => DEPLOYMENT,
        "Widget" => WIDGET,
        _ => GADGET,
    }
}

const CONFIG_MAP: &[Field] = &[
    field(
        &["data"],
        300,
        &[r#"{"a": "1", "b": "2"}"#, "{}", r#"{"c": ""}"#],
        &[r#"{"a/b": "1"}"#, r#"{"..": "1"}"#, "[]", r#""x""#, "1"],
    ),
    field(&["data", "a"], 500, &[r#""1""#, r#""2""#, r#""""#], &["1", "true", "null", "{}", "[]", "1.5"]),
    field(&["data", "b"], 400, &[r#""1""#, r#""é<&>""#], &[]),
    field(&["data", "c"], 200, &[r#""1\n2""#], &[]),
    field(&["binaryData"], 40, &["{}"], &["null", "[]"]),
    field(&["binaryData", "z"], 150, &[r#""AAE=""#, r#""""#], &[r#""*""#, r#""AAE""#, "1"]),
    field(&["immutable"], 60, &["false", "true"], &[r#""yes""#, "1", "null"]),
];

// Bytes are never null: whether the real server stores that depends on the second in which it does so.
const SECRET: &[Field] = &[
    field(&["data", "a"], 500, &[r#""MQ==""#, r#""Mg==""#, r#""""#], &[r#""*""#, r#""MQ""#, "1", "{}"]),
    field(&["data", "b"], 300, &[r#""MQ==""#, r#""MQ\n==""#], &[r#""M""#]),
    field(&["data", "username"], 60, &[r#""MQ==""#], &[]),
    field(&["stringData", "b"], 200, &[r#""1""#, r#""2""#], &["1", "null"]),
    field(
        &["type"],
        150,
        &[r#""Opaque""#, r#""Opaque""#, r#""a.example/type""#, r#""kubernetes.io/basic-auth""#],
        &[r#""kubernetes.io/tls""#, r#""kubernetes.io/service-account-token""#, "1", "null", r#""""#],
    ),
    field(&["immutable"], 60, &["false", "true"], &[r#""yes""#, "null"]),
];

const CONTAINERS: &[&str] = &[
    r#"[{"name": "c", "image": "i:1"}]"#,
    r#"[{"name": "c", "image": "i:1"}]"#,
    r#"[{"name": "c", "image": "i:2"}]"#,
    r#"[{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}]"#,
    r#"[{"name": "c", "image": "i:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}]}]"#,
    r#"[{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1"}}}, {"name": "d", "image": "i"}]"#,
];
const BAD_CONTAINERS: &[&str] = &[
    "[]",
    r#"[{"name": "C", "image": "i"}]"#,
    r#"[{"name": "c"}]"#,
    "{}",
    r#"[{"name": 1, "image": "i"}]"#,
    r#"[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "x"}}}]"#,
    r#"[{"name": "c", "image": "i", "ports": [{"containerPort": "80"}]}]"#,
    "[null]",
];

const POD: &[Field] = &[
    field(&["spec", "containers"], 980, CONTAINERS, BAD_CONTAINERS),
    field(&["spec", "restartPolicy"], 100, &[r#""Always""#, r#""Never""#], &[r#""Sometimes""#, "1", "null"]),
    // Long ones: what is left of a period depends on how fast a server is.
    field(&["spec", "terminationGracePeriodSeconds"], 150, &["0", "500", "3000"], &["-1", r#""5""#, "1.5", "null"]),
    field(&["spec", "activeDeadlineSeconds"], 100, &["60", "30"], &["0", "true"]),
    field(&["spec", "nodeName"], 150, &[r#""n""#], &[r#""N""#, "1"]),
    field(&["spec", "nodeSelector"], 80, &[r#"{"a": "b"}"#, r#"{"a": "c"}"#], &[r#"{"a": "!"}"#, r#"{"a": 1}"#, "[]"]),
    field(
        &["spec", "schedulingGates"],
        80,
        &[r#"[{"name": "a.example/gate"}]"#, r#"[{"name": "a.example/gate"}, {"name": "b"}]"#, "[]"],
        &[r#"[{"name": "!"}]"#, r#"[{"name": "b"}, {"name": "b"}]"#, "[{}]"],
    ),
    field(
        &["spec", "tolerations"],
        150,
        &[r#"[{"operator": "Exists"}]"#, r#"[{"key": "a", "operator": "Equal", "value": "b"}]"#, "[]"],
        &[r#"[{"operator": "Sometimes"}]"#],
    ),
    field(&["status", "phase"], 250, &[r#""Pending""#, r#""Running""#, r#""Succeeded""#], &["1"]),
    field(&["status", "podIP"], 100, &[r#""10.0.0.1""#], &[r#""x""#]),
    field(
        &["status", "conditions"],
        200,
        &[r#"[{"type": "Ready", "status": "True"}]"#, r#"[{"type": "Ready", "status": "False"}]"#],
        &["{}", r#"[{"type": "Ready", "status": true}]"#],
    ),
];

const SERVICE: &[Field] = &[
    field(
        &["spec", "ports"],
        950,
        &[
            r#"[{"port": 80}]"#,
            r#"[{"port": 80, "targetPort": "web"}]"#,
            r#"[{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}]"#,
            r#"[{"name": "a", "port": 80, "targetPort": 8080}]"#,
        ],
        &[
            "[]",
            r#"[{"port": 0}]"#,
            r#"[{"port": 80}, {"port": 81}]"#,
            r#"[{"port": "80"}]"#,
            r#"[{"port": 80, "targetPort": true}]"#,
            "{}",
        ],
    ),
    field(
        &["spec", "type"],
        300,
        &[r#""ClusterIP""#, r#""NodePort""#, r#""LoadBalancer""#, r#""ExternalName""#],
        &[r#""Other""#, "1"],
    ),
    field(&["spec", "externalName"], 100, &[r#""a.example""#], &[r#""!""#]),
    field(&["spec", "clusterIP"], 80, &[r#""None""#, r#""""#], &[r#""x""#, r#""192.0.2.1""#, r#""fd00::1""#]),
    field(
        &["spec", "selector"],
        600,
        &[r#"{"app": "x"}"#, r#"{"app": "y"}"#, "{}"],
        &[r#"{"app": 1}"#, r#"{"app": "!"}"#],
    ),
    field(&["spec", "sessionAffinity"], 150, &[r#""ClientIP""#, r#""None""#], &[r#""Other""#]),
    field(&["spec", "externalTrafficPolicy"], 60, &[r#""Local""#, r#""Cluster""#], &[r#""Other""#]),
    field(&["spec", "publishNotReadyAddresses"], 60, &["true", "false"], &["1"]),
    field(
        &["status", "loadBalancer"],
        200,
        &[r#"{"ingress": [{"ip": "192.0.2.1"}]}"#, r#"{"ingress": [{"hostname": "a.example"}]}"#, "{}"],
        &[r#"{"ingress": [{"ip": "x"}]}"#],
    ),
];

const TEMPLATES: &[&str] = &[
    r#"{"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}"#,
    r#"{"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}"#,
    r#"{"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i:2"}]}}"#,
    r#"{"metadata": {"labels": {"app": "x", "tier": "back"}}, "spec": {"containers": [{"name": "d", "image": "i"}]}}"#,
];

const DEPLOYMENT: &[Field] = &[
    field(
        &["spec", "selector"],
        970,
        &[r#"{"matchLabels": {"app": "x"}}"#],
        &[r#"{"matchLabels": {"app": "y"}}"#, "{}", r#"{"matchLabels": {"app": 1}}"#, "[]"],
    ),
    field(
        &["spec", "template"],
        970,
        TEMPLATES,
        &[r#"{"spec": {"containers": []}}"#, r#"{"metadata": {"labels": {"app": "x"}}}"#, "[]"],
    ),
    field(&["spec", "replicas"], 400, &["0", "1", "3"], &["-1", r#""1""#, "1.5", "3000000000", "null"]),
    field(&["spec", "paused"], 100, &["true", "false"], &[r#""yes""#]),
    field(&["spec", "minReadySeconds"], 100, &["0", "5"], &["-1"]),
    field(
        &["spec", "strategy"],
        150,
        &[r#"{"type": "Recreate"}"#, r#"{"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}}"#, "{}"],
        &[r#"{"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}"#, r#"{"type": "Other"}"#],
    ),
    field(&["status", "replicas"], 200, &["0", "1", "2"], &["-1", r#""1""#]),
    field(&["status", "readyReplicas"], 150, &["0", "1"], &["5"]),
    field(&["status", "observedGeneration"], 150, &["1", "2"], &[]),
    field(
        &["status", "conditions"],
        150,
        &[r#"[{"type": "Available", "status": "True"}]"#, r#"[{"type": "Progressing", "status": "False"}]"#],
        &[],
    ),
];

const WIDGET: &[Field] = &[
    field(
        &["spec", "owner"],
        970,
        &[r#""me""#, r#""me""#, r#""me""#, r#""you""#],
        &[r#""""#, "1", r#""far too long""#],
    ),
    field(&["spec", "size"], 300, &[r#""small""#, r#""large""#], &[r#""huge""#, "null"]),
    field(&["spec", "replicas"], 500, &["0", "1", "2", "8"], &["9", "-1", r#""1""#, "1.5", "10"]),
    field(&["spec", "ratio"], 200, &["1", "0.5", "2.0"], &["0.3", r#""1""#]),
    field(&["spec", "on"], 200, &["true", "false"], &["1"]),
    field(
        &["spec", "tags"],
        300,
        &[r#"["x"]"#, r#"["x", "y"]"#, "[]"],
        &[r#"["x", "x"]"#, r#"["X"]"#, r#"["a", "b", "c", "d"]"#],
    ),
    field(
        &["spec", "ports"],
        300,
        &[r#"[{"port": 1}]"#, r#"[{"port": 2, "name": "b"}, {"port": 1, "protocol": "UDP"}]"#, "[]"],
        &[r#"[{"port": 1}, {"port": 1}]"#, r#"[{"name": "x"}]"#, r#"[{"port": 0}]"#],
    ),
    field(&["spec", "labels"], 200, &[r#"{"x": "1"}"#, "{}"], &[r#"{"x": 1}"#]),
    field(&["spec", "labels", "y"], 150, &[r#""1""#, r#""2""#], &[]),
    field(&["spec", "nested"], 150, &["{}", r#"{"on": false}"#], &["[]"]),
    field(&["spec", "nested", "deep", "mode"], 150, &[r#""fast""#, r#""slow""#], &[r#""""#]),
    field(&["spec", "nested", "deep", "since"], 80, &[r#""2026-01-02T03:04:05Z""#], &[r#""yesterday""#]),
    field(&["spec", "either"], 200, &["1", r#""1""#, r#""50%""#], &["true", "1.5"]),
    field(&["spec", "any"], 150, &[r#"{"free": [1, {"x": null}]}"#, "{}"], &["1"]),
    field(&["spec", "note"], 150, &["null", r#""n""#], &["1"]),
    field(
        &["spec", "steps"],
        150,
        &[r#"[{"name": "s"}]"#, r#"[{"name": "s", "count": 1}, {"name": "s", "count": 1}]"#],
        &["[{}]", "[null]"],
    ),
    field(&["spec", "bogus"], 30, &["1"], &[]),
    field(&["status", "phase"], 200, &[r#""Ready""#, r#""Failed""#], &["1"]),
    field(&["status", "replicas"], 200, &["0", "2"], &[r#""2""#]),
    field(&["status", "selector"], 60, &[r#""app=x""#], &[]),
    field(
        &["status", "conditions"],
        150,
        &[r#"[{"type": "Ready", "status": "True"}]"#, r#"[{"type": "Ready", "status": "False"}, {"type": "Live"}]"#],
        &[r#"[{"type": "Ready"}, {"type": "Ready"}]"#],
    ),
];

const GADGET: &[Field] = &[
    field(&["spec"], 100, &["{}"], &["1"]),
    field(&["spec", "color"], 500, &[r#""red""#, r#""blue""#, r#""""#], &["1"]),
    field(&["spec", "level"], 300, &["1", "2"], &[r#""1""#]),
    field(&["spec", "parts"], 200, &[r#"{"x": {"size": 1}}"#, r#"{"x": {}, "y": {"size": 2}}"#], &[r#"{"x": 1}"#]),
    field(&["spec", "parts", "y"], 100, &[r#"{"size": 3}"#], &[]),
    field(&["status", "phase"], 250, &[r#""Ready""#, r#""Failed""#], &[]),
];
