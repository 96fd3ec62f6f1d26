//! Times for which shards are without a call when replicas join, stop, crash, pause or lose the API server, and what
//! they receive.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kooper_bench::Proxy;
use kooper_tests::control_plane::ControlPlane;
use tokio::runtime::Runtime;

use crate::objects::Objects;
use crate::replica::{Call, Counts, Field, SHARDS};
use crate::{Follows, Replica, Selector, are_balanced, calls, now, prepare, quiet};

/// The replicas that share the objects.
const REPLICAS: usize = 3;

/// An object of each shard is changed so often, so that each gap is measured with this error, upwards.
const PERIOD: Duration = Duration::from_millis(100);

/// Longer than a session is valid without a renewal.
const OUTAGE: Duration = Duration::from_secs(30);

/// Changes of owners for which the network is measured.
const CHANGES: usize = 2_000;

/// Changes a second.
const RATE: u32 = 200;

pub(crate) fn measure(owners: usize, rounds: usize, selectors: &[Selector]) -> Result<()> {
    println!("| selector | figure | measured | aim |\n|---|---|--:|--:|");
    for selector in selectors {
        let (gate, selector) = selector.gate();
        let (cluster, runtime, objects) = prepare(gate, owners, false)?;
        let mut fleet =
            Fleet { cluster: &cluster, runtime: &runtime, objects: &objects, replicas: Vec::new(), calls: Vec::new() };
        let row =
            |figure: &str, measured: String, aim: &str| println!("| {selector} | {figure} | {measured} | {aim} |");
        fleet.measure(rounds, selector == "applied", &row)?;
    }
    let (cluster, runtime, objects) = prepare(Selector::Ignored.gate().0, owners, true)?;
    let mut fleet =
        Fleet { cluster: &cluster, runtime: &runtime, objects: &objects, replicas: Vec::new(), calls: Vec::new() };
    for _ in 0..REPLICAS {
        fleet.start(Follows::Shards(Field::Namespace))?;
    }
    fleet.balanced()?;
    let spread = fleet.spread(|counts| counts.objects);
    println!("| — | objects of a replica, by namespaces of different sizes, most of the mean | {spread} | 1.3 |");
    fleet.replicas.drain(..).try_for_each(Replica::stop)
}

/// Prints a figure, as it was measured and as it should be.
type Row<'a> = dyn Fn(&str, String, &str) + 'a;

/// Some replicas, each behind a proxy of its own.
struct Fleet<'a> {
    cluster: &'a ControlPlane,
    runtime: &'a Runtime,
    objects: &'a Objects,
    replicas: Vec<Replica>,
    /// The calls of replicas that have ended.
    calls: Vec<Call>,
}

