//! The verbs, the options of each verb, and the former names of verbs.

use crate::cli::Home;

/// `haft --help` fits a terminal of 80 columns and 40 lines.
#[test]
fn help_fits_a_screen() {
    let help = Home::new().haft(&["--help"]).stdout;
    assert!(help.lines().count() <= 40, "{} lines:\n{help}", help.lines().count());
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// An option that a verb does not have is an error, before and after the verb.
#[test]
fn an_option_of_another_verb_is_an_error() {
    let home = Home::new();
    for line in [
        "self man pages --ssh y",
        "--ssh y self man pages",
        "self schema --container foo",
        "--container foo self schema",
        "self completions bash --json",
        "self completions bash --allow read=/",
        "self exit-codes --program x",
        "--json self exit-codes",
        "cache clean --unsafe-no-sandbox",
        "--unsafe-no-sandbox cache clean",
        "cache clean --program program.toml",
        "-p program.toml cache clean",
        "dashboard --json",
        "--json exec true",
        "init --nats nats://127.0.0.1:1",
        "init --program program.toml",
        "list --tmux",
        "list --allow read=.",
        "verify --no-journal",
        "inspect --ssh y time.wasm",
        "session list --container foo",
        "session undo --unsafe-no-sandbox",
        "plugin new --lang rust x --allow read=.",
        "-p program.toml plugin build",
        "trust --nats nats://127.0.0.1:1",
        "--no-tmux wrap x -- true",
        "log --ssh y",
        "log --unsafe-no-sandbox",
        "log --allow read=/",
        "dashboard --tmux",
        "--container foo dashboard",
    ] {
        let answer = home.haft(&line.split(' ').collect::<Vec<_>>());
        let option = line.split(' ').find(|word| word.starts_with('-')).unwrap();
        let option = if option == "-p" { "--program" } else { option };
        assert_eq!((answer.code, answer.stdout.as_str()), (2, ""), "{line}: {}", answer.stderr);
        assert!(answer.stderr.contains(option), "{line}: {}", answer.stderr);
    }
    assert!(!home.work().join("pages").exists() && !home.work().join("program.toml").exists());
}

/// Options of a verb apply before and after the verb.
#[test]
fn options_may_stand_before_the_verb() {
    let home = Home::new();
    for line in [["--json", "tools", "time"], ["tools", "--json", "time"]] {
        let answer = home.haft(&line);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        serde_json::from_str::<serde_json::Value>(answer.stdout.lines().next().unwrap()).unwrap();
    }
    for line in [["--allow", "nowhere:read=.", "tools"], ["tools", "--allow", "nowhere:read=."]] {
        let answer = home.haft(&line);
        assert!(answer.stderr.contains("which this program does not have"), "{line:?}: {}", answer.stderr);
    }
}

/// An unknown tool with the name of a verb, and a port without an address, have a hint.
#[test]
fn a_verb_as_a_tool_and_a_port_without_an_address_have_a_hint() {
    let home = Home::new();
    let answer = home.haft(&["call", "log"]);
    let expected = "Unknown tool: log\nhint: `haft log` is a command of its own\n";
    assert!(answer.code == 1 && answer.stderr.ends_with(expected), "{}", answer.stderr);
    let answer = home.haft(&["call", "zzz"]);
    assert!(answer.stderr.ends_with("Unknown tool: zzz\n"), "{}", answer.stderr);
    let answer = home.haft(&["serve", "--http", "8080"]);
    let expected = "expected ADDRESS:PORT, such as 127.0.0.1:8080";
    assert!(answer.code == 2 && answer.stderr.contains(expected), "{}", answer.stderr);
}

/// A former name of a verb works in this version, and haft prints its new name.
#[test]
fn a_verb_that_was_renamed_says_its_new_name() {
    let home = Home::new();
    for (old, new) in [
        ("new --help", "plugin new"),
        ("build --help", "plugin build"),
        ("dev --help", "plugin dev"),
        ("test --help", "plugin test"),
        ("pack --help", "plugin pack"),
        ("publish --help", "plugin publish"),
        ("sessions", "session list"),
        ("replay --help", "session show"),
        ("gc --dry-run", "cache clean"),
        ("work --help", "worker"),
        ("page --help", "dashboard"),
        ("schema", "self schema"),
        ("completions bash", "self completions"),
        ("man --help", "self man"),
    ] {
        let words: Vec<_> = old.split(' ').collect();
        let answer = home.haft(&words);
        let expected = format!("`haft {}` is now `haft {new}`", words[0]);
        assert!(answer.code == 0 && answer.stderr.starts_with(&expected), "{old}: {}", answer.stderr);
        assert_eq!(
            answer.stdout,
            home.haft(&[&new.split(' ').collect::<Vec<_>>()[..], &words[1..]].concat()).stdout
        );
    }
    for (old, way_out) in [
        ("enable x", "remove `enabled = false`"),
        ("disable x", "write `enabled = false`"),
        ("self-update", "docs/install.md"),
    ] {
        let answer = home.haft(&old.split(' ').collect::<Vec<_>>());
        let is_said = answer.stderr.contains("this command was removed: ") && answer.stderr.contains(way_out);
        assert!(
            answer.code == 2 && is_said && !answer.stderr.contains("similar"),
            "{old}: {}",
            answer.stderr
        );
    }
    for (alias, verb) in [("install", "add"), ("rm", "remove"), ("uninstall", "remove"), ("ls", "list")] {
        assert_eq!(home.haft(&[alias, "--help"]).stdout, home.haft(&[verb, "--help"]).stdout);
    }
}
