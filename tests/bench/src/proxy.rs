//! A TCP proxy before the API server that can be shut.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use tokio::io::copy_bidirectional_with_sizes;
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
    accepts: JoinHandle<()>,
}

impl Proxy {
    /// Starts one before `server`, open.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (open, gate) = watch::channel(true);
        let accepts = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, gate.clone()));
            }
        });
        Ok(Self { address, open, accepts })
    }

    /// Where programs connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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

async fn pass(mut client: TcpStream, server: SocketAddr, mut gate: watch::Receiver<bool>) {
    if gate.wait_for(|open| *open).await.is_err() {
        return;
    }
    // A failed connection ends the client's too; it will come again.
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    tokio::select! {
        _ = copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER) => {}
        _ = gate.wait_for(|open| !*open) => {}
    }
}
