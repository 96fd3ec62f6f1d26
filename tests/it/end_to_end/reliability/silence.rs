//! A connection whose peer is lost: a program notices it by its own probes, on real sockets.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kooper::kube::api::{Api, PostParams};
use kooper_apiserver::ApiServer;
use kooper_tests::process::Process;
use socket2::{SockFilter, SockRef};

use super::*;

/// A proxy that can lose its connections without a word: the kernel of the client gets no further answer.
struct Line {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Connection>>>,
}

struct Connection {
    client: TcpStream,
    lost: Arc<AtomicBool>,
}

impl Line {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let opened = connections.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, lost) = (TcpStream::connect(server).unwrap(), Arc::new(AtomicBool::new(false)));
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to, lost) = (from.try_clone().unwrap(), to.try_clone().unwrap(), lost.clone());
                    thread::spawn(move || forward(from, to, &lost));
                }
                opened.lock().push(Connection { client, lost });
            }
        });
        Self { address, connections }
    }

    /// Loses the present connections; those that are opened later work. Returns how many were lost.
    fn lose(&self) -> usize {
        // The only instruction: return 0, that is, drop the packet. Probes get no answer then.
        let drop_all = [SockFilter::new(0x06, 0, 0, 0)];
        let lost = std::mem::take(&mut *self.connections.lock());
        // Data that is not acknowledged would be sent again, so the peer would not be silent.
        while lost.iter().any(|connection| !is_acknowledged(&connection.client)) {
            thread::yield_now();
        }
        for connection in &lost {
            connection.lost.store(true, Ordering::Release);
            SockRef::from(&connection.client).attach_filter(&drop_all).unwrap();
        }
        let count = lost.len();
        // They stay open, as those of a machine that lost its power do.
        std::mem::forget(lost);
        count
    }
}

/// Returns whether all sent data is acknowledged, according to the kernel's table of connections.
fn is_acknowledged(stream: &TcpStream) -> bool {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let (local, peer) = (port(stream.local_addr().unwrap()), port(stream.peer_addr().unwrap()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).all(|columns| {
        let [_, from, to, _, queues, ..] = columns[..] else { return true };
        !(from.ends_with(&local) && to.ends_with(&peer)) || queues.starts_with("00000000:")
    })
}

fn forward(mut from: TcpStream, mut to: TcpStream, lost: &AtomicBool) {
    let mut part = [0; 8192];
    while let Ok(length @ 1..) = from.read(&mut part) {
        if !lost.load(Ordering::Acquire) && to.write_all(&part[..length]).is_err() {
            break;
        }
    }
    if !lost.load(Ordering::Acquire) {
        drop(to.shutdown(std::net::Shutdown::Both));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_peer_is_lost_is_noticed_within_30_seconds() {
    let server = ApiServer::start().await.unwrap();
    let line = Line::to(server.address());
    let port = |address: SocketAddr| format!(":{}", address.port());
    let kubeconfig = server.kubeconfig().replace(&port(server.address()), &port(line.address));
    let file = std::env::temp_dir().join(format!("kooper-silence-{}", std::process::id()));
    std::fs::write(&file, kubeconfig).unwrap();
    let args = ["--kubeconfig", file.to_str().unwrap(), "--listen", "127.0.0.1:0", "--namespace", "default"];
    let program = Process::start(env!("CARGO_BIN_EXE_echo"), &args, &[]);
    let configs: Api<ConfigMap> = Api::default_namespaced(server.client());
    configs.create(&PostParams::default(), &config("before")).await.unwrap();
    program.wait_for_line(&["handled before"]);

    assert!(line.lose() > 0, "there was a connection");
    let lost = Instant::now();
    configs.create(&PostParams::default(), &config("after")).await.unwrap();
    program.wait_for_line(&["handled after"]);
    let noticed = lost.elapsed();
    println!("noticed after {noticed:?}");
    assert!(noticed > Duration::from_secs(5), "the connection was not lost: {noticed:?}");
    // Noticed within 30 s; a loaded machine may need longer to connect and to call again. Without probes it is 180 s.
    assert!(noticed <= Duration::from_secs(45), "noticed after {noticed:?}:\n{}", program.lines().join("\n"));
    drop(program);
    std::fs::remove_file(file).unwrap();
}
