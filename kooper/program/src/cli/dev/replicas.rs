//! Several replicas of the program: child processes on the API server of `dev`.
//!
//! A child is the same command line with a variable. Its stdin has the kubeconfig, and ends when the
//! child is to stop. It also ends when this process does, however that happens, so no child is left.

use std::env;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kube::config::Kubeconfig;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::args::{Listen, Settings};
use super::super::invocation::Invocation;
use super::super::run::{GRACE, Run, Supervisor};
use super::super::signals::Signals;
use super::super::webhooks::{self, WebhookServer};
use super::super::{FAILED, connect};
use crate::block_on::block_on;
use crate::manifests::unelected;
use kooper_access::Controller;
use kooper_runtime::BoxError;

/// The variable with the number of a child.
const NUMBER: &str = "KOOPER_DEV_REPLICA";

/// The end of the kubeconfig on the stdin of a child: the end of a YAML document.
const END: &str = "...";

/// The interval at which the ends of replicas are noticed.
const INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time for the rest of the output of a replica that has ended.
const OUTPUT: Duration = Duration::from_secs(1);

/// Why several replicas cannot run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplicasError {
    #[error(
        "several replicas would all handle every object, as the controller `{0}` has neither shards nor leader election: \
         write `shards = 32` or `leader_election` in its attribute, or remove `--replicas`"
    )]
    Alone(String),
    #[error(
        "several replicas would all run the task `{0}`: write `leader_election` or `shard_of` in its attribute to run \
         it in one, or `everywhere` to run it in each, or remove `--replicas`"
    )]
    AloneTask(String),
    #[error("each replica needs a port of its own: remove `--{0}`, or write `--{0} 127.0.0.1:0`")]
    OnePort(&'static str),
    #[error("the webhooks of a program run in one process in `dev`: remove `--replicas`")]
    Webhooks,
}

/// Returns an error if several replicas of this program cannot run here.
pub(super) fn check(invocation: &Invocation<'_>, controllers: &[Controller]) -> Result<(), BoxError> {
    if let Some(controller) = unelected(controllers) {
        let name = controller.name().to_owned();
        let error = if controller.is_task() { ReplicasError::AloneTask(name) } else { ReplicasError::Alone(name) };
        return Err(error.into());
    }
    if webhooks::has_any(invocation)? {
        return Err(ReplicasError::Webhooks.into());
    }
    let Settings { listen, listen_probes, .. } = &invocation.settings;
    for (flag, listen) in [("listen", Some(listen)), ("listen-probes", listen_probes.as_ref())] {
        if matches!(listen, Some(Listen::At(address)) if address.port() != 0) {
            return Err(ReplicasError::OnePort(flag).into());
        }
    }
    Ok(())
}

/// Returns `true` if this process is a replica that another one has started.
pub(super) fn is_child() -> bool {
    env::var_os(NUMBER).is_some()
}

/// Runs the controllers of this replica until its stdin ends.
pub(super) fn run_child(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let mut text = String::new();
    for line in io::stdin().lock().lines() {
        match line? {
            line if line == END => break,
            line => text.extend([&line, "\n"]),
        }
    }
    let controllers = invocation.controllers_quietly()?;
    let run = Run::new(invocation)?;
    let kubeconfig = Kubeconfig::from_yaml(&text)?;
    let connection = block_on(&run.runtime, connect::connect_by(invocation.app.name, kubeconfig, &run.metrics))?;
    let listeners = super::bind(&invocation.settings, &mut Vec::new())?;
    let stop = CancellationToken::new();
    let supervisor = Supervisor::new()?.stopped_by(stop.clone());
    thread::spawn(move || {
        drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
        stop.cancel();
    });
    run.operate(supervisor, controllers, listeners, WebhookServer::default(), Some(connection))
}

/// The replicas, and what the user writes about them.
pub(super) struct Replicas {
    main: Runtime,
    signals: Signals,
    replicas: Vec<Replica>,
    kubeconfig: String,
    /// Maximum time in which they stop.
    patience: Duration,
}

impl Replicas {
    /// So many replicas that are not started yet. From now on, signals do not end this process.
    pub(super) fn new(count: u8, kubeconfig: String, drain: Duration) -> Result<Self, BoxError> {
        let main = Builder::new_current_thread().enable_all().build()?;
        let signals = block_on(&main, async { Signals::listen() })?;
        let replicas = (1..=count).map(|number| Replica { number, process: None }).collect();
        Ok(Self { main, signals, replicas, kubeconfig, patience: drain.saturating_add(GRACE * 2) })
    }

