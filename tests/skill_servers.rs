//! MCP servers that skills of a folder or of a person name in the heads of their SKILL.md: nothing starts without
//! consent, and each server reads the folder of its skill alone. A skill of an MCP server starts nothing.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::agent::answers;
use crate::agent::fake::{Fake, calls, says};
use crate::cli::{Answer, Home};
use crate::mcp::fake;
use haft::lookup::find_on_path;

const HEAD: &str = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n";

/// The server of the tests of plugins, which leaves a file in its home when it starts.
const SERVER: &str = concat!(
    "open(__import__('os').path.expanduser('~/started'), 'a').write('x')\n",
    include_str!("packages/plugins/server.py")
);

const LOOK: &str = "mcpServers: { look: { command: python3, args: [./server.py] } }";

/// A program, and a skill `probe` in `folder` whose head contains `head`; `None` if this machine has no Python.
fn place(folder: &str, head: &str) -> Option<Home> {
    if find_on_path("python3").is_none() {
        eprintln!("SKIPPED: no server to ask: `python3` is not installed");
        return None;
    }
    let home = Home::new();
    home.write("program.toml", HEAD);
    skill(&home, folder, head);
    Some(home)
}

fn skill(home: &Home, folder: &str, head: &str) {
    let folder = format!("{folder}/probe");
    fs::create_dir_all(home.work().join(&folder)).unwrap();
    let text = format!("---\nname: probe\ndescription: Probes things.\n{head}\n---\nUse it.\n");
    home.write(&format!("{folder}/SKILL.md"), &text);
    home.write(&format!("{folder}/server.py"), SERVER);
}

/// Runs haft without `HAFT_TRUST`, as in a folder of a stranger.
fn untrusting(home: &Home, arguments: &[&str]) -> Answer {
    Answer::from(home.command(arguments).env_remove("HAFT_TRUST").output().unwrap())
}

/// Whether the server has ever started: whether its file is anywhere in the home.
fn has_started(home: &Home) -> bool {
    let mut folders = vec![home.work().parent().unwrap().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name() == "started" {
                return true;
            }
            folders.extend(Some(entry.path()).filter(|path| path.is_dir() && !path.is_symlink()));
        }
    }
    false
}

fn real(home: &Home, path: &str) -> PathBuf {
    home.work().join(path).canonicalize().unwrap()
}

fn told(answer: &Answer) -> Value {
    serde_json::from_str(&answer.stdout).unwrap_or_else(|_| panic!("{}{}", answer.stdout, answer.stderr))
}

/// MC14, A22: a server of a skill of the workspace, of its repository or of the person starts after consent, which is
/// for this command in this folder.
#[test]
fn a_server_of_a_skill_starts_after_consent() {
    for folder in [".agents/skills", "../.agents/skills"] {
        let Some(home) = place(folder, LOOK) else { return };
        let call = || untrusting(&home, &["call", "mcp__look__try", "{}"]);
        let skill_folder = real(&home, &format!("{folder}/probe"));
        let shown = format!(
            "server     `look` of the skill in {0}: python3 {0}/server.py, with only the rights of its `grant`",
            skill_folder.display()
        );
        let refused: [&[&str]; 3] = [&["call", "mcp__look__try", "{}"], &["run", "hello"], &["trust"]];
        for arguments in refused {
            let answer = untrusting(&home, arguments);
            assert!(answer.code == 7 && answer.stderr.contains(&shown), "{arguments:?}: {}", answer.stderr);
        }
        let showing: [&[&str]; 3] = [&["check"], &["tools", "--refresh"], &["list"]];
        for arguments in showing {
            let answer = untrusting(&home, arguments);
            assert!(!answer.stdout.contains("mcp__look__try"), "{arguments:?}: {}", answer.stdout);
        }
        assert!(!has_started(&home), "{folder}");
        assert_eq!(untrusting(&home, &["trust", "--yes"]).code, 0);
        let called = call();
        assert_eq!(told(&called)["cwd"], skill_folder.display().to_string(), "{}", called.stderr);
        assert!(called.stderr.contains("MCP server `look`: 1 tool pinned"), "{}", called.stderr);
        assert!(has_started(&home));
        skill(&home, folder, &LOOK.replace("./server.py", "./server.py, more"));
        assert_eq!(call().code, 7, "another command");
        skill(&home, folder, LOOK);
        assert_eq!(call().code, 0);
        let moved = format!("{folder}/other");
        fs::rename(home.work().join(format!("{folder}/probe")), home.work().join(moved)).unwrap();
        assert_eq!(call().code, 7, "another folder");
    }
}

