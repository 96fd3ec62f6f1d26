//! A program that a test runs like a user: with flags, environment, log, signals, exit code and listener.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{self, Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::wait::{TIMEOUT, until};

/// The longest time that a command may take: one that hangs fails its test, and no other.
const LIMIT: Duration = Duration::from_secs(300);

/// The time in which a page is expected. A paused program accepts connections, too.
const PAGE: Duration = Duration::from_secs(10);

/// Result and output of a command.
#[derive(Clone, Debug)]
pub struct Output {
    /// `true` if it exited with 0.
    pub success: bool,
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its output on stdout.
    pub stdout: String,
    /// Its output on stderr.
    pub stderr: String,
}

impl From<process::Output> for Output {
    fn from(output: process::Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            success: output.status.success(),
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// Runs a command to its end, without an input. It is ended if it hangs.
pub fn run(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.and_then(ended).unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
}

/// The same: whether it exits with 0, its stdout and its stderr.
pub fn call(command: &mut Command) -> (bool, String, String) {
    let Output { success, stdout, stderr, .. } = run(command);
    (success, stdout, stderr)
}

/// The output of a command that runs already. It is ended if it hangs.
pub fn ended(child: Child) -> io::Result<process::Output> {
    let (pid, (over, running)) = (child.id().to_string(), mpsc::channel::<()>());
    thread::spawn(move || {
        if running.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            drop(Command::new("kill").args(["-s", "KILL", &pid]).status());
        }
    });
    let output = child.wait_with_output();
    drop(over);
    output
}

/// A running program. Dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping it ends the program"]
pub struct Process {
    child: Child,
    output: Arc<Log>,
}

/// Output of the program so far.
#[derive(Debug, Default)]
struct Log {
    written: Mutex<Written>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Written {
    lines: Vec<String>,
    /// Number of closed streams, of stdout and stderr.
    closed: u8,
}

impl Process {
    /// Starts a program with these arguments, and only these variables and `PATH` in its environment.
    pub fn start<A: AsRef<OsStr>>(program: &str, args: &[A], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(variables.iter().copied());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        Self::run(&mut command)
    }

    /// Starts a command unchanged.
    pub fn run(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::null()))
    }

    /// The same, with a stdin for [`write`](Self::write).
    pub fn interactive(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::piped()))
    }

    /// Writes a line to the stdin of an interactive program.
    pub fn write(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is interactive");
        writeln!(stdin, "{line}").expect("it reads its stdin");
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} can't be started: {error}", command.get_program().display()));
        let output = Arc::new(Log::default());
        collect(child.stdout.take().expect("stdout is piped"), &output);
        collect(child.stderr.take().expect("stderr is piped"), &output);
        Self { child, output }
    }

    /// Every line written so far, to stdout or stderr.
    pub fn lines(&self) -> Vec<String> {
        self.output.lock().lines.clone()
    }

    /// The number of lines so far that contain all of these.
    pub fn count(&self, parts: &[&str]) -> usize {
        self.output.lock().lines.iter().filter(|line| contains(line, parts)).count()
    }

    /// Waits for the first line that contains all of these, and returns it.
    pub fn wait_for_line(&self, parts: &[&str]) -> String {
        self.wait_for_lines(1, parts)
    }

    /// Waits until this many lines contain all of these, and returns the last of them.
    pub fn wait_for_lines(&self, count: usize, parts: &[&str]) -> String {
        let found =
            |written: &Written| written.lines.iter().filter(|line| contains(line, parts)).nth(count - 1).cloned();
        let written = self.output.wait(|written| found(written).is_some() || written.closed == 2);
        found(&written)
            .unwrap_or_else(|| panic!("no line with {parts:?} (times {count}):\n{}", written.lines.join("\n")))
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent");
    }

    /// Sends SIGTERM, and waits until it has ended with the exit code 0.
    pub fn terminate(&mut self) {
        self.signal("TERM");
        assert_eq!(self.exit_code(), Some(0), "{}", self.lines().join("\n"));
    }

    /// Returns whether a signal has paused all of its threads, on Linux.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten();
        let stat = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state follows the name of the thread, which is in parentheses.
        tasks.flatten().map(stat).all(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
    }

    /// Returns whether the program has closed stdout and stderr, which it does when it ends.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.output.lock().closed == 2
    }

    /// Waits for the end and returns the exit code; `None` if a signal ended it.
    pub fn exit_code(&mut self) -> Option<i32> {
        let written = self.output.wait(|written| written.closed == 2);
        assert_eq!(written.closed, 2, "it does not end:\n{}", written.lines.join("\n"));
        drop(written);
        self.child.wait().expect("a child can be waited for").code()
    }

    /// The address of its metrics and probes, from its log.
    pub fn address(&self) -> SocketAddr {
        let line = self.wait_for_line(&[" starting ", "listen=\""]);
        let address = line.split("listen=\"").nth(1).and_then(|rest| rest.split('"').next());
        address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no address in: {line}"))
    }

    /// The address of its probes: that of the metrics, unless they have one of their own.
    pub fn probes(&self) -> SocketAddr {
        let line = self.wait_for_line(&[" starting ", "listen=\""]);
        let own = line.split(" listen_probes=\"").nth(1).and_then(|rest| rest.split('"').next());
        own.and_then(|address| address.parse().ok()).unwrap_or_else(|| self.address())
    }

    /// The status and the body of one of its pages without TLS; `None` without a response.
    pub fn get(&self, page: &str) -> Option<(u16, String)> {
        let is_probe = page.starts_with("/healthz") || page.starts_with("/readyz");
        let mut stream = TcpStream::connect(if is_probe { self.probes() } else { self.address() }).ok()?;
        stream.set_read_timeout(Some(PAGE)).ok()?;
        write!(stream, "GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// Waits until a page has this status and all of these in its body, which is returned.
    pub fn wait_for_page(&self, page: &str, status: u16, parts: &[&str]) -> String {
        let answered = || self.get(page).filter(|(code, body)| *code == status && contains(body, parts));
        let seen = || format!("{:?}\n{}", self.get(page), self.lines().join("\n"));
        until(&format!("{page} answers {status} with {parts:?}"), answered, seen).1
    }

    /// The value of a series of `/metrics`, named with its labels; `None` if it does not exist.
    pub fn metric(&self, series: &str) -> Option<f64> {
        value(&self.get("/metrics")?.1, series)
    }

    /// Waits until a series of `/metrics` has a value that meets the condition.
    pub fn wait_for_metric(&self, series: &str, right: impl Fn(f64) -> bool) {
        let found = || self.metric(series).filter(|value| right(*value));
        until(series, found, || format!("{:?}\n{}", self.metric(series), self.lines().join("\n")));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The value of a series, named with its labels, in the text of a scrape.
pub fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock()
    }

    /// Waits until the condition holds, or the time is over.
    fn wait(&self, holds: impl Fn(&Written) -> bool) -> MutexGuard<'_, Written> {
        let deadline = Instant::now() + TIMEOUT;
        let mut written = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if holds(&written) || left.is_zero() {
                return written;
            }
            self.more.wait_for(&mut written, left);
        }
    }
}

fn collect(stream: impl Read + Send + 'static, output: &Arc<Log>) {
    let output = output.clone();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            output.lock().lines.push(line);
            output.more.notify_all();
        }
        output.lock().closed += 1;
        output.more.notify_all();
    });
}

fn contains(text: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| text.contains(part))
}
