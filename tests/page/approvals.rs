//! Calls that wait for a user, and answers on the dashboard.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Output};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::{Value, json};

use super::browser::{Browser, lines};
use crate::common::HANG;
use crate::common::wait::{until, until_some};
use crate::serve::Stage;
use crate::serve::peer::{Peer, text};

const CONFIRM: &str = "\n[builtins]\nshell_confirm = true\n";

/// `haft call` of a command, without a terminal.
fn call(stage: &Stage, command: &str) -> Child {
    let arguments = json!({ "command": command }).to_string();
    stage.command(&["call", "bash", &arguments]).spawn().unwrap()
}

/// The file that a running command creates.
fn ran(stage: &Stage) -> PathBuf {
    stage.path("ran")
}

fn ended(child: Child) -> (String, String) {
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Makes a waiting call read an invalid answer, and waits until it looks again.
fn have_read(path: &Path, answer: &str) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut open = OpenOptions::new();
    open.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let looks = || until_some("the call looks", || open.open(path).ok());
    let mut fifo = looks();
    fifo.write_all(answer.as_bytes()).unwrap();
    // haft reads an answer up to a limit, which may come before the end of the written bytes.
    let is_read = |error: io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    until("it has read enough", || fifo.write(&[b' '; 1024]).is_err_and(is_read));
    let again = looks();
    fs::remove_file(path).unwrap();
    drop(again);
}

/// A waiting call is shown whole, and runs once after a yes; the answer is valid for no other call.
#[test]
fn an_approved_call_runs_once() {
    let stage = Stage::new(CONFIRM);
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let child = call(&stage, "echo ran >>ran; echo 47''11");
    let question = stream.question();
    assert_eq!((&question["tool"], &question["verb"]), (&json!("bash"), &json!("Run")), "{question}");
    assert_eq!(question["what"], "echo ran >>ran; echo 47''11");
    assert_eq!(question["origin"]["program"], "stage");
    assert_eq!(question["origin"]["verb"], "call");
    assert_eq!(question["pid"], child.id());
    assert!(!ran(&stage).exists());
    let running = &browser.json("/api/overview")["running"][0];
    assert_eq!((&running["pid"], &running["call"]), (&question["pid"], &question["call"]), "{running}");
    assert_eq!(
        (&running["outcome"], &running["caller"]),
        (&json!("running"), &json!("haft call")),
        "{running}"
    );
    // haft refuses an answer with another digest, for another question, or with an invalid value.
    let mut other = question.clone();
    other["digest"] = json!("0".repeat(64));
    assert_eq!(browser.answer(&other, "once").status, 409);
    other = question.clone();
    other["id"] = json!("0".repeat(32));
    assert_eq!(browser.answer(&other, "once").status, 409);
    other["id"] = json!("../../../../etc/passwd");
    assert_eq!(browser.answer(&other, "once").status, 409);
    assert_eq!(browser.answer(&question, "yes").status, 400);
    assert_eq!(browser.answer(&question, "once").status, 200);
    assert_eq!(browser.answer(&question, "once").status, 409, "it was answered");
    let (stdout, stderr) = ended(child);
    assert_eq!(stdout, "4711\n", "{stderr}");
    assert!(stderr.contains("`bash` waits for your answer on the dashboard"), "{stderr}");
    assert_eq!(fs::read_to_string(ran(&stage)).unwrap(), "ran\n");
    stream.next("waiting", |all| all == &json!([]));
    assert_eq!(browser.answer(&question, "once").status, 409, "nobody waits");
    let calls = browser.json("/api/calls?tool=bash");
    let call = browser.json(&format!("/api/call?id={}", calls["rows"][0]["id"].as_str().unwrap()));
    assert_eq!(call["record"]["decisions"][0], "approved by a person", "{call}");
    // The user's time does not count as the call's duration.
    let [whole, waited] = ["duration_ms", "waited_ms"].map(|name| call["record"][name].as_f64().unwrap());
    assert!(0.0 < waited && waited < whole, "{call}");
    assert!((call["row"]["ms"].as_f64().unwrap() - (whole - waited)).abs() < 1e-6, "{call}");
    let bash = &browser.json("/api/tools?hours=1")["figures"]["tools"][0];
    assert!((bash["p50"].as_f64().unwrap() - (whole - waited)).abs() < 0.1, "{bash}");
}

/// A refused call does not run.
#[test]
fn a_refused_call_does_not_run() {
    let stage = Stage::new(CONFIRM);
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let child = call(&stage, "echo ran >ran");
    let question = stream.question();
    assert_eq!(browser.answer(&question, "refuse").status, 200);
    let (_, stderr) = ended(child);
    assert!(stderr.contains("Command execution denied by user."), "{stderr}");
    assert!(!ran(&stage).exists());
    let row = stream.row("bash", "refused");
    assert_eq!(row["error"], "Command execution denied by user.");
}

