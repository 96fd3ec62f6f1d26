//! The Secret with the authorities. Each write is a compare-and-swap, so that no replica
//! replaces what another one has made.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};

use super::AuthorityError;
use super::rotation::Authorities;
use kooper_runtime::internal::clock;
use kooper_runtime::internal::error::refusal::{is_denied, is_missing, unless_missing};

/// Why the Secret cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("the Secret `{name}` of the webhooks' certificate authority cannot be {verb}: {error}")]
    Request {
        name: String,
        verb: &'static str,
        #[source]
        error: Error,
    },
    #[error(
        "the Secret `{name}` of the webhooks' certificate authority cannot be replaced: {error}; delete it, and the \
         running program creates it again"
    )]
    Immutable {
        name: String,
        #[source]
        error: Error,
    },
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// The Secret of a program.
#[derive(Clone, Debug)]
pub(crate) struct CaSecret {
    secrets: Api<Secret>,
    name: String,
}

/// The authority that was read, with the metadata of the version that a write replaces.
#[derive(Debug)]
pub(crate) struct StoredAuthorities {
    pub(crate) authorities: Authorities,
    metadata: ObjectMeta,
}

impl CaSecret {
    pub(crate) fn new(client: Client, namespace: &str, name: String) -> Self {
        Self { secrets: Api::namespaced(client, namespace), name }
    }

    /// Reads the authorities. If there is no Secret, it is created with `known`, those that
    /// this process has used so far, or with new ones. One that is malformed is replaced.
    pub(crate) async fn read(&self, known: Option<&Authorities>) -> Result<StoredAuthorities, SecretError> {
        loop {
            let found = unless_missing(self.secrets.get(&self.name).await);
            let found = found.map_err(|error| self.error("read", error))?;
            let metadata = match found {
                None => ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                Some(secret) => match Authorities::from_data(&secret.data.unwrap_or_default()) {
                    Ok(authorities) => return Ok(StoredAuthorities { authorities, metadata: secret.metadata }),
                    Err(error) => {
                        tracing::error!("the Secret `{}`: {error}; it is replaced", self.name);
                        secret.metadata
                    }
                },
            };
            let authorities = match known {
                Some(known) => known.clone(),
                None => Authorities::new(clock::wall())?,
            };
            if let Some(read) = self.write(authorities, metadata).await? {
                return Ok(read);
            }
        }
    }

    /// Replaces what was read. `None` if another replica has written meanwhile.
    pub(crate) async fn replace(
        &self,
        read: StoredAuthorities,
        with: Authorities,
    ) -> Result<Option<StoredAuthorities>, SecretError> {
        self.write(with, read.metadata).await
    }

    async fn write(
        &self,
        authorities: Authorities,
        metadata: ObjectMeta,
    ) -> Result<Option<StoredAuthorities>, SecretError> {
        let is_new = metadata.resource_version.is_none();
        let secret = Secret {
            metadata,
            type_: Some("Opaque".to_owned()),
            data: Some(authorities.to_data()),
            ..Secret::default()
        };
        let params = PostParams::default();
        let written = if is_new {
            self.secrets.create(&params, &secret).await
        } else {
            self.secrets.replace(&self.name, &params, &secret).await
        };
        match written {
            Ok(secret) => Ok(Some(StoredAuthorities { authorities, metadata: secret.metadata })),
            Err(Error::Api(status)) if is_denied(&status) => Err(self.error("written", Error::Api(status))),
            // Changed, created or deleted meanwhile. A creation that finds nothing lacks its namespace.
            Err(Error::Api(status)) if status.code == 409 || (is_missing(&status) && !is_new) => Ok(None),
            // A client has set `immutable`, or created it with another type.
            Err(Error::Api(status)) if status.code == 422 && !is_new => {
                Err(SecretError::Immutable { name: self.name.clone(), error: Error::Api(status) })
            }
            Err(error) => Err(self.error("written", error)),
        }
    }

    fn error(&self, verb: &'static str, error: Error) -> SecretError {
        SecretError::Request { name: self.name.clone(), verb, error }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;
    use kooper_tests::responses;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn without_its_namespace_the_secret_is_created_once_and_the_error_says_why() {
        let client = responses::client("typo", |request| {
            responses::missing(if request.method() == Method::GET { "ca" } else { "typo" })
        });
        let error = CaSecret::new(client, "typo", "ca".to_owned()).read(None).await.expect_err("nothing is created");
        assert!(error.to_string().contains("\"typo\" not found"), "{error}");
    }

    /// The error about a Secret that is malformed, and whose replacement gets this response.
    async fn refused(code: u16, message: &'static str) -> String {
        let client = responses::client("shops", move |request| {
            let metadata = serde_json::json!({"name": "ca", "resourceVersion": "7"});
            let secret = serde_json::json!({"metadata": metadata, "data": {"ca.crt": ""}});
            if request.method() == Method::GET { (200, secret) } else { responses::rejection(code, message) }
        });
        let read = CaSecret::new(client, "shops", "ca".to_owned()).read(None).await;
        read.expect_err("it is malformed").to_string()
    }

    #[tokio::test]
    async fn the_error_about_an_immutable_secret_says_what_to_do() {
        let error = refused(422, "immutable: Forbidden: field is immutable when `immutable` is set").await;
        assert!(error.contains("field is immutable"), "{error}");
        assert!(error.ends_with("; delete it, and the running program creates it again"), "{error}");
    }

    #[tokio::test]
    async fn a_rejection_by_a_webhook_is_reported_whatever_its_code() {
        for code in [404, 409, 422] {
            let error = refused(code, "admission webhook \"a.io\" denied the request: frozen");
            let error = timeout(Duration::from_secs(30), error).await.expect("it is not sent again and again");
            assert!(error.contains("cannot be written: ") && error.contains("denied the request: frozen"), "{error}");
            assert!(!error.contains("delete it"), "{error}");
        }
    }
}
