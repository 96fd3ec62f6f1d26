//! A program under exactly the role that it prints, and under that role without one of its rules.

mod rule;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Output, WITHOUT_OPENAPI};
use crate::process::{Process, call};
use crate::wait::until;
use crate::yaml::documents;

pub use rule::Rule;

/// The answer of the admission of owner references, before it checks any permission, while it has not discovered the
/// kind of an owner: for some seconds after a CRD was created.
const UNDISCOVERED: &str =
    ": cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion ";

/// A program, and the objects that make it use all of its rules.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The path of the program.
    pub program: &'a str,
    /// A namespace for its service account and its objects; it is created, and `NAMESPACE-leases` for its leases.
    pub namespace: &'a str,
    /// The objects that trigger its handlers. `NUMBER` is replaced by another number each time.
    pub objects: Vec<Value>,
    /// Its log contains each of these when it has used every rule, except those for `lease`.
    pub done: &'a [&'a str],
    /// A lease that it holds. It loses the lease and acquires it again, because a standby needs more rules than a
    /// leader. It is in `NAMESPACE-leases`, or in another namespace, written as `other/name`.
    pub lease: &'a str,
    /// Resources that only `rbac` lists: an error has only the server's message.
    pub unseen: &'a [&'a str],
}

/// A program with its service account.
#[derive(Debug)]
pub struct Installed<'a> {
    cluster: &'a ControlPlane,
    subject: &'a Subject<'a>,
    documents: Vec<Value>,
    kubeconfig: PathBuf,
    number: Cell<u32>,
    /// The documents that lack rules.
    lacking: RefCell<BTreeSet<usize>>,
}

impl Subject<'_> {
    /// Applies what the program prints for `rbac`, and connects as its service account from then on.
    #[must_use]
    pub fn install<'a>(&'a self, cluster: &'a ControlPlane) -> Installed<'a> {
        let (namespace, leases) = (self.namespace, self.lease_namespace());
        cluster.create_namespaces([namespace].into_iter().chain((leases != namespace).then_some(&*leases)));
        let (printed, yaml, stderr) = self.call(None, &["rbac", "--install-namespace", namespace]);
        assert!(printed, "{stderr}");
        cluster.apply_text(&["--validate=false"], &yaml);
        let documents = documents(&yaml);
        assert_eq!(documents[0]["kind"], "ServiceAccount");
        let account = documents[0]["metadata"]["name"].as_str().expect("it has a name");
        let kubeconfig = cluster.kubeconfig_of(namespace, account);
        let (number, lacking) = (Cell::default(), RefCell::default());
        Installed { cluster, subject: self, documents, kubeconfig, number, lacking }
    }

    /// The namespace of its leases.
    pub fn lease_namespace(&self) -> String {
        let chosen = self.lease.split_once('/').map(|(namespace, _)| namespace.to_owned());
        chosen.unwrap_or_else(|| format!("{}-leases", self.namespace))
    }

    /// The name of the lease.
    fn lease_name(&self) -> &str {
        self.lease.split_once('/').map_or(self.lease, |(_, name)| name)
    }

    /// Starts the program with a kubeconfig.
    pub fn start(&self, kubeconfig: &Path) -> Process {
        self.start_logging(kubeconfig, "info")
    }

    /// Starts the program with these levels of its log.
    pub fn start_logging(&self, kubeconfig: &Path, levels: &str) -> Process {
        let (kubeconfig, leases) = (kubeconfig.to_str().expect("the path is UTF-8"), self.lease_namespace());
        let own = ["run", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--log-level", levels];
        let places = ["--namespace", self.namespace, "--lease-namespace", &leases];
        Process::start(self.program, &[&own[..], &places].concat(), &[])
    }

    /// Runs a command of the program to its end: whether it exits with 0, its stdout and its stderr.
    #[must_use]
    pub fn call(&self, kubeconfig: Option<&Path>, args: &[&str]) -> (bool, String, String) {
        let mut command = Command::new(self.program);
        command.args(args).args(["--namespace", self.namespace, "--lease-namespace", &self.lease_namespace()]);
        if let Some(kubeconfig) = kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        call(&mut command)
    }
}

