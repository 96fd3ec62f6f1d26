//! A client that the user's code shares with the program.

use kube::Client;
use kube::client::Body;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// The same client, whose requests are sent by the current runtime, from whichever thread they come.
/// A connection belongs to the runtime that opened it, and serves others later: one that
/// a handler opened would stand still while the handler's threads are blocked.
///
/// Outside of a runtime with several threads it is the client itself.
pub(crate) fn on_current_runtime(client: Client) -> Client {
    let several = |runtime: &Handle| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
    let Some(runtime) = Handle::try_current().ok().filter(several) else { return client };
    let (namespace, valid_until) = (client.default_namespace().to_owned(), *client.valid_until());
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        let sending = runtime.spawn(async move { client.send(request).await }.in_current_span());
        // A caller that no longer waits does not want the request either.
        let sending = AbortOnDropHandle::new(sending);
        async move {
            sending.await?.map_err(|error| match error {
                // The client adds this layer again.
                kube::Error::Service(error) => error,
                error => error.into(),
            })
        }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}
