//! Identities: users, and the tokens that they are known by.

mod token;

use parking_lot::RwLock;
use std::collections::HashMap;

use serde_json::{Map, Value, json};

pub(crate) use self::token::{AUDIENCE, Bound, Grant, Granted};
use crate::random;

/// The members of this group may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// Who makes a request, as authorization sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    groups: Vec<String>,
    uid: String,
    /// Additional attributes of the user, by key.
    extra: Vec<(String, String)>,
}

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

impl User {
    /// A user with groups, such as `system:masters`.
    #[must_use]
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self { name: name.to_owned(), groups, uid: String::new(), extra: Vec::new() }
    }

    /// The user that a ServiceAccount is.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")];
        Self::new(&format!("system:serviceaccount:{namespace}:{name}"), &groups)
    }

    pub(crate) fn anonymous() -> Self {
        Self::new("system:anonymous", &[UNAUTHENTICATED])
    }

    pub(crate) fn authenticated(mut self) -> Self {
        self.groups.push(AUTHENTICATED.to_owned());
        self
    }

    /// The user as an impersonated one: ServiceAccounts are in their groups, and all but the anonymous are authenticated.
    pub(crate) fn impersonated(mut self) -> Self {
        if self.groups.is_empty()
            && let Some((namespace, name)) = account_name(&self.name)
        {
            self = Self::service_account(namespace, name);
        }
        if self.name == "system:anonymous" {
            self.groups.push(UNAUTHENTICATED.to_owned());
            return self;
        }
        self.authenticated()
    }

    pub(crate) fn with_uid(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.uid);
        self
    }

    /// Adds what a token says of the user; `key` is a name of the authentication API.
    pub(crate) fn add_extra(&mut self, key: &str, value: &str) {
        self.extra.push((format!("authentication.kubernetes.io/{key}"), value.to_owned()));
    }

    /// The user as reviews show it.
    pub(crate) fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = json!(self.uid);
        }
        if !self.extra.is_empty() {
            info["extra"] =
                self.extra.iter().map(|(key, value)| (key.clone(), json!([value]))).collect::<Map<_, _>>().into();
        }
        info
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn groups(&self) -> &[String] {
        &self.groups
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// The namespace and the name of the ServiceAccount with this user name.
pub(crate) fn account_name(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
}

/// The tokens of one server.
#[derive(Default)]
pub(crate) struct Tokens {
    users: RwLock<HashMap<String, User>>,
    /// The tokens of service accounts that were requested.
    granted: RwLock<HashMap<String, Granted>>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Knows the token of a user who may do everything, and no other.
    pub(crate) fn new(admin: &str) -> Self {
        let tokens = Self::default();
        tokens.add(admin.to_owned(), User::new("admin", &[MASTERS]).with_uid("admin"));
        tokens
    }

    /// A new token for a user.
    pub(crate) fn issue(&self, user: User) -> String {
        let token = random::token();
        self.add(token.clone(), user);
        token
    }

    fn add(&self, token: String, user: User) {
        self.users.write().insert(token, user.authenticated());
    }

    /// A new token for a service account.
    pub(crate) fn grant(&self, grant: Grant) -> String {
        let (token, granted) = Granted::new(grant);
        let mut all = self.granted.write();
        // Before it grows, so that the tokens of the past take no room.
        if all.len() == all.capacity() {
            all.retain(|_, granted| !granted.is_expired());
        }
        all.insert(token.clone(), granted);
        token
    }

    pub(crate) fn granted(&self, token: &str) -> Option<Granted> {
        self.granted.read().get(token).cloned()
    }

    pub(crate) fn user(&self, token: &str) -> Option<User> {
        self.users.read().get(token).cloned()
    }
}
