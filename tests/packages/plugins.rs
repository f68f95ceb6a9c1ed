//! Agent Plugins and plugins of Claude Code: each server and the scripts of each skill have rights of their own, and
//! attempts of hostile plugins are refused.

use std::fs;
use std::net::TcpListener;

use haft::lookup::find_on_path;
use serde_json::{Value, json};

use super::place::{Answer, Place};
use crate::sessions::terminal::Terminal;

pub(super) const SERVER: &str = include_str!("plugins/server.py");
const SCHEMAS: &str = "https://agent-plugins.org/schemas/1.0.0";

/// A skill with a script that prints a file or its input.
const SKILL: &str = "---\nname: probe\ndescription: Probes things.\n---\nRun `scripts/probe.py`.\n";
const SCRIPT: &str =
    "import sys\nprint(open(sys.argv[1]).read() if len(sys.argv) > 1 else sys.stdin.read())\n";

pub(super) fn manifest(name: &str, permissions: &Value) -> String {
    let mut manifest =
        json!({ "$schema": format!("{SCHEMAS}/plugin.schema.json"), "name": name, "version": "1.0.0" });
    if permissions.is_object() {
        manifest["extensions"] = json!({ "dev.haft": { "permissions": permissions } });
    }
    manifest.to_string()
}

pub(super) fn servers(names: &[&str]) -> String {
    let server = |name: &&str| {
        let server = json!({
            "type": "stdio", "command": "python3", "args": ["${PLUGIN_ROOT}/server.py", "${PLUGIN_DATA}/x"],
            "env": { "CONFIG": "${PLUGIN_ROOT}/c" }, "cwd": "${PLUGIN_DATA}",
        });
        ((*name).to_owned(), server)
    };
    let all: serde_json::Map<String, Value> = names.iter().map(server).collect();
    json!({ "$schema": format!("{SCHEMAS}/mcp.schema.json"), "mcpServers": all }).to_string()
}

/// A folder `name` with a plugin of that name and these servers; `None` if this machine has no Python.
pub(super) fn plugin(name: &str, names: &[&str], permissions: &Value) -> Option<Place> {
    if find_on_path("python3").is_none() {
        eprintln!("SKIPPED: no server to ask: `python3` is not installed");
        return None;
    }
    let place = Place::new();
    write(&place, name, names, permissions);
    Some(place)
}

pub(super) fn write(place: &Place, name: &str, names: &[&str], permissions: &Value) {
    place.write(&format!("{name}/plugin.json"), manifest(name, permissions));
    place.write(&format!("{name}/mcp.json"), servers(names));
    place.write(&format!("{name}/server.py"), SERVER);
    place.write(&format!("{name}/skills/probe/SKILL.md"), SKILL);
    place.write(&format!("{name}/skills/probe/scripts/probe.py"), SCRIPT);
}

pub(super) fn attempt(place: &Place, server: &str, what: &Value) -> Answer {
    place.haft(&["call", &format!("mcp__{server}__try"), &what.to_string()])
}

/// §9: a server has the variables, the arguments and the directory of the specification; `PLUGIN_DATA` persists over
/// an update.
#[test]
fn a_server_of_a_plugin_is_started_as_the_specification_says() {
    let Some(place) = plugin("acme", &["one"], &Value::Null) else { return };
    place.haft(&["add", "./acme", "--yes"]).good();
    let told: Value = serde_json::from_str(&attempt(&place, "one", &json!({})).good().stdout).unwrap();
    let (root, data) = (told["PLUGIN_ROOT"].as_str().unwrap(), told["PLUGIN_DATA"].as_str().unwrap());
    assert!(fs::read_to_string(format!("{root}/plugin.json")).unwrap().contains("acme"));
    assert_eq!(told["cwd"], data);
    assert_eq!(told["args"], json!([format!("{data}/x")]));
    assert_eq!(told["CONFIG"], format!("{root}/c"));
    attempt(&place, "one", &json!({ "write": "kept" })).good();
    place.write("acme/plugin.json", manifest("acme", &Value::Null).replace("1.0.0\"}", "2.0.0\"}"));
    place.haft(&["update", "acme", "--yes"]).good();
    let told: Value = serde_json::from_str(&attempt(&place, "one", &json!({})).good().stdout).unwrap();
    assert_eq!(told["PLUGIN_DATA"], data);
    assert_ne!(told["PLUGIN_ROOT"], root);
    assert_eq!(attempt(&place, "one", &json!({ "read": "kept" })).good().stdout.trim(), "x");
}

