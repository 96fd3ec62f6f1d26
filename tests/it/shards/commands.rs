//! The commands for shards: `dev --replicas`, `shards` and `check`.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use kooper_tests::dev::Home;
use kooper_tests::process::{Process, call};
use kooper_tests::wait::{eventually, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shared");

/// `dev` with several replicas, and its kubeconfig.
struct Replicas {
    process: Process,
    kubeconfig: PathBuf,
}

impl Replicas {
    fn start(home: &Home, count: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["dev", "--port", "0", "--replicas", count]).env("XDG_STATE_HOME", home.path());
        let process = Process::interactive(&mut command);
        let line = process.wait_for_line(&["  export KUBECONFIG="]);
        let kubeconfig = line.split_once('=').expect("a path follows").1.trim_matches('\'').into();
        Self { process, kubeconfig }
    }

    /// Runs a command of the program: whether it succeeds, and what it writes.
    fn call(&self, args: &[&str]) -> (bool, String) {
        let mut command = Command::new(PROGRAM);
        command.args(args).arg("--kubeconfig").arg(&self.kubeconfig).args(["--lease-namespace", "default"]);
        let (done, stdout, stderr) = call(&mut command);
        (done, stdout + &stderr)
    }

    fn must(&self, args: &[&str]) -> String {
        let (done, text) = self.call(args);
        assert!(done, "{text}");
        text
    }

    fn refuses(&self, args: &[&str], why: &str) {
        let (done, text) = self.call(args);
        assert!(!done && text.contains(why), "{text}");
    }

    /// The replicas with their shards and states; none before there is a map.
    fn table(&self) -> Vec<(String, usize, String)> {
        let text = self.call(&["shards"]).1;
        let rows =
            text.lines().skip_while(|line| !line.starts_with("REPLICA")).skip(1).take_while(|line| !line.is_empty());
        let row = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [replica, shards, _, "ago", state] => Some((replica.to_owned(), shards.parse().ok()?, state.to_owned())),
            _ => None,
        };
        rows.filter_map(row).collect()
    }

    /// Waits until the replicas, ordered by identity, have this many shards and these states.
    fn wait_for(&self, expected: &[(usize, &str)]) -> Vec<String> {
        let rows = || {
            let mut rows = self.table();
            rows.sort();
            rows
        };
        let found = |rows: Vec<(String, usize, String)>| {
            let is_it = rows.iter().map(|(_, shards, state)| (*shards, &**state)).eq(expected.iter().copied());
            is_it.then(|| rows.into_iter().map(|(replica, ..)| replica).collect())
        };
        until("the shards have moved", || found(rows()), || format!("{:?}", rows()))
    }
}

