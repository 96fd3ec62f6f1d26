//! A unique name for this process.

use std::hash::{BuildHasher, RandomState};

/// `<hostname>_<uuid>`, client-go's form.
#[must_use]
pub fn make() -> String {
    format!("{}_{}", host(), uuid())
}

/// The name of the machine; in a pod, that of the pod.
fn host() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// A random UUID, version 4. The randomness is that of the standard library's
/// hash keys, which come from the system: it has to be unique, not secret.
fn uuid() -> String {
    let half = |salt: u8| RandomState::new().hash_one(salt);
    let bits = (u128::from(half(0)) << 64 | u128::from(half(1))) & !(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let (time, clock, node) = (bits >> 64, bits >> 48 & 0xFFFF, bits & 0xFFFF_FFFF_FFFF);
    format!("{:08x}-{:04x}-{:04x}-{clock:04x}-{node:012x}", time >> 32, time >> 16 & 0xFFFF, time & 0xFFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_the_hostname_and_a_random_uuid() {
        let (one, other) = (make(), make());
        assert_ne!(one, other);
        let (host, uuid) = one.rsplit_once('_').unwrap();
        #[cfg(unix)]
        {
            let machine = std::process::Command::new("uname").arg("-n").output().unwrap();
            assert_eq!(host, std::str::from_utf8(&machine.stdout).unwrap().trim_end());
        }
        assert!(!host.is_empty());
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{uuid}");
        assert!(uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
    }
}
