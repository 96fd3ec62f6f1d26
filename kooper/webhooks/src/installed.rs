//! The objects that a program writes for its webhooks.

use std::fmt::Debug;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kooper_runtime::internal::error::refusal::{is_missing, unless_missing};
use kube::api::{Api, DeleteParams};
use kube::{Client, Error};
use serde::de::DeserializeOwned;

/// The names of the objects that a registration writes.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The namespace of the Lease and the Secret.
    pub namespace: String,
    /// The name of both configurations.
    pub configuration: String,
    /// The Lease of the replica that registers.
    pub lease: String,
    /// The Secret of the certificate authority, if the program has its own.
    pub secret: Option<String>,
}

impl Installed {
    /// The kinds of the configurations that exist.
    pub async fn configurations(&self, client: &Client) -> Result<Vec<&'static str>, Error> {
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let mut found = Vec::new();
        if unless_missing(validating.get_metadata(&self.configuration).await)?.is_some() {
            found.push("ValidatingWebhookConfiguration");
        }
        if unless_missing(mutating.get_metadata(&self.configuration).await)?.is_some() {
            found.push("MutatingWebhookConfiguration");
        }
        Ok(found)
    }

    /// Deletes the configurations: the API servers call the webhooks no longer.
    pub async fn unregister(&self, client: &Client) -> Result<(), Error> {
        delete::<ValidatingWebhookConfiguration>(&Api::all(client.clone()), &self.configuration).await?;
        delete::<MutatingWebhookConfiguration>(&Api::all(client.clone()), &self.configuration).await
    }

    /// Returns whether the Secret exists.
    pub async fn has_secret(&self, client: &Client) -> Result<bool, Error> {
        let Some(secret) = &self.secret else { return Ok(false) };
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &self.namespace);
        Ok(unless_missing(secrets.get_metadata(secret).await)?.is_some())
    }

    /// Deletes the Secret of the certificate authority, if there is one.
    pub async fn delete_secret(&self, client: &Client) -> Result<(), Error> {
        let Some(secret) = &self.secret else { return Ok(()) };
        delete::<Secret>(&Api::namespaced(client.clone(), &self.namespace), secret).await
    }

    /// Deletes all of them.
    pub(crate) async fn remove(&self, client: &Client) -> Result<(), Error> {
        self.unregister(client).await?;
        delete::<Lease>(&Api::namespaced(client.clone(), &self.namespace), &self.lease).await?;
        self.delete_secret(client).await
    }
}

/// Deletes an object, if it exists.
async fn delete<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str) -> Result<(), Error> {
    match api.delete(name, &DeleteParams::default()).await {
        Err(Error::Api(status)) if is_missing(&status) => Ok(()),
        deleted => deleted.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use kooper_tests::responses;

    use super::*;

    #[tokio::test]
    async fn a_secret_whose_deletion_a_webhook_or_a_proxy_rejects_is_not_taken_for_a_missing_one() {
        let denied = "admission webhook \"a.io\" denied the request: frozen";
        for (response, is_kept) in [
            (responses::rejection(404, denied), true),
            (responses::rejection(404, "404 page not found"), true),
            (responses::missing("ca"), false),
        ] {
            let message = response.1.to_string();
            let client = responses::client("shops", move |_| response.clone());
            let installed = Installed {
                namespace: "shops".to_owned(),
                configuration: "shop".to_owned(),
                lease: "shop".to_owned(),
                secret: Some("ca".to_owned()),
            };
            assert_eq!(installed.has_secret(&client).await.is_err(), is_kept, "{message}");
            let deleted = installed.delete_secret(&client).await;
            assert_eq!(deleted.is_err(), is_kept, "{message}");
        }
    }
}
