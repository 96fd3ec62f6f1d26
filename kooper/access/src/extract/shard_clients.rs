//! The clients of calls in shards.

use std::collections::HashMap;
use std::sync::Arc;

use kooper_runtime::internal::client::{ClientStack, from_fn};
use kooper_runtime::internal::leader::{SentIn, ShardTerm};
use kube::Client;
use parking_lot::Mutex;
use tower::ServiceExt;

/// The clients of a controller's calls, by the address of the term. Each new client starts a task, which wakes a thread: a
/// call that begins in the same term takes the same one.
#[derive(Default)]
pub(super) struct ShardClients(Mutex<HashMap<usize, Fenced>>);

/// A term, and the client whose requests it fences.
type Fenced = (Arc<dyn ShardTerm>, Client);

impl ShardClients {
    /// A client around the given one. All its requests are fenced, also those of tasks that outlive the call.
    pub(super) fn of(&self, term: &Arc<dyn ShardTerm>, client: Client) -> Client {
        let mut clients = self.0.lock();
        // No other term has this address while the term is kept.
        let address = Arc::as_ptr(term).cast::<()>().addr();
        if let Some((_, known)) = clients.get(&address) {
            return known.clone();
        }
        clients.retain(|_, (term, _)| !term.leaving().is_cancelled() && !term.ended().is_cancelled());
        let sent_in = SentIn(Arc::clone(term));
        let layer = from_fn(move |mut request, next| {
            request.extensions_mut().insert(sent_in.clone());
            next.oneshot(request)
        });
        let client = ClientStack::new(client).with([layer]).client();
        clients.insert(address, (Arc::clone(term), client.clone()));
        client
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kooper_runtime::{BoxError, Shard};
    use kube::client::Body;
    use tokio_util::sync::CancellationToken;
    use tower::service_fn;

    use super::*;

    struct Term {
        index: u16,
        ended: CancellationToken,
        leaving: CancellationToken,
    }

    impl ShardTerm for Term {
        fn shard(&self) -> Shard {
            Shard::new(self.index, 32, 1)
        }

        fn is_held(&self) -> bool {
            !self.ended.is_cancelled()
        }

        fn ended(&self) -> &CancellationToken {
            &self.ended
        }

        fn leaving(&self) -> &CancellationToken {
            &self.leaving
        }

        fn begin(&self) {}

        fn end(&self) {}
    }

    fn term(index: u16) -> Arc<dyn ShardTerm> {
        Arc::new(Term { index, ended: CancellationToken::new(), leaving: CancellationToken::new() })
    }

    #[tokio::test]
    async fn calls_in_one_term_share_a_client_which_is_dropped_after_the_term() {
        let sent = Arc::new(Mutex::new(Vec::<u16>::new()));
        let noted = Arc::clone(&sent);
        let server = service_fn(move |request: Request<Body>| {
            noted.lock().extend(request.extensions().get::<SentIn>().map(|SentIn(term)| term.shard().index));
            async { Ok::<_, BoxError>(Response::new(Body::empty())) }
        });
        let (client, clients) = (Client::new(server, "shop"), ShardClients::default());
        let (first, second) = (term(1), term(2));
        let mut kept = Vec::new();
        for term in [&first, &first, &second, &first] {
            let request = Request::get("/").body(Body::empty()).unwrap();
            clients.of(term, client.clone()).send(request).await.unwrap();
            kept.push(clients.0.lock().len());
        }
        assert_eq!(kept, [1, 1, 2, 2]);
        assert_eq!(*sent.lock(), [1, 1, 2, 1]);
        first.ended().cancel();
        second.leaving().cancel();
        drop(clients.of(&term(3), client));
        assert_eq!(clients.0.lock().len(), 1);
    }
}
