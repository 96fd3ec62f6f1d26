use std::sync::Barrier;
use std::sync::mpsc;
use std::task::Waker;
use std::thread;

use tokio::time::{sleep, timeout};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// A future that never ends, and the waker of each poll.
fn pending() -> (impl Future<Output = ()> + Send, mpsc::Receiver<Waker>) {
    let (polls, polled) = mpsc::channel();
    let future = poll_fn(move |context| {
        polls.send(context.waker().clone()).unwrap();
        Poll::Pending
    });
    (future, polled)
}

async fn result<T>(task: Task<T>) -> Result<T, TaskError> {
    timeout(LONG, task).await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_run_while_any_number_of_others_block_their_threads() {
    const BLOCKED: usize = 20;
    let executor = Executor::default();
    let barrier = Arc::new(Barrier::new(BLOCKED + 1));
    let blocked: Vec<_> = (0..BLOCKED)
        .map(|_| {
            let barrier = barrier.clone();
            executor.spawn(async move { _ = barrier.wait() })
        })
        .collect();
    for number in 0..1000 {
        let task = executor.spawn(async move {
            tokio::task::yield_now().await;
            number
        });
        assert!(result(task).await.is_ok_and(|ended| ended == number));
    }
    assert!(tokio::task::spawn_blocking(move || barrier.wait()).await.is_ok());
    for task in blocked {
        assert!(result(task).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_awaits_another_one_shares_its_thread() {
    let executor = Executor::default();
    let inner = executor.clone();
    let task = executor.spawn(async move {
        let mut threads = vec![thread::current().id()];
        for _ in 0..100 {
            threads.extend(inner.spawn_next(async { thread::current().id() }).await.ok());
            threads.push(thread::current().id());
        }
        threads
    });
    let Ok(threads) = result(task).await else { panic!("it ends") };
    assert!(threads.len() == 201 && threads.iter().all(|thread| *thread == threads[0]), "{threads:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_goes_on_while_the_one_that_it_awaits_blocks_its_thread() {
    let executor = Executor::default();
    for _ in 0..100 {
        let inner = executor.clone();
        let task = executor.spawn(async move {
            let (release, blocks) = mpsc::channel();
            let blocking = inner.spawn_next(async move { blocks.recv_timeout(LONG).is_ok() });
            tokio::task::yield_now().await;
            release.send(()).unwrap();
            blocking.await
        });
        assert!(matches!(result(task).await, Ok(Ok(true))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_idle_thread_takes_a_task_that_waits_behind_one_that_blocks() {
    let executor = Executor::default();
    for _ in 0..100 {
        // Two threads, of which one is idle soon.
        let both = Arc::new(Barrier::new(2));
        let meets = || {
            let both = both.clone();
            executor.spawn(async move { _ = both.wait() })
        };
        let _ = tokio::join!(meets(), meets());
        let inner = executor.clone();
        let task = executor.spawn(async move {
            let (release, blocks) = mpsc::channel();
            let blocking = inner.spawn_next(async move { blocks.recv_timeout(LONG).is_ok() });
            assert!(inner.spawn(async {}).await.is_ok());
            release.send(()).unwrap();
            blocking.await
        });
        let ended = timeout(Duration::from_secs(5), task).await.expect("an idle thread ends only after ten");
        assert!(matches!(ended, Ok(Ok(true))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_have_timers_and_sockets_and_spawn_others() {
    let executor = Executor::default();
    let task = executor.spawn(async {
        sleep(Duration::from_millis(1)).await;
        tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        tokio::spawn(async { 7 }).await.unwrap()
    });
    assert!(result(task).await.is_ok_and(|ended| ended == 7));
}

/// A subscriber that is only recognised.
struct Known;

impl Subscriber for Known {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn tasks_and_what_they_spawn_log_to_the_subscriber_of_the_thread_that_starts_them() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let is_known = || tracing::dispatcher::get_default(tracing::Dispatch::is::<Known>);
    tracing::subscriber::with_default(Known, || {
        runtime.block_on(async {
            let executor = Executor::default();
            assert!(matches!(result(executor.spawn(async move { is_known() })).await, Ok(true)));
            let spawned = executor.spawn(async move { tokio::spawn(async move { is_known() }).await.unwrap() });
            assert!(matches!(result(spawned).await, Ok(true)));
        });
    });
    assert!(!is_known());
}

/// Tells that it was dropped.
struct NotifyOnDrop(mpsc::Sender<()>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_aborted_task_is_dropped_before_its_end_is_known() {
    let executor = Executor::default();
    let (sender, dropped) = mpsc::channel();
    let notify = NotifyOnDrop(sender);
    let task = executor.spawn(async move {
        let _dropped = notify;
        std::future::pending::<()>().await;
    });
    task.abort();
    assert!(matches!(result(task).await, Err(TaskError::Aborted)));
    dropped.try_recv().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_end_with_their_handle_and_with_their_executor() {
    for with_handle in [true, false] {
        let executor = Executor::default();
        let (sender, dropped) = mpsc::channel();
        let (notify, (begins, begun)) = (NotifyOnDrop(sender), oneshot::channel());
        let task = executor.spawn(async move {
            let _dropped = notify;
            begins.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        begun.await.unwrap();
        if with_handle {
            drop(task);
        } else {
            task.abort();
            drop(executor);
            assert!(matches!(result(task).await, Err(TaskError::Aborted)));
        }
        dropped.recv_timeout(LONG).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_is_woken_after_the_end_of_its_executor_is_dropped_and_not_polled() {
    let executor = Executor::default();
    let (pending, polled) = pending();
    let woken = executor.spawn(pending);
    let waker = polled.recv_timeout(LONG).unwrap();
    // A thread of the pool that is blocked meanwhile finds what was woken.
    let (unblock, blocked) = mpsc::channel::<()>();
    let (begins, begun) = oneshot::channel();
    let blocking = executor.spawn(async move {
        begins.send(()).unwrap();
        let _ = blocked.recv_timeout(LONG);
    });
    begun.await.unwrap();
    drop(executor);
    waker.wake();
    drop(unblock);
    assert!(matches!(result(woken).await, Err(TaskError::Aborted)));
    assert!(polled.recv().is_err(), "it is polled once");
    drop(blocking);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_is_aborted_after_the_end_of_its_executors_threads_is_dropped() {
    let executor = Executor::default();
    let (pending, polled) = pending();
    let task = executor.spawn(pending);
    // Its wakers keep it after the end of the executor.
    let _waker = polled.recv_timeout(LONG).unwrap();
    drop(executor);
    sleep(Duration::from_millis(100)).await;
    task.abort();
    assert!(matches!(result(task).await, Err(TaskError::Aborted)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_panics_harms_no_other() {
    let executor = Executor::default();
    for _ in 0..100 {
        let task = executor.spawn(async { panic!("as the test requests") });
        let Err(TaskError::Panicked(panic)) = result::<()>(task).await else { panic!("it panics") };
        assert_eq!(panic.downcast_ref(), Some(&"as the test requests"));
    }
    assert!(result(executor.spawn(async { 1 })).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_never_waits_yields_to_others_and_to_its_abort() {
    let executor = Executor::default();
    let task = executor.spawn(async {
        loop {
            tokio::task::coop::consume_budget().await;
        }
    });
    assert!(result(executor.spawn(async {})).await.is_ok());
    task.abort();
    assert!(matches!(result(task).await, Err(TaskError::Aborted)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_time_of_a_poll_is_known_while_it_lasts() {
    let executor = Executor::default();
    let (release, blocks) = mpsc::channel();
    let (sender, waits) = oneshot::channel::<()>();
    let task = executor.spawn(async move {
        blocks.recv().unwrap();
        let _ = waits.await;
    });
    let polls = task.poll_time();
    let eventually = async |holds: &dyn Fn() -> bool| {
        while !holds() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG, eventually(&|| polls.current() >= Duration::from_millis(20))).await.unwrap();
    release.send(()).unwrap();
    timeout(LONG, eventually(&|| polls.current().is_zero())).await.unwrap();
    sender.send(()).unwrap();
    assert!(result(task).await.is_ok());
}

/// A value of a user's task.
struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        panic!("as the test requests");
    }
}

#[tokio::test]
async fn a_poll_has_ended_if_a_destructor_panics_in_it() {
    let executor = Executor::default();
    let owned = PanicOnDrop;
    let task = executor.spawn(async move {
        let _owned = owned;
        std::future::pending::<()>().await;
    });
    tokio::task::yield_now().await;
    let polls = task.poll_time();
    task.abort();
    assert!(matches!(result(task).await, Err(TaskError::Aborted)));
    assert_eq!((polls.current(), is_in_task()), (Duration::ZERO, false), "the thread polls no task");
}

#[tokio::test(start_paused = true)]
async fn with_a_paused_clock_tasks_run_in_its_time() {
    let executor = Executor::default();
    let begun = tokio::time::Instant::now();
    let task = executor.spawn(async move {
        sleep(Duration::from_secs(3600)).await;
        begun.elapsed()
    });
    assert!(task.await.is_ok_and(|elapsed| elapsed.as_secs() == 3600));
}
