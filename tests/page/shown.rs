//! The display of calls, tools and sessions on the dashboard: complete, and as text.

use serde_json::{Value, json};

use super::browser::Browser;
use crate::agent::fake::{Fake, calls, says};
use crate::common::wait::{self, until};
use crate::serve::Stage;
use crate::serve::peer::Peer;

/// Texts that a browser might interpret.
const HOSTILE: &str =
    "<script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}gnp.exe\u{1b}[2J\u{1}</td>&lt;'\"";

fn call(stage: &Stage, tool: &str, arguments: &Value) {
    stage.command(&["call", tool, &arguments.to_string()]).output().unwrap();
}

/// A call is a row at its start and at its end; a refusal has the line that would allow the call.
#[test]
fn a_call_is_shown_as_it_begins_and_ends() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    // The page may see a short call only when it has ended.
    let arguments = json!({"command": "echo 4711; until [ -e shown ]; do sleep 0.02; done"}).to_string();
    let mut running = stage.command(&["call", "bash", &arguments]).spawn().unwrap();
    let begun = stream.row("bash", "running");
    std::fs::write(stage.path("shown"), "").unwrap();
    assert!(wait::ended(&mut running).success());
    let ended = stream.row("bash", "ok");
    assert_eq!(begun["id"], ended["id"]);
    assert!(ended["ms"].as_f64().unwrap() > 0.0 && ended["waited"].is_null(), "{ended}");
    assert_eq!((&ended["caller"], &ended["program"]), (&json!("haft call"), &json!("stage")), "{ended}");
    assert!(ended["arguments"].as_str().unwrap().contains("echo 4711"));
    let place = stage.home().join("tmp").join("secret");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("a"), "").unwrap();
    call(&stage, "guest__open", &json!({"path": place.join("a")}));
    let refused = stream.row("guest__open", "refused");
    let line = refused["hint"]["line"].as_str().unwrap();
    assert_eq!(line, format!("read = [\"{}\"]", place.display()), "{refused}");
    assert!(refused["hint"]["text"].as_str().unwrap().contains("`[plugins.grant]` of `guest`"), "{refused}");
    let all = browser.json(&format!("/api/call?id={}", refused["id"].as_str().unwrap()));
    assert_eq!(all["record"]["grant"], json!({}), "{all}");
    assert_eq!(all["record"]["decisions"].as_array().unwrap().len(), 1, "{all}");
}

/// The filter finds calls by tool, outcome, caller and text.
#[test]
fn calls_are_found_by_what_they_are() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    call(&stage, "bash", &json!({"command": "echo needle"}));
    call(&stage, "bash", &json!({"command": "exit 3"}));
    call(&stage, "no_such_tool", &json!({}));
    let found = |query: &str| browser.json(&format!("/api/calls?{query}"))["rows"].as_array().unwrap().len();
    assert_eq!(found(""), 3);
    for (query, count) in [
        ("tool=BASH", 2),
        ("outcome=failed", 2),
        ("outcome=ok", 1),
        ("text=needle", 1),
        ("text=%22echo+needle%22", 1),
        ("caller=stage", 3),
        ("caller=haft+call", 3),
        ("caller=other", 0),
        ("tool=bash&outcome=failed&caller=sta", 1),
    ] {
        assert_eq!(found(query), count, "{query}");
    }
}

/// Hostile names and arguments are JSON data, with a media type that browsers do not render.
#[test]
fn hostile_texts_are_data() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    call(&stage, HOSTILE, &json!({ HOSTILE: HOSTILE }));
    let row = stream.row(HOSTILE, "unknown tool");
    let huge = "</script>\u{202e}".repeat(1 << 20);
    let mut child = stage.command(&["call", "no_such_tool", "-"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, json!({ "text": huge }).to_string().as_bytes()).unwrap();
    drop(input);
    let large = stream.row("no_such_tool", "unknown tool");
    child.wait().unwrap();
    assert!(large.to_string().len() < 4000, "{large}");
    for path in [
        "/api/calls".to_owned(),
        format!("/api/call?id={}", row["id"].as_str().unwrap()),
        "/api/tools".to_owned(),
    ] {
        let reply = browser.get(&path);
        assert_eq!(reply.header("content-type"), Some("application/json"), "{path}");
        assert!(reply.body.contains("<script>alert(1)"), "{path}");
    }
}

