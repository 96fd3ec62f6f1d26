//! The step of a request at which its fault is injected.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::stream::reset;
use super::{Effect, RequestAttributes, State, stream};
use crate::http::Answer;

/// Serves a request with the fault that it meets: an error is a connection that is reset.
pub(crate) async fn serve(
    state: &Arc<State>,
    request: RequestAttributes,
    served: impl Future<Output = Answer>,
) -> io::Result<Answer> {
    if state.spares(&request) {
        return Ok(served.await);
    }
    if state.outages.is_down() {
        return Err(reset());
    }
    let fault = if state.is_armed() { state.rules().meet(&request) } else { None };
    let answer = match &fault {
        Some(Effect::Reset) => Err(reset()),
        Some(Effect::Reply(reply)) => Ok(reply.answer(&request)),
        Some(Effect::Delay(delay)) => {
            pause(state, *delay).await?;
            Ok(served.await)
        }
        Some(Effect::DropResponse) => {
            drop(served.await);
            Err(reset())
        }
        Some(Effect::DelayAnswer(delay)) => {
            let answer = served.await;
            pause(state, *delay).await?;
            Ok(answer)
        }
        Some(Effect::CutAnswer) => Ok(served.await.map_body(stream::cut)),
        None => Ok(served.await),
    };
    if state.is_armed() {
        let status = answer.as_ref().ok().map(|answer| answer.status().as_u16());
        state.journal.add(&request, status, fault.is_some());
    }
    let answer = answer?;
    let watching = request.verb == "watch" && answer.status().is_success();
    let watched = |body| stream::watched(body, Arc::clone(state), request);
    Ok(if watching { answer.map_body(watched) } else { answer })
}

/// Waits, unless the server becomes unavailable.
async fn pause(state: &State, delay: Duration) -> io::Result<()> {
    let mut outage = state.outages.subscribe();
    tokio::select! {
        () = tokio::time::sleep(delay) => Ok(()),
        () = outage.begun() => Err(reset()),
    }
}
