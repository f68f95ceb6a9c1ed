//! Prompts and resources of plugins (`wit/offers.wit`), through `haft serve`, as its clients see them: honest
//! plugins, and plugins that request too much, trap or impersonate another plugin.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::path::PathBuf;

use haft::limit::Limits;
use haft::plugin::{Plugin, Source};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{cache, engine, repository};
use crate::serve::peer::Peer;

/// A folder with a program and its plugins.
struct Place {
    folder: TempDir,
}

/// The component in the mode `mode`.
fn component(mode: &str) -> Vec<u8> {
    let mut bytes = fs::read(repository().join("tests/guests/built/offers.wasm")).unwrap();
    let known = b"haft-mode=plain     ;";
    let place = bytes.windows(known.len()).position(|window| window == known).unwrap();
    bytes[place..place + known.len()].copy_from_slice(format!("haft-mode={mode:<10};").as_bytes());
    bytes
}

impl Place {
    /// A program with the plugins `shelf` and `other` in these modes; `text` continues the table of `shelf`.
    fn new(modes: [&str; 2], text: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Self { folder };
        for (name, mode) in ["shelf", "other"].iter().zip(modes) {
            fs::write(place.path(&format!("{name}.wasm")), component(mode)).unwrap();
        }
        place.program(text);
        place
    }

    fn program(&self, text: &str) {
        let plugins = "[[plugins]]\nname = \"other\"\ncomponent = \"other.wasm\"\n\n\
                       [[plugins]]\nname = \"shelf\"\ncomponent = \"shelf.wasm\"\n";
        fs::write(self.path("program.toml"), format!("{plugins}{text}")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_haft"));
        command.args(arguments).current_dir(self.folder.path());
        command
            .env("HOME", self.folder.path())
            .env("HAFT_TRUST", "1")
            .env("XDG_CACHE_HOME", cache())
            .env_remove("HAFT_LOG");
        command
    }

    fn open(&self) -> Peer {
        self.open_with(&json!({}))
    }

    fn open_with(&self, capabilities: &Value) -> Peer {
        // The plugins are compiled first, so that no list waits for the compilation.
        drop(self.output(&["tools"]));
        let mut peer = Peer::of(self.command(&["serve"]));
        peer.initialize("2025-11-25", capabilities);
        peer.notify("notifications/initialized", json!({}));
        peer
    }

    fn output(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let (said, complained) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        format!("{said}{complained}")
    }
}

fn names<'v>(answer: &'v Value, list: &str, key: &str) -> Vec<&'v str> {
    answer["result"][list].as_array().unwrap().iter().map(|one| one[key].as_str().unwrap()).collect()
}

fn get(peer: &mut Peer, name: &str, arguments: &Value) -> Value {
    peer.request("prompts/get", json!({ "name": name, "arguments": arguments }))
}

fn read(peer: &mut Peer, uri: &str) -> Value {
    peer.request("resources/read", json!({ "uri": uri }))
}

