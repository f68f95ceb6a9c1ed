//! docs/mcp.md: MCP in both directions.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Child;

use super::Reader;
use crate::sessions::{Model, Says};

pub(super) const LINES: &[&str] = &[
    "haft tools",
    "haft call mcp__files__read_text_file '{\"path\": \"README.md\"}'",
    "haft run --tools 'mcp__*' \"what does the README promise?\"",
    "haft serve --print-config claude > .mcp.json",
    "haft serve",
    "haft serve --http 127.0.0.1:8080",
    "HAFT_TOKEN=… haft serve --http 0.0.0.0:8080 --token-env HAFT_TOKEN --allow-host tools.example.org",
];

/// A server with the single tool that README calls; `.ci/steps/mcp-servers` has the real server.
pub(super) const SERVER: &str = r#"
import json, sys
TOOL = {"name": "read_text_file", "description": "Reads a file.", "inputSchema": {
    "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "files", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [TOOL]}
    elif asked["method"] == "tools/call":
        with open(asked["params"]["arguments"]["path"]) as file:
            answer["result"] = {"content": [{"type": "text", "text": file.read()}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;

fn reader(model: &Model) -> Reader {
    let reader = Reader::new();
    reader.home.write("server.py", SERVER);
    reader.home.write("README.md", "It works.\n");
    let program = format!(
        "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n\
         [[mcp_servers]]\nname = \"files\"\ncommand = \"python3\"\nargs = [\"server.py\"]\n\
         [provider]\nname = \"openai\"\nmodel = \"scripted\"\nbase_url = \"{}\"\n",
        model.base_url()
    );
    reader.home.write("program.toml", &program);
    reader
}

#[test]
fn other_people_s_servers_are_used_as_the_readme_says() {
    let model = Model::start(|_| Says::text("That it works."));
    let reader = reader(&model);
    assert!(reader.runs(LINES[0]).stdout.contains("mcp__files__read_text_file"));
    assert_eq!(reader.runs(LINES[1]).stdout, "It works.\n");
    assert_eq!(reader.runs(LINES[2]).stdout, "That it works.\n");
    model.assert_content();
}

/// A server that is stopped, with all processes of its shell, at the end of the test.
pub(super) struct Serving(pub(super) Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_is_served_as_the_readme_says() {
    let model = Model::start(|_| Says::text(""));
    let reader = reader(&model)
        .where_is(":8080", ":0")
        .where_is("0.0.0.0", "127.0.0.1")
        .where_is("=…", "=sixteen-characters-that-nobody-guesses");
    assert_eq!(reader.runs(LINES[3]).stdout, "");
    let written = std::fs::read_to_string(reader.home.work().join(".mcp.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert!(config["mcpServers"]["test"]["command"].is_string(), "{written}");
    reader.runs(LINES[4]);
    for line in &LINES[5..] {
        let mut child = reader.shell(line).process_group(0).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let _serving = Serving(child);
        let said: Vec<_> = said
            .lines()
            .map_while(Result::ok)
            .inspect(|line| eprintln!("{line}"))
            .take_while(|line| !line.contains("http://127.0.0.1:"))
            .collect();
        assert!(!said.iter().any(|line| line.contains("error")), "{line}\n{said:?}");
    }
}