/// MC14: no program.toml that haft writes or changes for the user is consent to a server of a skill, and without a
/// program.toml there is none.
#[test]
fn no_other_consent_is_one_to_a_server_of_a_skill() {
    let Some(home) = place(".agents/skills", LOOK) else { return };
    fs::remove_file(home.work().join("program.toml")).unwrap();
    let tools = home.haft(&["tools", "--refresh"]);
    assert!(!tools.stdout.contains("mcp__look__try"), "{}", tools.stdout);
    assert!(
        tools.stderr.contains("server `look` is left out: servers of skills need a program.toml"),
        "{}",
        tools.stderr
    );
    assert_eq!(untrusting(&home, &["init"]).code, 0);
    assert_eq!(untrusting(&home, &["grant", "sandbox", "write=./out"]).code, 0);
    let asked = untrusting(&home, &["trust"]);
    assert!(asked.code == 7 && asked.stderr.contains("`look` of the skill in"), "{}", asked.stderr);
    assert!(!asked.stderr.contains("command    "), "the rest is agreed to: {}", asked.stderr);
    assert_eq!(untrusting(&home, &["call", "mcp__look__try", "{}"]).code, 7);
    assert!(!has_started(&home));
}

/// MC14: the server reads the folder of its skill alone. An entry of program.toml takes precedence, with its grant.
#[test]
fn a_server_of_a_skill_has_the_rights_of_an_entry_or_nearly_none() {
    let Some(home) = place(".agents/skills", LOOK) else { return };
    home.write("notes.txt", "mine");
    let folder = real(&home, ".agents/skills/probe");
    let notes = real(&home, "notes.txt").display().to_string();
    let read = |file: &str| home.call("mcp__look__try", &json!({ "read": file })).code;
    assert_eq!((read(&format!("{}/SKILL.md", folder.display())), read(&notes)), (0, 1));
    assert_eq!(home.call("mcp__look__try", &json!({ "variable": "OPENAI_API_KEY" })).code, 1);
    let shown = format!(
        "server `look` is granted read={0}; no network, as a server of the skill in {0}\n",
        folder.display()
    );
    assert!(home.haft(&["check"]).stdout.contains(&shown), "{}", home.haft(&["check"]).stdout);
    assert!(home.haft(&["list"]).stdout.contains("look"));
    let grant = home.haft(&["grant", "look", "read=."]);
    assert!(grant.code != 0 && grant.stderr.contains("`[[mcp_servers]]` entry `look`"), "{}", grant.stderr);
    let entry =
        "[[mcp_servers]]\nname = \"look\"\ncommand = [\"python3\", \"./.agents/skills/probe/server.py\"]\n";
    home.write("program.toml", &format!("{HEAD}{entry}grant = {{ read = [\".\"] }}\n"));
    assert_eq!(read(&notes), 0);
    home.write("program.toml", &format!("{HEAD}{entry}enabled = false\n"));
    assert!(!home.haft(&["tools", "--refresh"]).stdout.contains("mcp__look__try"));
    home.write("program.toml", &format!("{HEAD}[agent]\nskills = false\n"));
    assert!(!home.haft(&["tools", "--refresh"]).stdout.contains("mcp__look__try"));
}

/// MC14: a changed tool of a skill's server is held back until the user agrees.
#[test]
fn the_tools_of_a_server_of_a_skill_are_pinned() {
    let Some(home) = place(".agents/skills", LOOK) else { return };
    assert_eq!(home.haft(&["call", "mcp__look__try", "{}"]).code, 0);
    home.write(".agents/skills/probe/server.py", &SERVER.replace("Tries something", "Tries it"));
    let held = home.haft(&["call", "mcp__look__try", "{}"]);
    assert!(held.code != 0 && held.stderr.contains("`haft update look`"), "{}", held.stderr);
    assert_eq!(home.haft(&["update", "look", "--yes"]).code, 0);
    assert_eq!(home.haft(&["call", "mcp__look__try", "{}"]).code, 0);
}