    /// Runs the replicas until a signal arrives, and as long as they take to stop.
    pub(super) fn run(self) -> Result<ExitCode, BoxError> {
        let Self { main, mut signals, mut replicas, kubeconfig, patience } = self;
        replicas.iter_mut().try_for_each(|replica| replica.start(&kubeconfig))?;
        let mut written = lines_of_stdin();
        block_on(&main, async {
            let first = loop {
                tokio::select! {
                    signal = signals.next() => break signal,
                    Some(line) = written.recv() => command(&mut replicas, line.trim(), &kubeconfig),
                    () = sleep(INTERVAL) => replicas.iter_mut().for_each(|replica| replica.look(true)),
                }
            };
            show(&format!("{first}: the replicas stop; a second signal ends them at once"));
            replicas.iter_mut().for_each(Replica::stop);
            let late = Instant::now() + patience;
            while replicas.iter().any(|replica| replica.process.is_some()) {
                tokio::select! {
                    signal = signals.next() => return Ok(ExitCode::from(signal.exit_code())),
                    () = sleep(INTERVAL) => replicas.iter_mut().for_each(|replica| replica.look(false)),
                }
                if Instant::now() > late {
                    show("the replicas do not stop: they are killed");
                    return Ok(ExitCode::from(FAILED));
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// The lines that the user writes to stdin. The end of stdin changes nothing.
fn lines_of_stdin() -> UnboundedReceiver<String> {
    let (lines, written) = unbounded_channel();
    thread::spawn(move || io::stdin().lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
    written
}

/// Carries out a line: `2` stops or starts the second replica, `kill 2` kills it.
fn command(replicas: &mut [Replica], line: &str, kubeconfig: &str) {
    let (kills, number) = line.strip_prefix("kill ").map_or((false, line), |number| (true, number.trim()));
    let count = replicas.len();
    let replica = number.parse().ok().and_then(|number: usize| replicas.get_mut(number.checked_sub(1)?));
    match replica {
        Some(replica) if kills => replica.kill(),
        Some(replica) if replica.process.is_some() => replica.stop(),
        Some(replica) => {
            if let Err(error) = replica.start(kubeconfig) {
                show(&format!("[{}] cannot be started: {error}", replica.number));
            }
        }
        None if line.is_empty() => {}
        None => show(&format!("write a number from 1 to {count} to stop or start a replica, or `kill 1` to kill one")),
    }
}

/// A replica. Dropping it kills its process.
struct Replica {
    number: u8,
    process: Option<Process>,
}

struct Process {
    child: Child,
    /// The threads that show its output.
    output: Vec<JoinHandle<()>>,
    /// It was asked to stop.
    stops: bool,
    ended: Option<Instant>,
}

impl Replica {
    fn start(&mut self, kubeconfig: &str) -> io::Result<()> {
        let mut command = Command::new(env::current_exe()?);
        command.args(env::args_os().skip(1)).env(NUMBER, self.number.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C reaches the whole group of a terminal, and this process stops the replicas in order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let output = [child.stdout.take().map(boxed), child.stderr.take().map(boxed)];
        let output = output.into_iter().flatten().map(|output| shown(self.number, output)).collect();
        let written = child.stdin.as_mut().map(|stdin| write!(stdin, "{kubeconfig}\n{END}\n"));
        self.process = Some(Process { child, output, stops: false, ended: None });
        written.unwrap_or(Ok(()))
    }

    /// Lets it stop in order.
    fn stop(&mut self) {
        if let Some(process) = &mut self.process {
            process.stops = true;
            drop(process.child.stdin.take());
        }
    }

    fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            process.stops = true;
            // It may have ended already.
            drop(process.child.kill());
        }
    }

    /// Notes the end of its process, after all of its output. Unless all replicas stop, it may be started again.
    fn look(&mut self, can_start: bool) {
        let Some(process) = &mut self.process else { return };
        let Ok(Some(status)) = process.child.try_wait() else { return };
        // A program that it has started may keep its output open.
        let ended = *process.ended.get_or_insert_with(Instant::now);
        if !process.output.iter().all(JoinHandle::is_finished) && ended.elapsed() < OUTPUT {
            return;
        }
        show(&end(self.number, process.stops, status, can_start));
        self.process = None;
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            drop(process.child.kill());
            drop(process.child.wait());
        }
    }
}

/// The line about the end of a replica.
fn end(number: u8, stops: bool, status: impl Display, can_start: bool) -> String {
    let how = if stops { "has stopped" } else { "has ended by itself" };
    let advice = if can_start { format!("; write {number} to start it") } else { String::new() };
    format!("[{number}] {how} ({status}){advice}")
}

fn boxed(output: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(output)
}

/// Shows each line with the number of the replica.
fn shown(number: u8, output: Box<dyn Read + Send>) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            show(&format!("[{number}] {}", String::from_utf8_lossy(&line)));
        }
    })
}

/// Writes a line to stderr, where the log is. A closed one changes nothing.
fn show(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::app::App;
    use kooper_access::controller::Task;

    #[test]
    fn a_replica_that_has_ended_can_be_started_unless_all_of_them_stop() {
        assert_eq!(end(2, true, "exit status: 0", true), "[2] has stopped (exit status: 0); write 2 to start it");
        assert_eq!(end(2, true, "exit status: 0", false), "[2] has stopped (exit status: 0)");
        assert_eq!(end(2, false, "exit status: 1", false), "[2] has ended by itself (exit status: 1)");
    }

    #[test]
    fn a_task_limits_the_replicas_unless_it_may_run_everywhere() {
        let app = App::new("shop", "1.0.0");
        let invocation = Invocation { app: &app, settings: Settings::default() };
        let task = || Task::builder("sweep", Duration::from_secs(600)).handler(async || {});
        let refused = check(&invocation, &[task().build().expect("a task")]).expect_err("each would run it");
        let refused = refused.to_string();
        assert!(refused.contains("the task `sweep`: write `leader_election`"), "{refused}");
        assert!(refused.contains("`everywhere` to run it in each"), "{refused}");
        check(&invocation, &[task().everywhere().build().expect("a task")]).expect("each may run it");
    }
}
