//! The pages that a program adds to its listener.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

type Answer = Arc<dyn Fn(Request<()>) -> BoxFuture<'static, Response<Full<Bytes>>> + Send + Sync>;

/// The paths of requests, and the functions that answer them.
#[derive(Clone, Default)]
pub(crate) struct Routes(Vec<(&'static str, Answer)>);

impl Routes {
    pub(crate) fn add<B, F>(&mut self, path: &'static str, answer: impl Fn(Request<()>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Response<B>> + Send + 'static,
        B: Into<Bytes>,
    {
        let answer = move |request| answer(request).map(|response| response.map(|body| Full::new(body.into()))).boxed();
        self.0.push((path, Arc::new(answer)));
    }

    /// The path as it is known here.
    pub(super) fn find(&self, path: &str) -> Option<&'static str> {
        self.paths().find(|known| *known == path)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(path, _)| *path)
    }

    /// The response of a page; `None` if its function panicked. It is called on `program`: one that
    /// blocks its thread delays no probe.
    pub(super) async fn answer(&self, path: &str, request: &Parts, program: &Handle) -> Option<Response<Full<Bytes>>> {
        let (_, answer) = self.0.iter().find(|(known, _)| *known == path)?.clone();
        let request = Request::from_parts(request.clone(), ());
        // It ends with its connection: clients that leave at once could start any number of them.
        AbortOnDropHandle::new(program.spawn(async move { answer(request).await })).await.ok()
    }
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.paths()).finish()
    }
}
