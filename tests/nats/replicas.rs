//! Replicas of `haft serve --http` that share only a NATS server: approvals, tasks, and sessions of stateful
//! clients.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use super::raw::Raw;
use super::world::World;
use crate::cli::Home;
use crate::common::wait::{until, until_some};
use crate::serve::eras::meta;
use crate::serve::http::{Reply, Site};
use crate::serve::peer::text;

const ADA: &str = "a-token-of-ada-4711-0815-4711";
const BOB: &str = "a-token-of-bob-4711-0815-4711";

/// The tools make marks: one needs approval, two take longer than a client waits.
const PROGRAM: &str = r#"
[program]
name = "many"
version = "1.0.0"

[nats]
user = { file = "user" }
password = { file = "password" }

[sandbox]
mode = "rwx"
workspace = "."

[[serve.callers]]
name = "ada"
token = { file = "ada" }
tools = ["*"]

[[serve.callers]]
name = "bob"
token = { file = "bob" }
tools = ["*"]

[[tools]]
name = "mark"
description = "Adds a mark, where a person approves."
command = ["sh", "-c", "echo $1 >> MARKS", "mark"]
grant = { read = ["."], write = ["OUT"] }
arguments = [{ name = "mark", description = "The mark." }]
confirm = true

[[tools]]
name = "slow"
description = "Adds a mark, takes long, and says more than an entry holds."
command = ["sh", "-c", "echo $1 >> MARKS; until [ -e go ]; do sleep 0.1; done; head -c 20000 /dev/zero | tr '\\0' x; echo $1", "slow"]
grant = { read = ["."], write = ["OUT"] }
arguments = [{ name = "mark", description = "The mark." }]

[[tools]]
name = "endless"
description = "Takes longer than anybody waits."
command = ["sh", "-c", "echo $1 >> MARKS; exec sleep 7777.7", "endless"]
grant = { read = ["."], write = ["OUT"] }
arguments = [{ name = "mark", description = "The mark." }]
"#;

/// One replica with its own home.
struct Replica {
    home: Home,
    site: Site,
}

impl Replica {
    fn start(world: &World) -> Self {
        let home = Home::new();
        home.write("program.toml", &world.with_marks(PROGRAM));
        for (file, text) in [("user", "gate"), ("password", "gate-password"), ("ada", ADA), ("bob", BOB)] {
            home.write(file, text);
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(home.work().join(file), mode).unwrap();
        }
        let url = world.url();
        let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--nats", &url]);
        let site = Site::begin(command.stderr(Stdio::piped()).stdout(Stdio::null()));
        Self { home, site }
    }

