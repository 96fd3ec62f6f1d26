//! A kind whose watch is silent on a real API server: Events, which have no bookmarks there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Event as KubernetesEvent;
use kooper::Retriever;
use kooper::retriever::{ApiRetriever, Event, ListRequest, Page, RetrieveError, Scope, WatchRequest};
use kooper_tests::control_plane::ControlPlane;

use super::*;
use crate::fixture::Start;
use crate::live::{HandledStates, configmap};

/// All times are a thirtieth of those of production: 180 s, 290 s, and 5 minutes of compaction.
const SILENCE: Duration = Duration::from_secs(6);
const END: Duration = Duration::from_millis(9_500);
const COMPACTION: &str = "10s";

/// The requests of a retriever.
#[derive(Debug, Default)]
struct Requests {
    whole: AtomicUsize,
    versions: AtomicUsize,
    watches: AtomicUsize,
}

/// The retriever of the API server, whose watches end sooner.
struct Hasty {
    retriever: ApiRetriever<KubernetesEvent>,
    requests: Arc<Requests>,
}

impl Retriever<KubernetesEvent> for Hasty {
    async fn list(&self, request: ListRequest) -> Result<Page, RetrieveError> {
        let count = if request.limit == 1 { &self.requests.versions } else { &self.requests.whole };
        count.fetch_add(1, Ordering::Relaxed);
        self.retriever.list(request).await
    }

    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError> {
        let count = if request.initial_events { &self.requests.whole } else { &self.requests.watches };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(self.retriever.watch(request).await?.take_until(sleep(END)))
    }

    fn streams_lists(&self) -> bool {
        self.retriever.streams_lists()
    }

    fn longest_silence(&self) -> Option<Duration> {
        Some(SILENCE)
    }
}

#[test]
fn a_quiet_kind_without_bookmarks_is_listed_once_however_often_the_server_compacts() {
    let Some(cluster) = ControlPlane::start_with(&["--without-controller-manager", "--compaction", COMPACTION]) else {
        return;
    };
    let requests = Arc::new(Requests::default());
    let seen = HandledStates::default();
    let (counted, noted) = (Arc::clone(&requests), seen.clone());
    let live = Controller::builder::<KubernetesEvent>("quiet")
        .resync(None)
        .retriever_from(move |client| Hasty {
            retriever: ApiRetriever::new(client, Scope { namespace: Some("default".into()), ..Scope::default() }),
            requests: Arc::clone(&counted),
        })
        .handler(move |event: Arc<KubernetesEvent>| {
            noted.note(event.metadata.name.clone().unwrap_or_default(), event.reason.clone().unwrap_or_default());
            async {}
        })
        .start_on(&cluster);
    live.wait_for_ready(true, &[]);

    // Other kinds change, so that there are versions to compact; watches end, and resume from a compacted version if
    // nothing was proven meanwhile.
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let deadline = Instant::now() + Duration::from_secs(240);
    for change in 0.. {
        cluster.apply([configmap("default", "other", &change.to_string())]);
        assert!(live.is_ready(), "{}", live.readiness());
        if count(&requests.versions) >= 7 && count(&requests.watches) >= 9 {
            break;
        }
        assert!(Instant::now() < deadline, "the watch was not probed: {requests:?}");
        std::thread::sleep(Duration::from_secs(2));
    }
    assert_eq!(count(&requests.whole), 1, "only the first list is whole");

    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "at-last", "namespace": "default"},
        "involvedObject": {"kind": "ConfigMap", "name": "other", "namespace": "default"}, "reason": "Changed",
    });
    cluster.apply([event]);
    seen.wait_for(&[("at-last", "Changed")]);
    live.stop();
}