#[test]
fn replicas_of_dev_share_shards_that_a_person_moves_and_are_stopped_and_started() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "shards");
    let mut dev = Replicas::start(&home, "2");
    let replicas = dev.wait_for(&[(16, "works"), (16, "works")]);
    let (first, second) = (&*replicas[0], &*replicas[1]);

    dev.must(&["shards", "--drain", first]);
    dev.wait_for(&[(0, "drained"), (32, "works")]);
    let check = dev.call(&["check"]).1;
    assert!(check.contains("ok       shards of controller shared: 32 by uid, all owned, 2 replicas"), "{check}");
    assert!(check.contains(&format!("the replica {first} is drained")), "{check}");
    dev.refuses(&["shards", "--drain", second], "is the only replica that is not drained");
    dev.refuses(&["shards", "--move", &format!("3={first}")], "is drained: undo this first");
    dev.must(&["shards", "--undo-drain", first]);
    dev.wait_for(&[(16, "works"), (16, "works")]);
    let all = |flag: &str, to: &str| (0..32).map(|shard| format!("{flag}={shard}{to}")).collect::<Vec<String>>();
    let change = |flags: Vec<String>| {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        dev.must(&[&["shards"], &flags[..]].concat());
    };
    change(all("--move", &format!("={first}")));
    dev.wait_for(&[(32, "works"), (0, "works")]);
    dev.refuses(&["shards", "--move", "40=x"], "there is no shard 40: the shards are 0 to 31");
    dev.refuses(&["shards", "--move", "3=x"], "there is no replica `x`: those that run are ");
    dev.refuses(&["shards", "--controller", "x"], "no controller `x` with shards: those with shards are `shared`");
    change(all("--undo-move", ""));
    dev.wait_for(&[(16, "works"), (16, "works")]);

    dev.process.write("2");
    dev.process.wait_for_line(&["[2] has stopped (exit status: 0)"]);
    dev.wait_for(&[(32, "works")]);
    // The task of a shard follows it.
    dev.process.wait_for_line(&["[1] ", "swept"]);
    dev.process.write("2");
    dev.wait_for(&[(16, "works"), (16, "works")]);
    let takes_over = ["[2] ", "works on 32 of 32 shards"];
    let before = dev.process.count(&takes_over);
    dev.process.write("kill 1");
    dev.process.wait_for_line(&["[1] has stopped (signal: 9"]);
    dev.process.wait_for_lines(before + 1, &takes_over);
    dev.process.wait_for_line(&["[2] ", "swept"]);
    dev.wait_for(&[(32, "works")]);
    dev.process.write("three");
    dev.process.wait_for_line(&["write a number from 1 to 2"]);
    dev.process.signal("INT");
    assert_eq!(dev.process.exit_code(), Some(0), "{}", dev.process.lines().join("\n"));
    assert_eq!(running(home.path()), 0);
}

/// The environments of the processes that keep their files in this folder, by their folders in `/proc`.
fn processes(home: &Path) -> Vec<(PathBuf, String)> {
    let home = format!("XDG_STATE_HOME={}", home.display());
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let environment = |process: PathBuf| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        (process, environment)
    };
    let is_of_home = |(_, environment): &(PathBuf, String)| environment.split('\0').any(|variable| variable == home);
    processes.map(environment).filter(is_of_home).collect()
}

/// The number of processes that keep their files in this folder.
fn running(home: &Path) -> usize {
    processes(home).len()
}

#[test]
fn a_second_signal_ends_replicas_of_dev_that_do_not_stop_with_the_exit_code_of_the_signal() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "shards-twice");
    let mut dev = Replicas::start(&home, "2");
    dev.wait_for(&[(16, "works"), (16, "works")]);
    let is_replica = |(_, environment): &(PathBuf, String)| environment.contains("KOOPER_DEV_REPLICA=");
    let replicas: Vec<_> = processes(home.path()).into_iter().filter(is_replica).collect();
    assert_eq!(replicas.len(), 2);
    for (process, _) in &replicas {
        let paused =
            Command::new("kill").arg("-STOP").arg(process.file_name().expect("a process id")).status().unwrap();
        assert!(paused.success());
    }
    dev.process.signal("INT");
    dev.process.wait_for_line(&["SIGINT: the replicas stop; a second signal ends them at once"]);
    dev.process.signal("INT");
    assert_eq!(dev.process.exit_code(), Some(130), "{}", dev.process.lines().join("\n"));
    assert_eq!(running(home.path()), 0);
}

#[test]
fn no_replica_of_dev_is_left_when_its_process_is_killed() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "shards-killed");
    let dev = Replicas::start(&home, "2");
    dev.wait_for(&[(16, "works"), (16, "works")]);
    assert_eq!(running(home.path()), 3);
    dev.process.signal("KILL");
    eventually("the replicas have ended", || running(home.path()) == 0);
}

#[test]
fn several_replicas_need_shards_or_leader_election_and_a_port_each() {
    let refuses = |program: &str, args: &[&str], why: &str| {
        let output = Command::new(program).args(["dev", "--replicas", "2"]).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(why), "{text}");
    };
    refuses(env!("CARGO_BIN_EXE_echo"), &[], "has neither shards nor leader election: write `shards = 32`");
    refuses(PROGRAM, &["--listen", "127.0.0.1:8080"], "remove `--listen`, or write `--listen 127.0.0.1:0`");
}