    fn request(&self, token: &str, method: &str, name: &str, mut params: Value) -> Value {
        let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        params["_meta"] = meta(&capabilities);
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("mcp-name", name),
        ];
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.site.post(&headers, &message).answer()
    }

    /// Calls a tool with one argument, and with further parameters in `more`.
    fn call(&self, token: &str, tool: &str, mark: &str, more: &Value) -> Value {
        let tool = format!("program__many__{tool}");
        let mut params = json!({"name": tool, "arguments": {"mark": mark}});
        more.as_object().unwrap().iter().for_each(|(key, value)| params[key] = value.clone());
        self.request(token, "tools/call", &tool, params)
    }

    /// Requests an approval; the yes to it.
    fn ask(&self, mark: &str) -> Value {
        let asked = self.call(ADA, "mark", mark, &json!({}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
        json!({"requestState": asked["result"]["requestState"], "inputResponses": yes})
    }

    /// Starts a call that becomes a task; its id.
    fn begin(&self, tool: &str, mark: &str) -> String {
        let begun = self.call(ADA, tool, mark, &json!({}));
        assert_eq!(begun["result"]["resultType"], "task", "{begun}");
        assert_eq!(begun["result"]["status"], "working", "{begun}");
        begun["result"]["taskId"].as_str().unwrap().to_owned()
    }

    fn task(&self, token: &str, method: &str, id: &str) -> Value {
        self.request(token, method, id, json!({"taskId": id}))
    }

    /// The result of a task, once it has ended.
    fn until_over(&self, id: &str) -> Value {
        until_some("the task is over", || {
            let told = self.task(ADA, "tasks/get", id);
            assert!(told["error"].is_null(), "{told}");
            (told["result"]["status"] != "working").then(|| told["result"].clone())
        })
    }

    /// The answer to a message in a session of an older era.
    fn in_session(&self, method: &str, session: &str) -> Reply {
        let bearer = format!("Bearer {ADA}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("mcp-session-id", session),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        let body = if method == "POST" { list.to_string() } else { String::new() };
        self.site.send(method, &headers, body.as_bytes())
    }
}

/// Whether haft refused an answer because of `why`.
fn is_refused(answer: &Value, why: &str) -> bool {
    answer["error"]["code"] == -32602 && answer["error"]["message"].as_str().unwrap().contains(why)
}

/// RP01: an approval that one replica requested is valid once, at any replica; it is invalid for another caller, for
/// another call, or with a changed letter.
#[test]
fn an_approval_is_good_at_every_replica_once() {
    let Some(world) = World::start() else { return };
    let (one, two) = (Replica::start(&world), Replica::start(&world));
    let answer = one.ask("first");
    let foreign = "this answer belongs to no question about this call, of this program and caller";
    assert!(is_refused(&two.call(BOB, "mark", "first", &answer), foreign), "another caller");
    assert!(is_refused(&two.call(ADA, "mark", "other", &answer), foreign), "another call");
    let mut altered = answer.clone();
    let state = answer["requestState"].as_str().unwrap();
    let last = if state.ends_with('A') { 'B' } else { 'A' };
    altered["requestState"] = json!(format!("{}{last}", &state[..state.len() - 1]));
    assert!(is_refused(&two.call(ADA, "mark", "first", &altered), foreign), "another state");
    assert_eq!(world.marks(), Vec::<String>::new());
    let done = two.call(ADA, "mark", "first", &answer);
    assert!(done["error"].is_null() && done["result"]["isError"] != true, "{done}");
    assert_eq!(world.marks(), ["first"]);
    for replica in [&one, &two, &Replica::start(&world)] {
        let again = replica.call(ADA, "mark", "first", &answer);
        assert!(is_refused(&again, "used before"), "{again}");
    }
    assert_eq!(world.marks(), ["first"]);
}

/// RP01: of concurrent calls with one approval, one runs.
#[test]
fn of_answers_at_the_same_time_one_counts() {
    let Some(world) = World::start() else { return };
    let replicas = [Replica::start(&world), Replica::start(&world)];
    for round in 0..5 {
        let mark = format!("round {round}");
        let answer = replicas[round % 2].ask(&mark);
        let ran = std::thread::scope(|scope| {
            let give = |number: usize| replicas[number % 2].call(ADA, "mark", &mark, &answer);
            let calls: Vec<_> = (0..8).map(|number| scope.spawn(move || give(number))).collect();
            let answers = calls.into_iter().map(|call| call.join().unwrap());
            answers.filter(|answer| !is_refused(answer, "used before")).count()
        });
        assert_eq!((ran, world.marks().len()), (1, round + 1), "{:?}", world.marks());
    }
}

/// RP01: if the shared store is unavailable, no call with an approval runs, and the error says so.
#[test]
fn without_the_server_nothing_that_needs_approval_runs() {
    let Some(mut world) = World::start() else { return };
    let (one, two) = (Replica::start(&world), Replica::start(&world));
    let (early, answer) = (one.ask("early"), one.ask("late"));
    assert_eq!(two.call(ADA, "mark", "early", &early)["result"]["isError"], false);
    world.server.kill();
    let refused = two.call(ADA, "mark", "late", &answer);
    let why = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(refused["error"]["code"] == -32603 && why.contains("nothing ran"), "{refused}");
    world.server.start();
    until("the server is reached", || one.call(ADA, "mark", "late", &answer)["error"]["code"] != -32603);
    for replica in [&one, &two] {
        let again = replica.call(ADA, "mark", "early", &early);
        assert!(!again["error"].is_null(), "{again}");
    }
    assert!(world.marks().iter().filter(|mark| *mark == "late").count() <= 1, "{:?}", world.marks());
    assert_eq!(world.marks()[0], "early");
}

/// RP02: a session of an older era belongs to the replica that opened it; another replica's error names that replica.
#[test]
fn a_session_says_where_it_lives() {
    let Some(world) = World::start() else { return };
    let (one, two) = (Replica::start(&world), Replica::start(&world));
    let bearer = format!("Bearer {ADA}");
    let open = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}});
    let open = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": open});
    let opened = one.site.post(&[("authorization", &bearer)], &open);
    let session = opened.header("mcp-session-id").unwrap();
    let (_, home) = session.rsplit_once('@').unwrap_or_else(|| panic!("{session}"));
    assert_eq!(one.in_session("POST", session).status, 200);
    for method in ["POST", "DELETE", "GET"] {
        let reply = two.in_session(method, session);
        assert_eq!(reply.status, 404, "{reply:?}");
        assert!(reply.body.contains(&format!("belongs to the replica `{home}`")), "{reply:?}");
    }
    assert_eq!(one.in_session("POST", session).status, 200, "nothing ended it");
    assert_eq!(one.in_session("DELETE", session).status, 204);
    let over = one.in_session("POST", session);
    assert!(over.status == 404 && !over.body.contains("belongs to the replica"), "{over:?}");
}

