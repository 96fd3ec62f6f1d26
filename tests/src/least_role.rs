//! A program under exactly the role that it prints, and under one that lacks a verb of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::process::Process;
use crate::wait::until;

/// A program, and what makes it use all of its rules.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The path of the program.
    pub program: &'a str,
    /// A namespace for its service account and its objects; it is created.
    pub namespace: &'a str,
    /// Further arguments of all its commands.
    pub args: &'a [&'a str],
    /// What wakes its handlers.
    pub objects: Vec<Value>,
    /// A line of its log contains these when it has used every rule.
    pub done: &'a [&'a str],
}

/// A program with its service account.
#[derive(Debug)]
pub struct Installed<'a> {
    cluster: &'a ControlPlane,
    subject: &'a Subject<'a>,
    documents: Vec<Value>,
    kubeconfig: PathBuf,
}

/// One verb of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    group: String,
    resource: String,
    verb: String,
    name: Option<String>,
    /// The document that it is in.
    document: usize,
}

impl Subject<'_> {
    /// Applies what the program prints for `rbac`, and connects as its service account from then on.
    ///
    /// # Panics
    ///
    /// If anything of it fails.
    #[must_use]
    pub fn install<'a>(&'a self, cluster: &'a ControlPlane) -> Installed<'a> {
        let namespace = self.namespace;
        cluster.must(&["create", "namespace", namespace]);
        let (printed, yaml, stderr) = self.call(None, &["rbac", "--install-namespace", namespace]);
        assert!(printed, "{stderr}");
        let applied = cluster.kubectl_with(&["apply", "--filename=-"], &yaml);
        assert!(applied.success, "{}\n{yaml}", applied.stderr);
        let shown = cluster.kubectl_with(&["create", "--dry-run=client", "--output=json", "--filename=-"], &yaml);
        let documents: Vec<_> = serde_json::Deserializer::from_str(&shown.stdout)
            .into_iter::<Value>()
            .map(|document| document.expect("kubectl prints JSON"))
            .flat_map(|document| document["items"].as_array().cloned().unwrap_or_else(|| vec![document]))
            .collect();
        assert_eq!(documents[0]["kind"], "ServiceAccount");
        let account = documents[0]["metadata"]["name"].as_str().expect("it has a name");
        let token = cluster.must(&["create", "token", account, &format!("--namespace={namespace}")]);
        let kubeconfig = cluster.kubeconfig_with(&format!("{namespace}-{account}"), |text| {
            let with_token = |line: &str| match line.split_once("token:") {
                Some((before, _)) => format!("{before}token: {}", token.trim()),
                None => line.to_owned(),
            };
            text.lines().map(with_token).collect::<Vec<_>>().join("\n")
        });
        Installed { cluster, subject: self, documents, kubeconfig }
    }

    /// The arguments that say where it looks, and where its leases are.
    fn places(&self) -> [&str; 4] {
        ["--namespace", self.namespace, "--lease-namespace", self.namespace]
    }

    /// Runs a command of the program to its end: whether it exits with 0, its stdout and its stderr.
    ///
    /// # Panics
    ///
    /// If it can't be run.
    #[must_use]
    pub fn call(&self, kubeconfig: Option<&Path>, args: &[&str]) -> (bool, String, String) {
        let mut command = Command::new(self.program);
        command.args(args).args(self.places()).args(self.args);
        if let Some(kubeconfig) = kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        let output = command.output().expect("the program can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }
}

impl Installed<'_> {
    /// What `check` says as the service account: whether it exits with 0, and its lines that say what is missing.
    #[must_use]
    pub fn check(&self) -> (bool, Vec<String>) {
        let (success, stdout, _) = self.subject.call(Some(&self.kubeconfig), &["check"]);
        (success, stdout.lines().filter(|line| line.starts_with("missing ")).map(str::to_owned).collect())
    }

    /// Starts the program as the service account.
    pub fn start(&self) -> Process {
        let kubeconfig = self.kubeconfig.to_str().expect("the path is UTF-8");
        let own = ["run", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0"];
        Process::start(self.subject.program, &[&own[..], &self.subject.places(), self.subject.args].concat(), &[])
    }

    /// Makes what wakes the handlers, as soon as its kind is there.
    fn wake(&self) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.subject.objects}).to_string();
        let apply = || self.cluster.kubectl_with(&["apply", "--filename=-"], &list);
        until("the objects are made", || apply().success.then_some(()), || apply().stderr);
    }

    /// Runs the program until it is done: `check` has nothing to say against it, and the API server forbids nothing.
    ///
    /// # Panics
    ///
    /// If it does.
    pub fn is_enough(&self) {
        until("check finds nothing", || self.check().0.then_some(()), || format!("{:?}", self.check()));
        let before = self.requests().len();
        let mut program = self.start();
        self.wake();
        program.wait_for_line(self.subject.done);
        program.wait_for_page("/readyz", 200, &[]);
        program.signal("TERM");
        assert_eq!(program.exit_code(), Some(0), "{}", program.lines().join("\n"));
        Self::forbade_nothing(&self.requests()[before..]);
    }

    /// What the service account has asked of the API server, as audit events.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let account = &self.documents[0]["metadata"];
        let user = format!(
            "system:serviceaccount:{}:{}",
            account["namespace"].as_str().unwrap_or_default(),
            account["name"].as_str().unwrap_or_default()
        );
        self.cluster.audit_log().into_iter().filter(|event| event["user"]["username"] == user.as_str()).collect()
    }

    /// Checks that the API server has forbidden nothing of these.
    ///
    /// # Panics
    ///
    /// If it has.
    pub fn forbade_nothing(requests: &[Value]) {
        assert!(requests.len() > 2, "the audit log knows of the program");
        let forbidden: Vec<_> = requests
            .iter()
            .filter(|event| event["responseStatus"]["code"] == 403)
            .map(|event| format!("{} {}", event["verb"], event["requestURI"]))
            .collect();
        assert!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
    }

    /// Every verb of every resource that the roles grant.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let mut found = Vec::new();
        for (document, content) in self.documents.iter().enumerate() {
            for rule in content["rules"].as_array().into_iter().flatten() {
                let names = texts(&rule["resourceNames"]);
                let names = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        for name in names.clone() {
                            let group = texts(&rule["apiGroups"]).concat();
                            let (resource, verb) = (resource.clone(), verb.clone());
                            found.push(Rule { group, resource, verb, name, document });
                        }
                    }
                }
            }
        }
        found
    }

    /// Takes one rule away: `check` names it and nothing else, and the running program says that it misses it.
    ///
    /// # Panics
    ///
    /// If one of them doesn't.
    pub fn needs(&self, rule: &Rule) {
        self.cluster.apply([self.document(rule.document, |other| other != rule)]);
        let told = format!("add the rule \"{rule}\"{}", rule.pinned());
        let only = |(success, missing): (bool, Vec<String>)| {
            (!success && missing.len() == 1 && missing[0].contains(&told)).then_some(())
        };
        until(&told, || only(self.check()), || format!("{:#?}", self.check()));
        let installs = rule.resource == "customresourcedefinitions";
        if let Some(name) = rule.name.as_ref().filter(|_| installs) {
            self.cluster.must(&["delete", "crd", name, "--ignore-not-found"]);
        }
        let program = self.start();
        if !installs {
            self.wake();
        }
        program.wait_for_line(&[&format!("cannot {} resource", rule.verb), &rule.resource]);
        drop(program);
        self.cluster.apply([self.document(rule.document, |_| true)]);
    }

    /// A role with those of its rules that are wanted.
    fn document(&self, at: usize, wanted: impl Fn(&Rule) -> bool) -> Value {
        let mut document = self.documents[at].clone();
        let rules = self.rules().into_iter().filter(|rule| rule.document == at && wanted(rule));
        document["rules"] = rules.map(|rule| rule.json()).collect();
        document
    }
}

impl Rule {
    fn json(&self) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]});
        if let Some(name) = &self.name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    }

    fn pinned(&self) -> String {
        self.name.as_ref().map_or(String::new(), |name| format!(" (resourceNames: {name})"))
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = if self.group.is_empty() { String::new() } else { format!("{}/", self.group) };
        write!(f, "{group}{}: {}", self.resource, self.verb)
    }
}
