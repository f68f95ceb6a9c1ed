//! `haft import`: the program itself, on configuration files of each client in tests/import.

mod killed;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::{Answer, Home};
use crate::common::repository;

/// The prefix of every secret in the files of tests/import.
const SECRETS: &str = "SECRET";

/// The text of a file of tests/import.
fn fixture(name: &str) -> String {
    fs::read_to_string(repository().join("tests/import").join(name)).unwrap()
}

/// Copies a file of tests/import to a client's path below the home.
fn put(home: &Home, name: &str, place: &str) -> PathBuf {
    let path = home.work().parent().unwrap().join(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, fixture(name)).unwrap();
    path
}

/// Copies the files of all clients into the home and returns each path with its content.
fn all(home: &Home) -> Vec<(PathBuf, String)> {
    let places = [
        ("claude.json", ".claude.json"),
        ("cursor.json", "work/.mcp.json"),
        ("claude.json", ".config/Claude/claude_desktop_config.json"),
        ("codex.toml", ".codex/config.toml"),
        ("codex-dotted.toml", "work/.codex/config.toml"),
        ("gemini.json", ".gemini/settings.json"),
        ("gemini.json", "work/.gemini/settings.json"),
        ("cursor.json", ".cursor/mcp.json"),
        ("cursor.json", "work/.cursor/mcp.json"),
        ("vscode.json", ".config/Code/User/mcp.json"),
        ("vscode.json", ".config/Code/User/profiles/-1a2b/mcp.json"),
        ("vscode.json", "work/.vscode/mcp.json"),
        ("zed.json", ".config/zed/settings.json"),
        ("zed.json", "work/.zed/settings.json"),
        ("opencode.json", ".config/opencode/opencode.json"),
        ("opencode-2.json", "work/opencode.jsonc"),
    ];
    places.iter().map(|(name, place)| (put(home, name, place), fixture(name))).collect()
}

/// Runs haft and asserts that its output contains no secret.
fn haft(home: &Home, arguments: &[&str]) -> Answer {
    let answer = home.haft(arguments);
    for text in [&answer.stdout, &answer.stderr] {
        assert!(!text.contains(SECRETS), "{arguments:?}: {text}");
    }
    answer
}

fn are(files: &[(PathBuf, String)]) -> bool {
    files.iter().all(|(path, text)| fs::read_to_string(path).unwrap() == *text)
}

