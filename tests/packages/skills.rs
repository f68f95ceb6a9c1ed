//! MCP servers that a skill's front matter names, and components among a skill's scripts. Both have exactly the
//! skill's rights.

use std::fs;

use serde_json::{Value, json};

use super::place::{Place, wordcount};
use super::plugins::{SERVER, attempt, manifest};
use crate::agent::answers;
use crate::agent::fake::{Fake, calls, says};
use crate::common::cache;
use haft::lookup::find_on_path;

const BODY: &str = "---\nUse it.\n";

/// A plugin `acme` with a skill `probe`, whose front matter contains `head` and whose request is to read `docs`;
/// `None` if this machine has no Python.
fn place(head: &str) -> Option<Place> {
    if find_on_path("python3").is_none() {
        eprintln!("SKIPPED: no server to ask: `python3` is not installed");
        return None;
    }
    let place = Place::new();
    let permissions = json!({ "skills": { "probe": { "read": ["./docs"] } } });
    place.write("acme/plugin.json", manifest("acme", &permissions));
    let text = format!("---\nname: probe\ndescription: Probes things.\n{head}\n{BODY}");
    place.write("acme/skills/probe/SKILL.md", text);
    place.write("acme/skills/probe/server.py", SERVER);
    place.write("docs/a.txt", "docs");
    place.write("b.txt", "other");
    Some(place)
}

