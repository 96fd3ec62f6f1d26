//! Delivery of the changes in each watch to a controller.

use std::sync::Arc;

use crate::executor::{Executor, Task};
use crate::watch::informer::{Feed, Sink, Watched};

/// Delivers changes directly, or on the threads of the user's functions where one is called
/// for each change.
#[derive(Clone)]
pub(super) struct Routes {
    feeds: Vec<Arc<Feed>>,
    executor: Executor,
}

impl Routes {
    /// The second value passes the changes, for as long as it is kept.
    pub(super) fn new<'a>(
        with_functions: impl Iterator<Item = &'a Arc<Watched>>,
        executor: &Executor,
    ) -> (Self, Vec<Task<()>>) {
        let mut routes = Self { feeds: Vec::new(), executor: executor.clone() };
        let mut tasks = Vec::new();
        // On one thread there is no other one to call them on.
        for watched in with_functions.filter(|_| executor.is_apart()) {
            if routes.feed(watched).is_none() {
                let (feed, task) = Feed::start(watched, executor);
                routes.feeds.push(feed);
                tasks.push(task);
            }
        }
        (routes, tasks)
    }

    fn feed(&self, watched: &Arc<Watched>) -> Option<&Arc<Feed>> {
        self.feeds.iter().find(|feed| feed.is_of(watched))
    }

    /// Informs `sink` of every change from now on, and of the known objects as of a first
    /// list.
    pub(super) async fn subscribe(&self, watched: &Arc<Watched>, sink: &Arc<dyn Sink>) {
        match self.feed(watched) {
            Some(feed) => feed.subscribe(sink, &self.executor),
            None => watched.subscribe(sink).await,
        }
    }
}
