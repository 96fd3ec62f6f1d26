use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::connections::{LONGEST_CONNECTION, LONGEST_HEAD, MOST_CONNECTIONS};
use super::site::{KEPT, MOST_OF_SOURCE};
use super::*;

fn any(ip: impl Into<IpAddr>) -> SocketAddr {
    SocketAddr::new(ip.into(), 0)
}

fn served(registry: Registry) -> (tokio::runtime::Runtime, Server) {
    let program = tokio::runtime::Runtime::new().expect("a runtime");
    let listener = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port");
    let server = listener.serve(registry, Health::default(), program.handle().clone()).expect("a thread");
    (program, server)
}

/// Sends the text and reads the whole response.
fn exchange(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    // The server may close before it has read everything.
    drop(stream.write_all(text.as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(address: SocketAddr, method: &str, path: &str) -> String {
    exchange(address, &format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
}

#[test]
fn the_three_pages_are_served() {
    let registry = Registry::new();
    registry
        .register(Box::new(prometheus::IntCounter::new("seen_total", "Seen.").expect("a counter")))
        .expect("registered");
    let (_program, server) = served(registry);
    let metrics = request(server.local_addr(), "GET", "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4\r\n"), "{metrics}");
    assert!(
        metrics.ends_with("\r\n\r\n# HELP seen_total Seen.\n# TYPE seen_total counter\nseen_total 0\n"),
        "{metrics}"
    );
    for path in ["/healthz", "/readyz", "/healthz?verbose"] {
        let answer = request(server.local_addr(), "GET", path);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: text/plain; charset=utf-8\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
        let head = request(server.local_addr(), "HEAD", path);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(head.contains("content-length: 3\r\n"), "{head}");
    }
}

#[test]
fn the_response_to_other_paths_and_methods_lists_the_pages() {
    let (_program, server) = served(Registry::new());
    let absent = request(server.local_addr(), "GET", "/");
    assert!(absent.starts_with("HTTP/1.1 404 Not Found\r\n"), "{absent}");
    assert!(absent.ends_with("this listener has /metrics, /healthz and /readyz\n"), "{absent}");
    let refused = request(server.local_addr(), "POST", "/readyz");
    assert!(refused.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{refused}");
    assert!(refused.contains("allow: GET, HEAD\r\n"), "{refused}");
}

#[test]
fn the_status_page_is_served_if_it_is_on() {
    let (_program, server) = served(Registry::new());
    for path in ["/status", "/status.css", "/status.js"] {
        let absent = request(server.local_addr(), "GET", path);
        assert!(absent.starts_with("HTTP/1.1 404 Not Found\r\n"), "{absent}");
    }
    let program = tokio::runtime::Runtime::new().expect("a runtime");
    let listener = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port").status_page("shop");
    let server = listener.serve(Registry::new(), Health::default(), program.handle().clone()).expect("a thread");
    for (path, content_type, content) in [
        ("/status?q=a%3Cb", "text/html", "value=\"a&lt;b\""),
        ("/status", "text/html", "There is no controller yet."),
        ("/status.css", "text/css", "border-collapse"),
        ("/status.js", "text/javascript", "fetch(location.href"),
    ] {
        let answer = request(server.local_addr(), "GET", path);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(content), "{answer}");
        for header in [
            &format!("content-type: {content_type}; charset=utf-8\r\n"),
            "content-security-policy: default-src 'none'; ",
            "cache-control: no-store\r\n",
            "x-content-type-options: nosniff\r\n",
            "referrer-policy: no-referrer\r\n",
        ] {
            assert!(answer.contains(header), "{header}: {answer}");
        }
        let head = request(server.local_addr(), "HEAD", path);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        let refused = request(server.local_addr(), method, "/status");
        assert!(refused.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{refused}");
    }
    for path in ["/", "/status/", "/status/x", "/status.html"] {
        let absent = request(server.local_addr(), "GET", path);
        assert!(absent.starts_with("HTTP/1.1 404 Not Found\r\n"), "{absent}");
        assert!(absent.ends_with("this listener has /status, /metrics, /healthz and /readyz\n"), "{absent}");
    }
}

#[test]
fn probes_name_the_checks_that_fail_and_only_people_of_the_machine_read_why() {
    let program = tokio::runtime::Runtime::new().expect("a runtime");
    let health = Health::default();
    let fails = || Err("the server is away".to_owned());
    health.add_readyz_check("shop: pods", fails);
    health.add_healthz_check("shop: pods", fails);
    let serve = |ip: IpAddr| {
        let listener = Listener::bind(any(ip)).expect("a free port");
        listener.serve(Registry::new(), health.clone(), program.handle().clone()).expect("a thread")
    };
    let (local, open) = (serve(Ipv4Addr::LOCALHOST.into()), serve(Ipv4Addr::UNSPECIFIED.into()));
    let open = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), open.local_addr().port());
    for path in ["/readyz", "/healthz"] {
        for address in [local.local_addr(), open] {
            let brief = request(address, "GET", path);
            assert!(brief.starts_with("HTTP/1.1 503 "), "{brief}");
            assert!(brief.ends_with("\r\n\r\nshop: pods: failed, reason withheld\n"), "{brief}");
        }
        let verbose = format!("{path}?verbose");
        assert!(request(local.local_addr(), "GET", &verbose).contains("the server is away"), "{path}");
        assert!(!request(open, "GET", &verbose).contains("the server is away"), "{path}");
    }
}

#[test]
fn the_reasons_of_checks_are_shown_without_secrets() {
    let program = tokio::runtime::Runtime::new().expect("a runtime");
    let health = Health::default();
    health.add_readyz_check("shop", || panic!("no connection to postgres://me:canary@db/shop"));
    let listener = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port");
    let server = listener.serve(Registry::new(), health, program.handle().clone()).expect("a thread");
    let verbose = request(server.local_addr(), "GET", "/readyz?verbose");
    assert!(
        verbose.ends_with("\r\n\r\nshop: it panicked: no connection to postgres://[redacted]@db/shop\n"),
        "{verbose}"
    );
}

#[test]
fn a_page_of_another_site_cannot_read_a_listener_for_this_machine() {
    let (_program, server) = served(Registry::new());
    let get = |host: &str| {
        let text = format!("GET /metrics HTTP/1.1\r\n{host}\r\n");
        exchange(server.local_addr(), &text)
    };
    for foreign in ["host: evil.example.com\r\n", "host: 127.0.0.1.evil.example.com:80\r\n"] {
        let refused = get(foreign);
        assert!(refused.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{foreign}: {refused}");
    }
    for own in ["host: localhost:1\r\n", "host: 127.0.0.1:1\r\n"] {
        assert!(get(own).starts_with("HTTP/1.1 200 OK\r\n"), "{own}");
    }
}

#[test]
fn a_status_page_is_never_open_to_other_machines() {
    let program = tokio::runtime::Runtime::new().expect("a runtime");
    let listener = Listener::bind(any(Ipv4Addr::UNSPECIFIED)).expect("a free port").status_page("shop");
    let served = listener.serve(Registry::new(), Health::default(), program.handle().clone());
    assert!(matches!(served, Err(ListenError::OpenStatusPage { .. })), "{served:?}");
}

#[test]
fn a_page_whose_path_is_taken_or_cannot_be_requested_is_an_error() {
    let program = tokio::runtime::Runtime::new().expect("a runtime");
    let page = |_: http::Request<()>| async { http::Response::new("") };
    for (path, problem) in [
        ("/a", "it was added before"),
        ("/metrics", "it is a page of every listener"),
        ("/b?c", "have no query or fragment"),
        ("/b#c", "have no query or fragment"),
        ("b", "must begin with `/`"),
    ] {
        let listener = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port").route("/a", page);
        let served = listener.route(path, page).serve(Registry::new(), Health::default(), program.handle().clone());
        let error = served.expect_err(path).to_string();
        assert!(error.contains(problem) && error.contains(&format!("`{path}`")), "{error}");
    }
}

/// Metrics that are not gathered before the channel is closed.
struct Slow {
    desc: Desc,
    release: Mutex<mpsc::Receiver<()>>,
    gathered: Arc<AtomicUsize>,
}

impl Collector for Slow {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _ = self.release.lock().recv();
        self.gathered.fetch_add(1, Ordering::SeqCst);
        Vec::new()
    }
}

#[test]
fn a_flood_of_metrics_is_refused_at_once_delays_no_probe_and_gathers_once_a_second() {
    let (registry, gathered) = (Registry::new(), Arc::new(AtomicUsize::new(0)));
    let (release, blocked) = mpsc::channel();
    let desc = Desc::new("slow".to_owned(), "Slow.".to_owned(), Vec::new(), HashMap::new()).expect("a description");
    let slow = Slow { desc, release: blocked.into(), gathered: gathered.clone() };
    registry.register(Box::new(slow)).expect("registered");
    // Registering does not gather.
    let (_program, server) = served(registry);
    let address = server.local_addr();
    let waiting: Vec<_> = (0..MOST_OF_SOURCE)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("the server listens");
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
            stream
        })
        .collect();
    // The connections are served in order, so each of these is behind those.
    let refused = request(address, "GET", "/metrics");
    assert!(refused.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{refused}");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    for path in ["/healthz", "/readyz"] {
        assert!(request(address, "GET", path).starts_with("HTTP/1.1 200 OK\r\n"), "{path}");
    }
    drop(release);
    for mut stream in waiting {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    assert_eq!(gathered.load(Ordering::SeqCst), 1, "all have the same page");
    std::thread::sleep(KEPT);
    assert!(request(address, "GET", "/metrics").starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(gathered.load(Ordering::SeqCst), 2, "it is not kept for longer");
}

#[test]
fn the_function_of_a_page_ends_with_its_connection() {
    /// Reports that the function has ended.
    struct Ends(mpsc::Sender<&'static str>);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.send("ended");
        }
    }

    let program = tokio::runtime::Runtime::new().expect("a runtime");
    let (steps, seen) = mpsc::channel();
    let answer = move |_: http::Request<()>| {
        let _ = steps.send("begun");
        let ends = Ends(steps.clone());
        async move {
            let _ends = ends;
            std::future::pending::<http::Response<&'static str>>().await
        }
    };
    let listener = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port").route("/slow", answer);
    let server = listener.serve(Registry::new(), Health::default(), program.handle().clone()).expect("a thread");
    let mut client = TcpStream::connect(server.local_addr()).expect("the server listens");
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let next = || seen.recv_timeout(2 * LONGEST_CONNECTION);
    assert_eq!(next(), Ok("begun"));
    drop(client);
    assert_eq!(next(), Ok("ended"));
}

#[test]
fn a_status_page_that_takes_long_delays_no_probe() {
    use kooper_runtime::internal::metrics::health::Probe;

    /// A check that takes until the channel is closed.
    struct Slow {
        release: Mutex<mpsc::Receiver<()>>,
        /// The number of pages in progress, and its maximum so far.
        running: AtomicUsize,
        most: AtomicUsize,
    }
    impl Probe for Slow {
        fn name(&self) -> String {
            "slow".to_owned()
        }

        fn ready(&self) -> Result<Option<String>, String> {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            let _ = self.release.lock().recv();
            self.running.fetch_sub(1, Ordering::SeqCst);
            Ok(Some("slow: a remark".to_owned()))
        }
    }
    let program = tokio::runtime::Runtime::new().expect("a runtime");
    let (release, blocked) = mpsc::channel();
    let slow = Arc::new(Slow { release: blocked.into(), running: AtomicUsize::new(0), most: AtomicUsize::new(0) });
    let health = Health::default();
    health.add(slow.clone());
    let listener = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port").status_page("shop");
    let server = listener.serve(Registry::new(), health, program.handle().clone()).expect("a thread");
    let address = server.local_addr();
    let pages: Vec<_> = (0..3).map(|_| std::thread::spawn(move || request(address, "GET", "/status?q=a"))).collect();
    // Clients that do not wait for their page.
    for _ in 0..5 {
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.write_all(b"GET /status?q=b HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
        drop(stream);
        assert!(request(address, "GET", "/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
    }
    drop(release);
    for page in pages {
        assert!(page.join().expect("no panic").contains("<li>slow: a remark</li>"));
    }
    assert_eq!(slow.most.load(Ordering::SeqCst), 1, "one page is made at a time");
}

#[test]
fn a_check_that_blocks_delays_no_other_probe() {
    let (health, program) = (Health::default(), tokio::runtime::Runtime::new().expect("a runtime"));
    let ((release, blocked), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    let blocked = Mutex::new(blocked);
    health.add_readyz_check("slow", move || {
        begin.send(()).expect("the test waits");
        assert!(blocked.lock().recv().is_err(), "it is released");
        Ok(())
    });
    let listener = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port");
    let server = listener.serve(Registry::new(), health, program.handle().clone()).expect("a thread");
    let address = server.local_addr();
    let slow = std::thread::spawn(move || request(address, "GET", "/readyz"));
    begun.recv().expect("it is checked");
    assert!(request(address, "GET", "/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
    drop(release);
    assert!(slow.join().expect("no panic").starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn a_blocked_program_does_not_block_probes() {
    let program = Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    let listener = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port");
    let server = listener.serve(Registry::new(), Health::default(), program.handle().clone()).expect("a thread");
    let (release, blocked) = mpsc::channel::<()>();
    program.spawn(async move { blocked.recv().is_ok() });
    assert!(request(server.local_addr(), "GET", "/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
    drop(release);
}

#[test]
fn invalid_and_endless_heads_are_rejected() {
    let (_program, server) = served(Registry::new());
    let answer = exchange(server.local_addr(), "nonsense\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    let endless = format!("GET / HTTP/1.1\r\n{}", "x-padding: 0123456789\r\n".repeat(2000));
    let answer = exchange(server.local_addr(), &endless);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[test]
fn idle_connections_are_closed_and_do_not_block_others() {
    let (_program, server) = served(Registry::new());
    let start = Instant::now();
    let mut idle: Vec<_> = (0..2 * MOST_CONNECTIONS)
        .map(|_| TcpStream::connect(server.local_addr()).expect("the server listens"))
        .collect();
    assert!(request(server.local_addr(), "GET", "/readyz").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(start.elapsed() < LONGEST_HEAD.0, "it had to wait for idle connections to end");
    let newest = idle.last_mut().expect("there are some");
    newest.set_read_timeout(Some(LONGEST_CONNECTION)).expect("set");
    assert_eq!(newest.read(&mut [0]).expect("closed by the server, not by the test's timeout"), 0);
}

#[test]
fn a_server_that_is_dropped_frees_its_port() {
    let is_freed = || {
        let (_program, server) = served(Registry::new());
        let address = server.local_addr();
        server.stop();
        TcpStream::connect(address).is_err() && Listener::bind(address).is_ok()
    };
    // Another program may take a port at once, but not each time.
    assert!((0..5).any(|_| is_freed()));
}

#[test]
fn the_unspecified_address_accepts_ipv4_too() {
    let listener = Listener::bind(any(Ipv6Addr::UNSPECIFIED)).expect("a free port");
    TcpStream::connect((Ipv4Addr::LOCALHOST, listener.local_addr().port())).expect("an IPv4 connection");
}

#[test]
fn a_port_in_use_is_reported_with_what_to_do() {
    let first = Listener::bind(any(Ipv4Addr::LOCALHOST)).expect("a free port");
    let address = first.local_addr();
    let error = Listener::bind(address).expect_err("the port is taken");
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {address}: another program uses this port: choose another one with `--listen` or \
             KOOPER_LISTEN, such as `--listen [::]:8081`, or `--listen off`"
        )
    );
    let every = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
    let error = Listener::bind(every).expect_err("the port is taken for every address too");
    assert!(error.to_string().contains("another program uses this port"), "{error}");
}

#[test]
fn an_address_of_another_machine_is_reported_with_what_to_do() {
    let error = Listener::bind("192.0.2.1:0".parse().expect("an address")).expect_err("not ours");
    assert!(error.to_string().contains("no interface of this machine has this address"), "{error}");
}
