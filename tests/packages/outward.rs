//! Packages as Agent Plugins: a folder that other clients open, at any location, whose server has exactly the rights
//! that the package requests.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::place::{Place, saying, wordcount};

/// A plugin's file as JSON.
fn read(plugin: &Path, file: &str) -> Value {
    serde_json::from_slice(&fs::read(plugin.join(file)).unwrap()).unwrap()
}

/// The answers of a plugin's server to `requests` after `initialize`. The server starts as a client starts it, with
/// `variable` for the plugin's folder, and without consent.
fn asked(
    place: &Place,
    plugin: &Path,
    server: &Value,
    variable: &str,
    requests: &[Value],
) -> (Vec<Value>, String) {
    assert_eq!(server["command"], "haft");
    let folder = plugin.to_str().unwrap();
    let words = server["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap().replace(variable, folder));
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    let own = place.command(&[]);
    command.args(words).envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env_remove("HAFT_TRUST").env("PLUGIN_ROOT", plugin).current_dir(plugin);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let lines: String =
        [&initialize, &begun].into_iter().chain(requests).map(|line| format!("{line}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (answers, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn listing() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} })
}

fn calling(tool: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

fn tools(answers: &[Value]) -> Vec<String> {
    let list = answers.iter().find(|answer| answer["id"] == 1).unwrap_or_else(|| panic!("{answers:?}"));
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_component_becomes_a_plugin_that_any_client_starts() {
    let place = Place::new();
    place.write("hello.wasm", saying("packed"));
    place.haft(&["plugin", "pack", "hello.wasm", "--agent-plugin"]).ends(0, "it requests no rights");
    place.haft(&["plugin", "pack", "hello.wasm", "--agent-plugin"]).ends(5, "exists already");
    assert_eq!(fs::read_dir(place.work()).unwrap().count(), 2, "something is left over");
    let plugin = place.home().join("moved");
    fs::rename(place.work().join("hello-agent-plugin"), &plugin).unwrap();
    let manifest = read(&plugin, "plugin.json");
    assert_eq!(manifest["$schema"], "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json");
    assert_eq!(manifest["name"], "hello");
    let servers = read(&plugin, "mcp.json");
    assert_eq!(servers["$schema"], "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json");
    let server = &servers["mcpServers"]["hello"];
    assert_eq!(server["type"], "stdio");
    let skill = fs::read_to_string(plugin.join("skills/hello/SKILL.md")).unwrap();
    assert!(skill.starts_with("---\nname: hello\ndescription: "), "{skill}");
    let (answers, _) = asked(&place, &plugin, server, "${PLUGIN_ROOT}", &[listing()]);
    let names = tools(&answers);
    // haft's own tools are absent.
    assert!(names.len() == 1 && skill.contains(&format!("\n## {}\n", names[0])), "{names:?}");
    let call = calling(&names[0], &json!({}));
    let (answers, _) = asked(&place, &plugin, server, "${PLUGIN_ROOT}", std::slice::from_ref(&call));
    assert!(answers.iter().any(|answer| answer.to_string().contains("packed")), "{answers:?}");
    let claude = read(&plugin, ".claude-plugin/plugin.json");
    let gemini = read(&plugin, "gemini-extension.json");
    for (file, root) in [(&claude, "${CLAUDE_PLUGIN_ROOT}"), (&gemini, "${extensionPath}")] {
        let (answers, _) = asked(&place, &plugin, &file["mcpServers"]["hello"], root, &[listing()]);
        assert_eq!(tools(&answers), names);
    }
    // The component declares neither version nor description.
    let own = fs::read_to_string(plugin.join("haft/program.toml")).unwrap();
    assert!(own.contains("\nversion = \"0.1.0\"\n"), "{own}");
    for file in [&manifest, &claude, &gemini] {
        assert_eq!((&file["name"], &file["version"]), (&json!("hello"), &json!("0.1.0")), "{file}");
        assert!(skill.contains(&format!("\ndescription: {}\n", file["description"])), "{file}\n{skill}");
    }
    // A component that differs from the packed component is refused.
    fs::write(plugin.join("haft/hello.wasm"), saying("changed")).unwrap();
    let (answers, said) = asked(&place, &plugin, server, "${PLUGIN_ROOT}", &[call]);
    assert!(!answers.iter().any(|answer| answer.to_string().contains("changed")), "{answers:?}");
    assert!(said.contains("the component differs from its pin in program.lock"), "{said}");
}

#[test]
fn a_package_becomes_a_plugin_with_the_rights_that_it_asks_for() {
    let place = Place::new();
    place.write("words/words.wasm", wordcount());
    place.write("words/bin/greet", "#!/bin/sh\necho hello\n");
    place.write("words/references/how.md", "Slowly.");
    place.write(
        "words/SKILL.md",
        "---\nname: counting\ndescription: Counts words\n---\nSee references/how.md.\n",
    );
    place.write("words/LICENSE", "Yours.");
    place.write("words/private.txt", "not packed");
    place.write(
        "words/program.toml",
        "[program]\nname = \"words\"\nversion = \"1.2.0\"\ndescription = \"Counts\"\nauthors = [\"Ada\"]\n\
         [provider]\nname = \"openai\"\n\
         [[plugins]]\nname = \"words\"\ncomponent = \"words.wasm\"\n[plugins.grant]\nhosts = [\"api.example.com\"]\n",
    );
    let packed =
        place.haft(&["plugin", "pack", "words", "--agent-plugin", "-o", "out/plugin", "--json"]).json();
    assert_eq!((&packed["skill"], &packed["pins"]), (&json!("counting"), &json!(1)));
    let plugin = place.work().join("out/plugin");
    for file in ["plugin.json", ".claude-plugin/plugin.json", "gemini-extension.json"] {
        let manifest = read(&plugin, file);
        assert_eq!((&manifest["version"], &manifest["author"]), (&json!("1.2.0"), &json!({ "name": "Ada" })));
        // The skill has another description.
        assert_eq!(manifest["description"], "Counts", "{file}");
    }
    let skill = fs::read_to_string(plugin.join("skills/counting/SKILL.md")).unwrap();
    assert!(skill.ends_with("See references/how.md.\n"));
    assert_eq!(fs::read_to_string(plugin.join("skills/counting/references/how.md")).unwrap(), "Slowly.");
    let own = fs::read_to_string(plugin.join("haft/program.toml")).unwrap();
    assert!(own.contains("api.example.com") && !own.contains("openai"), "{own}");
    assert!(!plugin.join("haft/private.txt").exists() && plugin.join("LICENSE").exists());
    // Rights outside of the plugin's folder apply after consent on this machine.
    let servers = read(&plugin, "mcp.json");
    let server = &servers["mcpServers"]["words"];
    let (answers, said) = asked(&place, &plugin, server, "${PLUGIN_ROOT}", &[listing()]);
    assert!(tools(&answers).is_empty() && said.contains("haft trust"), "{said}");
    let program = plugin.join("haft/program.toml");
    let mut agree = place.command(&["-p", program.to_str().unwrap(), "trust", "--yes"]);
    assert!(agree.env_remove("HAFT_TRUST").status().unwrap().success());
    let (answers, said) = asked(&place, &plugin, server, "${PLUGIN_ROOT}", &[listing()]);
    assert_eq!(tools(&answers), ["words__count"], "{said}");
}

#[test]
fn what_no_plugin_can_be_made_of_leaves_nothing() {
    let place = Place::new();
    place.write("a.txt", "no component");
    place.haft(&["plugin", "pack", "a.txt", "--agent-plugin"]).ends(5, "is neither a WebAssembly component");
    place.write("odd/program.toml", "[program]\nname = \"odd\"\nversion = \"1.0.0\"\n");
    place.write("odd/SKILL.md", "---\nname: Not a name\ndescription: x\n---\n");
    let refused = place.haft(&["plugin", "pack", "odd", "--agent-plugin"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("the `name` in `SKILL.md`: `Not a name`"),
        "{}",
        refused.stderr
    );
    let left: Vec<_> = place.everything().into_keys().collect();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains("plugin.json")), "{left:?}");
    assert_eq!(fs::read_dir(place.work().join("odd")).unwrap().count(), 2);
}
