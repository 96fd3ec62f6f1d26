//! Connections are accepted, up to a limit.
//!
//! A source with many connections ends its own: those of others stay.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::source::Source;

/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Minimum time between two log lines about connections that could not be accepted.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Accepts connections until it is dropped, at most `most` at the same time: a further
/// one ends the oldest of the source that has the most. `serve` returns `None` for a
/// connection that is refused, which ends no other. `name` is that of the listener in the log.
pub async fn accept(
    socket: &TcpListener,
    name: &'static str,
    most: usize,
    mut serve: impl FnMut(TcpStream, Source) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
) {
    let mut connections: VecDeque<(Source, AbortHandle)> = VecDeque::new();
    let mut logged: Option<Instant> = None;
    loop {
        let (stream, source) = match socket.accept().await {
            Ok((stream, address)) => (stream, Source::of(address.ip())),
            Err(error) => {
                // Out of file descriptors, as a rule: the socket stays ready,
                // so without a pause this would spin.
                if logged.is_none_or(|last| last.elapsed() >= LOG_EVERY) {
                    tracing::warn!(%error, "the listener for {name} cannot accept a connection");
                    logged = Some(Instant::now());
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(served) = serve(stream, source) else { continue };
        connections.retain(|(_, connection)| !connection.is_finished());
        if connections.len() >= most
            && let Some(at) = dispensable(connections.iter().map(|(source, _)| *source))
            && let Some((_, connection)) = connections.remove(at)
        {
            connection.abort();
        }
        connections.push_back((source, tokio::spawn(served).abort_handle()));
    }
}

/// The oldest connection of the source with the most; the first is the oldest of all.
fn dispensable(connections: impl Iterator<Item = Source> + Clone) -> Option<usize> {
    let mut counts: HashMap<Source, usize> = HashMap::new();
    for source in connections.clone() {
        *counts.entry(source).or_default() += 1;
    }
    let of = |source: &Source| counts.get(source).copied().unwrap_or_default();
    connections.enumerate().max_by_key(|(at, source)| (of(source), Reverse(*at))).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> Source {
        Source::of(address.parse().expect("an address"))
    }

    #[test]
    fn a_flood_of_one_source_ends_its_own_oldest_connection() {
        let of = |addresses: &[&str]| dispensable(addresses.iter().map(|address| source(address)));
        assert_eq!(of(&["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.2"]), Some(1));
        assert_eq!(of(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]), Some(0), "of equals, the oldest");
        assert_eq!(of(&[]), None);
    }
}
