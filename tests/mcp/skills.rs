//! Skills of MCP servers (SEP-2640): listed by name, read on demand, and compared with the agreed digests.

use std::sync::Arc;

use serde_json::{Value, json};

use super::fake;
use crate::agent::answers;
use crate::agent::fake::{Fake, calls, says};
use crate::cli::{Answer, Home};

const SKILL: &str = "---\nname: far\ndescription: Goes far\n---\nGo [on](next.md).\n";
const SKILL_DIGEST: &str = "sha256:7c47183e333cbbce5e8e79a36066732df4ae78f1d170e6f2561adbf7c519689e";
const NEXT: &str = "Next.";
const NEXT_DIGEST: &str = "sha256:3afc86e0d447bbf9162f547b03ca0fc0c8f746dc161fc3ab269070be2f310e75";

fn entry(description: &str) -> Value {
    json!({
        "uri": "skill://far/SKILL.md",
        "frontmatter": { "name": "far", "description": description },
        "resources": [
            { "uri": "skill://far/SKILL.md", "digest": SKILL_DIGEST, "size": SKILL.len() },
            { "uri": "skill://far/next.md", "digest": NEXT_DIGEST, "size": NEXT.len() },
        ],
    })
}

/// The behaviour of a server that lists `skills` and answers every read with `text` at `uri`.
fn like(skills: &Value, (uri, text): (&str, &str)) -> Value {
    let all = |result: Value| {
        json!({ "jsonrpc": "2.0", "id": "ID", "result": result }).to_string().replace("\"ID\"", "ID")
    };
    let extensions = json!({ "io.modelcontextprotocol/skills": {} });
    let capabilities = json!({ "tools": {}, "resources": {}, "extensions": extensions });
    let server = json!({ "name": "f", "version": "1" });
    let begun =
        json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server });
    json!({ "raw": {
        "initialize": all(begun),
        "tools/list": all(json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] })),
        "resources/list": all(json!({ "resources": [] })),
        "resources/templates/list": all(json!({ "resourceTemplates": [] })),
        "skills/list": all(json!({ "skills": skills })),
        "resources/read": all(json!({ "contents": [{ "uri": uri, "text": text }] })),
    } })
}

/// Runs an agent with that server, whose model reads `file` of the skill; the output and the requests to the model.
async fn asked(home: &Home, like: &Value, file: &str) -> (Answer, Arc<[Value]>) {
    let arguments = json!({ "name": "mcp__own__far", "file": file }).to_string();
    let fake = Fake::start([calls(&[("a", "read_skill", arguments.as_str())]), says("done")]).await;
    home.write("program.toml", &program(like, &fake.base_url()));
    let mut command = home.command(&["run", "go"]);
    let answer = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (answer.into(), fake.requests().into())
}

fn program(like: &Value, url: &str) -> String {
    format!(
        "[sandbox]\nworkspace = \".\"\n[provider]\nname = \"openai\"\nmodel = \"m\"\nbase_url = \"{url}\"\nstream = false\n{}",
        fake::toml("own", like, "")
    )
}

fn read(requests: &[Value]) -> String {
    answers(&requests[1])[0].1.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_of_a_server_is_told_by_name_and_read_on_demand() {
    let home = Home::new();
    let like_skill = like(&json!([entry("Goes far")]), ("skill://far/SKILL.md", SKILL));
    let (answer, requests) = asked(&home, &like_skill, "").await;
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let system = requests[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.ends_with("`read_skill`:\n- mcp__own__far: Goes far"), "{system}");
    let expected =
        "Go [on](next.md).\n\n[Other files of this skill, which `read_skill` gives as `file`: `next.md`.]";
    assert_eq!(read(&requests), expected);
    let reads = || fake::methods(&home.work()).iter().filter(|method| *method == "resources/read").count();
    assert_eq!(reads(), 1, "no file is read before a model asks for it");
    let (_, requests) = asked(&home, &like_skill, "../../x").await;
    assert!(read(&requests).contains("the skill has no such file"), "{}", read(&requests));
    assert_eq!(reads(), 1, "what is not listed is not asked for");
    let (_, requests) =
        asked(&home, &like(&json!([entry("Goes far")]), ("skill://far/next.md", NEXT)), "next.md").await;
    assert_eq!(read(&requests), NEXT);
}

/// haft refuses a file whose bytes, size or frontmatter differ from the list.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_what_was_listed_reaches_no_model() {
    let other = SKILL.replace("Go [on]", "Go [no]");
    for (skill, text, why) in [
        (entry("Goes far"), other.as_str(), "the manifest says"),
        (entry("Goes far"), "---\nname: far\n---\n", "the manifest says"),
        (entry("Goes wide"), SKILL, "its head differs from the server's list"),
    ] {
        let (_, requests) =
            asked(&Home::new(), &like(&json!([skill]), ("skill://far/SKILL.md", text)), "").await;
        assert!(read(&requests).contains(why), "{why}: {}", read(&requests));
        assert!(!read(&requests).contains("Go ["), "{}", read(&requests));
    }
}

