//! Attacks in a copy of a plugin: its server and its skill's script make the same attempts, and no attempt succeeds
//! without a grant. With the grant, or without haft, the attempts succeed, which proves that they are effective.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::place::Place;
use super::plugins::{SERVER, attempt, manifest, plugin, servers, write};

/// A script that makes the server's attempts from its argument.
fn script() -> String {
    let tries = SERVER.split("for line in sys.stdin").next().unwrap();
    format!("{tries}\nprint(attempt(json.loads(sys.argv[1])))\n")
}

/// The attempts: each has a name, and a flag that says whether a grant can allow it.
fn attempts(place: &Place, others: &Value, port: u16) -> Vec<(&'static str, bool, Value)> {
    let home = place.home().display();
    let [data, root] = ["PLUGIN_DATA", "PLUGIN_ROOT"].map(|name| others[name].as_str().unwrap());
    vec![
        ("a key of ssh", true, json!({ "read": format!("{home}/.ssh/id_ed25519") })),
        ("a key of a cloud", true, json!({ "read": format!("{home}/.aws/credentials") })),
        ("a file of the project", true, json!({ "read": format!("{home}/work/notes.txt") })),
        ("a new file in the project", true, json!({ "write": format!("{home}/work/out/new") })),
        ("a connection", true, json!({ "connect": port })),
        ("a variable", true, json!({ "variable": "TOKEN" })),
        ("what another plugin keeps", false, json!({ "read": format!("{data}/kept") })),
        ("the code of another plugin", false, json!({ "write": format!("{root}/server.py") })),
        ("the grants", false, json!({ "write": format!("{home}/work/program.toml") })),
        ("the pins", false, json!({ "write": format!("{home}/work/program.lock") })),
        (
            "the environment of another process",
            false,
            json!({ "read": format!("/proc/{}/environ", std::process::id()) }),
        ),
        ("a signal to another process", false, json!({ "signal": std::process::id() })),
        ("the socket of an agent", false, json!({ "unix": format!("{home}/agent.sock") })),
    ]
}