impl Installed<'_> {
    /// Runs `check` as the service account: whether it exits with 0, and its lines about missing permissions.
    #[must_use]
    pub fn check(&self) -> (bool, Vec<String>) {
        let (success, stdout, _) = self.subject.call(Some(&self.kubeconfig), &["check"]);
        (success, stdout.lines().filter(|line| line.starts_with("missing ")).map(str::to_owned).collect())
    }

    /// Every rule that the roles grant.
    pub fn rules(&self) -> Vec<Rule> {
        self.documents.iter().enumerate().flat_map(|(at, document)| Rule::all(at, document)).collect()
    }

    /// Runs the program until it is done: `check` succeeds, and the API server forbids nothing.
    pub fn is_enough(&self) {
        until("check finds nothing", || self.check().0.then_some(()), || format!("{:?}", self.check()));
        let before = self.requests().len();
        let mut program = self.start();
        let objects = self.objects();
        let args = [&["apply", "--filename=-"], &WITHOUT_OPENAPI[..]].concat();
        let apply = || self.cluster.kubectl_with(&args, &objects);
        until("the objects are made", || apply().success.then_some(()), || apply().stderr);
        self.upset_lease(&program);
        program.wait_for_lines(2, &["acquired leadership"]);
        for done in self.subject.done {
            program.wait_for_line(&[done]);
        }
        program.wait_for_page("/readyz", 200, &[]);
        program.terminate();
        let lines = program.lines().into_iter();
        let found: Vec<_> = lines.filter(|line| line.contains("grant the rule")).collect();
        assert!(found.is_empty(), "{found:#?}");
        Self::forbade_nothing(&self.requests()[before..]);
    }

    /// The kubeconfig of the service account.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Starts the program as the service account.
    pub fn start(&self) -> Process {
        self.subject.start(&self.kubeconfig)
    }

    /// Runs kubectl as the service account, with an input.
    #[must_use]
    pub fn kubectl_with(&self, args: &[&str], input: &str) -> Output {
        let kubeconfig = self.kubeconfig.to_str().expect("the path is UTF-8");
        self.cluster.kubectl_with(&[args, &["--kubeconfig", kubeconfig]].concat(), input)
    }

    /// The requests of the service account, as audit events.
    pub fn requests(&self) -> Vec<Value> {
        let account = &self.documents[0]["metadata"];
        let user = format!(
            "system:serviceaccount:{}:{}",
            account["namespace"].as_str().unwrap_or_default(),
            account["name"].as_str().unwrap_or_default()
        );
        let log = self.cluster.audit_log(&user);
        log.into_iter().filter(|event| event["user"]["username"] == user.as_str()).collect()
    }

    /// Checks that the API server has forbidden none of these.
    pub fn forbade_nothing(requests: &[Value]) {
        assert!(requests.len() > 2, "the audit log has requests of the program");
        let forbidden = forbidden(requests);
        assert!(forbidden.is_empty(), "forbidden: {forbidden:#?}");
    }

    /// Removes rules, each of which another controller uses: `check` reports only these rules, with their roles, and
    /// the running program logs that each is missing.
    pub fn needs(&self, rules: &[&Rule]) {
        let mut installs = false;
        for rule in rules {
            if let Some(name) = rule.name.as_ref().filter(|_| rule.is_of_crd()) {
                self.cluster.must(&["delete", "crd", name, "--ignore-not-found"]);
            }
            if rule.resource == "leases" && rule.name.is_some() {
                let place = format!("--namespace={}", self.subject.lease_namespace());
                self.cluster.must(&["delete", "lease", self.subject.lease_name(), "--ignore-not-found", &place]);
            }
            installs |= rule.is_of_crd();
        }
        self.apply_without(rules, !installs);
        let advice = |rule: &Rule| [format!("add the rule \"{rule}\"{} to ", rule.pinned()), self.role(rule)];
        let only = |(success, missing): (bool, Vec<String>)| {
            let is_reported = |rule: &&Rule| {
                let [advice, role] = advice(rule);
                missing.iter().any(|line| line.contains(&advice) && line.ends_with(&role))
            };
            (!success && missing.len() == rules.len() && rules.iter().all(is_reported)).then_some(())
        };
        let all: Vec<_> = rules.iter().map(|rule| advice(rule).concat()).collect();
        until(&format!("check reports: {all:#?}"), || only(self.check()), || format!("{:#?}", self.check()));
        let program = self.subject.start(&self.kubeconfig);
        let is_of_lease = |rule: &&Rule| rule.place == Some(self.subject.lease_namespace());
        if rules.iter().any(|rule| is_of_lease(rule) && matches!(&*rule.verb, "watch" | "patch")) {
            self.upset_lease(&program);
        }
        let lines = || program.lines();
        for rule in rules {
            let unseen = self.subject.unseen.contains(&&*rule.resource);
            let names = |line: &String| rule.is_forbidden_in(line) && (unseen || rule.is_named_by(line));
            until(&format!("the program misses {rule}"), || lines().into_iter().find(names), || lines().join("\n"));
        }
    }

    /// Waits until it leads, and assigns the lease to another holder.
    fn upset_lease(&self, program: &Process) {
        program.wait_for_line(&["acquired leadership"]);
        let patch = r#"{"spec":{"holderIdentity":"other"}}"#;
        let place = format!("--namespace={}", self.subject.lease_namespace());
        self.cluster.must(&["patch", "lease", self.subject.lease_name(), "--type=merge", "--patch", patch, &place]);
    }

    /// The objects as one document, with a new number each time.
    fn objects(&self) -> String {
        self.number.set(self.number.get() + 1);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.subject.objects});
        list.to_string().replace("NUMBER", &self.number.get().to_string())
    }

    /// Applies the roles of rules without those rules, the roles that lacked some before, and new objects.
    fn apply_without(&self, rules: &[&Rule], with_objects: bool) {
        let lacking: BTreeSet<usize> = rules.iter().map(|rule| rule.document).collect();
        let changed = &self.lacking.replace(lacking.clone()) | &lacking;
        let role = |at: usize| {
            let mut document = self.documents[at].clone();
            let all = Rule::all(at, &document).into_iter();
            document["rules"] = all.filter(|other| !rules.contains(&other)).map(|rule| rule.json()).collect();
            document
        };
        let mut items: Vec<_> = changed.into_iter().map(role).collect();
        if with_objects {
            let list: Value = serde_json::from_str(&self.objects()).expect("it was made of JSON");
            items.extend(list["items"].as_array().into_iter().flatten().cloned());
        }
        self.cluster.apply(items);
    }

    /// The role of a rule, as `check` prints it.
    fn role(&self, rule: &Rule) -> String {
        let metadata = &self.documents[rule.document]["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        match metadata["namespace"].as_str() {
            Some(namespace) => format!("the Role `{name}` in namespace `{namespace}`"),
            None => format!("the ClusterRole `{name}`"),
        }
    }
}

/// The requests that the API server has forbidden for lack of a permission. No rule changes that the kind of an owner
/// is not discovered yet, but the same request has to succeed later: then the permission is checked.
fn forbidden(requests: &[Value]) -> Vec<String> {
    let name = |event: &Value| format!("{} {}", event["verb"], event["requestURI"]);
    let code = |event: &Value| event["responseStatus"]["code"].as_u64();
    let undiscovered =
        |event: &Value| event["responseStatus"]["message"].as_str().is_some_and(|text| text.contains(UNDISCOVERED));
    let succeeds_later = |at: usize| {
        let same = |later: &&Value| name(later) == name(&requests[at]);
        requests[at + 1..].iter().filter(same).any(|later| code(later).is_some_and(|code| code < 300))
    };
    let all = requests.iter().enumerate().filter(|(_, event)| code(event) == Some(403));
    all.filter(|(at, event)| !(undiscovered(event) && succeeds_later(*at)))
        .map(|(_, event)| format!("{}: {}", name(event), event["responseStatus"]["message"]))
        .collect()
}