/// Every called tool has figures; every tool of the program has its token count, digest and grant.
#[test]
fn tools_have_figures() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    for command in ["true", "true", "exit 1"] {
        call(&stage, "bash", &json!({"command": command}));
    }
    call(&stage, "no_such_tool", &json!({}));
    let tools = browser.json("/api/tools?hours=1");
    assert_eq!(tools["figures"]["unknown"], json!({ "no_such_tool": 1 }), "{tools}");
    assert_eq!(tools["figures"]["tools"].as_array().unwrap().len(), 1, "{tools}");
    let bash = &tools["figures"]["tools"][0];
    assert_eq!(
        (&bash["name"], &bash["calls"], &bash["failed"]),
        (&json!("bash"), &json!(3), &json!(1)),
        "{bash}"
    );
    assert!(bash["p50"].as_f64().unwrap() > 0.0 && bash["p99"].as_f64() >= bash["p50"].as_f64(), "{bash}");
    let parts = bash["curve"].as_array().unwrap();
    assert_eq!(parts.iter().map(|part| part["calls"].as_u64().unwrap()).sum::<u64>(), 3);
    let offered = &tools["offered"];
    assert_eq!(offered["program"], "stage");
    let guest =
        offered["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "guest__echo").unwrap();
    assert!(
        guest["tokens"].as_u64().unwrap() > 0 && guest["digest"].as_str().unwrap().len() == 64,
        "{guest}"
    );
    assert_eq!(guest["grant"], json!({}), "{guest}");
}

/// The overview shows today's calls by caller and hour, and each refusal once, with the line that would allow the
/// call.
#[test]
fn the_overview_sums_up_today() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    let place = stage.home().join("tmp").join("secret");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("a"), "").unwrap();
    call(&stage, "bash", &json!({"command": "true"}));
    for _ in 0..2 {
        call(&stage, "guest__open", &json!({"path": place.join("a")}));
    }
    let mut client = Peer::open(&stage);
    client.call("time", json!({}));
    until("all calls are over", || browser.json("/api/overview")["calls"] == 4);
    let today = browser.json("/api/overview");
    assert_eq!(
        (&today["calls"], &today["failed"], &today["refused"], &today["running"], &today["is_cut"]),
        (&json!(4), &json!(2), &json!(2), &json!([]), &json!(false)),
        "{today}"
    );
    let hours = today["hours"].as_array().unwrap();
    assert_eq!(hours.iter().map(|hour| hour["calls"].as_u64().unwrap()).sum::<u64>(), 4, "{today}");
    let callers = today["callers"].as_array().unwrap();
    let names: Vec<_> = callers.iter().map(|caller| caller["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["haft call", "raw 0"], "{today}");
    assert_eq!((&callers[0]["calls"], &callers[0]["failed"]), (&json!(3), &json!(2)), "{today}");
    let refusals = today["refusals"].as_array().unwrap();
    let [refusal] = refusals.as_slice() else { panic!("{today}") };
    assert_eq!((&refusal["tool"], &refusal["count"]), (&json!("guest__open"), &json!(2)), "{today}");
    assert_eq!(refusal["hint"]["line"], format!("read = [\"{}\"]", place.display()), "{today}");
}

/// The dashboard reports an installed component that differs from its pin in program.lock.
#[test]
fn what_changed_since_the_lock_is_told() {
    let stage = Stage::new("");
    std::fs::copy(crate::common::hostile(), stage.path("kept.wasm")).unwrap();
    let added = stage.command(&["add", "kept.wasm", "--yes"]).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    let offered = || Browser::open(&stage).json("/api/tools?hours=1")["offered"].clone();
    assert_eq!(offered()["changes"], json!([]));
    let lock = stage.path("program.lock");
    let text = std::fs::read_to_string(&lock).unwrap();
    let at = text.find("sha256:").expect("a digest in program.lock") + "sha256:".len();
    let other = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
    std::fs::write(&lock, format!("{}{other}{}", &text[..at], &text[at + 1..])).unwrap();
    let offered = offered();
    let changes = offered["changes"].as_array().unwrap();
    assert!(changes.len() == 1 && changes[0].as_str().unwrap().starts_with("kept: "), "{offered}");
}

/// A session is a row, and a conversation in turns.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_a_conversation() {
    let echo = json!({"command": "echo 4711"}).to_string();
    let fake = Fake::start([calls(&[("a", "bash", &echo)]), says("It says <b>4711</b>.")]).await;
    let url = fake.base_url();
    let done = tokio::task::spawn_blocking(move || {
        let stage = Stage::new("");
        let run = ["run", "--base-url", &url, "--model", "fake", "what does it say?"];
        let output = stage.command(&run).stdin(std::process::Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let browser = Browser::open(&stage);
        let sessions = browser.json("/api/sessions");
        let session = &sessions["sessions"][0];
        assert_eq!(
            (&session["title"], &session["turns"]),
            (&json!("what does it say?"), &json!(2)),
            "{session}"
        );
        assert_eq!(session["input"], 20);
        assert_eq!(session["today"]["input"], 20, "{session}");
        let whole = browser.json(&format!("/api/session?id={}", session["id"].as_str().unwrap()));
        let entries = whole["entries"]["shown"].as_array().unwrap();
        let who: Vec<_> = entries.iter().map(|entry| entry["who"].as_str().unwrap()).collect();
        assert_eq!(who, ["you", "model", "tool", "model", "end"], "{whole}");
        assert_eq!((&entries[2]["call"]["tool"], &entries[2]["text"]), (&json!("bash"), &json!("4711\n")));
        assert_eq!(entries[3]["text"], "It says <b>4711</b>.");
        assert_eq!(browser.get("/api/session?id=ffffffff").status, 404);
    });
    done.await.unwrap();
}