#[test]
#[cfg(target_os = "linux")]
fn the_files_of_all_clients_are_found_wrapped_and_put_back() {
    let home = Home::new();
    let files = all(&home);
    let listed = haft(&home, &["import", "--list"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    for line in [
        "Claude user ~/.claude.json",
        "  github: npx -y @modelcontextprotocol/server-github [written in the file: GITHUB_PERSONAL_ACCESS_TOKEN]",
        "  sentry: https://mcp.sentry.dev not changed: it uses HTTP and starts no process",
        "  done in /home/ada/app: /usr/local/bin/haft wrap done -- uvx mcp-server-time is already behind \
         `haft wrap`",
        "  git (off): uvx",
        "  docs: npx -y @upstash/context7-mcp --api-key *** [written in the file: an argument]",
        "VS Code user ~/.config/Code/User/profiles/-1a2b/mcp.json",
        "opencode project ~/work/opencode.jsonc",
    ] {
        assert!(listed.stdout.lines().any(|own| own == line), "{line}\n{}", listed.stdout);
    }
    let rows: Value = serde_json::from_str(&haft(&home, &["--json", "import"]).stdout).unwrap();
    assert_eq!(
        rows.as_array().unwrap().len(),
        listed.stdout.lines().filter(|line| line.starts_with("  ")).count()
    );
    assert!(are(&files), "nothing is written without a choice");

    let wrapped = haft(&home, &["import", "--yes"]);
    assert_eq!(wrapped.code, 0, "{}", wrapped.stderr);
    assert!(
        files.iter().all(|(path, text)| fs::read_to_string(path).unwrap() != *text),
        "{}",
        wrapped.stderr
    );
    let own = env!("CARGO_BIN_EXE_haft");
    let config: Value = serde_json::from_str(&fs::read_to_string(&files[0].0).unwrap()).unwrap();
    let github = &config["mcpServers"]["github"];
    assert_eq!(github["command"], own);
    assert_eq!(
        github["args"],
        json!([
            "wrap",
            "--grant",
            "env=GITHUB_PERSONAL_ACCESS_TOKEN",
            "--grant",
            "env=LOG_LEVEL",
            "github",
            "--",
            "npx",
            "-y",
            "@modelcontextprotocol/server-github"
        ])
    );
    let again = haft(&home, &["import", "--yes"]);
    assert!(again.stderr.contains("nothing was changed"), "{}", again.stderr);

    let undone = haft(&home, &["import", "--undo", "codex"]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    assert!(are(&files[3..5]) && !are(&files[..3]), "{}", undone.stderr);
    assert_eq!(haft(&home, &["import", "--undo"]).code, 0);
    assert!(are(&files));
    assert!(haft(&home, &["import", "--undo"]).stderr.contains("there is nothing to undo"));
}

#[test]
fn one_server_is_picked_by_its_name() {
    let home = Home::new();
    let path = put(&home, "cursor.json", "work/.cursor/mcp.json");
    home.write(".env", "# of the team\nexport TEAM_ID=7\nTEAM_SECRET=SECRET-in-a-file\n");
    let unknown = haft(&home, &["import", "cursor", "--only", "lokal"]);
    assert_eq!(unknown.code, 5);
    assert!(
        unknown.stderr.contains("there is no server `lokal`; did you mean `local`?"),
        "{}",
        unknown.stderr
    );
    assert_eq!(haft(&home, &["import", "cursor", "--only", "local"]).code, 0);
    let config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let args = config["mcpServers"]["local"]["args"].as_array().unwrap();
    let grants: Vec<_> =
        args.iter().filter_map(Value::as_str).filter(|word| word.starts_with("env=")).collect();
    assert_eq!(grants, ["env=API_TOKEN", "env=TEAM_ID", "env=TEAM_SECRET"]);
}

#[test]
fn a_person_is_asked_about_each_server() {
    let home = Home::new();
    let path = put(&home, "opencode.json", "work/opencode.json");
    let Some(said) = home.at_a_terminal(&["import", "opencode"], "y\n") else { return };
    assert!(said.contains("start `everything` behind `haft wrap`?"), "{said}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(r#""wrap", "--grant", "env=MY_KEY""#), "{text}");
    haft(&home, &["import", "--undo"]);
    home.at_a_terminal(&["import", "opencode"], "n\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), fixture("opencode.json"));
}

#[test]
fn a_broken_file_is_named_and_the_others_are_handled() {
    let home = Home::new();
    let broken = put(&home, "cursor.json", ".cursor/mcp.json");
    fs::write(&broken, "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"SECRET }\n").unwrap();
    let good = put(&home, "cursor.json", "work/.cursor/mcp.json");
    let answer = haft(&home, &["import", "cursor", "--yes"]);
    assert_eq!(answer.code, 3, "{}", answer.stderr);
    assert!(answer.stderr.contains(".cursor/mcp.json:3:23: "), "{}", answer.stderr);
    assert_ne!(fs::read_to_string(good).unwrap(), fixture("cursor.json"));
}

/// `haft import` keeps modes and links, and `--undo` refuses a file that was edited later unless `--unwrap` or
/// `--force` is set.
#[test]
fn what_somebody_else_changed_since_is_kept() {
    let home = Home::new();
    let path = put(&home, "cursor.json", "work/.cursor/mcp.json");
    let real = home.work().join("dotfiles.json");
    fs::rename(&path, &real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    assert_eq!(haft(&home, &["import", "cursor", "--yes"]).code, 0);
    assert!(path.is_symlink());
    let wrapped = fs::read_to_string(&real).unwrap();
    let changed = wrapped.replace("\"remote\":", "\"renamed\":");
    fs::write(&real, &changed).unwrap();
    let refused = haft(&home, &["import", "--undo", path.to_str().unwrap()]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("was edited later (line 10) and is not changed"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&real).unwrap(), changed);
    assert_eq!(haft(&home, &["import", "--undo", "--unwrap"]).code, 0);
    assert_eq!(
        fs::read_to_string(&real).unwrap(),
        fixture("cursor.json").replace("\"remote\":", "\"renamed\":")
    );
    assert_eq!(haft(&home, &["import", "cursor", "--yes"]).code, 0);
    fs::write(&real, "{}").unwrap();
    assert_eq!(haft(&home, &["import", "--undo", "--force"]).code, 0);
    assert_eq!(
        fs::read_to_string(&real).unwrap(),
        fixture("cursor.json").replace("\"remote\":", "\"renamed\":")
    );
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(path.is_symlink());
}

#[test]
fn servers_are_written_to_program_toml_without_their_secrets() {
    let home = Home::new();
    let path = put(&home, "claude.json", ".claude.json");
    let answer = haft(&home, &["import", "claude", "--to", "program.toml", "--yes"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), fixture("claude.json"));
    let text = fs::read_to_string(home.work().join("program.toml")).unwrap();
    assert!(!text.contains(SECRETS), "{text}");
    assert!(text.contains(
        "[[mcp_servers]]\nname = \"github\"\ncommand = [\"npx\", \"-y\", \"@modelcontextprotocol/server-github\"]\n\
         env = { GITHUB_PERSONAL_ACCESS_TOKEN = { env = \"GITHUB_PERSONAL_ACCESS_TOKEN\" }"
    ), "{text}");
    assert!(answer.stderr.contains("set the variable `GITHUB_PERSONAL_ACCESS_TOKEN`"), "{}", answer.stderr);
    assert!(answer.stderr.contains("`sentry` was not written: its address"), "{}", answer.stderr);
    // A second run writes nothing, and existing entries stay.
    let again = haft(&home, &["import", "claude", "--to", "program.toml", "--yes"]);
    assert!(again.stderr.contains("program.toml already has a server of this name"), "{}", again.stderr);
    assert_eq!(fs::read_to_string(home.work().join("program.toml")).unwrap(), text);
}

#[test]
fn what_is_neither_a_client_nor_a_file_is_told() {
    let home = Home::new();
    let answer = haft(&home, &["import", "curser"]);
    assert!(
        answer.stderr.contains("expected a client or a file, found `curser`; did you mean `cursor`?"),
        "{}",
        answer.stderr
    );
    home.write("x.json", "{}");
    assert!(haft(&home, &["import", "x.json"]).stderr.contains("has no servers: neither `mcpServers`"));
    assert!(
        haft(&home, &["import", "zed"])
            .stderr
            .contains("no servers were found in ~/.config/zed/settings.json")
    );
}
