//! The status page of a controller with a million keys: how long a page takes, what it allocates, and how long
//! it holds locks that workers need.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::http::Listener;
use kooper::retriever::channel;
use kooper::{CancellationToken, Controller, Health, ObjectKey, Operator, prometheus};
use kooper_bench::{Usage, longest_held};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::{block_in_place, spawn_blocking};

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 1_000_000)]
    objects: usize,
    /// Number of reads of each page.
    #[arg(long, default_value_t = 20)]
    pages: usize,
}

/// Behavior of the handler.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Hangs,
    Fails,
    Succeeds,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let Arguments { objects, pages } = Arguments::parse();
    let (retriever, _events) = channel((0..objects).map(config))?;
    let (mode, modes) = watch::channel(Mode::Hangs);
    let (keys, mut more) = mpsc::unbounded_channel::<ObjectKey>();
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    let controller = Controller::builder::<ConfigMap>("pages")
        .resync(Duration::from_secs(86_400))
        .workers(4)
        .timeout(None)
        .retriever(retriever)
        .source(stream::poll_fn(move |context| more.poll_recv(context)))
        .handler(move || {
            let (mut modes, called) = (modes.clone(), called.clone());
            async move {
                let mode = modes.wait_for(|mode| *mode != Mode::Hangs).await.map_or(Mode::Succeeds, |mode| *mode);
                called.fetch_add(1, Ordering::SeqCst);
                if mode == Mode::Fails { Err("the shop is closed until the till is repaired") } else { Ok(()) }
            }
        })
        .build()?;
    let health = Health::default();
    let operator = Operator::builder().program("bench").health(health.clone()).controller(controller).build()?;
    let listener = Listener::bind("127.0.0.1:0".parse()?)?.status_page("bench");
    let server = listener.serve(prometheus::Registry::new(), health, Handle::current())?;
    let (stop, address) = (CancellationToken::new(), server.local_addr());
    let running = tokio::spawn(operator.run(stop.clone()));

    println!("{objects} keys; each page {pages} times; MB are 10⁶ bytes\n");
    println!(
        "| keys | search | median, ms | longest, ms | longest lock, ms of CPU | page, KB | peak RSS more by, MB |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|");
    let known = format!("<dt>known keys</dt><dd>{}</dd>", grouped(objects));
    until(|| get(address, "").contains(&known)).await;
    measure("wait for a worker", address, objects, pages)?;
    mode.send_replace(Mode::Fails);
    until(|| calls.load(Ordering::SeqCst) >= objects).await;
    measure("have failed", address, objects, pages)?;
    mode.send_replace(Mode::Succeeds);

    let all: Vec<ObjectKey> = (0..objects).map(|index| key(&config(index))).collect();
    let round = async || {
        let (began, before) = (Instant::now(), calls.load(Ordering::SeqCst));
        for key in &all {
            keys.send(key.clone())?;
        }
        until(|| calls.load(Ordering::SeqCst) >= before + objects).await;
        anyhow::Ok(began.elapsed().as_secs_f64())
    };
    // The first one makes all of them succeed.
    round().await?;
    measure("wait for their resync", address, objects, pages)?;

    println!(
        "\n| {objects} calls | wall, s | pages meanwhile | pages cut off | longest lock, ms of CPU |\n|---|--:|--:|--:|--:|"
    );
    for polled in [false, true, false, true] {
        longest_held();
        let ended = Arc::new(AtomicBool::new(false));
        let until_then = ended.clone();
        let reader = spawn_blocking(move || {
            let (mut read, mut cut_off) = (0, 0);
            while polled && !until_then.load(Ordering::SeqCst) {
                // The server ends a connection after ten seconds.
                let counter = if get(address, "?q=object-1").contains("</html>") { &mut read } else { &mut cut_off };
                *counter += 1;
            }
            (read, cut_off)
        });
        let wall = round().await?;
        ended.store(true, Ordering::SeqCst);
        let ((read, cut_off), held) = (reader.await?, milliseconds(longest_held()));
        let beside = if polled { "beside pages" } else { "alone" };
        println!("| {beside} | {wall:.2} | {read} | {cut_off} | {held:.2} |");
    }
    stop.cancel();
    running.await??;
    Ok(())
}

/// Reads the page without a search, of one key, of none, and of all keys.
fn measure(keys: &str, address: SocketAddr, objects: usize, pages: usize) -> anyhow::Result<()> {
    let usage = Usage::of(std::process::id());
    let last = objects - 1;
    let searches = [
        ("none", String::new()),
        ("one key", format!("?q=team-{}/object-{last}", last % 1000)),
        ("no key", "?q=absent".to_owned()),
        ("every key", "?q=object".to_owned()),
    ];
    for (search, query) in searches {
        usage.forget_peak()?;
        let before = usage.resident()?;
        longest_held();
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..pages {
            let began = Instant::now();
            bytes = block_in_place(|| get(address, &query)).len();
            times.push(began.elapsed());
        }
        times.sort();
        let (median, longest) = (times.get(pages / 2).context("no page")?, times.last().context("no page")?);
        println!(
            "| {keys} | {search} | {:.1} | {:.1} | {:.2} | {} | {:.1} |",
            milliseconds(*median),
            milliseconds(*longest),
            milliseconds(longest_held()),
            bytes / 1000,
            usage.peak()? - before
        );
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A number as the page shows it.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join("\u{a0}")
}

/// The page, with the head of the response.
fn get(address: SocketAddr, query: &str) -> String {
    let read = || {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET /status{query} HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        std::io::Result::Ok(page)
    };
    read().unwrap_or_default()
}

async fn until(holds: impl Fn() -> bool) {
    while !block_in_place(&holds) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A small object.
fn config(index: usize) -> ConfigMap {
    let object = json!({"metadata": {
        "name": format!("object-{index}"),
        "namespace": format!("team-{}", index % 1000),
        "uid": format!("00000000-0000-0000-0000-{index:012}"),
        "resourceVersion": "1",
    }});
    serde_json::from_value(object).unwrap_or_default()
}

fn key(config: &ConfigMap) -> ObjectKey {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    ObjectKey::namespaced(&part(&config.metadata.namespace), &part(&config.metadata.name))
}