impl Fleet<'_> {
    fn measure(&mut self, rounds: usize, is_applied: bool, row: &Row<'_>) -> Result<()> {
        let of_one = self.one_without_shards()?;
        for _ in 0..REPLICAS {
            self.start(Follows::Shards(Field::Uid))?;
        }
        self.balanced()?;
        let requests = self.requests();
        let changing = self.runtime.spawn(self.objects.keep_changing(SHARDS, PERIOD));
        self.hand_overs(rounds, row)?;
        self.failures(requests, row)?;
        changing.abort();
        self.traffic(of_one, is_applied, row)?;
        self.check()?;
        self.replicas.drain(..).try_for_each(Replica::stop)
    }

    /// Replaces replicas one after another.
    fn hand_overs(&mut self, rounds: usize, row: &Row<'_>) -> Result<()> {
        let begun = now();
        for _ in 0..rounds {
            self.replace_first()?;
        }
        let mut gaps = self.gaps(begun);
        gaps.sort_unstable();
        let (count, last) = (gaps.len(), *gaps.last().context("no shard has changed hands")?);
        row(&format!("hand-over in roll-outs, p99 of {count}"), millis(gaps[(count - 1) * 99 / 100]), "250 ms");
        row("hand-over in roll-outs, longest", millis(last), "2 250 ms");
        row("shards of a replica, most of the mean", self.spread(|counts| counts.shards), "1.15");
        row("objects of a replica, most of the mean", self.spread(|counts| counts.objects), "1.3");
        Ok(())
    }

    /// Ends, pauses and cuts off a replica each, and stops the API server. A start of all takes this many `requests`.
    fn failures(&mut self, requests: usize, row: &Row<'_>) -> Result<()> {
        let killed = now();
        let mut replica = self.replicas.remove(0);
        replica.process.kill()?;
        replica.process.wait()?;
        self.calls.append(&mut replica.calls.lock());
        self.balanced()?;
        row("taken over after SIGKILL, longest", self.longest_since(killed)?, "16 s");
        self.start(Follows::Shards(Field::Uid))?;
        self.balanced()?;

        let paused = now();
        self.signal("-STOP")?;
        self.balanced_without_first()?;
        row("taken over after SIGSTOP, longest", self.longest_since(paused)?, "16 s");
        self.signal("-CONT")?;
        self.balanced()?;

        let cut = now();
        self.first_proxy()?.shut();
        self.balanced_without_first()?;
        row("taken over after a partition, longest", self.longest_since(cut)?, "16 s");
        self.first_proxy()?.open();
        self.balanced()?;

        self.cluster.stop_apiserver();
        thread::sleep(OUTAGE);
        self.cluster.start_apiserver();
        let (back, before) = (now(), self.requests());
        self.balanced()?;
        row("all shards handled again after an outage", self.longest_since(back)?, "20 s");
        let after = (self.requests() - before) as f64 / requests as f64;
        row("requests after the outage, of a start", format!("{after:.2}"), "2");
        Ok(())
    }

    /// Replaces all replicas, and changes objects.
    fn traffic(&mut self, (whole, of_changes): (u64, u64), is_applied: bool, row: &Row<'_>) -> Result<()> {
        for _ in 0..REPLICAS {
            self.replace_first()?;
        }
        let received = |fleet: &Self| fleet.replicas.iter().map(Replica::received).collect::<Vec<_>>();
        let (first, share) = (received(self), REPLICAS as f64);
        let last = *first.last().context("a replica")? as f64 / whole as f64;
        // Without the selector, each replica receives all owners.
        let aim = if is_applied { format!("{:.2}", 1.1 / share) } else { "—".to_owned() };
        row("received until all is handled, of one", format!("{last:.2}"), &aim);
        self.change()?;
        let changes = received(self).iter().zip(&first).map(|(after, before)| after - before).sum::<u64>() as f64;
        row("received for changes, of one", format!("{:.2}", changes / share / of_changes as f64), &aim);
        Ok(())
    }

    fn replace_first(&mut self) -> Result<()> {
        self.start(Follows::Shards(Field::Uid))?;
        self.balanced()?;
        self.stop_first()?;
        self.balanced()
    }

    /// The most of a replica, as a part of the mean.
    fn spread(&self, of: fn(&Counts) -> usize) -> String {
        let loads: Vec<usize> = self.replicas.iter().map(|replica| of(&replica.counts())).collect();
        let (most, sum) = (loads.iter().max().copied().unwrap_or_default(), loads.iter().sum::<usize>());
        format!("{:.2}", most as f64 * loads.len() as f64 / sum as f64)
    }

    /// The data that a replica without shards receives until all objects are handled, and for changes of them.
    fn one_without_shards(&mut self) -> Result<(u64, u64)> {
        self.start(Follows::All)?;
        let owners = self.objects.owners();
        quiet(&self.replicas, |counts| counts.iter().all(|one| one.calls >= owners && one.objects >= 2 * owners))?;
        let whole = self.replicas.iter().map(Replica::received).sum::<u64>();
        self.change()?;
        let changes = self.replicas.iter().map(Replica::received).sum::<u64>() - whole;
        self.stop_first()?;
        self.calls.clear();
        Ok((whole, changes))
    }

    fn change(&self) -> Result<()> {
        let before = calls(&self.replicas.iter().map(Replica::counts).collect::<Vec<_>>());
        self.runtime.block_on(self.objects.change(CHANGES, RATE))?;
        quiet(&self.replicas, |counts| calls(counts) >= before + CHANGES)
    }

    fn start(&mut self, follows: Follows) -> Result<()> {
        let server = self.cluster.address();
        let proxy = self.runtime.block_on(Proxy::start(server))?;
        let (server, proxied) = (server.to_string(), proxy.address().to_string());
        let kubeconfig = self.cluster.kubeconfig_with(&proxied, |text| text.replace(&server, &proxied));
        self.replicas.push(Replica::start(&kubeconfig, follows, Some(proxy))?);
        Ok(())
    }

    fn stop_first(&mut self) -> Result<()> {
        let replica = self.replicas.remove(0);
        let calls = replica.calls.clone();
        replica.stop()?;
        self.calls.append(&mut calls.lock());
        Ok(())
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let process = &self.replicas.first().context("a replica")?.process;
        let status = Command::new("kill").args([signal, &process.id().to_string()]).status()?;
        ensure!(status.success(), "kill {signal} has failed");
        Ok(())
    }

    fn first_proxy(&self) -> Result<&Proxy> {
        self.replicas.first().and_then(|replica| replica.proxy.as_ref()).context("a replica behind a proxy")
    }

    fn requests(&self) -> usize {
        self.replicas.iter().map(|replica| replica.counts().requests).sum()
    }

    /// Waits until the replicas share all shards and objects.
    fn balanced(&self) -> Result<()> {
        self.wait_for(&self.replicas)
    }

    fn balanced_without_first(&self) -> Result<()> {
        self.wait_for(self.replicas.get(1..).unwrap_or_default())
    }

    fn wait_for(&self, replicas: &[Replica]) -> Result<()> {
        let all = 2 * self.objects.owners();
        let deadline = Instant::now() + Duration::from_secs(120);
        // Objects are changed all the time, so the counts of calls never rest.
        loop {
            let counts: Vec<_> = replicas.iter().map(Replica::counts).collect();
            if are_balanced(&counts) && counts.iter().map(|one| one.objects).sum::<usize>() >= all {
                // The calls of the last shards are read, too.
                thread::sleep(Duration::from_secs(1));
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the shards are not balanced: {counts:?}");
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The calls of each shard, in the order of their time.
    fn by_shard(&self) -> BTreeMap<u16, Vec<Call>> {
        let mut shards = BTreeMap::<u16, Vec<Call>>::new();
        let running = self.replicas.iter().flat_map(|replica| replica.calls.lock().clone());
        for call in self.calls.iter().copied().chain(running) {
            shards.entry(call.shard).or_default().push(call);
        }
        shards.values_mut().for_each(|calls| calls.sort_unstable_by_key(|call| call.at));
        shards
    }

    /// The times from the last call in one term until the first one in the next.
    fn gaps(&self, since: u64) -> Vec<Duration> {
        let pairs = |calls: Vec<Call>| {
            let pairs = calls.windows(2).filter(|pair| pair[0].at >= since && pair[0].term != pair[1].term);
            pairs.map(|pair| Duration::from_micros(pair[1].at - pair[0].at)).collect::<Vec<_>>()
        };
        self.by_shard().into_values().flat_map(pairs).collect()
    }

    /// The time until each shard that was not handled for longer than a few changes is handled again.
    fn longest_since(&self, since: u64) -> Result<String> {
        let pause = 20 * PERIOD.as_micros() as u64;
        let is_first =
            |pair: &&[Call]| pair[1].at >= since && (pair[1].term != pair[0].term || pair[1].at - pair[0].at > pause);
        let first = |calls: &Vec<Call>| Some(Duration::from_micros(calls.windows(2).find(is_first)?[1].at - since));
        let longest = self.by_shard().values().filter_map(first).max().context("no shard has changed hands")?;
        Ok(format!("{:.1} s", longest.as_secs_f64()))
    }

    /// No call is in an earlier term than one before it.
    fn check(&self) -> Result<()> {
        for (shard, calls) in self.by_shard() {
            let in_two_hands = calls.windows(2).find(|pair| pair[0].term > pair[1].term);
            ensure!(in_two_hands.is_none(), "the shard {shard} was in two hands: {in_two_hands:?}");
        }
        Ok(())
    }
}

fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
