//! IP addresses and networks, as Go's package `net/netip` reads and writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

/// Reads an address.
pub(super) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if let Some((address, zone)) = text.split_once('%') {
        let known = !zone.is_empty() && address.parse::<Ipv6Addr>().is_ok();
        return Err(match known {
            true => format!("IP address {text:?} with zone value is not allowed"),
            false => unreadable(text),
        });
    }
    let address = text.parse::<IpAddr>().map_err(|_| unreadable(text))?;
    match address {
        IpAddr::V6(long) if long.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        _ => Ok(address),
    }
}

fn unreadable(text: &str) -> String {
    format!("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP")
}

impl Cidr {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const WHY: &str = "network address parse error during conversion from string: ";
        let bad = |why: &str| format!("{WHY}{WHY}netip.ParsePrefix({text:?}): {why}");
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| bad("no '/'"))?;
        let address =
            address.parse::<IpAddr>().map_err(|_| bad(&format!("ParseAddr({address:?}): unable to parse IP")))?;
        let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let leading = bits.len() > 1 && bits.starts_with('0');
        let length = bits.parse::<u8>().ok().filter(|_| plain && !leading);
        let length = length.ok_or_else(|| bad(&format!("bad bits after slash: {bits:?}")))?;
        if length > if address.is_ipv4() { 32 } else { 128 } {
            return Err(bad("prefix length out of range"));
        }
        if let IpAddr::V6(long) = address
            && long.to_ipv4_mapped().is_some()
        {
            return Err(format!("{WHY}IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        Ok(Self { address, bits: length })
    }

    pub(super) fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
            }
        };
        Self { address, bits: self.bits }
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self { address, bits: self.bits }.masked().address == self.masked().address
    }

    pub(crate) fn contains_network(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }

    pub(super) fn written(self) -> String {
        format!("{}/{}", self.address, self.bits)
    }
}

/// Go counts as global what is neither unspecified, loopback, multicast, link-local nor the broadcast address.
pub(super) fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || broadcast
        || is_link_local_unicast(address))
}

pub(super) fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(super) fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}