/// MC14: a head that cannot be used is reported with its file and its key, and the skill is usable.
#[test]
fn a_wrong_head_is_reported_with_its_file_and_key() {
    for (head, why) in [
        ("mcpServers: [github]", "in `mcpServers`, `github` is only a name: expected `command` or `url`"),
        ("metadata:\n  mcp_servers: '{'", "the text of `mcp_servers` is not valid JSON"),
        ("mcp-servers: 3", "expected `mcp-servers`, a table or a list"),
        (
            "mcp_servers: { look: { command: python3, args: 3 } }",
            "server `look` is left out: expected `args`",
        ),
        (
            "mcp_servers: { look: { command: /bin/sh } }",
            "server `look` is left out: its `command`, `/bin/sh`",
        ),
        ("license: a: b\nmcp_servers: { look: { command: sh } }", "its head is not valid YAML"),
    ] {
        let Some(home) = place(".agents/skills", head) else { return };
        let check = home.haft(&["check"]);
        let file = real(&home, ".agents/skills/probe/SKILL.md").display().to_string();
        assert!(check.stderr.contains(&format!("`{file}`: ")), "{head}: {}", check.stderr);
        assert!(check.code == 0 && check.stderr.contains(why), "{head}: {}", check.stderr);
        assert!(check.stdout.contains("skill `probe`"), "{head}: {}", check.stdout);
    }
}

fn with_provider(fake: &Fake, more: &str) -> String {
    let url = fake.base_url();
    format!(
        "{HEAD}[provider]\nname = \"openai\"\nmodel = \"m\"\nbase_url = \"{url}\"\nstream = false\n{more}"
    )
}

async fn run(home: &Home) -> Answer {
    let mut command = home.command(&["run", "go"]);
    command.env_remove("http_proxy").env_remove("https_proxy").env_remove("all_proxy");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap().into()
}

/// MC14: a model that reads the skill sees which tools belong to it, and calls them.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_reads_the_skill_and_calls_its_server() {
    let Some(home) = place(".agents/skills", LOOK) else { return };
    let script = [
        calls(&[("a", "read_skill", r#"{"name":"probe"}"#)]),
        calls(&[("b", "mcp__look__try", "{}")]),
        says("done"),
    ];
    let fake = Fake::start(script).await;
    home.write("program.toml", &with_provider(&fake, ""));
    let ran = run(&home).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let answers = answers(&fake.requests()[2]);
    assert!(answers[0].1.contains("[The tools `mcp__look__…` belong to this skill.]"), "{}", answers[0].1);
    assert!(
        answers[1].1.contains(&real(&home, ".agents/skills/probe").display().to_string()),
        "{}",
        answers[1].1
    );
}

/// MC14: the head of a skill that an MCP server offers starts nothing; the same skill in the folder names a server.
#[tokio::test(flavor = "multi_thread")]
async fn a_skill_of_a_server_starts_nothing() {
    let home = Home::new();
    let mark = home.work().join("planted");
    let planted = json!({ "planted": { "command": "touch", "args": [mark] } });
    let text = format!("---\nname: far\ndescription: Goes far\nmcp_servers: {planted}\n---\nGo.\n");
    let like = serving(&text, &planted);
    let fake =
        Fake::start([calls(&[("a", "read_skill", r#"{"name":"mcp__own__far"}"#)]), says("done")]).await;
    home.write("program.toml", &with_provider(&fake, &fake::toml("own", &like, "")));
    let ran = run(&home).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(answers(&fake.requests()[1])[0].1, "Go.");
    // Lists every server that would be started, without starting one.
    let listed = home.haft(&["list"]).stdout;
    assert!(listed.contains("own") && !listed.contains("planted"), "{listed}");
    // A start is reported, because `touch` is not an MCP server.
    let is_started = || home.haft(&["tools", "--refresh"]).stderr.contains("MCP server `planted`");
    assert!(!is_started() && !mark.exists());
    fs::create_dir_all(home.work().join(".agents/skills/far")).unwrap();
    home.write(".agents/skills/far/SKILL.md", &text);
    let listed = home.haft(&["list"]).stdout;
    assert!(listed.contains("planted") && is_started(), "{listed}");
}

/// The behaviour of a server with a skill of this text, whose head has `servers`.
fn serving(text: &str, servers: &Value) -> Value {
    let all = |result: Value| {
        json!({ "jsonrpc": "2.0", "id": "ID", "result": result }).to_string().replace("\"ID\"", "ID")
    };
    let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    let uri = "skill://far/SKILL.md";
    let skill = json!({
        "uri": uri,
        "frontmatter": { "name": "far", "description": "Goes far", "mcp_servers": servers },
        "resources": [{ "uri": uri, "digest": format!("sha256:{digest}"), "size": text.len() }],
    });
    let capabilities = json!({ "resources": {}, "extensions": { "io.modelcontextprotocol/skills": {} } });
    let begun = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": { "name": "f", "version": "1" },
    });
    json!({ "raw": {
        "initialize": all(begun),
        "resources/list": all(json!({ "resources": [] })),
        "resources/templates/list": all(json!({ "resourceTemplates": [] })),
        "skills/list": all(json!({ "skills": [skill] })),
        "resources/read": all(json!({ "contents": [{ "uri": uri, "text": text }] })),
    } })
}