/// RP03: a long call becomes a task; every replica gives its state and result to its caller alone, and can cancel it.
#[test]
fn a_task_is_told_of_and_stopped_by_every_replica() {
    let Some(world) = World::start() else { return };
    let (one, two) = (Replica::start(&world), Replica::start(&world));
    let id = one.begin("slow", "task");
    let working = two.task(ADA, "tasks/get", &id);
    assert_eq!(working["result"]["status"], "working", "{working}");
    assert!(
        is_refused(&two.task(BOB, "tasks/get", &id), "you have no such task; results are stored for"),
        "another caller"
    );
    assert!(
        is_refused(&one.task(BOB, "tasks/cancel", &id), "you have no such task; results are stored for"),
        "another caller"
    );
    one.home.write("go", "");
    for replica in [&two, &one] {
        let over = replica.until_over(&id);
        assert_eq!(over["status"], "completed", "{over}");
        let said = text(&over["result"]);
        assert!(said.starts_with("xxx") && said.ends_with("xtask\n"), "{} bytes", said.len());
    }
    assert_eq!(world.marks(), ["task"]);
    let id = one.begin("endless", "cancelled");
    let told = two.task(ADA, "tasks/cancel", &id);
    assert!(told["error"].is_null(), "{told}");
    assert_eq!(two.until_over(&id)["status"], "cancelled");
    until("what the call started is gone", || !super::world::sleeps(&one.home.work()));
    assert_eq!(world.marks(), ["task", "cancelled"]);
}

/// RP04: a worker's user can neither read nor receive the data that replicas share.
#[test]
fn a_worker_does_not_see_the_key() {
    let Some(world) = World::start() else { return };
    let one = Replica::start(&world);
    one.ask("nothing");
    let read = "$JS.API.DIRECT.GET.KV_haft-keys.$KV.haft-keys.key";
    let mut gate = Raw::login(&world, "gate");
    assert!(gate.asks(read, "haft.1.replica.inbox.test", ""), "a gate reads it");
    for (subject, text) in [
        (read, ""),
        ("$JS.API.STREAM.MSG.GET.KV_haft-keys", "{\"last_by_subj\":\"$KV.haft-keys.key\"}"),
        (
            "$JS.API.CONSUMER.CREATE.KV_haft-keys",
            "{\"stream_name\":\"KV_haft-keys\",\"config\":{\"deliver_subject\":\"_INBOX.haft.worker.eu-1.t\"}}",
        ),
        ("$JS.API.STREAM.CREATE.copy", "{\"name\":\"copy\",\"sources\":[{\"name\":\"KV_haft-keys\"}]}"),
        ("$KV.haft-approvals.x", "x"),
        ("haft.1.replica.task.x", "cancel"),
    ] {
        assert!(!Raw::login(&world, "eu-1").asks(subject, "_INBOX.haft.worker.eu-1.t", text), "{subject}");
    }
    for subject in ["$KV.haft-keys.>", "haft.1.replica.>", "$JS.API.>", ">"] {
        assert!(!Raw::login(&world, "eu-1").hears(subject), "{subject}");
    }
}
