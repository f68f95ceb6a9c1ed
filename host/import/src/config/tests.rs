use std::fs;

use super::*;
use crate::client::CLIENTS;

/// The files of tests/import, written by hand in the form that these versions document, and their servers: `*` marks a
/// wrapped server, `-` a disabled one.
const FIXTURES: &[(&str, &str, &str, &[&str])] = &[
    (
        "claude.json",
        "claude",
        "Claude Code 2.1.307",
        &["*filesystem", "*github", "sentry", "*Sequential Thinking", "*bare", "done"],
    ),
    ("codex.toml", "codex", "Codex 0.13x", &["*docs", "*-git", "*in line", "figma"]),
    ("codex-dotted.toml", "codex", "Codex 0.13x", &["*fs", "*time"]),
    ("gemini.json", "gemini", "Gemini CLI 0.4x", &["*python", "web", "old"]),
    ("cursor.json", "cursor", "Cursor 3", &["*local", "remote"]),
    ("vscode.json", "vscode", "VS Code 1.12x", &["*perplexity", "*database", "github"]),
    ("zed.json", "zed", "Zed 1; `before` is of 0.194", &["*now", "*before", "mcp-server-context7", "linear"]),
    ("opencode.json", "opencode", "opencode 1", &["*-everything", "jira", "work"]),
    ("opencode-2.json", "opencode", "opencode 2", &["*-everything"]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import")
}

fn machine() -> Machine {
    Machine { home: "/home/ada".into(), config: "/home/ada/.config".into(), project: folder() }
}

fn config(name: &str) -> Config {
    let text = fs::read_to_string(folder().join(name)).unwrap();
    let (_, client, ..) = FIXTURES.iter().find(|(file, ..)| *file == name).unwrap();
    Config::of_text(Client::named(client).unwrap(), Path::new(name), text).unwrap()
}

/// All servers that can be wrapped, wrapped.
fn wrapped(config: &Config) -> String {
    let all: Vec<_> = (0..config.servers.len()).collect();
    config.wrapped("haft", &machine(), &all).unwrap()
}

#[test]
fn the_servers_of_every_client_are_found() {
    for (name, client, version, expected) in FIXTURES {
        let found: Vec<_> = config(name)
            .servers
            .iter()
            .map(|server| {
                let can = server.process().is_some_and(|process| !process.is_wrapped("haft"));
                format!(
                    "{}{}{}",
                    if can { "*" } else { "" },
                    if server.enabled { "" } else { "-" },
                    server.name
                )
            })
            .collect();
        assert_eq!(found, *expected, "{client}: {version}");
    }
    assert!(CLIENTS.iter().all(|client| FIXTURES.iter().any(|(_, name, ..)| *name == client.name)));
}

/// The expected files differ from the fixtures in the commands alone: comments, unknown keys, order and indentation are
/// those of the fixture.
#[test]
fn a_wrapped_file_has_every_other_byte() {
    for (name, ..) in FIXTURES {
        let config = config(name);
        let expected = fs::read_to_string(folder().join("wrapped").join(name)).unwrap();
        assert_eq!(wrapped(&config), expected, "{name}");
        assert_eq!(config.wrapped("haft", &machine(), &[]).unwrap(), config.text, "{name}");
    }
}

#[test]
fn a_second_time_changes_nothing_and_taking_it_out_gives_the_first_file() {
    for (name, ..) in FIXTURES {
        let config = config(name);
        let once = Config::of_text(config.client, &config.path, wrapped(&config)).unwrap();
        assert_eq!(wrapped(&once), once.text, "{name}");
        let out = Config::of_text(config.client, &config.path, once.unwrapped("haft").unwrap()).unwrap();
        let words = |config: &Config| {
            config
                .servers
                .iter()
                .map(|server| server.process().map(|one| one.words.clone()))
                .collect::<Vec<_>>()
        };
        // One fixture contains a wrapped server.
        let is_other = name == &"claude.json";
        assert_eq!(words(&out) != words(&config), is_other, "{name}");
        assert_eq!(
            words(&out)[..5.min(out.servers.len())],
            words(&config)[..5.min(out.servers.len())],
            "{name}"
        );
    }
}

#[test]
fn line_ends_and_a_byte_order_mark_stay() {
    let client = Client::named("cursor").unwrap();
    let text = "\u{feff}{\"mcpServers\": {\r\n  \"a\": {\r\n    \"command\": \"b\"\r\n  }}}\r\n";
    let config = Config::of_text(client, Path::new("x"), text.to_owned()).unwrap();
    assert_eq!(
        wrapped(&config),
        "\u{feff}{\"mcpServers\": {\r\n  \"a\": {\r\n    \"command\": \"haft\",\r\n    \
         \"args\": [\"wrap\", \"a\", \"--\", \"b\"]\r\n  }}}\r\n"
    );
}

#[test]
fn a_mistake_has_its_place() {
    let read = |client: &str, text: &str| {
        Config::of_text(Client::named(client).unwrap(), Path::new("x.json"), text.to_owned())
            .unwrap_err()
            .to_string()
    };
    let text = "{\n  \"mcpServers\": {\n    \"a\" {}\n  }\n}\n";
    assert_eq!(
        read("claude", text),
        "x.json:3:9: Expected colon after the string or word in object property"
    );
    assert!(
        read("codex", "a = 1\nb = = 2\n").starts_with("x.json:2:5: "),
        "{}",
        read("codex", "a = 1\nb = = 2\n")
    );
    for deep in ["[".repeat(100_000), format!("{{\"a\":{}", "{\"a\":".repeat(100_000))] {
        assert!(read("claude", &deep).contains("nesting"), "{}", read("claude", &deep));
    }
    let dotted = format!("{}b = 1", "a.".repeat(100_000));
    assert!(read("codex", &dotted).contains("recursion"), "{}", read("codex", &dotted));
}

/// The content of a file identifies its client.
#[test]
fn a_file_of_any_name_is_read() {
    for (name, client, ..) in FIXTURES.iter().filter(|(_, client, ..)| !["gemini", "cursor"].contains(client))
    {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("some file");
        fs::copy(folder().join(name), &path).unwrap();
        assert_eq!(Config::of_file(&path, &machine()).unwrap().client.name, *client, "{name}");
    }
    let place = tempfile::tempdir().unwrap();
    let machine = Machine { project: place.path().to_owned(), ..machine() };
    let path = place.path().join(".gemini/settings.json");
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::copy(folder().join("gemini.json"), &path).unwrap();
    assert_eq!(Config::of_file(&path, &machine).unwrap().client.name, "gemini");
    fs::write(&path, "{}").unwrap();
    assert!(matches!(Config::of_file(&path, &machine).unwrap_err(), ConfigError::Unknown(_)));
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_no_file() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join(".mcp.json");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let client = Client::named("claude").unwrap();
    let error = Config::read(client, &Place { path: pipe, scope: "project" }).unwrap_err().to_string();
    assert!(error.ends_with("it is not a file"), "{error}");
}
