//! Faults of the network between a program and the API server.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A proxy in front of a server. It can close connections, delay new ones, and, for plain HTTP, edit requests or
/// respond to them itself. Dropping it closes it.
#[derive(Debug)]
#[must_use = "dropping it closes the proxy"]
pub struct Proxy {
    address: SocketAddr,
    gate: Arc<Gate>,
}

/// Decision about a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is forwarded to the server, with this head.
    Pass(String),
    /// It gets this response.
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
    /// Responses are held back.
    held: bool,
    /// The delay of each part of a response.
    delay: Duration,
    closed: bool,
    /// The streams of each connection: the client's and the server's.
    connections: Vec<[TcpStream; 2]>,
}

impl Proxy {
    /// Forwards bytes unchanged, so that TLS is between the program and the server.
    pub fn start(server: SocketAddr) -> Self {
        Self::new(move |client, gate| pass(&client, gate, server, &[]))
    }

    /// Forwards plain HTTP. `edit` decides about the head of each request. Every connection serves one request.
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

    /// The address for programs.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes every connection and returns their number.
    pub fn cut(&self) -> usize {
        self.gate.lock().cut()
    }

    /// Closes every connection and delays new ones.
    pub fn shut(&self) {
        let mut state = self.gate.lock();
        state.shut = true;
        state.cut();
    }

    /// Holds back responses; requests are forwarded.
    pub fn hold_answers(&self) {
        self.gate.lock().held = true;
    }

    /// Delays every part of a response.
    pub fn delay_answers(&self, delay: Duration) {
        self.gate.lock().delay = delay;
    }

    /// Forwards connections and responses again.
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
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until the gate is open and connects, so that `cut` reaches both streams.
    fn connect(&self, client: &TcpStream, server: SocketAddr) -> io::Result<TcpStream> {
        let mut state = self.lock();
        self.changed.wait_while(&mut state, |state| state.shut);
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        state.connections.push([client.try_clone()?, server.try_clone()?]);
        Ok(server)
    }

    /// Waits until a response may be forwarded.
    fn answer(&self) {
        let mut state = self.lock();
        self.changed.wait_while(&mut state, |state| state.held);
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
            // A stream that has ended by itself returns an error. The server's ends with its client's.
            let was_open = client.shutdown(Shutdown::Both).is_ok();
            drop(server.shutdown(Shutdown::Both));
            was_open
        };
        std::mem::take(&mut self.connections).iter().filter(|connection| cut(connection)).count()
    }
}

/// Forwards everything both ways, until either side has ended. If the server refuses the connection, the client's is
/// closed, too.
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

/// Forwards one direction after each `wait`, and closes both when it ends.
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
