//! Until when a certificate is valid, as it says itself.

use k8s_openapi::jiff::Timestamp;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// The tags of a version that is written, and of both forms of a time.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Until when one of the certificates of a text in PEM is valid: of those that are valid together the last one counts,
/// as during a rotation.
pub(crate) fn valid_until(text: &str) -> Option<Timestamp> {
    let certificates = CertificateDer::pem_slice_iter(text.as_bytes());
    certificates.filter_map(|one| not_after(one.ok()?.as_ref())).max()
}

/// The end of a certificate's validity.
fn not_after(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate, _) = element(der)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // The serial number, the algorithm, and the issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (_, _, rest) = element(validity)?;
    let (tag, time, _) = element(rest)?;
    let time = std::str::from_utf8(time).ok()?;
    let time = match tag {
        // The year has two digits, of this century until 2049.
        UTC_TIME => format!("{}{time}", if time.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => time.to_owned(),
        _ => return None,
    };
    Timestamp::strptime("%Y%m%d%H%M%S%z", time.replace('Z', "+0000")).ok()
}

/// Splits an element off: its tag, its content, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short if short < 0x80 => (usize::from(short), rest),
        long => {
            let (bytes, rest) =
                rest.split_at_checked(usize::from(long & 0x7f)).filter(|(bytes, _)| bytes.len() <= 4)?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::date_time_ymd;

    use super::*;

    fn certificate(year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 5, 6);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").pem()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms_and_the_last_one_counts() {
        let (near, far) = (certificate(2031), certificate(2077));
        let time = |text: &str| Some(text.parse::<Timestamp>().expect("a time"));
        assert_eq!(valid_until(&near), time("2031-05-06T00:00:00Z"));
        assert_eq!(valid_until(&far), time("2077-05-06T00:00:00Z"));
        assert_eq!(valid_until(&(near + &far)), time("2077-05-06T00:00:00Z"));
        assert_eq!(valid_until("garbage"), None);
    }

    #[test]
    fn mutated_certificates_are_read_or_refused() {
        let der = CertificateDer::from_pem_slice(certificate(2031).as_bytes()).expect("a certificate");
        let changed = |at: usize| {
            let mut changed = der.to_vec();
            changed[at] ^= 0xff;
            not_after(&changed)
        };
        assert!((0..der.len()).all(|at| not_after(&der[..at]).is_none()), "a part is no certificate");
        let read = (0..der.len()).filter(|at| changed(*at).is_some()).count();
        assert!(read > 0 && read < der.len(), "{read} of {}", der.len());
    }
}