/// The message of a protocol error.
fn error(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn prompts_and_resources_are_listed_by_plugin() {
    let place = Place::new(["plain", "closed"], "");
    let mut peer = place.open();
    let prompts = peer.request("prompts/list", json!({}));
    assert_eq!(
        names(&prompts, "prompts", "name"),
        ["other__review", "other__misbehave", "shelf__review", "shelf__misbehave"]
    );
    let review = &prompts["result"]["prompts"][2];
    assert_eq!(
        (&review["title"], &review["description"]),
        (&json!("Review something"), &json!("Asks for a review."))
    );
    assert_eq!(
        review["arguments"],
        json!([
            { "name": "what", "description": "What is to be reviewed.", "required": true },
            { "name": "tone", "description": "How to speak.", "required": false },
        ])
    );
    let resources = peer.request("resources/list", json!({}));
    let uris = names(&resources, "resources", "uri");
    assert_eq!(uris[3..], ["haft://shelf/notes/today.md", "haft://shelf/picture.png", "haft://shelf/trap"]);
    assert_eq!(resources["result"]["resources"][3]["mimeType"], "text/markdown");
    let templates = peer.request("resources/templates/list", json!({}));
    assert_eq!(names(&templates, "resourceTemplates", "uriTemplate"), ["haft://shelf/days/{day}"]);
    // Prompts and resources are not tools.
    let tools = peer.request("tools/list", json!({}));
    assert!(!tools.to_string().contains("prompts/") && !tools.to_string().contains("resources/"), "{tools}");
    let called =
        peer.request("tools/call", json!({ "name": "shelf__prompts/review", "arguments": { "what": "x" } }));
    assert!(error(&called).contains("Unknown tool"), "{called}");
}

#[test]
fn a_prompt_is_filled_in_and_a_resource_read() {
    let place = Place::new(["plain", "plain"], "");
    let mut peer = place.open();
    let got = get(&mut peer, "shelf__review", &json!({ "what": "this", "tone": "kindly" }));
    assert_eq!(
        got["result"]["messages"],
        json!([
            { "role": "user", "content": { "type": "text", "text": "Review this kindly." } },
            { "role": "user", "content": { "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" } },
            { "role": "assistant", "content": { "type": "text", "text": "I will." } },
        ])
    );
    assert_eq!(got["result"]["description"], "Asks for a review.");
    let today = read(&mut peer, "haft://shelf/notes/today.md");
    assert_eq!(
        today["result"]["contents"],
        json!([{ "uri": "haft://shelf/notes/today.md", "mimeType": "text/markdown", "text": "# Today\nNothing yet." }])
    );
    let picture = read(&mut peer, "haft://shelf/picture.png");
    assert_eq!(picture["result"]["contents"][0]["blob"], "iVBORw0KGgo=", "{picture}");
    let day = read(&mut peer, "haft://shelf/days/monday");
    assert_eq!(day["result"]["contents"][0]["text"], "it was monday", "{day}");
    assert_eq!(day["result"]["contents"][0]["mimeType"], "text/x-day");
    drop(peer);
    let log = place.output(&["log", "--json"]);
    for (tool, word) in [("shelf__prompts/review", "kindly"), ("shelf__resources/read", "notes/today.md")] {
        assert!(log.lines().any(|line| line.contains(tool) && line.contains(word)), "{tool}: {log}");
    }
}

/// haft refuses an unknown prompt or resource and missing, additional or invalid arguments before the plugin runs.
#[test]
fn what_was_not_listed_is_refused() {
    let place = Place::new(["closed", "plain"], "");
    let mut peer = place.open();
    for (answer, expected) in [
        (get(&mut peer, "shelf__none", &json!({})), "unknown prompt `shelf__none`"),
        (get(&mut peer, "shelf__review", &json!({})), "invalid arguments: "),
        (get(&mut peer, "shelf__review", &json!({ "what": "x", "more": "y" })), "invalid arguments: "),
        (get(&mut peer, "shelf__review", &json!({ "what": 7 })), "invalid arguments: "),
        (read(&mut peer, "file:///etc/passwd"), "unknown resource `file:///etc/passwd`"),
        (read(&mut peer, "haft://nobody/notes/today.md"), "unknown resource `"),
        // Without templates no other path is readable; a path of another plugin goes to that plugin.
        (read(&mut peer, "haft://shelf/days/monday"), "invalid arguments: "),
        (read(&mut peer, "haft://shelf/../other/notes/today.md"), "invalid arguments: "),
        (read(&mut peer, "haft://shelf/"), "invalid arguments: "),
        (read(&mut peer, "haft://other/nothing"), "there is no nothing"),
        (read(&mut peer, "HAFT://shelf/notes/today.md"), "unknown resource `"),
    ] {
        assert!(error(&answer).contains(expected), "{expected}: {answer}");
    }
}

/// A prompt that traps, exceeds a limit or fails ends only its own request; the next request works.
#[test]
fn a_prompt_that_misbehaves_is_one_error() {
    let limits = "[plugins.limits]\ntime = \"2s\"\nresult = \"64KiB\"\n";
    let place = Place::new(["plain", "plain"], limits);
    let mut peer = place.open();
    for (how, expected) in [
        ("trap", "panicked"),
        ("spin", "timed out"),
        ("flood 200000", "more than its result limit of 64 KiB"),
        ("fail", "it broke"),
    ] {
        let answer = get(&mut peer, "shelf__misbehave", &json!({ "how": how }));
        assert!(error(&answer).contains(expected), "{how}: {answer}");
    }
    assert!(error(&read(&mut peer, "haft://shelf/trap")).contains("panicked"));
    let fine = get(&mut peer, "shelf__misbehave", &json!({ "how": "fine" }));
    assert_eq!(fine["result"]["messages"][0]["content"]["text"], "fine");
}

/// A prompt has its plugin's grant without the right to write, because clients request prompts without approval.
#[test]
fn a_prompt_may_what_its_plugin_may_and_writes_nothing() {
    let place = Place::new(["plain", "plain"], "");
    let file = place.path("file.txt");
    fs::write(&file, "inside").unwrap();
    let how = |word: &str, file: &std::path::Path| json!({ "how": format!("{word} {}", file.display()) });
    let refused = get(&mut place.open(), "shelf__misbehave", &how("read", &file));
    assert!(refused["error"].is_object() && !refused.to_string().contains("inside"), "{refused}");
    place.program("[plugins.grant]\nwrite = [\".\"]\n");
    let mut peer = place.open();
    let got = get(&mut peer, "shelf__misbehave", &how("read", &file));
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "inside", "{got}");
    let written = get(&mut peer, "shelf__misbehave", &how("write", &place.path("new.txt")));
    assert!(written["error"].is_object() && !place.path("new.txt").exists(), "{written}");
}

