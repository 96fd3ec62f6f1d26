//! The running server of a program's webhooks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kooper_runtime::internal::clock;
use kooper_runtime::internal::error::chain;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::EVERY;
use crate::authority::secret::{CaSecret, SecretError};
use crate::certificates::Certificates;
use crate::registration::Registration;
use crate::server::Server;

/// The pause after an attempt to become ready.
const RETRY: Duration = Duration::from_secs(1);

/// The longest time for the requests of an attempt. A connection that hangs would otherwise end all renewals.
const ANSWER: Duration = Duration::from_secs(60);

/// The running server of a program's webhooks. It stops at once when it is dropped.
#[derive(Debug)]
#[must_use = "the server stops when it is dropped"]
pub struct Running {
    pub(super) server: Server,
    pub(super) renewal: Option<AbortOnDropHandle<()>>,
    pub(super) registration: Arc<Registration>,
    pub(super) ready: watch::Sender<bool>,
    pub(super) registered: watch::Receiver<bool>,
}

impl Running {
    /// The time for which requests are served after the program was asked to stop, while API servers
    /// learn that it goes.
    const LINGER: Duration = Duration::from_secs(10);

    /// The address in use: with port 0, the port that the system chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.server.address
    }

    /// Prepares this replica for its calls. Reads the certificate authority from its Secret, and renews the
    /// certificate of this replica when the authority changes.
    ///
    /// Call this method within a tokio runtime.
    pub fn connect(&mut self, client: &Client) {
        let renewed = tokio::spawn(renew(client.clone(), Arc::clone(&self.registration), self.ready.clone()));
        self.renewal = Some(AbortOnDropHandle::new(renewed));
    }

    /// Waits until this replica has registered the webhooks and the API server has reached them.
    pub async fn registered(&self) {
        // An error is the end of the operator, which the caller learns from it.
        drop(self.registered.clone().wait_for(|registered| *registered).await);
    }

    /// Stops at once, and deletes the configurations, the Lease and the Secret, so that the API
    /// servers no longer call the webhooks.
    ///
    /// # Errors
    /// If an object cannot be deleted.
    pub async fn remove(self, client: &Client) -> Result<(), kube::Error> {
        // It would create the Secret again.
        drop(self.renewal);
        self.registration.installed().remove(client).await
    }

    /// Stops without failing a call: serves for ten more seconds, and waits for the requests in
    /// progress. Let the readiness probe of the program fail before.
    pub async fn shutdown(self) {
        drop(self.renewal);
        self.server.shutdown(Self::LINGER).await;
    }
}

/// Prepares the replica for its calls: then it is ready. Keeps its certificate that of the authority in the
/// Secret.
async fn renew(client: Client, registration: Arc<Registration>, ready: watch::Sender<bool>) {
    // An error that stays the same is logged once.
    let mut logged = String::new();
    loop {
        let error = match timeout(ANSWER, registration.withdraw(&client)).await {
            Ok(Ok(_)) => break,
            Ok(Err(error)) => chain(&error),
            Err(_) => late(),
        };
        if error != logged {
            tracing::warn!("the webhooks are not ready: {error}");
            logged = error;
        }
        sleep(RETRY).await;
    }
    let shared = &registration.shared;
    let (secret, leaf, known) = match &shared.certificates {
        Certificates::Own { secret, leaf, known } => (secret, leaf, known),
        Certificates::Injected { .. } => {
            ready.send_replace(true);
            return;
        }
        Certificates::Files { ca, .. } => {
            ready.send_replace(true);
            // A replica that does not register the webhooks any more would export the expiry of an earlier authority.
            loop {
                drop(shared.bundle(ca));
                sleep(EVERY).await;
            }
        }
    };
    let secret = CaSecret::new(client, &registration.namespace, secret.clone());
    logged.clear();
    loop {
        let renewed = async {
            let used = known.lock().clone();
            let read = secret.read(used.as_ref()).await?;
            leaf.renew(&read.authorities.current, clock::wall())?;
            shared.know(&read.authorities);
            Ok::<_, SecretError>(())
        };
        let error = match timeout(ANSWER, renewed).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(_) => Some(late()),
        };
        match error {
            None => {
                ready.send_replace(true);
                logged.clear();
            }
            Some(error) if error != logged => {
                tracing::warn!("the certificate of the webhooks cannot be renewed, and stays in use: {error}");
                logged = error;
            }
            Some(_) => {}
        }
        let is_ready = *ready.borrow();
        sleep(if is_ready { EVERY } else { RETRY }).await;
    }
}

