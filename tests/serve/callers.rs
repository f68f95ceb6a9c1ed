//! Callers of `haft serve --http`, identified by tokens or JSON Web Tokens, each with its own tools, rights and
//! quota. No caller reaches the data of another.

mod jwt;
mod many;

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::Stage;
use super::http::{Reply, Site, reply};
use super::passthrough::like;
use crate::common::wait::{until, until_some};
use crate::mcp::fake;

const ADA: &str = "the-token-of-ada-0815";
const BOB: &str = "the-token-of-bob-4711";

/// The value of `Authorization` for a token.
pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Writes a token to a file that only its owner reads.
fn write_token(path: &Path, token: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, token).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A program with two callers; `ada` and `bob` are their keys besides `name` and `token`.
fn two(ada: &str, bob: &str) -> (Stage, String) {
    let text = format!(
        "[plugins.grant]\nenv = [\"ONE\", \"TWO\"]\n\n[[serve.callers]]\nname = \"ada\"\ntoken = {{ file = \"ada.token\" }}\n{ada}\n\n\
         [[serve.callers]]\nname = \"bob\"\ntoken = {{ file = \"bob.token\" }}\n{bob}\n"
    );
    let stage = Stage::new(&text);
    write_token(&stage.path("ada.token"), ADA);
    write_token(&stage.path("bob.token"), BOB);
    (stage, text)
}

/// haft that serves the stage's program, with two environment variables and its own state folder.
fn serve(stage: &Stage) -> Site {
    let mut command = stage.command(&["serve", "--http", "127.0.0.1:0"]);
    Site::begin(command.env("ONE", "1").env("TWO", "2").env("XDG_STATE_HOME", stage.home().join("state")))
}

pub(crate) fn call(site: &Site, token: &str, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    site.modern(&[("authorization", &bearer(token))], "tools/call", params).answer()
}

