use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::*;
use haft_core::grant::Right;
use haft_manifest::{SecretSource, TextOrSecret};

/// The JSON Schema of a proposal.
const SCHEMA: &str = include_str!("../../../../docs/agent-plugin-permissions.schema.json");

const PLUGIN: &str =
    r#""$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "acme.tools""#;
const MCP: &str = r#""$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json""#;

fn read(files: &[(&str, &str)]) -> Result<AgentPlugin, String> {
    let place = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let (listing, _) = Listing::from_folder(place.path()).unwrap();
    AgentPlugin::read(place.path(), &listing).map_err(|error| error.to_string())
}

fn plugin(more: &str) -> String {
    format!("{{ {PLUGIN} {more} }}")
}

/// The kind in one word, as conformance suites name it.
fn code(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::UnknownField => "unknown-manifest-field",
        FaultKind::ExtensionsIgnored => "extensions-ignored",
        FaultKind::ComponentInvalid => "component-invalid",
        FaultKind::SkillSkipped => "skill-skipped",
        FaultKind::McpDisabled => "mcp-disabled",
        FaultKind::ServerSkipped => "server-skipped",
        FaultKind::TransportUnsupported => "transport-unsupported",
        FaultKind::NotRun => "not-run",
        FaultKind::Permission => "permission-ignored",
    }
}

fn codes(plugin: &AgentPlugin) -> Vec<&'static str> {
    let mut codes: Vec<_> = plugin.faults.iter().map(|fault| code(fault.kind)).collect();
    codes.sort_unstable();
    codes
}