#[test]
fn what_is_planted_in_a_plugin_gets_nothing() {
    let Some(place) = plugin("evil", &["bad"], &Value::Null) else { return };
    place.write("evil/skills/probe/scripts/try.py", script());
    write(&place, "other", &["good"], &Value::Null);
    let files = ["../.ssh/id_ed25519", "../.aws/credentials", "notes.txt", "out/old"];
    for file in files {
        place.write(file, "mine");
    }
    let _agent = UnixListener::bind(place.home().join("agent.sock")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    place.haft(&["add", "./other", "--yes"]).good();
    attempt(&place, "good", &json!({ "write": "kept" })).good();
    let others: Value = serde_json::from_str(&attempt(&place, "good", &json!({})).good().stdout).unwrap();
    let all = attempts(&place, &others, listener.local_addr().unwrap().port());
    let what = json!({ "all": all.iter().map(|(.., what)| what).collect::<Vec<_>>() });
    let tried = || {
        let script = json!({ "script": "scripts/try.py", "args": [what.to_string()] }).to_string();
        [("mcp__bad__try", what.to_string()), ("program__evil__probe", script)].map(|(tool, arguments)| {
            let output = place.command(&["call", tool, &arguments]).env("TOKEN", "x").output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let list = said.lines().find(|line| line.starts_with("[\""));
            let list =
                list.unwrap_or_else(|| panic!("{tool}: {said}{}", String::from_utf8_lossy(&output.stderr)));
            (tool, serde_json::from_str::<Vec<String>>(list).unwrap())
        })
    };
    place.haft(&["add", "./evil", "--yes"]).good();
    for (tool, outcomes) in tried() {
        assert_eq!(outcomes.len(), all.len());
        for ((name, ..), outcome) in all.iter().zip(&outcomes) {
            assert!(outcome.starts_with("refused"), "{tool} got {name}: {outcome}");
        }
    }
    place.haft(&["remove", "evil"]).good();
    let rights = ["credentials=ssh", "credentials=aws", "read=.", "write=./out", "host=*", "env=TOKEN"];
    let grants = rights.iter().flat_map(|right| ["--grant", *right]);
    place.haft(&["add", "./evil", "--yes"].into_iter().chain(grants).collect::<Vec<_>>()).good();
    for (tool, outcomes) in tried() {
        for ((name, is_grantable, _), outcome) in all.iter().zip(&outcomes) {
            assert_eq!(outcome.starts_with("did"), *is_grantable, "{tool}, {name}: {outcome}");
        }
    }
    // Without haft each attempt succeeds, except for the store, which may be read-only.
    let mut alone = std::process::Command::new("python3");
    alone.arg(place.work().join("evil/skills/probe/scripts/try.py")).arg(what.to_string()).env("TOKEN", "x");
    let said: Vec<String> = serde_json::from_slice(&alone.output().unwrap().stdout).unwrap();
    let all = all.iter().zip(&said).filter(|((name, ..), _)| *name != "the code of another plugin");
    for ((name, ..), outcome) in all {
        assert!(outcome.starts_with("did"), "{name} is no attempt: {outcome}");
    }
}

/// haft does not use a link or a directory that leads out of the plugin's folder, and installs the other parts.
#[test]
fn nothing_of_a_plugin_leads_out_of_it() {
    let Some(place) = plugin("evil", &["bad"], &Value::Null) else { return };
    place.write("../.ssh/id_ed25519", "key");
    symlink(place.home().join(".ssh"), place.work().join("evil/keys")).unwrap();
    symlink(place.home().join(".ssh/id_ed25519"), place.work().join("evil/skills/probe/key.md")).unwrap();
    let mut all: Value = serde_json::from_str(&servers(&["bad", "link"])).unwrap();
    for (name, cwd) in [("up", "${PLUGIN_ROOT}/../.."), ("etc", "/etc"), ("near", "../other")] {
        let mut server = all["mcpServers"]["bad"].clone();
        server["cwd"] = json!(cwd);
        all["mcpServers"][name] = server;
    }
    all["mcpServers"]["link"]["cwd"] = json!("${PLUGIN_DATA}/link");
    place.write("evil/mcp.json", all.to_string());
    let shown = place.haft(&["add", "./evil", "--yes"]).good().stderr;
    for path in ["keys", "skills/probe/key.md"] {
        assert!(
            shown.contains(&format!("{path} (a link to a target outside the plugin")),
            "{path}:\n{shown}"
        );
    }
    for server in ["up", "etc", "near"] {
        assert!(shown.contains(&format!("server `{server}` is left out: its `cwd`")), "{server}:\n{shown}");
    }
    let tools = place.tools();
    let has = |server: &str| tools.contains(&format!("mcp__{server}__try"));
    assert!(has("bad") && !has("up") && !has("etc") && !has("near"), "{tools:?}");
    let told: Value = serde_json::from_str(&attempt(&place, "bad", &json!({})).good().stdout).unwrap();
    assert!(!fs::exists(format!("{}/keys", told["PLUGIN_ROOT"].as_str().unwrap())).unwrap());
    // A link that one server creates does not become the directory of another server.
    let data = told["PLUGIN_DATA"].as_str().unwrap();
    attempt(&place, "bad", &json!({ "link": [place.home().join(".ssh"), "link"] })).good();
    let told: Value = serde_json::from_str(&attempt(&place, "link", &json!({})).good().stdout).unwrap();
    assert_eq!(told["cwd"], data);
    assert_eq!(attempt(&place, "link", &json!({ "read": "id_ed25519" })).code, 1);
}

/// haft does not install an update with more rights, another server or another script without consent; the old
/// version keeps running.
#[test]
fn an_update_that_has_more_is_held() {
    let permissions = json!({ "skills": { "probe": { "read": ["./docs"] } } });
    let Some(place) = plugin("acme", &["one"], &permissions) else { return };
    place.haft(&["add", "./acme", "--yes"]).good();
    let more = json!({ "skills": { "probe": { "read": ["./docs"], "hosts": ["*"] } } });
    for (file, text, said) in [
        ("plugin.json", manifest("acme", &more), "reach * (every public host)"),
        ("mcp.json", servers(&["one", "two"]), "two"),
        ("skills/probe/scripts/probe.py", "print('other')\n".to_owned(), "+print('other')"),
        ("skills/probe/SKILL.md", "---\nname: probe\ndescription: Other.\n---\nObey.\n".to_owned(), "+Obey."),
    ] {
        let before = place.read(&format!("acme/{file}"));
        place.write(&format!("acme/{file}"), text);
        place.haft(&["update", "acme"]).ends(7, said);
        assert_eq!(place.tools().iter().filter(|tool| tool.starts_with("mcp__")).count(), 1, "{file}");
        place.write(&format!("acme/{file}"), before);
    }
    place.haft(&["update", "acme"]).good();
}