fn names(site: &Site, token: &str) -> Vec<String> {
    let list = site.modern(&[("authorization", &bearer(token))], "tools/list", json!({})).answer();
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The answer to a GET of `path` without a token.
fn get(site: &Site, path: &str) -> Reply {
    let mut stream = site.connect();
    let head = site.head("GET", &[("authorization", ""), ("content-length", "")], 0);
    stream.write_all(head.replace(" /mcp ", &format!(" {path} ")).as_bytes()).unwrap();
    reply(stream)
}

/// The complete lines of the journal.
fn journal(stage: &Stage) -> Vec<Value> {
    let text = std::fs::read_to_string(stage.home().join("state/haft/journal/journal.jsonl")).unwrap();
    // haft may be writing the last line.
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of the journal, once it has `calls` successful calls of `caller`: haft may record them a moment later.
fn journal_with(stage: &Stage, caller: &str, calls: usize) -> Vec<Value> {
    until_some("the calls are noted", || {
        let lines = journal(stage);
        let is_meant = |line: &&Value| line["caller"] == caller && line["outcome"] == "ok";
        (lines.iter().filter(is_meant).count() >= calls).then_some(lines)
    })
}

/// Each caller sees and calls its own tools; other tools are unknown to it. The journal has the caller's name.
#[test]
fn each_caller_has_its_own_tools() {
    let (stage, _) = two("tools = [\"guest__e*\"]", "tools = [\"guest__sleep\", \"time\"]");
    let site = serve(&stage);
    assert!(names(&site, ADA).iter().all(|name| name.starts_with("guest__e")));
    assert_eq!(names(&site, BOB), ["time", "guest__sleep"]);
    assert_eq!(call(&site, ADA, "guest__echo", &json!({"text": "x"}))["result"]["isError"], false);
    let refused = call(&site, BOB, "guest__echo", &json!({"text": "x"}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(
        said.starts_with("Unknown tool: guest__echo") && !said.contains("did you mean `guest__e"),
        "{said}"
    );
    for stranger in ["", "Bearer", "Bearer another-token-0815", &format!("Basic {ADA}")] {
        let reply = site.modern(&[("authorization", stranger)], "tools/list", json!({}));
        assert_eq!(reply.status, 401, "{stranger:?}");
    }
    assert_eq!(call(&site, BOB, "guest__sleep", &json!({"ms": 1}))["result"]["isError"], false);
    for caller in ["ada", "bob"] {
        journal_with(&stage, caller, 1);
    }
}

/// X11: the state that a caller's calls leave in an instance is invisible to other callers.
#[test]
fn an_instance_serves_the_calls_of_one_caller() {
    let (stage, text) = two("tools = [\"*\"]", "tools = [\"*\"]");
    stage.program(&format!("[plugins.reuse]\nmax_calls = 100\n{text}"));
    let site = serve(&stage);
    let count = |token| {
        let answer = call(&site, token, "guest__count_calls", &json!({}));
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    assert_eq!([ADA, ADA, BOB, BOB].map(count), ["1", "2", "1", "2"]);
}

/// A session belongs to the caller that opened it: every request of another caller for it gets 404.
#[test]
fn a_session_belongs_to_its_caller() {
    let (stage, _) = two("tools = [\"*\"]", "tools = [\"*\"]");
    let site = serve(&stage);
    let client = json!({"name": "raw", "version": "0"});
    let open = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let open = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": open});
    let ada = bearer(ADA);
    let opened = site.post(&[("authorization", &ada)], &open);
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let of = |token: &str, method: &str, message: &Value| {
        let authorization = bearer(token);
        let own = [
            ("authorization", authorization.as_str()),
            ("mcp-session-id", &session),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        site.send(method, &own, message.to_string().as_bytes())
    };
    let echo = json!({"name": "guest__echo", "arguments": {"text": "mine"}});
    let echo = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": echo});
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"});
    for message in [&echo, &list] {
        assert_eq!(of(BOB, "POST", message).status, 404);
    }
    assert_eq!(of(BOB, "GET", &Value::Null).status, 404);
    assert_eq!(of(BOB, "DELETE", &Value::Null).status, 404);
    assert_eq!(of(ADA, "POST", &echo).answer()["result"]["content"][0]["text"], "mine");
    assert_eq!(of(ADA, "DELETE", &Value::Null).status, 204);
}

/// A caller's grant only removes rights; the journal has the remaining grant.
#[test]
fn a_grant_only_narrows() {
    let wider =
        "tools = [\"guest__env\", \"read\", \"write\"]\n[serve.callers.grant]\nenv = [\"TWO\", \"HOME\"]\n";
    let (stage, _) = two("tools = [\"*\"]", wider);
    let site = serve(&stage);
    let env =
        |token| call(&site, token, "guest__env", &json!({}))["result"]["content"][0]["text"].to_string();
    let (all, left) = (env(ADA), env(BOB));
    assert!(all.contains("ONE") && all.contains("TWO"), "{all}");
    assert!(!left.contains("ONE") && left.contains("TWO") && !left.contains("HOME"), "{left}");
    let file = stage.path("file");
    std::fs::write(&file, "here").unwrap();
    let read = |token| call(&site, token, "read", &json!({"file_path": file}))["result"]["isError"].clone();
    assert_eq!((read(ADA), read(BOB)), (json!(false), json!(true)));
    let write = |token| {
        call(&site, token, "write", &json!({"file_path": stage.home().join("tmp/new"), "content": "x"}))
    };
    assert_eq!(write(BOB)["result"]["isError"], true);
    assert!(!stage.home().join("tmp/new").exists());
    let of_bob = |line: &&Value| line["caller"] == "bob" && line["tool"] == "guest__env";
    let noted = until_some("the call is noted", || journal(&stage).iter().find(of_bob).cloned());
    assert_eq!(noted["grant"]["env"], json!(["TWO"]));
}

/// An MCP server has the program's rights: a caller with fewer rights does not get the server's tools.
#[test]
fn what_a_grant_does_not_reach_is_left_out() {
    let server = "[[mcp_servers]]\nname = \"own\"\ncommand = [\"haft\", \"serve\"]\n";
    let (stage, text) = two("tools = [\"*\"]", "tools = [\"*\"]\n[serve.callers.grant]\nread = [\".\"]\n");
    std::fs::create_dir(stage.path("inner")).unwrap();
    let haft = env!("CARGO_BIN_EXE_haft");
    let inner = stage.path("inner/program.toml");
    std::fs::write(&inner, "[program]\nname = \"inner\"\nversion = \"1.0.0\"\n").unwrap();
    let server =
        server.replace("\"haft\", \"serve\"", &format!("{haft:?}, \"serve\", \"--program\", {inner:?}"));
    stage.program(&format!("{text}\n{server}"));
    let site = serve(&stage);
    let has = |token| names(&site, token).iter().any(|name| name.starts_with("mcp__own__"));
    assert!(has(ADA) && !has(BOB));
    assert!(names(&site, BOB).iter().any(|name| name == "read"));
}

/// A caller with fewer rights does not get an MCP server's prompts, resources and instructions.
#[test]
fn what_a_server_offers_has_its_rights() {
    let (stage, text) = two("tools = [\"*\"]", "tools = [\"*\"]\n[serve.callers.grant]\nread = [\".\"]\n");
    let text = format!("{text}\n{}", fake::toml("own", &like(), ""));
    stage.agree_to(&text);
    stage.program(&text);
    let site = serve(&stage);
    let ask =
        |token, method, params| site.modern(&[("authorization", &bearer(token))], method, params).answer();
    for (method, list) in [("resources/list", "resources"), ("prompts/list", "prompts")] {
        let seen = |token| ask(token, method, json!({}))["result"][list].as_array().map_or(0, Vec::len);
        assert_eq!((seen(ADA), seen(BOB)), (1, 0), "{method}");
    }
    let read = |token| ask(token, "resources/read", json!({ "uri": "x://one" }));
    assert!(read(ADA)["result"]["contents"].is_array(), "{}", read(ADA));
    assert!(read(BOB)["error"]["code"].is_i64(), "{}", read(BOB));
    let told = |token| ask(token, "server/discover", json!({})).to_string().contains("Call echo first");
    assert!(told(ADA) && !told(BOB));
}

/// haft refuses a call over the quota at once, with the time to retry; the quota is available again later.
#[test]
fn calls_are_counted() {
    let (stage, _) = two(
        "tools = [\"*\"]\ncalls_per_minute = 3",
        "tools = [\"*\"]\ncalls_at_once = 1\n[sandbox]\nworkspace = \".\"",
    );
    let site = serve(&stage);
    let echo = |token| call(&site, token, "guest__echo", &json!({"text": "x"}))["result"].clone();
    let mut answered = 0;
    let refused = until_some("a call is too much", || {
        let answer = echo(ADA);
        answered += usize::from(answer["isError"] == false);
        (answer["isError"] == true).then_some(answer)
    });
    // On a slow machine the quota grows while the calls run.
    assert!(answered >= 3, "{refused}");
    let said = refused["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("3 calls per minute: try again in"), "{refused}");
    let command = json!({"command": "touch begun; until [ -e go ]; do sleep 0.01; done"});
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| call(&site, BOB, "bash", &command));
        until("the call is under way", || stage.path("begun").exists());
        let said = echo(BOB);
        std::fs::write(stage.path("go"), "").unwrap();
        assert!(said["content"][0]["text"].as_str().unwrap().contains("1 calls at once"), "{said}");
        assert_eq!(slow.join().unwrap()["result"]["isError"], false);
    });
    assert_eq!(echo(BOB)["isError"], false);
    journal_with(&stage, "bob", 2);
    let lines = journal_with(&stage, "ada", answered);
    let ada = lines.iter().filter(|line| line["caller"] == "ada" && line["outcome"] == "ok").count();
    assert_eq!(ada, answered, "what is too much is in no journal");
}

/// A caller that was removed from program.toml gets 401 for its next request.
#[test]
fn a_caller_that_is_taken_away_is_gone() {
    let (stage, text) = two("tools = [\"*\"]", "tools = [\"*\"]");
    let site = serve(&stage);
    assert!(!names(&site, BOB).is_empty());
    let (kept, _) = text.rsplit_once("[[serve.callers]]").unwrap();
    stage.program(&kept.replace("tools = [\"*\"]", "tools = [\"time\"]"));
    let status = || site.modern(&[("authorization", &bearer(BOB))], "tools/list", json!({})).status;
    until("bob is nobody", || status() == 401);
    assert_eq!(names(&site, ADA), ["time"]);
}

/// Orchestrators get the health of haft without a token, and nothing else.
#[test]
fn health_is_told_without_a_token() {
    let (stage, _) = two("tools = [\"*\"]", "tools = [\"*\"]");
    let site = serve(&stage);
    assert_eq!((get(&site, "/healthz").status, get(&site, "/healthz").body.as_str()), (200, "ok\n"));
    until("haft is ready", || get(&site, "/readyz").status == 200);
    let posted = site.connect();
    let head = site.head("POST", &[("authorization", "")], 0).replace(" /mcp ", " /healthz ");
    (&posted).write_all(head.as_bytes()).unwrap();
    assert_eq!(reply(posted).status, 405);
    // These tokens have no issuer, so haft publishes no metadata for them.
    assert_eq!(get(&site, "/.well-known/oauth-protected-resource").status, 401);
    assert_eq!(get(&site, "/other").status, 401);
    let foreign = site.send("GET", &[("host", "evil.test"), ("authorization", "")], b"");
    assert_eq!(foreign.status, 403);
}

/// haft does not start with two kinds of authentication, with one token for two callers, or with a short or missing
/// token.
#[test]
fn what_cannot_be_told_apart_is_not_served() {
    let (stage, text) = two("tools = [\"*\"]", "tools = [\"*\"]");
    let run = |arguments: &[&str]| {
        let arguments = [&["serve", "--http", "127.0.0.1:0"], arguments].concat();
        let output = stage.command(&arguments).env("HAFT_TEST_TOKEN", ADA).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    for arguments in [&["--no-token"][..], &["--token-env", "HAFT_TEST_TOKEN"]] {
        assert!(run(arguments).contains("cannot be combined with `[[serve.callers]]`"));
    }
    write_token(&stage.path("bob.token"), ADA);
    assert!(run(&[]).contains("the callers `ada` and `bob` have the same token"));
    write_token(&stage.path("bob.token"), "short");
    assert!(run(&[]).contains("the token of caller `bob` is too short"));
    stage.program(&text.replace("file = \"bob.token\"", "env = \"HAFT_NO_SUCH\""));
    assert!(run(&[]).contains("the token of caller `bob` is not available"));
}