/// Without a browser on the dashboard haft asks nobody there, also while it serves the dashboard.
#[test]
fn without_a_browser_nobody_is_asked() {
    let stage = Stage::new(CONFIRM);
    let refused = |stage: &Stage| {
        let (_, stderr) = ended(call(stage, "echo ran >ran"));
        assert!(stderr.contains("no dashboard is open (`haft dashboard` opens one)"), "{stderr}");
        assert!(
            stderr.contains("hint: call it where a person can answer: from a terminal, on `haft dashboard`"),
            "{stderr}"
        );
        assert!(!ran(stage).exists());
    };
    refused(&stage);
    let browser = Browser::open(&stage);
    refused(&stage);
    drop(browser.stream());
    drop(browser);
    // The remains of a killed dashboard do not count as an open one.
    refused(&stage);
}

/// A question disappears with the process of its call.
#[test]
fn what_nobody_waits_for_is_not_asked() {
    let stage = Stage::new(CONFIRM);
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let mut child = call(&stage, "echo ran >ran");
    let question = stream.question();
    child.kill().unwrap();
    child.wait().unwrap();
    stream.next("waiting", |all| all == &json!([]));
    assert_eq!(browser.answer(&question, "once").status, 409);
    assert!(!ran(&stage).exists());
}

/// An answer belongs to the digest of the shown question: a modified question has another digest, and its answer does
/// not run the call.
#[test]
fn another_call_is_not_approved_in_its_place() {
    let stage = Stage::new(CONFIRM);
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let child = call(&stage, "echo ran >ran");
    let question = stream.question();
    let desk = stage.home().join(".local/state/haft/page");
    let mode = |path: &str| fs::metadata(desk.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("questions"), mode("answers")), (0o700, 0o700, 0o700));
    let id = question["id"].as_str().unwrap();
    assert_eq!(mode(&format!("questions/{id}.json")), 0o600);
    // An attacker with write access replaces the call's text by a harmless one, and adds an answer.
    let answer = desk.join(format!("answers/{id}.json"));
    have_read(&answer, &json!({"digest": "0".repeat(64), "answer": "once"}).to_string());
    assert!(!ran(&stage).exists());
    let path = desk.join(format!("questions/{id}.json"));
    let harmless = fs::read_to_string(&path).unwrap().replace("echo ran >ran", "echo ok #####");
    fs::write(&path, harmless).unwrap();
    let shown = stream.next("waiting", |all| all[0]["what"] == "echo ok #####");
    assert_eq!(browser.answer(&question, "once").status, 409);
    assert_eq!(browser.answer(&shown[0], "once").status, 200);
    let given = fs::read_to_string(&answer).unwrap();
    fs::remove_file(&answer).unwrap();
    have_read(&answer, &given);
    assert!(!ran(&stage).exists(), "the answer is one to another call");
    let mut child = child;
    child.kill().unwrap();
    child.wait().unwrap();
}

/// No tool reaches the folder of questions and answers: it could approve its own calls.
#[test]
fn a_tool_cannot_answer() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    let _stream = browser.stream();
    let desk = stage.home().join(".local/state/haft/page");
    for command in ["ls", "touch"] {
        let child = call(&stage, &format!("{command} {}/answers/x && echo reached", desk.display()));
        let (stdout, stderr) = ended(child);
        assert!(!stdout.contains("reached"), "{stdout} {stderr}");
    }
    let read = json!({ "file_path": desk.join("questions") }).to_string();
    let output = stage.command(&["call", "read", &read]).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
}

/// The dashboard asks for a client of `haft serve` without elicitation; "this session" is the client's session.
#[test]
fn an_mcp_client_s_calls_wait_at_the_page() {
    let stage = Stage::new(CONFIRM);
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({}));
    let run = |command: &str| json!({"name": "bash", "arguments": {"command": command}});
    let call = peer.ask("tools/call", run("echo one"));
    let question = stream.question();
    assert_eq!((&question["origin"]["verb"], &question["for_session"]), (&json!("serve"), &json!(true)));
    assert_eq!(browser.answer(&question, "session").status, 200);
    assert_eq!(text(&peer.answer(call)["result"]), "one\n");
    let again = peer.request("tools/call", run("echo two"))["result"].take();
    assert_eq!(text(&again), "two\n", "the session's answer holds");
    // Another client has another session.
    let mut other = Peer::session(&stage, "2025-11-25", &json!({}));
    stream.next("waiting", |all| all == &json!([]));
    let call = other.ask("tools/call", run("echo three"));
    let question = stream.question();
    assert_eq!(browser.answer(&question, "refuse").status, 200);
    assert_eq!(text(&other.answer(call)["result"]), "Command execution denied by user.");
}