fn late() -> String {
    format!("the API server did not respond within {} s", ANSWER.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use http::Method;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kooper_access::State;
    use kooper_tests::responses;
    use prometheus::{Registry, TextEncoder};
    use serde_json::json;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::{FailurePolicy, Webhook, Webhooks};

    #[test]
    fn a_validating_and_a_mutating_webhook_share_a_name_unless_each_has_a_controller() {
        async fn check(_: Arc<ConfigMap>) {}
        async fn check_with(_: Arc<ConfigMap>, _: State<u32>) {}
        async fn fill(object: ConfigMap, _: State<u32>) -> ConfigMap {
            object
        }
        let validate = || Webhook::validate::<ConfigMap>("both").failure(FailurePolicy::Ignore);
        let mutate = || Webhook::mutate::<ConfigMap>("both").failure(FailurePolicy::Ignore);
        let controllers = |validating: Result<Webhook, crate::ConfigError>| {
            let mutating = mutate().state(7_u32).function(fill).build();
            let webhooks = Webhooks::new("shop", "shops").listen(SocketAddr::from(([127, 0, 0, 1], 0)));
            let webhooks = webhooks.webhook(validating.expect("a webhook")).webhook(mutating.expect("a webhook"));
            webhooks.controllers().map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(controllers(validate().function(check).build()), Ok(()));
        assert_eq!(
            controllers(validate().state(7_u32).function(check_with).build()),
            Err("two webhooks have the name `both`: give one of them another name".to_owned())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_secret_is_not_created_again_after_its_removal_nor_by_webhooks_that_were_dropped() {
        for removes in [true, false] {
            let created = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&created);
            let client = responses::client("shops", move |request| {
                let creates = request.method() == Method::POST;
                counted.fetch_add(usize::from(creates), Ordering::Relaxed);
                if creates {
                    (201, json!({"metadata": {"name": "ca", "resourceVersion": "1"}}))
                } else {
                    responses::missing("ca")
                }
            });
            let webhooks = Webhooks::new("shop", "shops").listen(SocketAddr::from(([127, 0, 0, 1], 0)));
            let (running, _controllers) = webhooks.start(&client).expect("it starts");
            drop(running.ready.subscribe().wait_for(|is_ready| *is_ready).await.expect("it reads the Secret"));
            if removes {
                running.remove(&client).await.expect("nothing is left");
            } else {
                drop(running);
            }
            sleep(EVERY * 3).await;
            assert_eq!(created.load(Ordering::Relaxed), 1);
        }
    }

    /// Counts the lines that this module logs.
    struct Lines(Arc<AtomicUsize>);

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "kooper_webhooks::program::running"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_that_stays_the_same_is_logged_once_and_again_after_a_success() {
        let (lines, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let _logged = tracing::subscriber::set_default(Lines(Arc::clone(&lines)));
        let forbids = Arc::new(AtomicBool::new(true));
        let (counted, forbidden) = (Arc::clone(&asked), Arc::clone(&forbids));
        let client = responses::client("shops", move |request| {
            counted.fetch_add(1, Ordering::Relaxed);
            if forbidden.load(Ordering::Relaxed) {
                responses::rejection(403, "no")
            } else if request.method() == Method::POST {
                (201, json!({"metadata": {"name": "ca", "resourceVersion": "1"}}))
            } else {
                responses::missing("ca")
            }
        });
        let webhooks = Webhooks::new("shop", "shops").listen(SocketAddr::from(([127, 0, 0, 1], 0)));
        let (running, _controllers) = webhooks.start(&client).expect("it starts");
        // Never in the middle of an attempt, which begins with a full second.
        sleep(Duration::from_millis(1)).await;
        let several_requests = async || {
            let before = asked.load(Ordering::Relaxed);
            while asked.load(Ordering::Relaxed) < before + 5 {
                sleep(RETRY).await;
            }
        };
        several_requests().await;
        assert_eq!(lines.load(Ordering::Relaxed), 1, "it is not ready");
        forbids.store(false, Ordering::Relaxed);
        drop(running.ready.subscribe().wait_for(|is_ready| *is_ready).await.expect("it reads the Secret"));
        for renewals in 1..=2 {
            sleep(Duration::from_millis(1)).await;
            forbids.store(true, Ordering::Relaxed);
            several_requests().await;
            assert_eq!(lines.load(Ordering::Relaxed), 1 + renewals, "it cannot renew its certificate");
            forbids.store(false, Ordering::Relaxed);
            several_requests().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_registers_nothing_exports_the_expiry_of_an_authority_in_a_file_and_of_the_next_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let [certificate, key, ca] = ["tls.crt", "tls.key", "ca.crt"].map(|name| folder.path().join(name));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(&certificate, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        let registry = Registry::new();
        let webhooks = Webhooks::new("shop", "shops").listen(SocketAddr::from(([127, 0, 0, 1], 0)));
        let webhooks = webhooks.files(&certificate, &key, &ca).metrics(&registry);
        let client = responses::client("shops", |_| responses::missing("shop"));
        let (_running, _controllers) = webhooks.start(&client).expect("it starts");
        let is_exported = |expiry: &str| {
            let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
            let name = "kooper_webhook_certificate_expiry_timestamp_seconds{";
            text.lines().any(|line| {
                line.starts_with(name) && line.contains(r#"certificate="authority""#) && line.ends_with(expiry)
            })
        };
        for (year, expiry) in [(2031, " 1935792000"), (2077, " 3387484800")] {
            let mut authority = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
            authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            authority.not_after = rcgen::date_time_ymd(year, 5, 6);
            let authority = authority.self_signed(&made.signing_key).expect("a certificate");
            std::fs::write(&ca, authority.pem()).expect("written");
            let exported = async {
                while !is_exported(expiry) {
                    sleep(RETRY).await;
                }
            };
            timeout(EVERY * 3, exported).await.expect("it is exported");
        }
    }
}
