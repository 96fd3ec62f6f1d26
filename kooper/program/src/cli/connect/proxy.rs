//! The proxy of a client.
//!
//! kube takes the one of `HTTPS_PROXY` for each server, and compares `NO_PROXY` with
//! the URL of the proxy, if at all.

use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

/// The proxy of the environment for a server.
pub(super) fn of_environment(server: &Uri) -> Option<String> {
    let variable =
        |names: [&str; 2]| names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let exceptions = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    variable(["HTTPS_PROXY", "https_proxy"]).filter(|_| !is_direct(server, &exceptions)).map(with_scheme)
}

/// For Go, and so for kubectl and curl, a proxy without a scheme is one of HTTP.
fn with_scheme(proxy: String) -> String {
    if proxy.contains("://") { proxy } else { format!("http://{proxy}") }
}

/// Returns `true` if Go, and so kubectl, takes no proxy for the server: it is on
/// loopback, or in the list.
fn is_direct(server: &Uri, exceptions: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let usual = if server.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    let port = server.port_u16().unwrap_or(usual).to_string();
    exceptions.split(',').map(|entry| entry.trim().to_ascii_lowercase()).any(|entry| {
        // The address of IPv6 has colons, too.
        let (name, only) = match entry.rsplit_once(':') {
            Some((name, port)) if entry.parse::<IpAddr>().is_err() && !entry.contains('/') => (name, Some(port)),
            _ => (entry.as_str(), None),
        };
        let name = name.trim_matches(['[', ']']);
        let is_named = match address {
            Some(address) => contains(name, address),
            None => is_in_domain(&host, name),
        };
        (name == "*" || (is_named && !name.is_empty())) && only.is_none_or(|only| only == port)
    })
}

/// Returns `true` if the domain is that of the host, or one above it. With a dot or `*.`
/// before it, it has only the hosts below it.
fn is_in_domain(host: &str, domain: &str) -> bool {
    let domain = domain.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(domain);
    let before = host.strip_suffix(domain);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.') || domain.starts_with('.'))
}

/// Returns `true` if a network such as `10.0.0.0/8`, or a single address, contains the address.
fn contains(network: &str, address: IpAddr) -> bool {
    let (first, bits) = network.split_once('/').unwrap_or((network, if address.is_ipv4() { "32" } else { "128" }));
    let (Ok(first), Ok(bits)) = (first.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    let equal = match (first, address) {
        (IpAddr::V4(first), IpAddr::V4(address)) => (first.to_bits() ^ address.to_bits()).leading_zeros(),
        (IpAddr::V6(first), IpAddr::V6(address)) => (first.to_bits() ^ address.to_bits()).leading_zeros(),
        _ => return false,
    };
    equal >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_of_the_environment_without_a_scheme_is_one_of_http() {
        for (proxy, url) in [
            ("proxy.corp:3128", "http://proxy.corp:3128"),
            ("me:secret@10.0.0.1:3128", "http://me:secret@10.0.0.1:3128"),
            ("https://proxy.corp", "https://proxy.corp"),
            ("socks5://proxy.corp:1080", "socks5://proxy.corp:1080"),
        ] {
            assert_eq!(with_scheme(proxy.to_owned()), url);
        }
    }

    #[test]
    fn a_server_on_loopback_or_in_the_list_is_reached_without_a_proxy() {
        for (server, exceptions, direct) in [
            ("https://127.0.0.1:6443", "", true),
            ("https://127.8.0.1:6443", "", true),
            ("https://[::1]:6443", "", true),
            ("https://localhost:6443", "", true),
            ("https://10.0.0.1:6443", "", false),
            ("https://localhost.corp", "", false),
            ("https://api.corp.:6443", "", false),
            ("https://10.0.0.1:6443", "*", true),
            ("https://10.0.0.1:6443", "127.0.0.1, 10.0.0.1", true),
            ("https://10.0.0.1:6443", "10.0.0.10", false),
            ("https://10.0.0.1:6443", "10.0.0.1:6443", true),
            ("https://10.0.0.1:6443", "10.0.0.1:443", false),
            ("https://10.0.0.1", "10.0.0.1:443", true),
            ("http://10.0.0.1", "10.0.0.1:80", true),
            ("https://10.1.2.3:6443", "10.0.0.0/8", true),
            ("https://11.1.2.3:6443", "10.0.0.0/8", false),
            ("https://11.1.2.3:6443", "0.0.0.0/0", true),
            ("https://10.0.0.1:6443", "10.0.0.1/33,10.0.0.1/,/8", false),
            ("https://[fd00::1]:6443", "fd00:0::1", true),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", true),
            ("https://[fd00::1]:6443", "[fd00::1]:443", false),
            ("https://[fd12::1]:6443", "fd00::/8", true),
            ("https://[fe00::1]:6443", "fd00::/8,0.0.0.0/0", false),
            ("https://api.Corp:6443", "corp", true),
            ("https://corp:6443", "Corp", true),
            ("https://api.corp:6443", ".corp", true),
            ("https://api.corp:6443", "*.corp", true),
            ("https://corp:6443", ".corp,*.corp", false),
            ("https://api.corp:6443", "corp:6443", true),
            ("https://api.corp:6443", "corp:443,:6443,,api", false),
            ("https://notcorp:6443", "corp", false),
        ] {
            assert_eq!(is_direct(&server.parse().unwrap(), exceptions), direct, "{server} with {exceptions:?}");
        }
    }
}
