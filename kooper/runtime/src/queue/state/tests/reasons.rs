//! The reasons of runs.

use super::*;

#[test]
fn a_run_for_a_change_that_waited_for_a_token_has_a_reason_although_a_probe_had_that_of_the_change() {
    let mut queue = TimedQueue::new(options());
    queue.event("a");
    // The last of these changes finds no token. Each refusal is another one, so the next probe is soon.
    for refusal in 0..6 {
        assert!(queue.take().is_some());
        queue.finish("a", Completion::Forbidden(refusal));
        queue.urgent("a", Urgency::Now);
    }
    for (wait, reasons) in [(2_000, "modified, retry"), (4_000, "retry"), (4_000, "retry")] {
        assert_eq!(queue.wait(), Some(ms(wait)));
        assert_eq!(queue.take().map(|taken| taken.1).as_deref(), Some(reasons));
        queue.finish("a", Completion::Forbidden(5));
    }
}
