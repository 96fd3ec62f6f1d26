//! The fn that builds a controller's state.

use std::future::Future;

use kube::Client;

use crate::error::BoxError;

/// An `async fn(…) -> Result<S, E>` that builds the state `S`; it may take a
/// [`Client`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot build a state",
    label = "not a fn for `init`",
    note = "write `async fn name() -> Result<S, E>` or `async fn name(client: Client) -> Result<S, E>`, where `E` is an error type"
)]
pub trait Init<Args>: Send + Sync + 'static {
    /// What it builds.
    type State: Send + Sync + 'static;

    /// Whether it can only be called with a client.
    const NEEDS_CLIENT: bool;

    /// Builds the state.
    fn build(&self, client: Option<Client>) -> impl Future<Output = Result<Self::State, BoxError>> + Send;
}

#[diagnostic::do_not_recommend]
impl<F, Fut, S, E> Init<()> for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S, E>> + Send,
    S: Send + Sync + 'static,
    E: Into<BoxError>,
{
    type State = S;
    const NEEDS_CLIENT: bool = false;

    async fn build(&self, _: Option<Client>) -> Result<S, BoxError> {
        self().await.map_err(Into::into)
    }
}

#[diagnostic::do_not_recommend]
impl<F, Fut, S, E> Init<(Client,)> for F
where
    F: Fn(Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S, E>> + Send,
    S: Send + Sync + 'static,
    E: Into<BoxError>,
{
    type State = S;
    const NEEDS_CLIENT: bool = true;

    async fn build(&self, client: Option<Client>) -> Result<S, BoxError> {
        let client = client.ok_or("`init` takes a client, and the operator has none")?;
        self(client).await.map_err(Into::into)
    }
}
