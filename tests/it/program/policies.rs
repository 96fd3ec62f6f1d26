//! The page about rules without a webhook, command by command, on a real API server.

use std::fs;
use std::path::Path;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::dev::Home;
use kooper_tests::wait::until;
use kube::CustomResourceExt;

include!("policies/shop.rs");

const PAGE: &str = include_str!("../../../docs/guide/23-rules-without-a-webhook.md");

/// The language and the lines of each block of the page.
fn blocks() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGE.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

/// The words of a command; single quotes keep one together.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in command.split('\'').enumerate() {
        if at % 2 == 1 {
            words.last_mut().expect("there is one").push_str(part);
            continue;
        }
        let mut pieces = part.split(' ');
        words.last_mut().expect("there is one").push_str(pieces.next().unwrap_or_default());
        words.extend(pieces.map(str::to_owned));
    }
    words
}

/// Runs a command of the page in a folder, and returns what a terminal shows.
fn run(cluster: &ControlPlane, folder: &Path, command: &str) -> String {
    if command == "shop crd | kubectl apply --server-side -f -" {
        let crd = serde_json::to_string(&Shop::crd()).expect("JSON");
        let stdout = cluster.apply_text(&["--server-side"], &crd);
        cluster.must(&["wait", "--for=condition=Established", "crd/shops.example.com"]);
        return stdout;
    }
    let words = words(command);
    let [program, args @ ..] = &words[..] else { panic!("no command") };
    assert_eq!(program, "kubectl");
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let output = cluster.kubectl_command(&args).current_dir(folder).output().expect("kubectl can be run");
    // Warnings come before the result.
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_command_of_the_page_about_rules_has_the_output_that_it_shows() {
    let rust: Vec<_> = blocks().filter(|(language, _)| *language == "rust").map(|(_, text)| text).collect();
    assert_eq!(rust, [include_str!("policies/shop.rs").trim_end()]);
    // The policies are for the whole cluster.
    let Some(cluster) = ControlPlane::pooled() else { return };
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "policies");
    cluster.must(&["create", "role", "shop", "--verb=create,get", "--resource=configmaps"]);
    cluster.must(&["create", "rolebinding", "shop", "--role=shop", "--serviceaccount=shops:shop"]);
    let mut commands = 0;
    for (language, text) in blocks() {
        match language {
            "yaml" => {
                let name = text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("it names the file");
                fs::write(home.path().join(name), text).expect("the folder can be written to");
            }
            "text" => {
                for step in text.split("$ ").skip(1) {
                    let (command, shown) = step.split_once('\n').unwrap_or((step, ""));
                    // A policy takes a moment. What is repeated until then changes nothing.
                    let output = || trimmed(&run(&cluster, home.path(), command));
                    until(command, || (output() == shown.trim_end()).then_some(()), output);
                    commands += 1;
                }
            }
            _ => {}
        }
    }
    assert_eq!(commands, 21, "all commands are found");
}
