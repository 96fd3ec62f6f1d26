//! Starts the API server of `dev` with the port and the credentials of the last run.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use kooper_apiserver::{ApiServer, Credentials};

use super::MOST_PORTS;
use super::folder::{Folder, FolderError, SavedServer};

/// The usual port of a Kubernetes API server.
const PORT: u16 = 6443;

/// Why the server cannot be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServerError {
    #[error("the API server cannot listen on {address}: {}", advice(.error))]
    Bind { address: SocketAddr, error: io::Error },
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Starts the server on the given port, or else on that of the last run or the first free one. Port and credentials are
/// kept, so that a kubeconfig remains valid after a restart.
pub(super) async fn start(
    folder: &mut Folder,
    port: Option<u16>,
    notes: &mut Vec<String>,
) -> Result<ApiServer, ServerError> {
    let kept = folder.kept();
    // Credentials that cannot be parsed are replaced.
    let credentials =
        kept.as_ref().and_then(|kept| kept.credentials.parse().ok()).unwrap_or_else(Credentials::generate);
    let usual = kept.map_or(PORT, |kept| kept.port);
    let ports = match port {
        Some(port) => vec![port],
        None => std::iter::once(usual).chain((PORT..PORT + MOST_PORTS).filter(|port| *port != usual)).collect(),
    };
    let server = bind(&ports, &credentials).await?;
    let used = server.address().port();
    if port.is_none() && used != usual {
        notes.push(format!("port {usual} is taken: the API server is on {used}"));
    }
    folder.keep(&SavedServer { port: used, credentials: credentials.to_pem() })?;
    folder.write_kubeconfig(&server.kubeconfig())?;
    Ok(server)
}

/// Returns an error if the port is taken. The server binds it a moment later.
pub(super) fn check(port: u16) -> Result<(), ServerError> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    TcpListener::bind(address).map(drop).map_err(|error| ServerError::Bind { address, error })
}

/// Starts the server on the first port that is free, or returns the error for the first one.
async fn bind(ports: &[u16], credentials: &Credentials) -> Result<ApiServer, ServerError> {
    let mut first = None;
    for port in ports {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port);
        match ApiServer::builder().address(address).credentials(credentials.clone()).start().await {
            Ok(server) => return Ok(server),
            Err(error) => first = first.or(Some(ServerError::Bind { address, error })),
        }
    }
    let none = || ServerError::Bind {
        address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT),
        error: io::ErrorKind::AddrInUse.into(),
    };
    Err(first.unwrap_or_else(none))
}

/// The system's error, and what to do about it.
fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses this port: choose another one with `--port`".to_owned(),
        _ => format!("{error}: choose another port with `--port`"),
    }
}
