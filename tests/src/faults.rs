//! Faults of the network between a program and the API server.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A proxy before a server. It can cut connections, keep new ones waiting, and, where what it passes on is plain
/// HTTP, edit requests or answer them itself. Dropping it closes it.
#[derive(Debug)]
#[must_use = "dropping it closes the proxy"]
pub struct Proxy {
    address: SocketAddr,
    gate: Arc<Gate>,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// It goes to the server, with this head.
    Pass(String),
    /// It is answered with this text.
    Answer(String),
}

type Edit = dyn Fn(String) -> Verdict + Send + Sync;

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    /// Answers are kept back.
    held: bool,
    /// Each part of an answer comes so much later.
    delay: Duration,
    closed: bool,
    /// The streams of each connection: the client's and the server's.
    connections: Vec<[TcpStream; 2]>,
}

impl Proxy {
    /// Passes on bytes as they are, so that TLS stays between program and server.
    ///
    /// # Panics
    ///
    /// If loopback has no port left.
    pub fn start(server: SocketAddr) -> Self {
        Self::new(move |client, gate| pass(&client, gate, server, &[]))
    }

    /// Passes on plain HTTP, the head of each request as `edit` wants it. Every connection serves one request.
    ///
    /// # Panics
    ///
    /// If loopback has no port left.
    pub fn start_http(server: SocketAddr, edit: impl Fn(String) -> Verdict + Send + Sync + 'static) -> Self {
        let edit: Arc<Edit> = Arc::new(edit);
        Self::new(move |mut client, gate| {
            let Some(head) = head(&mut client) else { return };
            match edit(head.replacen("\r\n", "\r\nConnection: close\r\n", 1)) {
                Verdict::Pass(head) => pass(&client, gate, server, head.as_bytes()),
                Verdict::Answer(answer) => drop(client.write_all(answer.as_bytes())),
            }
        })
    }

    fn new(serve: impl Fn(TcpStream, &Gate) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let gate = Arc::new(Gate::default());
        let accepting = gate.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.lock().closed {
                    return;
                }
                let (serve, gate) = (serve.clone(), accepting.clone());
                thread::spawn(move || serve(client, &gate));
            }
        });
        Self { address, gate }
    }

    /// Where programs connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection and returns how many there were.
    pub fn cut(&self) -> usize {
        self.gate.lock().cut()
    }

    /// Cuts every connection and keeps new ones waiting.
    pub fn shut(&self) {
        let mut state = self.gate.lock();
        state.shut = true;
        state.cut();
    }

    /// Keeps answers back; requests go through.
    pub fn hold_answers(&self) {
        self.gate.lock().held = true;
    }

    /// Every part of an answer comes so much later.
    pub fn delay_answers(&self, delay: Duration) {
        self.gate.lock().delay = delay;
    }

    /// Lets connections and answers through again.
    pub fn open(&self) {
        let mut state = self.gate.lock();
        (state.shut, state.held, state.delay) = (false, false, Duration::ZERO);
        drop(state);
        self.gate.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        (state.closed, state.shut, state.held) = (true, false, false);
        state.cut();
        drop(state);
        self.gate.changed.notify_all();
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the gate is open and connects, so that `cut` reaches both streams.
    fn connect(&self, client: &TcpStream, server: SocketAddr) -> io::Result<TcpStream> {
        let state = self.lock();
        let mut state = self.changed.wait_while(state, |state| state.shut).unwrap_or_else(PoisonError::into_inner);
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        state.connections.push([client.try_clone()?, server.try_clone()?]);
        Ok(server)
    }
}

impl Gate {
    /// Waits until an answer may go on.
    fn answer(&self) {
        let state = self.lock();
        let state = self.changed.wait_while(state, |state| state.held).unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + state.delay;
        drop(state);
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            thread::park_timeout(left);
        }
    }
}

impl State {
    fn cut(&mut self) -> usize {
        let cut = |[client, server]: &[TcpStream; 2]| {
            // One that has ended by itself says so. The server's goes down with its client's, maybe already.
            let was_open = client.shutdown(Shutdown::Both).is_ok();
            drop(server.shutdown(Shutdown::Both));
            was_open
        };
        std::mem::take(&mut self.connections).iter().filter(|connection| cut(connection)).count()
    }
}

/// Passes on everything both ways, until either side has ended. A server that refuses ends the client too.
fn pass(client: &TcpStream, gate: &Gate, server: SocketAddr, first: &[u8]) {
    let Ok(server) = gate.connect(client, server) else { return };
    if (&server).write_all(first).is_err() {
        return;
    }
    thread::scope(|scope| {
        scope.spawn(|| copy(client, &server, || {}));
        copy(&server, client, || gate.answer());
    });
}

/// Passes on one way what `wait` lets go, and ends both when it ends.
fn copy(mut from: &TcpStream, mut to: &TcpStream, wait: impl Fn()) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        wait();
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

/// The head of a request, with the empty line that ends it; requests that list and watch have no body.
fn head(client: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    String::from_utf8(head).ok()
}