/// A plugin without a grant reaches no credentials, project files, data of other plugins, network or files of haft.
#[test]
fn a_plugin_that_was_granted_nothing_reaches_nothing() {
    let Some(place) = plugin("evil", &["bad"], &Value::Null) else { return };
    write(&place, "other", &["good"], &Value::Null);
    for (file, text) in [("../.ssh/id_ed25519", "key"), ("notes.txt", "mine")] {
        place.write(file, text);
    }
    place.haft(&["add", "./evil", "--yes"]).good();
    place.haft(&["add", "./other", "--yes"]).good();
    attempt(&place, "good", &json!({ "write": "kept" })).good();
    let told: Value = serde_json::from_str(&attempt(&place, "good", &json!({})).good().stdout).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = place.home().display();
    for what in [
        json!({ "read": format!("{home}/.ssh/id_ed25519") }),
        json!({ "read": format!("{home}/work/notes.txt") }),
        json!({ "read": format!("{home}/work/program.toml") }),
        json!({ "read": format!("{}/kept", told["PLUGIN_DATA"].as_str().unwrap()) }),
        json!({ "read": format!("{}/server.py", told["PLUGIN_ROOT"].as_str().unwrap()) }),
        json!({ "write": format!("{home}/work/new") }),
        json!({ "write": "./../../../../../new" }),
        json!({ "connect": listener.local_addr().unwrap().port() }),
    ] {
        let answer = attempt(&place, "bad", &what);
        assert_eq!(answer.code, 1, "{what}: {}", answer.stdout);
    }
    let secret = place.command(&["call", "mcp__bad__try", "{}"]).env("SECRET_4711", "x").output().unwrap();
    assert!(String::from_utf8(secret.stdout).unwrap().contains("\"SECRET_4711\": null"));
}

