//! Kubeconfigs: all that a client needs to talk to the server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// A kubeconfig, in YAML, for one user.
pub(super) fn kubeconfig(address: SocketAddr, certificate: &str, user: &str, token: &str) -> String {
    // A string of JSON is one of YAML, whatever is in it.
    let user = json!(user);
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: kooper\n  cluster:\n    server: {}\n    \
         certificate-authority-data: {}\nusers:\n- name: {user}\n  user:\n    token: {token}\ncontexts:\n- name: \
         kooper\n  context:\n    cluster: kooper\n    user: {user}\ncurrent-context: kooper\n",
        url(address),
        STANDARD.encode(certificate),
    )
}

/// Where a client on this machine finds the server.
pub(super) fn url(mut address: SocketAddr) -> String {
    // All addresses are no address to connect to.
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("https://{address}")
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn the_url_can_be_connected_to() {
        let of = |address: &str| url(address.parse().expect("it is an address"));
        assert_eq!(of("127.0.0.1:6443"), "https://127.0.0.1:6443");
        assert_eq!(of("0.0.0.0:6443"), "https://127.0.0.1:6443");
        assert_eq!(of("[::]:6443"), "https://[::1]:6443");
    }
}
