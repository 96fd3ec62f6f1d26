//! A TCP proxy before the API server that can be shut.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Large enough that copying a list costs few system calls.
const BUFFER: usize = 256 * 1024;

/// Passes bytes on as they are, so that TLS stays between program and server.
///
/// Shut, it cuts every connection and keeps new ones waiting: refusing them would measure how long each
/// program's back-off has become, not what its relist costs.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    open: watch::Sender<bool>,
    received: Arc<AtomicU64>,
    accepts: JoinHandle<()>,
}

impl Proxy {
    /// Starts one before `server`, open.
    pub async fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (open, gate) = watch::channel(true);
        let received = Arc::<AtomicU64>::default();
        let total = Arc::clone(&received);
        let accepts = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, gate.clone(), Arc::clone(&total)));
            }
        });
        Ok(Self { address, open, received, accepts })
    }

    /// Where programs connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bytes that programs have received.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Cuts every connection and keeps new ones waiting.
    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    /// Lets connections through again.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, mut gate: watch::Receiver<bool>, total: Arc<AtomicU64>) {
    if gate.wait_for(|open| *open).await.is_err() {
        return;
    }
    // A failed connection ends the client's too; it will come again.
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((mut requests, mut to_client), (mut responses, mut to_server)) = (client.split(), server.split());
    let receiving = async {
        let mut buffer = vec![0; BUFFER];
        while let Ok(count @ 1..) = responses.read(&mut buffer).await {
            total.fetch_add(count as u64, Ordering::Relaxed);
            if to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = copy(&mut requests, &mut to_server) => {}
        () = receiving => {}
        _ = gate.wait_for(|open| !*open) => {}
    }
}
