//! The flags of the program's own settings.

use std::fs;

use clap::{ArgAction, Args, ValueEnum};

use super::*;
use crate::Declared;
use kooper_access::SecretValue;
use kooper_runtime::internal::error::redaction::redact;

/// This is not the description of the program.
#[derive(Debug, Args)]
struct Shop {
    /// How customers are greeted
    #[arg(long, short, env = "SHOP_TEST_GREETING", default_value = "hello")]
    greeting: String,
    /// The token of the warehouse
    #[arg(long, env = "SHOP_TEST_TOKEN")]
    token: SecretValue,
    /// Its id is that of another flag
    #[arg(long = "shop-workers")]
    workers: Option<u8>,
    /// This is called as one of clap's
    #[arg(long = "api-version", id = "version")]
    version: Option<String>,
    #[arg(long, value_delimiter = ',')]
    days: Vec<u8>,
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
    open: Vec<String>,
    #[arg(long)]
    dry: bool,
    #[arg(short = 'q', action = ArgAction::Count)]
    quiet: u8,
    #[arg(long, value_enum, default_value_t = Size::Small)]
    size: Size,
    /// The name of the test, which cargo sets
    #[arg(long, env = "CARGO_PKG_NAME")]
    package: Option<String>,
    #[command(flatten)]
    till: Till,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Size {
    Small,
    Large,
}

#[derive(Debug, Args)]
#[group(id = "till", multiple = false)]
struct Till {
    #[arg(long)]
    cash: bool,
    #[arg(long)]
    card: Option<String>,
}

fn own<T: crate::ProgramSettings>() -> Result<OwnSettings, String> {
    let mut declared = Declared::default();
    declared.add::<T>();
    declared.add::<T>();
    let only = declared.only().expect("one type").expect("a type");
    OwnSettings::new(only).map_err(|error| error.to_string())
}

fn read_with(line: &[&str], environment: &[(&str, &str)]) -> Result<(Subcommand, Settings), String> {
    read_of::<Shop>(line, environment)
}

fn read_of<T: crate::ProgramSettings>(
    line: &[&str],
    environment: &[(&str, &str)],
) -> Result<(Subcommand, Settings), String> {
    let own = own::<T>().expect("no flag is taken");
    let doc = [" Sells", " shoes.", "", " And socks."];
    let program = ProgramInfo { doc: &doc, own: Some(&own), ..ECHO };
    let environment: HashMap<_, _> = environment.iter().copied().collect();
    let line = ["echo"].iter().chain(line).map(OsString::from);
    parse(&program, line, |name| environment.get(name).map(OsString::from))
        .map_err(|error| format!("{}: {error}", error.exit_code()))
}

fn shop(line: &[&str], environment: &[(&str, &str)]) -> std::sync::Arc<Shop> {
    let (_, settings) = read_with(line, environment).unwrap_or_else(|error| panic!("{line:?}: {error}"));
    settings.own.given.get::<Shop>().expect("the settings were read").0
}

fn refused(line: &[&str], environment: &[(&str, &str)]) -> String {
    read_with(line, environment).map(|_| ()).expect_err("the settings are invalid")
}

const TOKEN: &[&str] = &["--token", "s"];

#[test]
fn settings_may_be_before_and_after_the_command() {
    let given = &["--greeting", "hi", "--token=-x y", "--workers", "2"];
    for line in
        [given.to_vec(), [&["run"][..], given].concat(), [given, &["run"][..]].concat(), [&["dev"][..], given].concat()]
    {
        let shop = shop(&line, &[]);
        assert_eq!((&*shop.greeting, shop.token.expose()), ("hi", "-x y"), "{line:?}");
        let (_, settings) = read_with(&line, &[]).expect("good values");
        assert_eq!(settings.workers, Some(2));
    }
    let before = shop(&["-g", "hi", "run", "--token", "t"], &[]);
    assert_eq!((&*before.greeting, before.token.expose()), ("hi", "t"));
}

#[test]
fn every_kind_of_flag_is_read_as_the_type_describes_it() {
    let line = "--shop-workers 3 --api-version v1 --days 1,2 --days 3 --open 8 18 --dry -qq --size large --card visa";
    let line: Vec<_> = TOKEN.iter().copied().chain(line.split(' ')).collect();
    let all = shop(&line, &[]);
    assert_eq!((all.workers, all.version.as_deref(), &all.days[..]), (Some(3), Some("v1"), &[1, 2, 3][..]));
    assert_eq!((&all.open[..], all.dry, all.quiet), (&["8".to_owned(), "18".to_owned()][..], true, 2));
    assert_eq!((all.size, all.till.cash, all.till.card.as_deref()), (Size::Large, false, Some("visa")));
    let none = shop(TOKEN, &[]);
    assert_eq!((&*none.greeting, none.workers, none.days.len(), none.quiet), ("hello", None, 0, 0));
    assert_eq!(
        (none.dry, none.size, none.package.as_deref()),
        (false, Size::Small, None),
        "the variable is unset for the program"
    );
    let variable = shop(TOKEN, &[("CARGO_PKG_NAME", "is set")]);
    assert_eq!(variable.package.as_deref(), Some(env!("CARGO_PKG_NAME")), "clap reads the environment of the process");
}

#[test]
fn what_is_missing_or_wrong_is_reported_with_all_ways_to_set_it() {
    assert!(
        refused(&[], &[]).starts_with(
            "2: error: 1 setting is missing: set `--token <TOKEN>`, or the variable SHOP_TEST_TOKEN, or \
             `--token-file` or SHOP_TEST_TOKEN_FILE to a file with its value\n"
        ),
        "{}",
        refused(&[], &[])
    );
    let line = |more: &[&'static str]| TOKEN.iter().chain(more).copied().collect::<Vec<_>>();
    for (more, problem) in [
        (&["--shop-workers", "300"][..], "2: error: invalid value '300' for '--shop-workers <WORKERS>': "),
        (&["--days", "1,none"], "2: error: invalid value 'none' for '--days <DAYS>': "),
        (&["--size", "huge"], "2: error: invalid value 'huge' for '--size <SIZE>'\n  [possible values: small, large]"),
        (&["--cash", "--card", "visa"], "2: error: the argument '--cash' cannot be used with '--card <CARD>'"),
        (
            &["--greetin", "hi"],
            "2: error: unexpected argument '--greetin' found\n\n  tip: a similar argument exists: '--greeting'",
        ),
        (&["--token-file", "f"], "2: error: `--token` and `--token-file` exclude each other: remove one of them"),
    ] {
        let refused = refused(&line(more), &[]);
        assert!(refused.starts_with(problem), "{refused}");
    }
}

#[test]
fn commands_that_print_something_need_no_settings() {
    for name in ["crd", "rbac"] {
        let (_, settings) = read_with(&[name], &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(settings.own.given.get::<Shop>().is_none() && settings.own.problem.is_none());
        read_with(&[name, "--greeting", "hi"], &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    read_with(&["dev", "--clean"], &[]).expect("it only removes files");
    let (_, settings) = read_with(&["check"], &[]).expect("it reports what is missing");
    assert!(settings.own.problem.is_some_and(|problem| problem.starts_with("1 setting is missing: ")));
    assert!(refused(&["dev"], &[]).starts_with("2: error: 1 setting is missing"));
}

#[test]
fn a_secret_comes_from_a_flag_a_variable_or_a_file() {
    let path = std::env::temp_dir().join(format!("kooper-secret-{}", std::process::id()));
    let file = path.to_str().expect("UTF-8");
    fs::write(&path, "from a file\n\n").expect("the folder can be written to");
    let variable = &[("SHOP_TEST_TOKEN_FILE", file)];
    for (line, environment) in [
        (&["--token-file", file][..], &[][..]),
        (&["--token-file", file], &[("SHOP_TEST_TOKEN_FILE", "/nowhere")]),
        (&[], variable),
    ] {
        assert_eq!(shop(line, environment).token.expose(), "from a file\n", "{line:?} {environment:?}");
        assert!(!format!("{:?}", shop(line, environment)).contains("from a file"));
    }
    assert_eq!(shop(TOKEN, variable).token.expose(), "s", "a flag takes precedence over a variable");
    let both = refused(&[], &[("SHOP_TEST_TOKEN", "x"), ("SHOP_TEST_TOKEN_FILE", file)]);
    let problem =
        "the environment variables SHOP_TEST_TOKEN and SHOP_TEST_TOKEN_FILE exclude each other: unset one of them";
    assert!(both.contains(problem), "{both}");
    for (content, problem) in [(&b"\n"[..], "is empty"), (b"\xff", "is not UTF-8")] {
        fs::write(&path, content).expect("the folder can be written to");
        let refused = refused(&["--token-file", file], &[]);
        assert!(refused.contains(&format!("the file {file} set by `--token-file` {problem}")), "{refused}");
    }
    fs::remove_file(&path).expect("the file was written");
    assert!(refused(&[], variable).contains(&format!("the file {file} set by SHOP_TEST_TOKEN_FILE cannot be read: ")));
}

#[derive(Debug, Args)]
struct Vault {
    #[arg(long, env = "CARGO_PKG_NAME", value_parser = pin)]
    pin: Option<SecretValue>,
    #[arg(short = 'z')]
    key: Option<SecretValue>,
    #[arg(long, default_value = "opensesame")]
    door: SecretValue,
}

fn pin(text: &str) -> Result<SecretValue, String> {
    let is_pin = text.len() == 4;
    is_pin.then(|| text.parse().expect("any text is one")).ok_or_else(|| "a PIN has 4 digits".to_owned())
}

#[test]
fn a_secret_is_in_no_message_and_not_among_the_flags_of_manifests() {
    let (_, settings) = read_of::<Vault>(&["-z", "hunter2", "--pin", "1234"], &[]).expect("the settings are valid");
    let vault = settings.own.given.get::<Vault>().expect("the settings were read").0;
    assert_eq!([&vault.pin, &vault.key].map(|secret| secret.as_ref().unwrap().expose()), ["1234", "hunter2"]);
    assert_eq!(redact("it is hunter2"), "it is [redacted]", "nor in the log");
    assert!(settings.own.pod.line.is_empty(), "{:?}", settings.own.pod);
    let help = read_of::<Vault>(&["--help"], &[]).map(|_| ()).expect_err("the help is no command");
    assert_eq!(vault.door.expose(), "opensesame");
    assert!(help.contains("--door") && !help.contains("opensesame"), "{help}");
    for (line, environment, problem) in [
        (&["--pin", "hunter2"][..], &[][..], "invalid value for '--pin <PIN>': a PIN has 4 digits"),
        // Cargo sets it to `kooper`.
        (&[], &[("CARGO_PKG_NAME", "kooper")], "invalid value for the environment variable CARGO_PKG_NAME (--pin)"),
    ] {
        let refused = read_of::<Vault>(line, environment).map(|_| ()).expect_err("it is no PIN");
        assert!(
            refused.contains(problem) && !refused.contains("hunter2") && !refused.contains("'kooper'"),
            "{refused}"
        );
    }
}

#[test]
fn an_invalid_secret_is_reported_with_its_file() {
    let path = std::env::temp_dir().join(format!("kooper-pin-{}", std::process::id()));
    fs::write(&path, "hunter2").expect("the folder can be written to");
    let line = ["--pin-file", path.to_str().expect("UTF-8")];
    let refused = read_of::<Vault>(&line, &[]).map(|_| ()).expect_err("it is no PIN");
    fs::remove_file(&path).expect("the file was written");
    let problem = "invalid value in the file of `--pin-file` or CARGO_PKG_NAME_FILE: a PIN has 4 digits";
    assert!(refused.contains(problem) && !refused.contains("hunter2"), "{refused}");
}

#[test]
fn an_empty_secret_is_an_error() {
    for line in [&["--token", ""][..], &["--token="], &["manifests", "--image", "a", "--token="]] {
        let refused = refused(line, &[]);
        assert!(refused.contains("the value of `--token` is empty: write the secret, or remove the flag"), "{refused}");
    }
}

#[test]
fn an_alias_of_a_setting_takes_the_place_of_the_flag_for_a_file() {
    #[derive(Debug, Args)]
    struct Depot {
        #[arg(long)]
        token: Option<SecretValue>,
        #[arg(long, alias = "token-file")]
        tokens: Option<String>,
    }
    let (_, settings) = read_of::<Depot>(&["--token-file", "a"], &[]).expect("one flag has the name");
    let depot = settings.own.given.get::<Depot>().expect("the settings were read").0;
    assert_eq!((depot.token.is_none(), depot.tokens.as_deref()), (true, Some("a")));
}

#[test]
fn manifests_need_what_run_needs_and_drop_nothing_that_is_given() {
    let of = |line: &[&str], environment: &[(&str, &str)]| {
        let line = [&["manifests", "--image", "a"], line].concat();
        read_with(&line, environment).map(|(_, settings)| (settings.own.pod.line, settings.own.pod.secrets))
    };
    let missing = of(&[], &[]).expect_err("`run` could not start");
    assert!(missing.contains("1 setting is missing: set `--token <TOKEN>`"), "{missing}");
    let line = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (flags, environment, expected) in [
        // No value of a secret is printed; the file is one of the pod.
        (&["--token", "canary"][..], &[][..], (line(&[]), line(&["token"]))),
        (&[], &[("SHOP_TEST_TOKEN", "canary")], (line(&[]), line(&["token"]))),
        (&[], &[("SHOP_TEST_TOKEN_FILE", "/none")], (line(&[]), line(&["token"]))),
        (&["--settings-secret", "tokens"], &[], (line(&[]), line(&["token"]))),
        (&["--token-file", "/none"], &[], (line(&["--token-file=/none"]), line(&[]))),
        (
            &["--token-file", "/none"],
            &[("SHOP_TEST_GREETING", "hi"), ("CARGO_PKG_NAME", "shop")],
            (line(&["--greeting=hi", "--package=shop", "--token-file=/none"]), line(&[])),
        ),
    ] {
        assert_eq!(of(flags, environment).as_ref(), Ok(&expected), "{flags:?} {environment:?}");
    }
    let wrong = of(&["--token", "a", "--cash", "--card", "b"], &[]).expect_err("one of them");
    assert!(wrong.contains("cannot be used with"), "{wrong}");

    let of = |line: &[&str]| read_of::<Vault>(&[&["manifests", "--image", "a"], line].concat(), &[]).map(|_| ());
    assert_eq!(of(&["--pin-file", "/none"]), Ok(()), "what the file of the pod contains is not known");
    assert!(of(&["--pin", "12345"]).is_err_and(|wrong| wrong.contains("a PIN has 4 digits")));
    assert!(of(&["-z", "canary"]).is_err_and(|wrong| wrong.contains("`-z` is a secret") && !wrong.contains("canary")));
}

#[cfg(unix)]
#[test]
fn a_value_that_is_not_utf_8_is_refused_by_manifests_and_not_changed() {
    use std::os::unix::ffi::OsStringExt;

    #[derive(Debug, Args)]
    struct Stock {
        #[arg(long, env = "STOCK_TEST_FOLDER")]
        folder: Option<PathBuf>,
    }
    let own = own::<Stock>().expect("no flag is taken");
    let program = ProgramInfo { own: Some(&own), ..ECHO };
    let line = |more: &[&[u8]]| {
        let line = [&[&b"echo"[..], b"manifests", b"--image", b"a"], more].concat();
        line.into_iter().map(|token| OsString::from_vec(token.to_vec())).collect::<Vec<_>>()
    };
    let variable = |name: &str| (name == "STOCK_TEST_FOLDER").then(|| OsString::from_vec(b"/a\xff".to_vec()));
    for refused in [
        parse(&program, line(&[b"--folder=/a\xff"]), |_| None),
        parse(&program, line(&[b"--folder", b"/a\xff"]), |_| None),
        parse(&program, line(&[]), variable),
    ] {
        let error = refused.expect_err("documents are in UTF-8").to_string();
        assert!(error.contains("the value of `--folder` is not UTF-8"), "{error}");
    }
}

#[derive(Debug, Args)]
struct Switches {
    #[arg(short = 'p', env = "SWITCHES_TEST_PRICE")]
    price: Option<String>,
    #[arg(long, env = "SWITCHES_TEST_OPEN", action = ArgAction::SetFalse)]
    closed: bool,
    #[arg(short = 'l', env = "SWITCHES_TEST_LOUD", action = ArgAction::Count)]
    loud: u8,
    #[arg(long, env = "SWITCHES_TEST_DRY")]
    dry: bool,
}

#[test]
fn a_variable_becomes_the_flag_that_has_its_effect_in_manifests() {
    let of = |environment: &[(&str, &str)]| {
        let (_, settings) = read_of::<Switches>(&["manifests", "--image", "a"], environment).expect("good values");
        settings.own.pod.line.join(" ")
    };
    let [price, open, loud, dry] =
        ["PRICE", "OPEN", "LOUD", "DRY"].map(|name| &*format!("SWITCHES_TEST_{name}").leak());
    assert_eq!(of(&[(price, "3"), (open, "false"), (loud, "2"), (dry, "true")]), "-p=3 --closed -l -l --dry");
    assert_eq!(of(&[(open, "true"), (loud, "0"), (dry, "false")]), "");
}

#[test]
fn help_has_the_description_and_the_settings_under_their_heading() {
    let help = refused(&["--help"], &[("SHOP_TEST_TOKEN", "canary")]);
    assert!(help.starts_with("0: Sells shoes\n\nAnd socks.\n\nUsage: echo "), "{help}");
    assert_eq!(refused(&["-h"], &[]), help);
    let (_, settings) = help.split_once("\nSettings:\n").expect("a heading");
    for part in [
        "-g, --greeting <GREETING>",
        "How customers are greeted [env: SHOP_TEST_GREETING] [default: hello]",
        "The token of the warehouse [env: SHOP_TEST_TOKEN] [required]",
        "--token-file <FILE>",
        "File with the value of --token [env: SHOP_TEST_TOKEN_FILE]",
        "[possible values: small, large]",
    ] {
        assert!(settings.contains(part), "{part}\n{help}");
    }
    assert!(!help.contains("not the description") && !help.contains("canary") && !help.contains("kooper"), "{help}");
}

#[test]
fn flags_and_variables_that_are_taken_are_reported_with_both_names() {
    macro_rules! type_with {
        ($name:ident, $arg:meta) => {
            #[derive(Debug, Args)]
            struct $name {
                #[$arg]
                field: Option<String>,
            }
        };
    }
    type_with!(Workers, arg(long = "workers"));
    type_with!(File, arg(short = 'f'));
    type_with!(Alias, arg(long = "own", alias = "context"));
    type_with!(Help, arg(long = "help"));
    type_with!(Variable, arg(long, env = "KOOPER_WORKERS"));
    type_with!(Positional, arg());

    #[derive(Debug, Args)]
    struct Twice {
        #[arg(long, env = "SHOP_TEST_A")]
        one: Option<String>,
        #[arg(long, env = "SHOP_TEST_A")]
        two: Option<String>,
    }

    let ty = |name: &str| {
        format!(
            "kooper_program::cli::args::tests::own::flags_and_variables_that_are_taken_are_reported_with_both_names::{name}"
        )
    };
    for (found, name, problem) in [
        (
            own::<Workers>(),
            "Workers",
            "has the flag `--workers`, which conflicts with the program's own `--workers`: choose another one, such \
             as `#[arg(long = \"my-field\")]`",
        ),
        (own::<File>(), "File", "has the flag `-f`, which conflicts with the program's own `--filename`"),
        (own::<Alias>(), "Alias", "has the flag `--context`, which conflicts with the program's own `--context`"),
        (own::<Help>(), "Help", "has the flag `--help`, which conflicts with the program's own `--help`"),
        (
            own::<Variable>(),
            "Variable",
            "reads the environment variable KOOPER_WORKERS, which the program already uses for `--workers`",
        ),
        (own::<Positional>(), "Positional", "has no flag: write `#[arg(long)]` above it"),
    ] {
        let error = found.map(|_| ()).expect_err(name);
        assert!(error.starts_with(&format!("the setting `field` of `{}` {problem}", ty(name))), "{error}");
    }
    let twice = own::<Twice>().map(|_| ()).expect_err("a variable has one setting");
    assert_eq!(
        twice,
        format!(
            "the settings `one` and `two` of `{}` both have the variable SHOP_TEST_A: change one of them",
            ty("Twice")
        )
    );

    let mut declared = Declared::default();
    declared.add::<Workers>();
    declared.add::<File>();
    let error = declared.only().map(|_| ()).expect_err("two types").to_string();
    assert!(
        error.starts_with(&format!(
            "this program has the settings `{}` and `{}`, but only one type is possible",
            ty("Workers"),
            ty("File")
        )),
        "{error}"
    );
}
