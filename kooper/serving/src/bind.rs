//! Sockets that listen on all addresses of a machine.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Binds an address, without blocking for connections. `[::]` accepts IPv4 connections, too; on a machine without IPv6,
/// `0.0.0.0` is bound instead.
///
/// # Errors
/// When the port is taken, or the address is not one of this machine's.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let every_v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
    let socket = TcpListener::bind(address).or_else(|error| {
        let v6_is_absent = !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
        if address.ip() == Ipv6Addr::UNSPECIFIED && v6_is_absent { TcpListener::bind(every_v4) } else { Err(error) }
    })?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