/// A server has at most the rights that its plugin requests for it.
#[test]
fn each_server_has_what_was_proposed_for_it_and_granted() {
    let permissions = json!({ "servers": { "reader": { "read": ["./docs"], "env": ["TOKEN"] } } });
    let Some(place) = plugin("acme", &["reader", "plain"], &permissions) else { return };
    place.write("docs/a.txt", "docs");
    place.write("other/b.txt", "other");
    let added = place.haft(&["--json", "add", "./acme", "--yes"]).json();
    let asked: Vec<&str> = added["asked"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(asked.contains(&"reader:read=./docs") && asked.contains(&"reader:env=TOKEN"), "{asked:?}");
    assert_eq!(added["granted"], json!(["read=./docs", "env=TOKEN"]));
    let read = |server: &str, file: &str| {
        let path = place.work().join(file).display().to_string();
        attempt(&place, server, &json!({ "read": path })).code
    };
    assert_eq!((read("reader", "docs/a.txt"), read("reader", "other/b.txt")), (0, 1));
    assert_eq!(read("plain", "docs/a.txt"), 1);
    // An additional right in program.toml applies to no server that did not request it.
    let text = place.read("program.toml").replace("[\"./docs\"]", "[\".\"]");
    place.write("program.toml", text);
    assert_eq!((read("reader", "docs/a.txt"), read("reader", "other/b.txt")), (0, 1));
    // An update that requests more rights is shown, and its rights do not apply before consent.
    let more = json!({ "servers": { "reader": { "read": ["."], "env": ["TOKEN"], "hosts": ["*"] } } });
    place.write("acme/plugin.json", manifest("acme", &more));
    let held = place.haft(&["update", "acme"]);
    assert_ne!(held.code, 0, "{}", held.stderr);
    assert!(
        held.stderr.contains("reach * (every public host)") && held.stderr.contains("[new]"),
        "{}",
        held.stderr
    );
    assert_eq!((read("reader", "docs/a.txt"), read("reader", "other/b.txt")), (0, 1));
    // haft also blocks an update without requests, because without them nothing would limit the parts' use of the
    // grant.
    place.write("acme/plugin.json", manifest("acme", &Value::Null));
    let held = place.haft(&["update", "acme"]);
    assert_ne!(held.code, 0, "{}", held.stderr);
    assert!(held.stderr.contains("take all of `[packages.grant]`"), "{}", held.stderr);
    assert_eq!((read("reader", "docs/a.txt"), read("plain", "docs/a.txt")), (0, 1));
}

/// A script of a skill runs with the skill's rights, as its own tool, and `bash` does not reach it.
#[test]
fn a_script_of_a_skill_has_the_rights_of_the_skill() {
    let permissions = json!({ "skills": { "probe": { "read": ["./docs"] } } });
    let Some(place) = plugin("acme", &["one"], &permissions) else { return };
    place.write("docs/a.txt", "docs");
    place.write("b.txt", "other");
    place.haft(&["add", "./acme", "--yes"]).good();
    let run = |arguments: Value| place.haft(&["call", "program__acme__probe", &arguments.to_string()]);
    let script = "scripts/probe.py";
    let ran = run(json!({ "script": script, "args": ["docs/a.txt"] })).good();
    assert!(ran.stdout.contains("docs"), "{}", ran.stdout);
    assert_eq!(run(json!({ "script": script, "args": ["b.txt"] })).code, 1);
    assert!(run(json!({ "script": script, "input": "piped" })).good().stdout.contains("piped"));
    run(json!({ "script": "../../server.py" })).ends(1, "script");
    let told: Value = serde_json::from_str(&attempt(&place, "one", &json!({})).good().stdout).unwrap();
    let file = format!("{}/skills/probe/{script}", told["PLUGIN_ROOT"].as_str().unwrap());
    for command in [format!("python3 {file} b.txt"), format!("cat {file}")] {
        let bash = place.haft(&["call", "bash", &json!({ "command": command }).to_string()]);
        assert_eq!(bash.code, 1, "{command}: {}", bash.stdout);
    }
    let log = place.haft(&["log"]).good().stdout;
    assert!(log.contains("program__acme__probe"), "{log}");
}

/// A plugin of Claude Code has its servers and skills; haft reports that its commands and hooks are not run.
#[test]
fn a_plugin_of_claude_code_has_its_servers_and_skills() {
    let Some(place) = plugin("gone", &[], &Value::Null) else { return };
    place.write("review/.claude-plugin/plugin.json", r#"{ "name": "review", "description": "Reviews." }"#);
    place.write(
        "review/.mcp.json",
        r#"{ "look": { "command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"] } }"#,
    );
    place.write("review/server.py", SERVER);
    place.write("review/commands/go.md", "Go.");
    place.write("review/hooks/hooks.json", "{}");
    place.write("review/skills/how/SKILL.md", "How to.");
    let shown = place.haft(&["add", "./review", "--yes"]).good().stderr;
    assert!(shown.contains("commands of it are not run: `commands/go.md`"), "{shown}");
    assert!(shown.contains("hooks of it are not run"), "{shown}");
    assert!(attempt(&place, "look", &json!({})).good().stdout.contains("PLUGIN_ROOT"));
    place.haft(&["remove", "review"]).good();
    assert_eq!(attempt(&place, "look", &json!({})).code, 1);
}

/// A plugin of a marketplace is selected by its name and has the skills of its entry; haft refuses a plugin outside
/// of the marketplace.
#[test]
fn a_plugin_of_a_marketplace_is_named_after_its_place() {
    let place = Place::new();
    let entry =
        |name: &str, source: &str| json!({ "name": name, "source": source, "skills": ["./skills/a"] });
    let market = json!({ "name": "m", "plugins": [entry("some", "./"), entry("link", "./out")] });
    place.write("market/.claude-plugin/marketplace.json", market.to_string());
    place.write("market/skills/a/SKILL.md", "Do a.");
    place.write("market/skills/b/SKILL.md", "Do b.");
    place.write("other/SKILL.md", "Do nothing.");
    std::os::unix::fs::symlink("../other", place.work().join("market/out")).unwrap();
    place.haft(&["add", "./market", "--yes"]).ends(5, "PLACE#NAME`: `some`, `link`");
    place.haft(&["add", "./market#none", "--yes"]).ends(5, "no plugin `none`");
    place.haft(&["add", "./market#link", "--yes"]).ends(5, "it is outside the marketplace");
    let shown = place.haft(&["add", "./market#some", "--yes"]).good().stderr;
    assert!(shown.contains("skills/a/SKILL.md") && !shown.contains("skills/b/SKILL.md"), "{shown}");
    assert!(place.read("program.toml").contains("./market#some"), "{}", place.read("program.toml"));
    place.haft(&["verify"]).good();
}

/// The consent for a plugin that requests nothing is one screen with one question.
#[test]
fn a_plugin_that_asks_for_nothing_is_one_screen_and_one_question() {
    let Some(place) = plugin("small", &["one"], &json!({})) else { return };
    fs::remove_dir_all(place.work().join("small/skills/probe/scripts")).unwrap();
    let own = place.command(&[]);
    let Some(terminal) = Terminal::of_size(("80", "24"), &own, "small", &["add", "./small"]) else { return };
    terminal.sees("[y/N]", 1);
    assert_eq!(terminal.scrolled(), "0", "more than a screen");
    assert!(terminal.screen().starts_with("small 1.0.0"));
    terminal.enter("y");
    let screen = terminal.sees("ended with 0", 1);
    assert_eq!(screen.matches("[y/N]").count(), 1, "{screen}");
    assert!(screen.contains("installed `small`"), "{screen}");
    attempt(&place, "one", &json!({})).good();
}

/// haft installs nothing of a folder that violates the specification.
#[test]
fn a_plugin_is_rejected_whole() {
    let Some(place) = plugin("small", &["one"], &Value::Null) else { return };
    place.write("bad/plugin.json", manifest("bad", &Value::Null).replace("\"bad\"", "\"Bad\""));
    place.haft(&["add", "./bad", "--yes"]).ends(5, "expected `name` of");
    std::os::unix::fs::symlink("../small/plugin.json", place.work().join("bad/skills")).unwrap();
    fs::remove_file(place.work().join("bad/plugin.json")).unwrap();
    std::os::unix::fs::symlink("../small/plugin.json", place.work().join("bad/plugin.json")).unwrap();
    let refused = place.haft(&["add", "./bad", "--yes"]);
    assert_ne!(refused.code, 0, "{}", refused.stderr);
    assert!(!place.read("program.toml").contains("bad"));
}
