//! Identities: users, and the tokens that they are known by.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::random;

/// The members of this group may do everything.
const MASTERS: &str = "system:masters";

/// Who makes a request, as authorization sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    groups: Vec<String>,
}

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

impl User {
    /// A user with groups, such as `system:masters`.
    #[must_use]
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
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
            && let Some((namespace, name)) =
                self.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        {
            self = Self::service_account(namespace, name);
        }
        if self.name == "system:anonymous" {
            self.groups.push(UNAUTHENTICATED.to_owned());
            return self;
        }
        self.authenticated()
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

/// The tokens of one server.
pub(crate) struct Tokens(RwLock<HashMap<String, User>>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Knows the token of a user who may do everything, and no other.
    pub(crate) fn new(admin: &str) -> Self {
        let tokens = Self(RwLock::default());
        tokens.add(admin.to_owned(), User::new("admin", &[MASTERS]));
        tokens
    }

    /// A new token for a user.
    pub(crate) fn issue(&self, user: User) -> String {
        let token = random::token();
        self.add(token.clone(), user);
        token
    }

    fn add(&self, token: String, user: User) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(token, user.authenticated());
    }

    pub(crate) fn user(&self, token: &str) -> Option<User> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}
