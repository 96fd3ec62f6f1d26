//! Measures how long two replicas believe that they lead at the same time, with ours and with
//! client-go, on a real API server.

use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::faults::Proxy;
use kooper_tests::process::Process;
use serde_json::json;

#[derive(Parser)]
struct Arguments {
    /// The folder with `goleader`.
    #[arg(long)]
    peers: PathBuf,
    /// The folder with `bench-leader`.
    #[arg(long)]
    binaries: PathBuf,
    /// Runs of each program with each fault, each at another moment between two renewals.
    #[arg(long, default_value_t = 5)]
    runs: u32,
}

/// A program that leads.
struct Subject {
    name: &'static str,
    program: PathBuf,
    flags: &'static [&'static str],
}

/// Fault that affects the leader.
#[derive(Clone, Copy)]
enum Fault {
    /// Its connection is cut, and new ones hang.
    Cut,
    /// Answers come 8 s late, and after these it is cut.
    SlowThenCut,
    /// Requests go through, and answers do not come any more.
    Silent,
    /// Its connection is well, and somebody else is written into the Lease, who leads from then on.
    Foreign,
}

const FAULTS: [(Fault, &str); 4] = [
    (Fault::Cut, "cut off"),
    (Fault::SlowThenCut, "an answer 8 s late, then cut off"),
    (Fault::Silent, "answers no more"),
    (Fault::Foreign, "somebody else is in the Lease"),
];

/// Longer than any leader goes on.
const AFTERWARDS: Duration = Duration::from_secs(15);

/// Longer than a renew deadline, and shorter than a lease: nobody takes it back meanwhile.
const AFTER_FOREIGN: Duration = Duration::from_secs(12);

fn main() -> anyhow::Result<()> {
    let Arguments { peers, binaries, runs } = Arguments::parse();
    let cluster = ControlPlane::start_with(&["--without-controller-manager"]).context("there is no control plane")?;
    let go = |name, flags| Subject { name, program: peers.join("goleader"), flags };
    let subjects = [
        go("client-go", &[]),
        go("client-go, requests end after 5 s", &["--timeout", "5s"]),
        Subject { name: "kooper", program: binaries.join("bench-leader"), flags: &[] },
    ];
    println!("| program | fault | both lead: worst | each run | nobody leads: longest |\n|---|---|---|---|---|");
    for (fault, told) in FAULTS {
        // All at once: timers decide what is measured, and the machine idles.
        let rows = thread::scope(|scope| {
            let cluster = &cluster;
            let spawn = |subject, run| scope.spawn(move || windows(cluster, subject, fault, run));
            let running: Vec<(&str, Vec<_>)> =
                subjects.iter().map(|one| (one.name, (0..runs).map(|run| spawn(one, run)).collect())).collect();
            running
                .into_iter()
                .map(|(name, runs)| (name, runs.into_iter().map(ScopedJoinHandle::join).collect()))
                .collect::<Vec<_>>()
        });
        for (name, row) in rows {
            let row: Vec<thread::Result<anyhow::Result<f64>>> = row;
            let row = row.into_iter().map(|run| run.unwrap_or_else(|_| anyhow::bail!("{name} broke down")));
            let both = row.collect::<anyhow::Result<Vec<f64>>>()?;
            let worst = both.iter().copied().fold(0.0, f64::max);
            let nobody = both.iter().map(|both| -both).fold(0.0, f64::max);
            let each: Vec<_> = both.iter().map(|both| format!("{:.1}", both.max(0.0))).collect();
            println!("| {name} | {told} | {worst:.1} s | {} | {nobody:.1} s |", each.join(", "));
        }
    }
    Ok(())
}

/// For how many seconds both lead; below zero, for how many nobody does.
fn windows(cluster: &ControlPlane, subject: &Subject, fault: Fault, run: u32) -> anyhow::Result<f64> {
    let letters = subject.name.chars().filter(char::is_ascii_lowercase).collect::<String>();
    let namespace = format!("{letters}-{}-{run}", fault as u8);
    let object = |kind: &str, metadata| json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
    cluster.apply([
        object("Namespace", json!({"name": namespace})),
        object("ConfigMap", json!({"name": "work", "namespace": namespace})),
    ]);
    let proxy = Proxy::start(cluster.address());
    let (direct, proxied) = (cluster.address().to_string(), proxy.address().to_string());
    let behind = cluster.kubeconfig_with(&namespace, |text| text.replace(&direct, &proxied));
    let start = |kubeconfig: &std::path::Path| {
        let kubeconfig = kubeconfig.display().to_string();
        let program = subject.program.display().to_string();
        let common = ["--kubeconfig", &kubeconfig, "--namespace", &namespace];
        Process::start(&program, &[&common, subject.flags].concat(), &[])
    };
    let leader = start(&behind);
    leader.wait_for_line(&["leads"]);
    let standby = start(cluster.kubeconfig());
    // It has seen a renewal by then. Renewals come every two seconds.
    thread::sleep(Duration::from_secs(6) + Duration::from_millis(370) * run);
    match fault {
        Fault::Cut => proxy.shut(),
        Fault::Silent => proxy.hold_answers(),
        Fault::SlowThenCut => {
            proxy.hold_answers();
            thread::sleep(Duration::from_secs(8));
            proxy.open();
            thread::sleep(Duration::from_millis(200));
            proxy.shut();
        }
        Fault::Foreign => {
            let patch = r#"{"spec":{"holderIdentity":"somebody"}}"#;
            let place = format!("--namespace={namespace}");
            cluster.must(&["patch", "lease", "leader", "--type=merge", "--patch", patch, &place]);
            let taken = uptime()?;
            thread::sleep(AFTER_FOREIGN);
            let last = times(&leader).last().copied().context("nobody led")?;
            return Ok((last - taken).max(0.0));
        }
    }
    standby.wait_for_line(&["leads"]);
    thread::sleep(AFTERWARDS);
    let (old, new) = (times(&leader), times(&standby));
    let (last, first) = (old.last().context("nobody led")?, new.first().context("nobody followed")?);
    Ok(last - first)
}

/// When a replica said that it leads, by the machine's uptime.
fn times(process: &Process) -> Vec<f64> {
    process.lines().iter().filter_map(|line| line.strip_prefix("leads ")?.parse().ok()).collect()
}

fn uptime() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}