/// haft omits an invalid entry with the reason, and the entry hides no other skill.
#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_nobody_can_agree_to_is_left_out() {
    let with = |key: &str, value: Value| {
        let mut skill = entry("Goes far");
        skill["uri"] = json!("skill://other/SKILL.md");
        skill["frontmatter"]["name"] = json!("other");
        skill["resources"] = json!([{ "uri": "skill://other/SKILL.md", "digest": SKILL_DIGEST, "size": 1 }]);
        skill[key] = value;
        skill
    };
    for (skill, why) in [
        (with("resources", json!("dynamic")), "has files without digests"),
        (with("resources", json!([])), "does not list its own SKILL.md"),
        (with("uri", json!("skill://mine/SKILL.md")), "does not end in the frontmatter name"),
        (
            with(
                "resources",
                json!([{ "uri": "skill://other/SKILL.md", "digest": SKILL_DIGEST, "size": 17 << 20 }]),
            ),
            "more than 512 files or 16777216 bytes",
        ),
    ] {
        let like = like(&json!([skill, entry("Goes far")]), ("skill://far/SKILL.md", SKILL));
        let (answer, requests) = asked(&Home::new(), &like, "").await;
        assert!(answer.stderr.contains(why), "{why}: {}", answer.stderr);
        let system = requests[0]["messages"][0]["content"].as_str().unwrap();
        assert!(system.ends_with("`read_skill`:\n- mcp__own__far: Goes far"), "{system}");
    }
}

/// A skill is pinned with its server's tools: haft holds it back if its description or a file changes, and shows the
/// change in one line.
#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_is_not_what_was_agreed_to_is_held_back() {
    for (change, difference) in [
        ("Goes wide", "skill `skill://far/SKILL.md` has changed: description, files"),
        ("", "skill `skill://far/SKILL.md` has changed: files"),
    ] {
        let home = Home::new();
        // The server reads its behaviour from a file, so that its configuration does not change.
        home.write(
            "like.json",
            &like(&json!([entry("Goes far")]), ("skill://far/SKILL.md", SKILL)).to_string(),
        );
        let by_file = json!({ "file": home.work().join("like.json") });
        let (answer, _) = asked(&home, &by_file, "").await;
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        assert!(answer.stderr.contains("1 tool and 1 skill pinned"), "{}", answer.stderr);
        let mut other = entry(if change.is_empty() { "Goes far" } else { change });
        other["resources"][1]["digest"] = json!(SKILL_DIGEST);
        home.write("like.json", &like(&json!([other]), ("skill://far/SKILL.md", SKILL)).to_string());
        // A new list: the skill is missing afterwards.
        let listed = home.haft(&["tools", "--json", "--refresh"]);
        assert!(listed.stderr.contains(difference), "{difference}: {}", listed.stderr);
        let (_, requests) = asked(&home, &by_file, "").await;
        assert!(!requests[0].to_string().contains("mcp__own__far"), "{}", requests[0]);
        let shown = home.haft(&["update", "own", "--yes"]);
        assert!(shown.stderr.contains(difference) && shown.stderr.contains(SKILL_DIGEST), "{}", shown.stderr);
        let (_, requests) = asked(&home, &by_file, "").await;
        assert!(requests[0].to_string().contains("mcp__own__far"), "{}", requests[0]);
    }
}

/// An agent whose `tools` name no tool of a server does not see the server's skills.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_server_has_none_of_its_skills() {
    let like = like(&json!([entry("Goes far")]), ("skill://far/SKILL.md", SKILL));
    for (tools, is_told) in [("read", false), ("mcp__own__*", true)] {
        let (home, fake) = (Home::new(), Fake::start([says("done")]).await);
        let agent = format!("\n[agent]\ntools = [\"{tools}\"]\n");
        home.write("program.toml", &(program(&like, &fake.base_url()) + &agent));
        let mut command = home.command(&["run", "go"]);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert_eq!(fake.requests()[0].to_string().contains("mcp__own__far"), is_told, "{tools}");
    }
}
