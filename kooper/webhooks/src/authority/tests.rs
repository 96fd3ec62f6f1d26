use k8s_openapi::jiff::SignedDuration;

use super::leaf::Leaf;
use super::rotation::{Authorities, PUBLISHED};
use super::*;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

#[test]
fn what_an_authority_signs_is_trusted_for_a_week_by_its_bundle_and_by_no_other() {
    let authorities = Authorities::new(start()).expect("an authority");
    let other = Authorities::new(start()).expect("an authority");
    let (bundle, current) = (authorities.bundle(), &authorities.current);
    assert!(current.is_trusted(&bundle, start(), start()));
    assert!(!current.is_trusted(&other.bundle(), start(), start()));
    assert!(!current.is_trusted(&bundle, start(), start() + SignedDuration::from_hours(8 * 24)), "it has expired");
}

#[test]
fn an_authority_whose_certificates_no_client_would_trust_is_malformed() {
    let parsed = |change: fn(&mut CertificateParams)| {
        let (key, mut params) = (KeyPair::generate().expect("a key"), params());
        valid(&mut params, start(), AUTHORITY);
        change(&mut params);
        let certificate = params.self_signed(&key).expect("a certificate");
        Authority::parse(&certificate.pem(), &key.serialize_pem(), start()).is_ok()
    };
    assert!(parsed(|_| {}));
    assert!(!parsed(|params| params.distinguished_name = named("the company")), "issuers are found by their names");
    assert!(!parsed(|params| valid(params, start(), AUTHORITY / 2)), "it ends before it is replaced");
}

#[test]
fn what_was_written_is_read_again_and_a_malformed_secret_is_not_used() {
    let mut authorities = Authorities::new(start()).expect("an authority");
    let later = start() + SignedDuration::from_hours(250 * 24);
    authorities = authorities.advance(later, "").expect("made").expect("it gets a successor");
    authorities = authorities.advance(later, &authorities.bundle()).expect("made").expect("it is published");
    assert_eq!(Authorities::from_data(&authorities.to_data()).expect("it was written"), authorities);
    for (key, value) in [("ca.crt", "canary"), ("ca.key", "canary"), ("ca.made", "canary")] {
        let mut data = authorities.to_data();
        data.get_mut(key).expect("it is there").0 = value.into();
        let error = Authorities::from_data(&data).map(drop).expect_err("it cannot be used").to_string();
        assert!(!error.contains("canary"), "{error}");
    }
    let mut data = authorities.to_data();
    let other = Authorities::new(start()).expect("an authority").to_data();
    data.insert("ca.key".to_owned(), other["ca.key"].clone());
    assert!(Authorities::from_data(&data).is_err(), "the key is another one's");
}

#[test]
fn a_bundle_has_all_certificates_although_the_secret_has_lost_the_ends_of_their_last_lines() {
    let later = start() + SignedDuration::from_hours(250 * 24);
    let authorities = Authorities::new(start()).expect("an authority");
    let authorities = authorities.advance(later, "").expect("made").expect("it gets a successor");
    let mut data = authorities.to_data();
    data.values_mut().for_each(|value| value.0.truncate(value.0.trim_ascii_end().len()));
    let bundle = Authorities::from_data(&data).expect("it was written").bundle();
    assert_eq!(CertificateDer::pem_slice_iter(bundle.as_bytes()).count(), 2, "{bundle}");
    assert!(is_bundle(&bundle) && authorities.current.is_trusted(&bundle, later, later));
}

/// Each step of a rotation, with replicas that have signed with the authority of one step
/// before, and API servers that have the bundle of one step before.
#[test]
fn no_api_server_distrusts_a_replica_in_a_whole_rotation() {
    let mut now = start();
    let mut authorities = Authorities::new(now).expect("an authority");
    let mut rotations = 0;
    for _ in 0..600 {
        now += SignedDuration::from_hours(24);
        while let Some(next) = authorities.advance(now, &authorities.bundle()).expect("made") {
            rotations += usize::from(next.current != authorities.current);
            let before = std::mem::replace(&mut authorities, next);
            for bundle in [before.bundle(), authorities.bundle()] {
                assert!(is_bundle(&bundle));
                for signer in [&before.current, &authorities.current] {
                    assert!(signer.is_trusted(&bundle, now, now), "at {now}");
                }
            }
            now += SignedDuration::try_from(PUBLISHED).expect("short");
        }
        assert!(authorities.current.age(now) < AUTHORITY, "it is renewed in time");
    }
    assert!(rotations >= 2, "{rotations}");
}