/// `tools`, `confirm` and callers apply to prompts and resources as they apply to tools.
#[test]
fn what_the_program_says_of_tools_counts() {
    let place =
        Place::new(["plain", "closed"], "tools = [\"echo\", \"prompts*\"]\nconfirm = [\"prompts*\"]\n");
    let mut peer = place.open();
    let resources = peer.request("resources/list", json!({}));
    assert!(names(&resources, "resources", "uri").iter().all(|uri| uri.starts_with("haft://other/")));
    let unasked = get(&mut peer, "shelf__review", &json!({ "what": "x" }));
    assert!(error(&unasked).contains("needs a person's approval"), "{unasked}");
    let mut asked = place.open_with(&json!({ "elicitation": {} }));
    let id = asked.ask("prompts/get", json!({ "name": "shelf__review", "arguments": { "what": "x" } }));
    let question = asked.await_one(|message| message["method"] == "elicitation/create");
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    asked.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": yes }));
    assert_eq!(asked.answer(id)["result"]["messages"].as_array().unwrap().len(), 3);
}

/// haft refuses a plugin whose list of resources is invalid, with the reason.
#[tokio::test]
async fn a_list_that_cannot_be_used_is_refused() {
    for (mode, expected) in [
        ("many", "2000 resources; the limit is 1024"),
        ("foreign", "`../other/notes.md`: a path is relative"),
        ("absolute", "`file:///etc/passwd`: a path is relative"),
        ("long", "`a`: a description has at most 16000 characters"),
        ("twice", "`a` is listed twice"),
        ("trap", "cannot list its tools: "),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("offers.wasm");
        fs::write(&file, component(mode)).unwrap();
        let loaded = Plugin::load(engine(), "shelf", Source::File(file), &Limits::default()).await;
        let error = loaded.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{mode}: {error}");
    }
}

/// A program without prompts does not declare the capability and lists no prompts.
#[test]
fn a_program_without_any_says_so() {
    let place = Place::new(["plain", "plain"], "");
    fs::write(place.path("program.toml"), "").unwrap();
    drop(place.output(&["tools"]));
    let mut peer = Peer::of(place.command(&["serve"]));
    let begun = peer.initialize("2025-11-25", &json!({}));
    assert!(begun["result"]["capabilities"].get("prompts").is_none(), "{begun}");
    assert_eq!(names(&peer.request("prompts/list", json!({})), "prompts", "name"), [""; 0]);
}

/// `haft serve` announces a change of the prompts in program.toml.
#[test]
fn other_prompts_are_announced() {
    let place = Place::new(["plain", "plain"], "");
    let mut peer = place.open();
    assert_eq!(names(&peer.request("prompts/list", json!({})), "prompts", "name").len(), 4);
    place.program("tools = [\"echo\"]\n");
    peer.await_one(|message| message["method"] == "notifications/prompts/list_changed");
    assert_eq!(names(&peer.request("prompts/list", json!({})), "prompts", "name").len(), 2);
}

/// `haft inspect` shows the prompts and resources of a component.
#[test]
fn they_are_shown() {
    let place = Place::new(["plain", "plain"], "");
    let shown = place.output(&["inspect", "shelf.wasm"]);
    for expected in ["review", "haft://shelf/notes/today.md: Of this shelf.", "haft://shelf/days/{day}"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}
