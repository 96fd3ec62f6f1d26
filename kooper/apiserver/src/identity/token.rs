//! Tokens of service accounts: granted for a time, valid while their objects exist.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::random;

/// The audience of a token that this server accepts, and its issuer.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// Whom a token stands for, and until when.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) namespace: String,
    pub(crate) account: String,
    pub(crate) uid: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) bound: Option<Bound>,
    pub(crate) seconds: u64,
}

/// The object that a token is bound to.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) resource: &'static str,
    /// The object's name in the store.
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The node of a pod, and the node's uid if it exists.
    pub(crate) node: Option<(String, Option<String>)>,
}

/// A token that was handed out.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    pub(crate) id: String,
    expires: SystemTime,
}

impl Granted {
    /// The grant, with its token.
    ///
    /// The token is a JWT, so that clients can read its claims. Only this server checks it, and it knows all tokens it
    /// has handed out: what stands for the signature is a secret that cannot be guessed.
    pub(super) fn new(grant: Grant) -> (String, Self) {
        let granted =
            Self { id: random::uid(), expires: crate::time::clock() + Duration::from_secs(grant.seconds), grant };
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(&json!({"alg": "none", "typ": "JWT"}));
        (format!("{head}.{}.{}", part(&granted.claims()), random::token()), granted)
    }

    fn claims(&self) -> Value {
        let grant = &self.grant;
        let seconds = self.expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let issued = seconds - grant.seconds;
        let mut about = json!({
            "namespace": grant.namespace,
            "serviceaccount": {"name": grant.account, "uid": grant.uid}
        });
        if let Some(bound) = &grant.bound {
            about[bound.resource.trim_end_matches('s')] = json!({"name": bound.name, "uid": bound.uid});
            if let Some((node, uid)) = &bound.node {
                about["node"] = json!({"name": node});
                if let Some(uid) = uid {
                    about["node"]["uid"] = json!(uid);
                }
            }
        }
        json!({
            "aud": grant.audiences,
            "exp": seconds,
            "iat": issued,
            "iss": AUDIENCE,
            "jti": self.id,
            "kubernetes.io": about,
            "nbf": issued,
            "sub": format!("system:serviceaccount:{}:{}", grant.namespace, grant.account)
        })
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.expires <= crate::time::clock()
    }

    /// The audiences that both the token and the question name.
    pub(crate) fn audiences(&self, wanted: &[String]) -> Vec<String> {
        wanted.iter().filter(|audience| self.grant.audiences.contains(audience)).cloned().collect()
    }

    pub(crate) fn all_audiences(&self) -> &[String] {
        &self.grant.audiences
    }
}