/// MC14: a server in a skill's front matter is shown, requested and pinned, and has the skill's rights.
#[test]
fn servers_that_a_head_names_have_the_rights_of_the_skill() {
    for head in [
        "mcp_servers:\n  look:\n    command: python3\n    args: [./server.py]",
        "mcpServers:\n  - name: look\n    command: python3\n    args: [server.py]",
        "metadata:\n  mcp-servers: '{\"look\": {\"command\": \"python3\", \"args\": [\"./server.py\"]}}'",
    ] {
        let Some(place) = place(head) else { return };
        let added = place.haft(&["--json", "add", "./acme", "--yes"]);
        assert!(
            added.stderr.contains("server `look` belongs to the skill `probe`"),
            "{head}: {}",
            added.stderr
        );
        let added = added.json();
        let asked: Vec<&str> = added["asked"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(asked.contains(&"look:read=./docs"), "{asked:?}");
        assert!(asked.iter().any(|one| one.starts_with("server=look: python3 ")), "{asked:?}");
        let told = attempt(&place, "look", &json!({})).good();
        assert!(told.stderr.contains("MCP server `look`: 1 tool pinned"), "{}", told.stderr);
        let told: Value = serde_json::from_str(&told.stdout).unwrap();
        let root = told["PLUGIN_ROOT"].as_str().unwrap();
        assert_eq!(told["cwd"], format!("{root}/skills/probe"));
        let read = |file: &str| {
            let path = place.work().join(file).display().to_string();
            attempt(&place, "look", &json!({ "read": path })).code
        };
        assert_eq!((read("docs/a.txt"), read("b.txt")), (0, 1));
    }
}

/// MC14: haft starts a server of a skill with a known tool list only for a call, however old the list is.
#[test]
fn a_server_of_a_skill_is_started_when_it_is_used() {
    let Some(place) = place("mcpServers: { look: { command: python3, args: [./server.py] } }") else {
        return;
    };
    let mark = format!("of a skill {}", std::process::id());
    let noting = SERVER.replace("Tries something", &mark).replace(
        "for line in sys.stdin:",
        "open(os.environ['PLUGIN_DATA'] + '/starts', 'a').write('x')\nfor line in sys.stdin:",
    );
    place.write("acme/skills/probe/server.py", noting);
    place.haft(&["add", "./acme", "--yes"]).good();
    let starts = || {
        let told: Value = serde_json::from_str(&attempt(&place, "look", &json!({})).good().stdout).unwrap();
        let file = format!("{}/starts", told["PLUGIN_DATA"].as_str().unwrap());
        attempt(&place, "look", &json!({ "read": file })).good().stdout.trim().len()
    };
    let before = starts();
    let mut is_aged = false;
    for file in fs::read_dir(cache().join("haft/servers")).unwrap().flatten() {
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        if text.contains(&mark) {
            let mut cached: Value = serde_json::from_str(&text).unwrap();
            cached["at"] = json!(0);
            fs::write(file.path(), cached.to_string()).unwrap();
            is_aged = true;
        }
    }
    assert!(is_aged, "the list is remembered");
    assert!(place.haft(&["tools"]).good().stdout.contains("mcp__look__try"));
    assert_eq!(starts(), before + 2, "two calls, and no list");
}

/// MC14: a package in haft's own format has the server in the head of its SKILL.md, which reads the package alone.
/// A server of this name in its program.toml takes precedence.
#[test]
fn the_head_of_a_package_s_skill_declares_a_server() {
    let Some(place) = place("") else { return };
    let program = "[program]\nname = \"own\"\nversion = \"1.0.0\"\n";
    let head = "mcpServers: { look: { command: python3, args: [./server.py] } }";
    place.write("own/program.toml", program);
    place.write("own/SKILL.md", format!("---\nname: probe\ndescription: Probes things.\n{head}\n{BODY}"));
    place.write("own/server.py", SERVER);
    let added = place.haft(&["--json", "add", "./own", "--yes"]);
    assert!(added.stderr.contains("server `look` belongs to the skill `probe`"), "{}", added.stderr);
    let asked = added.json()["asked"].to_string();
    assert!(asked.contains("server=look: python3 "), "{asked}");
    let told: Value = serde_json::from_str(&attempt(&place, "look", &json!({})).good().stdout).unwrap();
    let folder = told["cwd"].as_str().unwrap().to_owned();
    assert!(folder.ends_with("/tree"), "{folder}");
    let read = |file: String| attempt(&place, "look", &json!({ "read": file })).code;
    let own = place.work().join("b.txt").display().to_string();
    assert_eq!((read(format!("{folder}/SKILL.md")), read(own.clone())), (0, 1));
    let declared =
        "[[mcp_servers]]\nname = \"look\"\ncommand = [\"python3\", \"./server.py\", \"declared\"]\n";
    place.write("own/program.toml", format!("{program}{declared}"));
    place.haft(&["update", "own", "--yes"]).good();
    let told: Value = serde_json::from_str(&attempt(&place, "look", &json!({})).good().stdout).unwrap();
    assert_eq!(told["args"], json!(["declared"]));
    assert_eq!(attempt(&place, "look", &json!({ "read": own })).code, 0);
}

/// MC14: haft reports a server without a command or URL, and the plugin is still usable.
#[test]
fn a_server_that_is_only_a_name_is_told() {
    let Some(place) = place("mcpServers: [github]") else { return };
    let shown = place.haft(&["add", "./acme", "--yes"]).good().stderr;
    assert!(shown.contains("`github` is only a name: expected `command` or `url`"), "{shown}");
}

/// A component among the scripts is a plugin with the skill's rights; haft reports a file that is not a component.
#[test]
fn components_among_the_scripts_have_the_rights_of_the_skill() {
    let Some(place) = place("") else { return };
    place.write("acme/skills/probe/scripts/words.wasm", wordcount());
    place.write("acme/skills/probe/scripts/bad.wasm", "no component");
    let added = place.haft(&["--json", "add", "./acme", "--yes"]);
    assert!(added.stderr.contains("`skills/probe/scripts/bad.wasm` is left out"), "{}", added.stderr);
    let added = added.json();
    let asked: Vec<&str> = added["asked"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(asked.contains(&"probe-words:read=./docs"), "{asked:?}");
    let count = |file: &str| {
        let path = place.work().join(file).display().to_string();
        place.haft(&["call", "probe-words__count", "-a", &format!("path={path}")])
    };
    count("docs/a.txt").good();
    assert_eq!(count("b.txt").code, 1);
    let tools = place.haft(&["tools", "--json"]).good().stdout;
    assert!(!tools.contains(".wasm"), "a component is run as no program: {tools}");
}

/// The model sees a plugin's skill by its name, and reads its text and its tool names on demand.
#[tokio::test(flavor = "multi_thread")]
async fn a_skill_of_a_plugin_is_told_by_name_and_read_on_demand() {
    let head = "mcpServers: { look: { command: python3, args: [./server.py] } }";
    let Some(place) = place(head) else { return };
    place.write("acme/skills/probe/scripts/words.wasm", wordcount());
    let fake = Fake::start([calls(&[("a", "read_skill", r#"{"name":"probe"}"#)]), says("done")]).await;
    let provider = format!(
        "[provider]\nname = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\nstream = false\n",
        fake.base_url()
    );
    place.write("program.toml", provider);
    place.haft(&["add", "./acme", "--yes"]).good();
    let mut run = place.command(&["run", "go"]);
    run.env_remove("http_proxy").env_remove("https_proxy").env_remove("all_proxy");
    let ran = run.env("OPENAI_API_KEY", "k").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let requests = fake.requests();
    let system = requests[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("\n- probe: Probes things.") && !system.contains("Use it."), "{system}");
    let read = &answers(&requests[1])[0].1;
    assert!(read.starts_with("Use it.\n"), "{read}");
    for prefix in ["mcp__look__", "probe-words__"] {
        assert!(read.contains(&format!("[The tools `{prefix}…` belong to this skill.]")), "{read}");
        let tools = requests[1]["tools"].as_array().unwrap().iter();
        let mut names = tools.filter_map(|tool| tool["function"]["name"].as_str());
        assert!(names.any(|name| name.starts_with(prefix)), "{prefix}");
    }
}
