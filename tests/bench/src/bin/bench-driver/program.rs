//! The programs that are compared, and a running one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kooper_bench::{Kind, Reply, Report, Usage};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{timeout, timeout_at};

use crate::arguments::Arguments;

/// Number of handlers that each program runs at a time.
const WORKERS: &str = "4";
/// The longest wait for an answer to a command.
const ANSWER: Duration = Duration::from_secs(30);

/// One of the programs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its name in tables and on the command line.
    pub(crate) name: &'static str,
    /// `true` if ours is compared with it, because it does the same.
    pub(crate) compared: bool,
    path: PathBuf,
    further: &'static [&'static str],
}

impl Program {
    /// The name of ours.
    pub(crate) const OURS: &'static str = "kooper";

    /// The programs that are wanted and built.
    pub(crate) fn installed(arguments: &Arguments) -> Result<Vec<Self>> {
        let (peers, binaries) = (&arguments.peers, &arguments.binaries);
        let all = [
            Self::new("go-kooper", peers, "gokooper", &[]),
            Self::new("controller-runtime", peers, "controllerruntime", &[]),
            Self::new("kube", binaries, "bench-kube", &[]),
            Self::new("kube-streaming", binaries, "bench-kube", &["--streaming"]),
            Self { compared: false, ..Self::new(Self::OURS, binaries, "bench-kooper", &[]) },
            Self { compared: false, ..Self::new("kooper-partial", binaries, "bench-kooper", &["--partial"]) },
            Self { compared: false, ..Self::new("kooper-metadata", binaries, "bench-kooper", &["--metadata-only"]) },
        ];
        let wanted = &arguments.programs;
        for name in wanted {
            ensure!(all.iter().any(|program| program.name == name), "no such program: {name}");
        }
        let (built, missing): (Vec<_>, Vec<_>) = all
            .into_iter()
            .filter(|program| wanted.is_empty() || wanted.iter().any(|name| name == program.name))
            .partition(|program| program.path.exists());
        for program in missing {
            eprintln!("{} is not built; going on without it", program.name);
        }
        Ok(built)
    }

    fn new(name: &'static str, folder: &Path, file: &str, further: &'static [&'static str]) -> Self {
        Self { name, compared: true, path: folder.join(file), further }
    }

    /// Starts it.
    pub(crate) fn start(&self, kubeconfig: &Path, kind: Kind, expect: u32, log: &Path) -> Result<Running> {
        let log = File::create(log).with_context(|| format!("making {}", log.display()))?;
        let started = Instant::now();
        let mut child = Command::new(&self.path)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--kind", &kind.to_string(), "--expect", &expect.to_string(), "--workers", WORKERS])
            .args(self.further)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", self.path.display()))?;
        let usage = Usage::of(child.id().context("ended at once")?);
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        Ok(Running { child, input, output: BufReader::new(output).lines(), usage, started })
    }
}

/// A running program; dropping it kills it.
pub(crate) struct Running {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Resource usage of the process.
    pub(crate) usage: Usage,
    /// When it was started.
    pub(crate) started: Instant,
}

impl Running {
    /// Waits until every object was seen; returns the time since the start.
    pub(crate) async fn synced(&mut self, limit: Duration) -> Result<Duration> {
        match self.await_line(limit, |reply| matches!(reply, Reply::Synced { .. })).await? {
            Some((_, at)) => Ok(at - self.started),
            None => bail!("not synced within {limit:?}"),
        }
    }

    /// Forgets what was counted and counts to `awaited` changes.
    pub(crate) async fn reset(&mut self, awaited: usize) -> Result<()> {
        self.command(&format!("reset {awaited}\n")).await?;
        let answer = self.await_line(ANSWER, |reply| *reply == Reply::Reset).await?;
        answer.map(drop).context("no answer to reset")
    }

    /// Waits for the changes of the last reset; `None` when they don't come in time, as merged ones won't.
    pub(crate) async fn reached(&mut self, limit: Duration) -> Result<Option<Instant>> {
        let reached = self.await_line(limit, |reply| matches!(reply, Reply::Reached { .. })).await?;
        Ok(reached.map(|(_, at)| at))
    }

    /// Returns the counters since the last reset.
    pub(crate) async fn report(&mut self) -> Result<Report> {
        self.command("report\n").await?;
        match self.await_line(ANSWER, |reply| matches!(reply, Reply::Report(_))).await? {
            Some((Reply::Report(report), _)) => Ok(report),
            _ => bail!("no answer to report"),
        }
    }

    /// Ends it.
    pub(crate) async fn quit(mut self) -> Result<()> {
        self.command("quit\n").await?;
        timeout(ANSWER, self.child.wait()).await.context("quit doesn't end it")??;
        Ok(())
    }

    async fn command(&mut self, line: &str) -> Result<()> {
        self.input.write_all(line.as_bytes()).await.context("it has ended")?;
        Ok(())
    }

    /// Reads lines up to a wanted one, and says when it came.
    async fn await_line(
        &mut self,
        limit: Duration,
        wanted: impl Fn(&Reply) -> bool,
    ) -> Result<Option<(Reply, Instant)>> {
        let deadline = tokio::time::Instant::now() + limit;
        while let Ok(line) = timeout_at(deadline, self.output.next_line()).await {
            let line = line?.context("it has ended")?;
            let reply: Reply = serde_json::from_str(&line).with_context(|| format!("not of the protocol: {line}"))?;
            if wanted(&reply) {
                return Ok(Some((reply, Instant::now())));
            }
        }
        Ok(None)
    }
}
