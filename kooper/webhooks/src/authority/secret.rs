//! The Secret with the authorities. Each write is a compare-and-swap, so that no replica
//! replaces what another one has made.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};

use super::AuthorityError;
use super::rotation::Authorities;
use kooper_runtime::internal::clock;

/// Why the Secret cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("the Secret `{name}` of the webhooks' certificate authority cannot be {verb}: {error}")]
    Request { name: String, verb: &'static str, error: Error },
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// The Secret of a program.
#[derive(Clone, Debug)]
pub(crate) struct CaSecret {
    secrets: Api<Secret>,
    name: String,
}

/// What was read, with the version that a write replaces.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) authorities: Authorities,
    version: Option<String>,
}

impl CaSecret {
    pub(crate) fn new(client: Client, namespace: &str, name: String) -> Self {
        Self { secrets: Api::namespaced(client, namespace), name }
    }

    /// Reads the authorities. If there is no Secret, it is created with `known`, those that
    /// this process has used so far, or with new ones. One that is malformed is replaced.
    pub(crate) async fn read(&self, known: Option<&Authorities>) -> Result<Read, SecretError> {
        loop {
            let found = self.secrets.get_opt(&self.name).await.map_err(|error| self.error("read", error))?;
            let version = found.as_ref().and_then(|secret| secret.metadata.resource_version.clone());
            match found.map(|secret| Authorities::from_data(&secret.data.unwrap_or_default())) {
                Some(Ok(authorities)) => return Ok(Read { authorities, version }),
                Some(Err(error)) => tracing::error!("the Secret `{}`: {error}; it is replaced", self.name),
                None => {}
            }
            let authorities = match known {
                Some(known) => known.clone(),
                None => Authorities::new(clock::wall())?,
            };
            if let Some(read) = self.write(authorities, version).await? {
                return Ok(read);
            }
        }
    }

    /// Replaces what was read. `None` if another replica has written meanwhile.
    pub(crate) async fn replace(&self, read: Read, with: Authorities) -> Result<Option<Read>, SecretError> {
        self.write(with, read.version).await
    }

    async fn write(&self, authorities: Authorities, over: Option<String>) -> Result<Option<Read>, SecretError> {
        let metadata =
            ObjectMeta { name: Some(self.name.clone()), resource_version: over.clone(), ..ObjectMeta::default() };
        let secret = Secret {
            metadata,
            type_: Some("Opaque".to_owned()),
            data: Some(authorities.to_data()),
            ..Secret::default()
        };
        let params = PostParams::default();
        let written = match over {
            Some(_) => self.secrets.replace(&self.name, &params, &secret).await,
            None => self.secrets.create(&params, &secret).await,
        };
        match written {
            Ok(secret) => Ok(Some(Read { authorities, version: secret.metadata.resource_version })),
            // Changed, created or deleted meanwhile.
            Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(None),
            Err(error) => Err(self.error("written", error)),
        }
    }

    fn error(&self, verb: &'static str, error: Error) -> SecretError {
        SecretError::Request { name: self.name.clone(), verb, error }
    }
}