#[test]
fn the_next_authority_does_not_sign_before_it_has_been_published_for_a_while() {
    let later = start() + SignedDuration::from_hours(250 * 24);
    let wait = SignedDuration::try_from(PUBLISHED).expect("short");
    let first = Authorities::new(start()).expect("an authority");
    assert_eq!(first.advance(start(), &first.bundle()).expect("nothing is due"), None);
    let waiting = first.advance(later, &first.bundle()).expect("made").expect("a successor");
    assert_eq!(waiting.advance(later + wait, &first.bundle()).expect("nothing is due"), None, "it is not published");
    let published = waiting.advance(later, &waiting.bundle()).expect("made").expect("it is published");
    assert_eq!(published.advance(later, &waiting.bundle()).expect("nothing is due"), None);
    // Somebody has put the configuration back.
    let again = published.advance(later + wait, &first.bundle()).expect("made").expect("the wait begins again");
    assert_eq!(again, waiting);
    let signs = published.advance(later + wait, &waiting.bundle()).expect("made").expect("it signs");
    assert_ne!(signs.current, first.current);
    assert!(signs.bundle().contains(first.current.certificate.trim()), "what the old one signed is in use");
    let week = SignedDuration::try_from(LEAF).expect("short");
    let dropped = signs.advance(later + wait + week, &signs.bundle()).expect("made").expect("it is dropped");
    assert!(!dropped.bundle().contains(first.current.certificate.trim()));
}

#[test]
fn the_next_authority_does_not_sign_early_if_the_clock_of_the_replica_that_published_it_is_ahead() {
    let later = start() + SignedDuration::from_hours(250 * 24);
    let wait = SignedDuration::try_from(PUBLISHED).expect("short");
    let first = Authorities::new(start()).expect("an authority");
    let waiting = first.advance(later, "").expect("made").expect("a successor");
    let bundle = waiting.bundle();
    let ahead = waiting.advance(later + wait + wait, &bundle).expect("made").expect("it is published");
    let again = ahead.advance(later, &bundle).expect("made").expect("the wait begins again");
    assert_eq!(again.current, first.current);
    assert_eq!(again.advance(later, &bundle).expect("nothing is due"), None);
    let signs = again.advance(later + wait, &bundle).expect("made").expect("it signs");
    assert_ne!(signs.current, first.current);
}

#[test]
fn an_authority_that_has_expired_is_replaced_at_once() {
    let authorities = Authorities::new(start()).expect("an authority");
    let late = start() + SignedDuration::try_from(AUTHORITY).expect("a year");
    let replaced = authorities.advance(late, &authorities.bundle()).expect("made").expect("it is replaced");
    assert_ne!(replaced.current, authorities.current);
    assert!(replaced.current.is_trusted(&replaced.bundle(), late, late));
}

#[test]
fn what_a_clock_that_was_ahead_made_is_replaced_if_it_is_not_valid_yet_when_the_clock_is_set_back() {
    let back = |hours| start() - SignedDuration::from_hours(hours);
    let authorities = Authorities::new(start()).expect("an authority");
    let leaf = Leaf::new(vec!["shop.shops.svc".to_owned()]);
    leaf.renew(&authorities.current, start()).expect("signed");
    leaf.renew(&authorities.current, back(20)).expect("nothing is due");
    assert_eq!(leaf.expires(), start().checked_add(LEAF).ok(), "it is valid for clocks that are behind");
    assert_eq!(authorities.advance(back(20), &authorities.bundle()).expect("nothing is due"), None);
    leaf.renew(&authorities.current, back(48)).expect("signed");
    assert_eq!(leaf.expires(), back(48).checked_add(LEAF).ok());
    let replaced = authorities.advance(back(48), &authorities.bundle()).expect("made").expect("it is replaced");
    assert_eq!(replaced.current.made, back(48));
    assert!(replaced.bundle().contains(authorities.current.certificate.trim()), "the clock may be wrong now");
}

#[test]
fn a_successor_that_is_not_valid_yet_when_the_clock_is_set_back_never_signs() {
    let ahead = start() + SignedDuration::from_hours(250 * 24);
    let first = Authorities::new(start()).expect("an authority");
    let waiting = first.advance(ahead, "").expect("made").expect("a successor");
    let dropped = waiting.advance(start(), &waiting.bundle()).expect("made").expect("it is dropped");
    assert_eq!(dropped, first);
}
