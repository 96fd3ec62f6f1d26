//! Why a CRD cannot be installed, and what to do.

use kooper_runtime::error::chain;
use kooper_runtime::internal::error::refusal::is_conflict;

use super::breaking::{AllowedBy, CrdChange};

/// The most changes that a message lists.
const LISTED: usize = 5;

/// Why a CRD cannot be installed. Each message includes what to do.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No RBAC rule allows a request for the CRD.
    #[error(
        "{message}: add the rule \"apiextensions.k8s.io/customresourcedefinitions: create, get, patch, watch\" with \
         resourceNames `{name}` to the operator's ClusterRole{printed}; or install the CRD by hand, and remove \
         `install_crd`"
    )]
    Forbidden {
        /// The name of the CRD.
        name: String,
        /// A clause with the command that prints the rule; empty if the program has no commands.
        printed: String,
        /// The message of the API server.
        message: String,
    },
    /// A request for the CRD failed for another reason than a missing rule.
    #[error("the CRD `{name}` cannot be {verb}: {}", chain(.error))]
    Api {
        /// The name of the CRD.
        name: String,
        /// The past participle of the request, such as `applied`.
        verb: &'static str,
        /// The error of the client.
        error: kube::Error,
    },
    /// Stored objects or their users might not fit the new CRD: that of the cluster is kept.
    #[error(
        "the CRD `{name}` in the cluster is not replaced, because stored objects or their users might not match the \
         new one: {changes}; {way}"
    )]
    Breaking {
        /// The name of the CRD.
        name: String,
        /// The first changes that might break them, and the number of the others.
        changes: String,
        /// The ways to resolve it, such as a flag by which the user allows the changes.
        way: String,
    },
    /// Other field managers own fields that differ: the CRD of the cluster is kept.
    #[error(
        "the CRD `{name}` differs and is not replaced, because it belongs to {owner}: update it there, or transfer \
         its fields with {by_hand}"
    )]
    Foreign {
        /// The name of the CRD.
        name: String,
        /// The other field managers, each with its field.
        owner: String,
        /// The command that transfers the fields to the program.
        by_hand: String,
    },
    /// The CRD of the cluster has a deletion timestamp.
    #[error(
        "the CRD `{name}` is being deleted: it is removed when its objects are; look for finalizers on them with \
         `kubectl get {name} --all-namespaces`"
    )]
    Deleted {
        /// The name of the CRD.
        name: String,
    },
    /// The CRD was not established within the maximum time, or never will be.
    #[error("the CRD `{name}` is not established: {message}")]
    NotEstablished {
        /// The name of the CRD.
        name: String,
        /// The reason, such as the message of a condition of the CRD.
        message: String,
    },
}

impl InstallError {
    /// Returns `true` if the controller can work with the CRD of the cluster in spite of the
    /// error: the CRD exists and is kept, or this identity may not read it.
    pub(crate) fn leaves_crd(&self) -> bool {
        match self {
            Self::Forbidden { .. } | Self::Breaking { .. } | Self::Foreign { .. } | Self::Deleted { .. } => true,
            // Such as a rejection by an admission policy. Conflicts and rate limits are temporary.
            Self::Api { error: kube::Error::Api(status), .. } => {
                (400..500).contains(&status.code) && status.code != 429 && !self.is_conflict()
            }
            Self::Api { .. } | Self::NotEstablished { .. } => false,
        }
    }

    /// Returns `true` if another client was first.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { error: kube::Error::Api(status), .. } if is_conflict(status))
    }
}

/// Advice for the user: with the program's commands and flags if it has them.
#[derive(Debug, Clone)]
pub struct Advice {
    /// The field manager of the program's CRDs.
    pub manager: String,
    /// The file of a program that has commands.
    pub command: Option<String>,
}

impl Advice {
    /// The command by which a user applies a CRD that the program does not install.
    pub(crate) fn by_user(&self) -> String {
        self.apply("")
    }

    /// The command that transfers the fields of a CRD, so that the program can update it later.
    fn by_hand(&self) -> String {
        self.apply(&format!(" --force-conflicts --field-manager={}", self.manager))
    }

    fn apply(&self, flags: &str) -> String {
        let apply = format!("kubectl apply --server-side{flags} -f");
        match &self.command {
            Some(program) => format!("`{program} crd | {apply} -`"),
            None => format!("`{apply} FILE`"),
        }
    }

    pub(super) fn forbidden(&self, name: &str, message: String) -> InstallError {
        let printed = self.command.as_ref().map(|program| format!(", as `{program} rbac` prints it"));
        InstallError::Forbidden { name: name.to_owned(), printed: printed.unwrap_or_default(), message }
    }

    pub(super) fn breaking(&self, name: &str, hash: &str, changes: &[CrdChange]) -> InstallError {
        let way = if changes.iter().any(|change| change.allowed_by == AllowedBy::Migration) {
            "undo the changes, or follow the advice for each: the API server does not allow them".to_owned()
        } else {
            let consent = match &self.command {
                Some(_) => format!("start the program with `--allow-crd-change {name}@{hash}`"),
                None => format!("build the operator with `.allow_crd_change(\"{name}@{hash}\")`"),
            };
            format!("undo the changes, or add a version to the CRD, or, if no object is affected, {consent}")
        };
        let texts = changes.iter().map(|change| change.text.clone()).collect();
        InstallError::Breaking { name: name.to_owned(), changes: shortened(texts).join("; "), way }
    }

    pub(super) fn foreign(&self, name: &str, owner: String) -> InstallError {
        InstallError::Foreign { name: name.to_owned(), owner, by_hand: self.by_hand() }
    }
}

/// The first entries of a list, and how many more there are.
pub(super) fn shortened(mut texts: Vec<String>) -> Vec<String> {
    let more = texts.len().saturating_sub(LISTED);
    texts.truncate(LISTED);
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    texts
}
