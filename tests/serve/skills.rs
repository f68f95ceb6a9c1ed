//! Skills over MCP (SEP-2640): haft serves the skills of a program to its clients.

use std::fs;

use serde_json::{Value, json};

use super::Stage;
use super::peer::Peer;

const SKILL: &str =
    "---\nname: pdf\ndescription: \"Fills: forms\"\nlicense: MIT\nmetadata:\n  version: \"2\"\n---\nDo it.\n";
const SKILL_DIGEST: &str = "sha256:8dfa00ca873c41bbf5d9433e5b9468378da40a2b2d21b2bcf3b4008a51f8769a";

fn write(stage: &Stage, name: &str, content: impl AsRef<[u8]>) {
    let path = stage.path(".agents/skills").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A program with a skill.
fn stage() -> Stage {
    let stage = Stage::new("");
    write(&stage, "pdf/SKILL.md", SKILL);
    write(&stage, "pdf/references/how to.md", "How.");
    write(&stage, "pdf/logo.bin", [0, 255]);
    stage
}

fn skills(peer: &mut Peer) -> Vec<Value> {
    let mut answer = peer.request("skills/list", json!({}));
    serde_json::from_value(answer["result"]["skills"].take()).unwrap_or_else(|_| panic!("{answer}"))
}

fn read(peer: &mut Peer, uri: &str) -> Value {
    peer.request("resources/read", json!({ "uri": uri }))
}

/// An entry has the whole frontmatter and a digest of each file; a client reads each file by its URI, as it was
/// listed.
#[test]
fn skills_are_served_with_the_digests_of_their_files() {
    let stage = stage();
    let mut peer = Peer::start(&stage, &[]);
    let opened = peer.initialize("2025-11-25", &json!({}));
    let capabilities = &opened["result"]["capabilities"];
    assert_eq!(
        capabilities["extensions"]["io.modelcontextprotocol/skills"],
        json!({ "directoryRead": true }),
        "{opened}"
    );
    assert!(capabilities["resources"].is_object());
    peer.notify("notifications/initialized", json!({}));
    let file = |name: &str, digest: &str, size: usize| json!({ "uri": format!("skill://pdf/{name}"), "digest": digest, "size": size });
    let entry = json!({
        "uri": "skill://pdf/SKILL.md",
        "frontmatter": { "name": "pdf", "description": "Fills: forms", "license": "MIT", "metadata": { "version": "2" } },
        "resources": [
            file("SKILL.md", SKILL_DIGEST, 91),
            file("logo.bin", "sha256:06eb7d6a69ee19e5fbdf749018d3d2abfa04bcbd1365db312eb86dc7169389b8", 2),
            file("references/how%20to.md", "sha256:8f70c1632ef2f4d160bbce98503061c2999acf4a5663eaba0179ba11db373901", 4),
        ],
    });
    assert_eq!(skills(&mut peer), std::slice::from_ref(&entry));
    let got = peer.request("skills/get", json!({ "uri": "skill://pdf/SKILL.md" }));
    assert_eq!(got["result"], json!({ "skill": entry }));
    let listed = peer.request("resources/list", json!({}));
    let resource = json!({
        "uri": "skill://pdf/SKILL.md", "name": "pdf", "description": "Fills: forms", "mimeType": "text/markdown",
        "size": 91,
    });
    assert_eq!(listed["result"]["resources"], json!([resource]));
    let contents = |answer: &Value| answer["result"]["contents"][0].clone();
    let text = contents(&read(&mut peer, "skill://pdf/SKILL.md"));
    assert_eq!((&text["text"], &text["mimeType"]), (&json!(SKILL), &json!("text/markdown")));
    assert_eq!(contents(&read(&mut peer, "skill://pdf/references/how%20to.md"))["text"], "How.");
    assert_eq!(contents(&read(&mut peer, "skill://pdf/logo.bin"))["blob"], "AP8=");
    for uri in ["skill://pdf/../../../program.toml", "skill://pdf/references", "skill://other/SKILL.md"] {
        assert!(read(&mut peer, uri)["error"]["code"].is_i64(), "{uri}");
    }
    for uri in ["skill://other/SKILL.md", "skill://pdf/logo.bin"] {
        let refused = peer.request("skills/get", json!({ "uri": uri }));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let refused = peer.request("skills/list", json!({ "cursor": "9" }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    // haft gives a file as it was listed, or refuses.
    write(&stage, "pdf/references/how to.md", "Evil");
    let refused = read(&mut peer, "skill://pdf/references/how%20to.md");
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("changed since it was listed"),
        "{refused}"
    );
}

/// The listing of a skill's folder contains its direct children.
#[test]
fn folders_of_skills_are_read() {
    let stage = stage();
    let mut peer = Peer::open(&stage);
    let mut folder = |uri: &str| peer.request("resources/directory/read", json!({ "uri": uri }));
    let children = json!([
        { "uri": "skill://pdf/SKILL.md", "name": "SKILL.md" },
        { "uri": "skill://pdf/logo.bin", "name": "logo.bin" },
        { "uri": "skill://pdf/references", "name": "references", "mimeType": "inode/directory" },
    ]);
    assert_eq!(folder("skill://pdf")["result"]["resources"], children);
    let inner = json!([{ "uri": "skill://pdf/references/how%20to.md", "name": "how to.md" }]);
    assert_eq!(folder("skill://pdf/references")["result"]["resources"], inner);
    for uri in ["skill:/", "skill://pd", "skill://pdf/SKILL.md", "skill://other"] {
        assert_eq!(folder(uri)["error"]["code"], -32602, "{uri}");
    }
}

/// A list of skills has pages of bounded size, and each skill is on one page.
#[test]
fn skills_are_listed_in_pages() {
    let stage = Stage::new("");
    let long = "x".repeat(100 << 10);
    for name in ["a", "b", "c", "d"] {
        write(
            &stage,
            &format!("{name}/SKILL.md"),
            format!("---\nname: {name}\ndescription: D\nnote: {long}\n---\n"),
        );
    }
    let mut peer = Peer::open(&stage);
    let (mut names, mut pages, mut cursor) = (Vec::new(), 0, Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = peer.request("skills/list", params)["result"].take();
        let found = page["skills"].as_array().unwrap().iter();
        names.extend(found.map(|skill| skill["frontmatter"]["name"].as_str().unwrap().to_owned()));
        (pages, cursor) = (pages + 1, page["nextCursor"].clone());
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((names.join(""), pages), ("abcd".to_owned(), 2));
}

/// A client sees the skills that `--tools` names, by their names in tool lists.
#[test]
fn a_client_sees_the_skills_that_it_may_use() {
    let stage = stage();
    for (tools, is_seen) in [("skill__pdf", true), ("skill__*", true), ("guest__*", false)] {
        let mut peer = Peer::start(&stage, &["--tools", tools]);
        let opened = peer.initialize("2025-11-25", &json!({}));
        let extensions = &opened["result"]["capabilities"]["extensions"];
        assert_eq!(extensions.is_object(), is_seen, "{tools}: {opened}");
        peer.notify("notifications/initialized", json!({}));
        assert_eq!(!skills(&mut peer).is_empty(), is_seen, "{tools}");
        assert_eq!(read(&mut peer, "skill://pdf/SKILL.md")["error"].is_null(), is_seen, "{tools}");
    }
}

/// haft does not serve a folder that is not a valid skill, and the folder hides no other skill.
#[test]
fn a_folder_that_is_no_skill_hides_no_other() {
    let stage = stage();
    for (name, text) in [
        ("Bad", "---\nname: Bad\ndescription: D\n---\n"),
        ("\u{e9}t\u{e9}", "---\nname: \u{e9}t\u{e9}\ndescription: D\n---\n"),
        ("bare", "Text.\n"),
        ("wrong", "---\nname: wrong\ndescription: Use when: it rains\n---\n"),
    ] {
        write(&stage, &format!("{name}/SKILL.md"), text);
    }
    let seen = skills(&mut Peer::open(&stage));
    assert_eq!(seen.iter().map(|skill| &skill["frontmatter"]["name"]).collect::<Vec<_>>(), ["pdf"]);
}

/// Clients get a notification when the list of skills changes.
#[test]
fn clients_hear_of_another_skill() {
    let stage = stage();
    let mut peer = Peer::open(&stage);
    assert_eq!(skills(&mut peer).len(), 1);
    write(&stage, "more/SKILL.md", "---\nname: more\ndescription: D\n---\n");
    stage.program("# again\n");
    peer.says("program loaded again");
    peer.await_one(|message| message["method"] == "notifications/resources/list_changed");
    assert_eq!(skills(&mut peer).len(), 2);
}
