//! Answers that a fault changes while they are sent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::BodyExt as _;

use super::outage::OutageWatcher;
use super::{EventEffect, RequestAttributes, State};
use crate::http::{Body, write_event};
use crate::status::StatusError;

/// The error of a connection that a fault resets.
pub(super) fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by an injected fault")
}

/// Half of the first part of a body, then a reset.
pub(super) fn cut(body: Body) -> Body {
    Body::stream(stream::unfold(Some((body, false)), |state| async {
        let (mut body, sent) = state?;
        let first = if sent { None } else { data(&mut body).await.and_then(Result::ok) };
        match first.map(|bytes| half(&bytes)).filter(|half| !half.is_empty()) {
            Some(half) => Some((Ok(half), Some((body, true)))),
            None => Some((Err(reset()), None)),
        }
    }))
}

/// A watch whose events meet their faults, and which ends with the server.
pub(super) fn watched(body: Body, state: Arc<State>, request: RequestAttributes) -> Body {
    let outage = state.outages.subscribe();
    let watched = Watched { body, state, request, outage, lines: VecDeque::new(), held: None, ending: None };
    Body::stream(stream::unfold(watched, |mut watched| async move {
        let part = watched.next().await?;
        Some((part, watched))
    }))
}

struct Watched {
    body: Body,
    state: Arc<State>,
    request: RequestAttributes,
    outage: OutageWatcher,
    /// Events that came and were not looked at.
    lines: VecDeque<Bytes>,
    /// An event that is sent after one of another object.
    held: Option<(RequestAttributes, Bytes)>,
    ending: Option<WatchEnd>,
}

/// End of a watch.
enum WatchEnd {
    Over,
    Reset,
}

impl Watched {
    /// The next lines; `None` when the watch is over.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match self.ending {
                Some(WatchEnd::Over) => return None,
                Some(WatchEnd::Reset) => return Some(self.fail()),
                None => {}
            }
            if let Some(line) = self.lines.pop_front() {
                match self.pass(line).await {
                    Some(bytes) => return Some(Ok(bytes)),
                    None => continue,
                }
            }
            let frame = tokio::select! {
                biased;
                () = self.outage.begun() => return Some(self.fail()),
                frame = data(&mut self.body) => frame,
            };
            match frame {
                Some(Ok(bytes)) if !self.state.watches_events() => return Some(Ok(bytes)),
                Some(Ok(bytes)) => self.lines = lines(&bytes),
                Some(Err(error)) => {
                    self.ending = Some(WatchEnd::Over);
                    return Some(Err(error));
                }
                None => self.ending = Some(WatchEnd::Over),
            }
        }
    }

    /// Applies the faults of an event, and returns the bytes to send, if any.
    async fn pass(&mut self, line: Bytes) -> Option<Bytes> {
        let event = self.request.event(&line);
        let effect = self.state.rules().meet_event(&event);
        let sent = match effect {
            None => line,
            Some(EventEffect::Skip) => return None,
            Some(EventEffect::Repeat) => [&line[..], &line[..]].concat().into(),
            Some(EventEffect::Delay(delay)) => self.pause(delay).await.then_some(line)?,
            Some(EventEffect::Stall) => self.pause(Duration::MAX).await.then_some(line)?,
            Some(EventEffect::Reorder) if self.held.is_none() => {
                self.held = Some((event, line));
                return None;
            }
            Some(EventEffect::Reorder) => line,
            Some(EventEffect::Close) => return self.end(WatchEnd::Over, Bytes::new()),
            Some(EventEffect::Reset) => return self.end(WatchEnd::Reset, Bytes::new()),
            Some(EventEffect::Cut) => return self.end(WatchEnd::Reset, half(&line)),
            Some(EventEffect::Corrupt) => [&half(&line)[..], b"\n"].concat().into(),
            Some(EventEffect::Expire) => return self.end(WatchEnd::Over, expired()),
            Some(EventEffect::ExpireAfter(time)) => {
                return if self.pause(time).await { self.end(WatchEnd::Over, expired()) } else { None };
            }
        };
        Some(match self.held.take() {
            // The order of one object's events is kept.
            Some((earlier, held)) if earlier.object() == event.object() => [&held[..], &sent[..]].concat().into(),
            Some((_, held)) => [&sent[..], &held[..]].concat().into(),
            None => sent,
        })
    }

    /// Waits; `false` if the server becomes unavailable meanwhile.
    async fn pause(&mut self, delay: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(delay) => true,
            () = self.outage.begun() => {
                self.ending = Some(WatchEnd::Reset);
                false
            }
        }
    }

    fn end(&mut self, ending: WatchEnd, last: Bytes) -> Option<Bytes> {
        self.ending = Some(ending);
        Some(last).filter(|last| !last.is_empty())
    }

    fn fail(&mut self) -> io::Result<Bytes> {
        self.ending = Some(WatchEnd::Over);
        Err(reset())
    }
}

async fn data(body: &mut Body) -> Option<io::Result<Bytes>> {
    let frame = body.frame().await?;
    // There are no trailers.
    Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
}

/// The lines of a part, which a watch sends whole.
fn lines(part: &Bytes) -> VecDeque<Bytes> {
    part.split_inclusive(|byte| *byte == b'\n').map(|line| part.slice_ref(line)).collect()
}

fn half(bytes: &Bytes) -> Bytes {
    bytes.slice(..bytes.len() / 2)
}

fn expired() -> Bytes {
    let mut line = BytesMut::new();
    let status = StatusError::expired("too old resource version (injected fault)").to_value();
    write_event(&mut line, "ERROR", status.to_string().as_bytes());
    line.freeze()
}