/// §5.2: which faults of the manifest are fatal.
#[test]
fn a_manifest_has_its_form_or_nothing_is_used() {
    for (more, expected) in [
        ("", Ok(vec![])),
        (r#", "version": "not semver", "homepage": "x", "author": { "email": "no" }"#, Ok(vec![])),
        (r#", "hooks": {}"#, Ok(vec!["unknown-manifest-field"])),
        (r#", "extensions": 7"#, Ok(vec!["extensions-ignored"])),
        (r#", "extensions": { "com.example.x": { "any": [1] } }"#, Ok(vec![])),
        (r#", "extensions": { "com.example.x": 7 }"#, Err("to be an object")),
        (r#", "version": 2"#, Err("`version` to be a string")),
        (r#", "keywords": ["a", 1]"#, Err("`keywords`")),
        (r#", "author": { "twitter": "x" }"#, Err("not `twitter`")),
        (r#", "author": "x""#, Err("`author` to be an object")),
        (r#", "name": "My-Plugin""#, Err("expected `name` of")),
        (r#", "name": "a--b""#, Err("expected `name` of")),
        (r#", "name": "a.""#, Err("expected `name` of")),
        (
            r#", "$schema": "https://agent-plugins.org/schemas/9.0.0/plugin.schema.json""#,
            Err("this haft supports version 1.0.0 of the Agent Plugins Specification"),
        ),
        (r#", "$schema": 1"#, Err("expected `$schema`")),
    ] {
        match (read(&[("plugin.json", &plugin(more))]), expected) {
            (Ok(read), Ok(faults)) => assert_eq!(codes(&read), faults, "{more}"),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{more}: {error}"),
            (read, _) => panic!("{more}: {read:?}"),
        }
    }
    assert!(read(&[("plugin.json", "{")]).unwrap_err().contains("not valid JSON"));
}

/// §7.2: a fault disables only the part that has it.
#[test]
fn a_server_is_what_the_specification_says_or_left_out() {
    let servers = |entries: &str| {
        let mcp = format!(r#"{{ {MCP}, "mcpServers": {{ {entries} }} }}"#);
        read(&[("plugin.json", &plugin("")), ("mcp.json", &mcp)]).unwrap()
    };
    for good in [
        r#""a": { "type": "stdio", "command": "npx", "args": ["${PLUGIN_DATA}/x"], "cwd": "${PLUGIN_DATA}/w" }"#,
        r#""a": { "type": "stdio", "command": "./bin/../bin/x", "cwd": "./" }"#,
        r#""a": { "type": "streamable-http", "url": "http://[::1]:9/mcp", "headers": { "X-A": "b" } }"#,
        r#""a": { "type": "streamable-http", "url": "https://a.test/mcp" }"#,
    ] {
        let read = servers(good);
        assert_eq!((read.servers.len(), codes(&read)), (1, vec![]), "{good}: {:?}", read.faults);
    }
    for (bad, code) in [
        (r#""a": { "type": "sse", "url": "https://a.test/" }"#, "transport-unsupported"),
        (r#""a": { "type": "stdio", "command": "../x" }"#, "server-skipped"),
        (r#""a": { "type": "stdio", "command": "./../x" }"#, "server-skipped"),
        (r#""a": { "type": "stdio", "command": "/bin/sh" }"#, "server-skipped"),
        (r#""a": { "type": "stdio", "command": "" }"#, "server-skipped"),
        (r#""a": { "type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}x" }"#, "server-skipped"),
        (r#""a": { "type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}/../x" }"#, "server-skipped"),
        (r#""a": { "type": "stdio", "command": "x", "cwd": "/tmp" }"#, "server-skipped"),
        (r#""a": { "type": "stdio", "command": "x", "env": { "PLUGIN_DATA": "/" } }"#, "server-skipped"),
        (r#""a": { "type": "stdio", "command": "x", "env": { "A": 1 } }"#, "server-skipped"),
        (r#""a": { "type": "streamable-http", "url": "https://u:p@a.test/" }"#, "server-skipped"),
        (r#""a": { "type": "streamable-http", "url": "https://a.test/#x" }"#, "server-skipped"),
        (r#""a": { "type": "streamable-http", "url": "http://[::1]x/" }"#, "server-skipped"),
        (r#""a": { "type": "streamable-http", "url": "https://10.0.0.1\\.a.test/" }"#, "server-skipped"),
        (r#""a": { "type": "streamable-http", "url": "http://a.test/" }"#, "server-skipped"),
        (r#""a": { "type": "streamable-http", "url": "https:a.test" }"#, "server-skipped"),
        (
            r#""a": { "type": "streamable-http", "url": "https://a.test", "headers": { "A": "b", "a": "c" } }"#,
            "server-skipped",
        ),
        (r#""a": { "command": "x" }"#, "server-skipped"),
        (r#""a": 7"#, "server-skipped"),
    ] {
        let read = servers(&format!(r#"{bad}, "good": {{ "type": "stdio", "command": "x" }}"#));
        let names: Vec<_> = read.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!((names, codes(&read)), (vec!["good"], vec![code]), "{bad}");
    }
    for mcp in ["[]", "{}", &format!(r#"{{ {MCP}, "mcpServers": {{}}, "x": 1 }}"#), "{ \"mcpServers\": {} }"]
    {
        let read = read(&[("plugin.json", &plugin("")), ("mcp.json", mcp)]).unwrap();
        assert_eq!(codes(&read), ["mcp-disabled"], "{mcp}");
    }
}

/// §7.1: a skill is in a folder with its name; other folders are skipped and reported.
#[test]
fn a_skill_lies_in_a_folder_of_its_name() {
    let skill = |name: &str| format!("---\nname: {name}\ndescription: Does it.\n---\nDo.\n");
    let read = read(&[
        ("plugin.json", &plugin("")),
        ("skills/good/SKILL.md", &skill("good")),
        ("skills/good/scripts/run.py", "print()"),
        ("skills/good/scripts/data.json", "{}"),
        ("skills/good/scripts/__init__.py", ""),
        ("skills/other/SKILL.md", &skill("another")),
        ("skills/none/SKILL.md", "Text"),
        ("skills/deep/er/SKILL.md", &skill("er")),
        ("skills/notes.txt", ""),
    ])
    .unwrap();
    let skills: Vec<_> = read.skills.iter().map(|skill| (skill.folder.as_str(), &skill.scripts)).collect();
    assert_eq!(skills, [("skills/good", &vec!["scripts/run.py".to_owned()])]);
    assert_eq!(codes(&read), ["skill-skipped", "skill-skipped"]);
}

/// An author's proposal becomes the request, separately for each part, and an invalid right is reported.
#[test]
fn a_proposal_is_for_one_part_and_no_other() {
    let proposal = r#", "extensions": { "dev.haft": { "permissions": { "servers": { "a": {
        "read": ["./docs"], "hosts": ["*", "api.test"], "env": ["TOKEN"], "state": "64MiB", "root": true } },
        "skills": { "s": { "write": ["."] } } } } }"#;
    let mcp = format!(
        r#"{{ {MCP}, "mcpServers": {{ "a": {{ "type": "stdio", "command": "x" }}, "b": {{ "type": "stdio", "command": "y" }} }} }}"#
    );
    let text = plugin(proposal);
    let files = [("plugin.json", text.as_str()), ("mcp.json", mcp.as_str())];
    let plugin = read(&files).unwrap();
    let texts = |rights: &Option<Vec<Right>>| {
        rights.as_ref().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let [a, b] = plugin.servers.as_slice() else { panic!("{plugin:?}") };
    assert_eq!(texts(&a.proposed), ["read=./docs", "host=*", "host=api.test", "env=TOKEN", "state=64MiB"]);
    assert_eq!(texts(&b.proposed), [""; 0]);
    assert_eq!(codes(&plugin), ["permission-ignored"]);
    let manifest = plugin.manifest().unwrap();
    let granted: Vec<_> =
        manifest.mcp_servers.iter().map(|server| server.grant.clone().unwrap().rights).collect();
    assert_eq!(granted[0].rights().len(), 5);
    assert_eq!(granted[1].rights(), []);
    let folder = r#"{ "servers": { "b": { "read": ["."] } } }"#;
    let files = [
        ("plugin.json", "{}"),
        (".claude-plugin/plugin.json", r#"{"name":"c"}"#),
        (".mcp.json", r#"{"b":{"command":"y"}}"#),
        ("dev.haft/permissions.json", folder),
    ];
    assert_eq!(texts(&read(&files).unwrap().servers[0].proposed), ["read=."]);
}

/// Proposals follow their published schema, and the schema has exactly the supported rights.
#[test]
fn the_schema_of_proposals_has_the_rights_that_are_read() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let keys: BTreeSet<&str> =
        schema["$defs"]["rights"]["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["read", "write", "hosts", "env", "credentials", "state"]));
    let mcp = format!(r#"{{ {MCP}, "mcpServers": {{ "a": {{ "type": "stdio", "command": "x" }} }} }}"#);
    for key in keys {
        let value = match key {
            "state" => json!("64MiB"),
            "hosts" => json!(["*"]),
            "env" => json!(["TOKEN"]),
            "credentials" => json!(["ssh"]),
            _ => json!(["./docs"]),
        };
        let permissions = json!({ "servers": { "a": { key: value } } });
        let text =
            plugin(&format!(r#", "extensions": {{ "dev.haft": {{ "permissions": {permissions} }} }}"#));
        let read = read(&[("plugin.json", &text), ("mcp.json", &mcp)]).unwrap();
        let asked: Vec<_> = read.servers.iter().flat_map(|server| server.proposed.iter().flatten()).collect();
        assert_eq!((codes(&read), asked.len()), (vec![], 1), "{key}: {:?}", read.faults);
    }
}

#[test]
fn a_plugin_of_claude_is_read_as_far_as_haft_runs_it() {
    let plugin = read(&[
        (".claude-plugin/plugin.json", r#"{ "name": "Review It", "author": { "name": "Ada" }, "keywords": 7,
            "skills": ["./extra"], "mcpServers": { "inline": { "command": "x" } } }"#),
        (".mcp.json", r#"{ "mcpServers": {
            "own": { "command": "${CLAUDE_PLUGIN_ROOT}/bin/x", "args": ["${CLAUDE_PLUGIN_ROOT}/c"],
                     "env": { "A": "${TOKEN:-}", "B": "b" } },
            "web": { "type": "http", "url": "https://a.test/mcp", "headers": { "Authorization": "${TOKEN}" } },
            "mixed": { "type": "http", "url": "https://a.test", "headers": { "Authorization": "Bearer ${TOKEN}" } } } }"#),
        ("skills/odd/SKILL.md", "Do it.\n"),
        ("extra/SKILL.md", "---\nname: Extra One\nversion: 1\n---\n"),
        ("commands/go.md", "Go"),
        ("hooks/hooks.json", "{}"),
    ])
    .unwrap();
    assert_eq!((plugin.form, plugin.about.author.as_deref()), (Form::Claude, Some("Ada")));
    let names: Vec<_> = plugin.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["own", "web", "inline"]);
    let Start::Stdio { words, env, .. } = &plugin.servers[0].start else { panic!() };
    assert_eq!(words, &["./bin/x", "${PLUGIN_ROOT}/c"]);
    assert_eq!(env[0].1, TextOrSecret::Secret(SecretSource::Env("TOKEN".parse().unwrap())));
    let skills: Vec<_> = plugin.skills.iter().map(|skill| skill.skill.name.as_str()).collect();
    assert_eq!(skills, ["odd", "extra"]);
    assert_eq!(codes(&plugin), ["not-run", "not-run", "server-skipped"]);
    assert_eq!(plugin.manifest().unwrap().program.unwrap().name.as_str(), "review-it");
}

/// The cases of a conformance corpus, in the folder that `HAFT_PLUGIN_CORPUS` names: each has a `plugin` and an
/// `expected.json`.
#[test]
#[ignore = "needs a corpus: .ci/steps/agent-plugins has it"]
fn corpus_every_case_ends_as_it_says() {
    let corpus =
        std::env::var("HAFT_PLUGIN_CORPUS").expect("`HAFT_PLUGIN_CORPUS` names the folder of the cases");
    let mut cases: Vec<_> = fs::read_dir(corpus).unwrap().map(|case| case.unwrap().path()).collect();
    cases.sort();
    for case in &cases {
        let expected: Value = serde_json::from_slice(&fs::read(case.join("expected.json")).unwrap()).unwrap();
        assert_eq!(outcome(&case.join("plugin")), wanted(&expected), "{}", case.display());
    }
    println!("{} cases of the corpus end as they say", cases.len());
    assert!(!cases.is_empty());
}

/// Name, skills, servers and faults; or why it is rejected.
type Outcome = Result<(String, Vec<String>, usize, Vec<String>), String>;

fn outcome(folder: &Path) -> Outcome {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("tree");
    copy(folder, &tree).unwrap();
    let (listing, _) = Listing::from_folder(&tree).unwrap();
    let plugin = AgentPlugin::read(&tree, &listing).map_err(|error| match error {
        PluginError::Version(_) => "unsupported-schema".to_owned(),
        _ => "invalid-manifest".to_owned(),
    })?;
    let sse = plugin.faults.iter().filter(|fault| fault.kind == FaultKind::TransportUnsupported).count();
    let mut faults: Vec<String> = codes(&plugin).into_iter().map(str::to_owned).collect();
    // A transport that a client does not support is not a fault of the plugin (§11.3).
    faults.retain(|code| code != "transport-unsupported");
    let skills = plugin.skills.iter().map(|skill| skill.skill.name.clone()).collect();
    Ok((plugin.about.name.clone(), skills, plugin.servers.len() + sse, faults))
}

fn wanted(expected: &Value) -> Outcome {
    let texts = |key: &str| -> Vec<String> {
        let all = expected[key].as_array().into_iter().flatten();
        all.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    if expected["outcome"] == "rejected" {
        return Err(expected["reason"].as_str().unwrap().to_owned());
    }
    let mut faults = texts("diagnostics");
    faults.sort();
    Ok((expected["name"].as_str().unwrap().to_owned(), texts("skills"), texts("servers").len(), faults))
}
