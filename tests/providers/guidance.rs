//! The instructions and skills of a project in the format of every vendor: `AGENTS.md` and the list of skills in the
//! system prompt, the text of a skill when the model requests it.

use serde_json::{Value, json};

use super::routing::home;
use super::server::{Answer, Said, Server, Vendor};
use super::{KEY, VENDORS};

/// The system prompt of a request, at the vendor's place.
fn system(vendor: &dyn Vendor, body: &Value) -> String {
    let place = match vendor.name() {
        "anthropic" => "/system/0/text",
        "gemini" => "/systemInstruction/parts/0/text",
        _ if vendor.format().is_some() => "/instructions",
        _ => "/messages/0/content",
    };
    body.pointer(place).and_then(Value::as_str).unwrap_or_else(|| panic!("{place} of {body}")).to_owned()
}

#[tokio::test]
async fn every_vendor_is_told_what_the_project_says_and_reads_a_skill() {
    for vendor in VENDORS {
        let arguments = json!({ "name": "deploy" });
        let reads = Said { calls: vec![("call_1", "read_skill", arguments)], ..Said::default() };
        let says = Said { text: "done", ..Said::default() };
        let server = Server::start(vendor, [Answer::Turn(reads), Answer::Turn(says)]).await;
        let home = home(&server, "[sandbox]\nworkspace = \".\"\n");
        std::fs::create_dir_all(home.work().join(".agents/skills/deploy")).unwrap();
        home.write("AGENTS.md", "Never push on Fridays.\n");
        home.write(
            ".agents/skills/deploy/SKILL.md",
            "---\nname: deploy\ndescription: >\n  Ships it\n---\n\nSay the magic word.\n",
        );
        let mut command = home.command(&["run", "deploy it"]);
        command.env("TEST_KEY", KEY);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{}: {stderr}", vendor.name());
        let path = home.work().canonicalize().unwrap().join("AGENTS.md").display().to_string();
        assert!(stderr.contains(&format!("the model reads `{path}` (23 bytes)")), "{stderr}");
        let bodies = server.bodies();
        let system = system(vendor, &bodies[0]);
        let block = format!("\n\n<agents_md path=\"{path}\">\nNever push on Fridays.\n</agents_md>");
        assert!(system.ends_with(&block), "{}: {system}", vendor.name());
        assert!(system.contains("`read_skill`:\n- deploy: Ships it\n\n"), "{system}");
        let again = bodies[1].to_string();
        assert!(again.contains("Say the magic word.") && !again.contains("description: >"), "{again}");
        server.assert_done();
    }
}
