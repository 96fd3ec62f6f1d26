//! Where a connection comes from.

use std::net::{IpAddr, Ipv6Addr};

/// The address of a client. One client may have a whole network of IPv6: the first 64
/// bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(IpAddr);

impl Source {
    /// The source of connections from an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
            address => Self(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let source = |address: &str| Source::of(address.parse().expect("an address"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:0:0:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.2"), source("10.0.0.1"));
    }
}