/// U2: the user grants a right that a client's call lacked on the dashboard, which writes it to program.toml.
#[test]
fn what_was_refused_is_given_at_the_page() {
    let stage = Stage::new("");
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({}));
    fs::create_dir(stage.home().join("other")).unwrap();
    let call = peer
        .ask("tools/call", json!({"name": "bash", "arguments": {"command": "touch ~/other/a && echo done"}}));
    let question = stream.question();
    assert!(question["written_by"].as_str().unwrap().starts_with("haft grant bash write="), "{question}");
    assert_eq!(browser.answer(&question, "write").status, 200);
    assert_eq!(text(&peer.answer(call)["result"]), "done\n");
    let program = fs::read_to_string(stage.path("program.toml")).unwrap();
    assert!(program.contains("other\"]"), "{program}");
}

/// Without sessions (2026-07-28) a yes is valid for one call.
#[test]
fn a_client_without_session_gets_a_yes_for_one_call() {
    let stage = Stage::new(CONFIRM);
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let mut peer = Peer::start(&stage, &[]);
    let run = json!({"name": "bash", "arguments": {"command": "echo one"}});
    peer.send(&crate::serve::eras::modern("tools/call", 1, run));
    let question = stream.question();
    assert_eq!(question["for_session"], false, "{question}");
    assert_eq!(browser.answer(&question, "session").status, 409, "that was not offered");
    assert_eq!(browser.answer(&question, "once").status, 200);
    assert_eq!(text(&peer.answer(1)["result"]), "one\n");
}

/// The dashboard does not ask for a client with elicitation.
#[test]
fn a_client_with_elicitation_asks_itself() {
    let stage = Stage::new(CONFIRM);
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({"elicitation": {}}));
    let call = peer.ask("tools/call", json!({"name": "bash", "arguments": {"command": "echo one"}}));
    let asked = peer.await_one(|message| message["method"] == "elicitation/create");
    let desk = stage.home().join(".local/state/haft/page/questions");
    assert_eq!(fs::read_dir(desk).unwrap().count(), 0);
    let yes = json!({"action": "accept", "content": {"approve": true}});
    peer.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes}));
    assert_eq!(text(&peer.answer(call)["result"]), "one\n");
    drop(stream);
}

/// Closing the dashboard ends the wait, and the call does not run.
#[test]
fn a_page_that_is_closed_ends_the_wait() {
    let stage = Stage::new(CONFIRM);
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let mut child = call(&stage, "echo ran >ran");
    let said = lines(child.stderr.take().unwrap());
    stream.question();
    drop((stream, browser));
    let all: Vec<String> = std::iter::from_fn(|| said.recv_timeout(HANG).ok()).collect();
    assert!(all.join("\n").contains("the dashboard was closed before an answer"), "{all:?}");
    child.wait().unwrap();
    assert!(!ran(&stage).exists());
}

/// A question with a text that is too long shows its start, and says that it is cut.
#[test]
fn a_long_text_in_a_question_is_cut() {
    let stage = Stage::new("confirm = [\"ec*\"]\n");
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let arguments = json!({ "text": "x".repeat(30_000) }).to_string();
    let mut child = stage.command(&["call", "guest__echo", &arguments]).spawn().unwrap();
    let question: Value = stream.question();
    assert_eq!((&question["verb"], &question["is_cut"]), (&json!("Call"), &json!(true)), "{question}");
    assert!(question["arguments"]["text"].as_str().unwrap().len() < 21_000);
    assert_eq!(browser.answer(&question, "refuse").status, 200);
    child.wait().unwrap();
}

/// U3: the question for `write` shows the diff against the file's content, as at the terminal.
#[test]
fn a_file_that_is_written_is_shown_as_a_difference() {
    let stage = Stage::new("[agent]\nask = [\"write\"]\n[sandbox]\nworkspace = \".\"\n");
    fs::write(stage.path("plan.md"), "Buy milk\nmend the roof\n").unwrap();
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    let arguments = json!({ "file_path": "plan.md", "content": "Buy oat milk\nmend the roof\n" });
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({}));
    let call = peer.ask("tools/call", json!({ "name": "write", "arguments": arguments }));
    let question: Value = stream.question();
    let expected =
        json!([["@", "-1,2 +1,2"], ["-", "Buy milk"], ["+", "Buy oat milk"], [" ", "mend the roof"]]);
    assert_eq!(question["difference"]["lines"], expected, "{question}");
    assert_eq!(
        (&question["what"], &question["difference"]["arguments"]),
        (&json!("write plan.md"), &json!(["content"]))
    );
    assert_eq!(browser.answer(&question, "once").status, 200);
    peer.answer(call);
    let row = stream.row("write", "ok");
    assert_eq!(row["arguments"], "plan.md content=(2 lines)", "{row}");
    assert!(row["answer"].as_str().unwrap().starts_with("Wrote "), "{row}");
    let all = browser.json(&format!("/api/call?id={}", row["id"].as_str().unwrap()));
    assert!(all["record"]["answer"].as_str().unwrap().starts_with("Wrote "), "{all}");
    assert!(all["arguments"].as_str().unwrap().contains("Buy oat milk\n"), "{all}");
}
