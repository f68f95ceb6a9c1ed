//! A strict MCP server on stdio that fails in every way of servers. This test program runs itself as the server; the
//! environment configures it.

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::common::wait::{until, until_some};

/// The variable with a server's behaviour.
pub(crate) const LIKE: &str = "FAKE_MCP_SERVER";

/// The command that starts a server.
pub(crate) fn command() -> Vec<String> {
    let own = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let words = ["--exact", "mcp::fake::serve", "--ignored", "--nocapture", "--test-threads", "1"];
    std::iter::once(own).chain(words.map(str::to_owned)).collect()
}

/// `[[mcp_servers]]` of a server with the behaviour `like`.
pub(crate) fn toml(name: &str, like: &Value, more: &str) -> String {
    let like = toml::Value::String(like.to_string());
    format!(
        "[[mcp_servers]]\nname = \"{name}\"\ncommand = {:?}\nenv = {{ {LIKE} = {like}, OWN = \"value\" }}\n{more}\n",
        command()
    )
}

/// The messages that a server got, in order, from its record in the workspace.
pub(crate) fn received(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("received.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The methods of those messages; responses have none.
pub(crate) fn methods(folder: &Path) -> Vec<String> {
    received(folder).iter().filter_map(|message| Some(message["method"].as_str()?.to_owned())).collect()
}

#[test]
#[ignore = "a server that the tests start; by itself it is none"]
fn serve() {
    let Ok(like) = std::env::var(LIKE) else { return };
    let mut like: Value = serde_json::from_str(&like).unwrap();
    if let Some(file) = like["file"].as_str() {
        like = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    }
    Fake::new(like).run();
    std::process::exit(0);
}

#[derive(Clone)]
struct Fake {
    like: Arc<Value>,
    out: Arc<Mutex<()>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    initialized: bool,
    cancelled: Vec<Value>,
    /// Responses to requests of this server.
    answers: Vec<Value>,
    more_tools: bool,
    /// The answers to the questions of the task.
    input: Option<Value>,
    asked: i64,
}

/// A tool whose description repeats a secret.
fn telling() -> Value {
    let secret = std::env::var("MY_TOKEN").unwrap();
    let properties = json!({ "token": { "type": "string", "default": secret } });
    json!({ "tools": [{
        "name": "tell", "title": secret, "description": format!("Connected as {secret}"),
        "inputSchema": { "type": "object", "properties": properties },
    }] })
}

/// A tool whose schema takes 2^32 steps to check.
fn doubling() -> Value {
    let next = |level: usize| json!({ "$ref": format!("#/$defs/a{}", level + 1) });
    let level = |level| (format!("a{level}"), json!({ "allOf": [next(level), next(level)] }));
    let mut levels: serde_json::Map<String, Value> = (0..32).map(level).collect();
    levels.insert("a32".into(), json!({ "type": "string" }));
    let properties = json!({ "x": { "$ref": "#/$defs/a0" } });
    json!({ "tools": [{
        "name": "echo", "inputSchema": { "type": "object", "properties": properties, "$defs": levels },
    }] })
}

fn fatal(why: &str) -> ! {
    eprintln!("violation: {why}");
    std::process::exit(9)
}

impl Fake {
    fn new(like: Value) -> Self {
        Self { like: Arc::new(like), out: Arc::default(), state: Arc::default() }
    }

    fn is(&self, what: &str, value: &str) -> bool {
        self.like[what] == value
    }

    fn write(&self, text: &str) {
        let _turn = self.out.lock().unwrap();
        let mut out = std::io::stdout().lock();
        // The reader may have ended.
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }

    fn send(&self, message: &Value) {
        self.write(&message.to_string());
    }

    fn run(&self) {
        if let Some(bytes) = self.like["noise"].as_u64() {
            noise(bytes);
        }
        eprintln!("fake server starts");
        match self.like["start"].as_str() {
            Some("crash") => {
                eprintln!("cannot find module `left-pad`");
                std::process::exit(3);
            }
            Some("hang") => hang(),
            Some("denied") => {
                let refused = std::fs::write("../denied-to-the-server", "").unwrap_err();
                eprintln!("cannot write denied-to-the-server: {refused}");
                std::process::exit(1);
            }
            _ => {}
        }
        self.write("this line is no message");
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| fatal("not JSON"));
            note(&line);
            self.hear(message);
        }
        if self.is("end", "ignore") {
            hang();
        }
    }

    fn hear(&self, message: Value) {
        if message["jsonrpc"] != "2.0" {
            fatal("not JSON-RPC 2.0");
        }
        let Some(method) = message["method"].as_str() else {
            self.state.lock().unwrap().answers.push(message);
            return;
        };
        let id = message["id"].clone();
        if id.is_null() {
            return self.notified(method, &message);
        }
        let stateless = self.is("speaks", "2026-07-28");
        if stateless && message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() {
            return self.error(&id, -32602, "no version in the request");
        }
        // A configured answer, word for word.
        if let Some(text) = self.like["raw"][method].as_str() {
            return self.write(&text.replace("ID", &id.to_string()));
        }
        match method {
            "server/discover" => self.discover(&id),
            "initialize" if stateless => self.error(&id, -32601, "no such method"),
            "initialize" => self.initialize(&id, &message["params"]),
            _ if !stateless && !self.state.lock().unwrap().initialized => fatal("asked before initialized"),
            "tools/list" => self.list(&id, &message["params"]),
            // Stops reading, and does not answer.
            "tools/call" if message["params"]["name"] == "stuck" => hang(),
            "tools/call" => self.call(id, message["params"].clone()),
            "tasks/get" | "tasks/update" => self.task(&id, method, &message["params"]),
            "ping" => self.answer(&id, &json!({})),
            _ => self.error(&id, -32601, "no such method"),
        }
    }

    fn notified(&self, method: &str, message: &Value) {
        let mut state = self.state.lock().unwrap();
        match method {
            "notifications/initialized" => state.initialized = true,
            "notifications/cancelled" => state.cancelled.push(message["params"]["requestId"].clone()),
            _ => {}
        }
    }

    fn discover(&self, id: &Value) {
        match self.like["discover"].as_str() {
            Some("exit") => fatal("expected initialize"),
            Some("hang") => {}
            _ if self.is("speaks", "2026-07-28") => self.answer(
                id,
                &json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": { "tools": {} }, "serverInfo": { "name": "fake", "version": "1" },
                    "ttlMs": 1000, "cacheScope": "private",
                }),
            ),
            _ => self.error(id, -32601, "no such method"),
        }
    }

    fn initialize(&self, id: &Value, params: &Value) {
        if params["clientInfo"]["name"] != "haft" {
            fatal("an unknown client");
        }
        let version = self.like["speaks"].as_str().unwrap_or("2025-11-25");
        let capabilities = match self.like["tools"].as_str() {
            Some("none") => json!({}),
            _ => json!({ "tools": { "listChanged": true }, "logging": {} }),
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": 77, "method": "ping" }));
        self.answer(
            id,
            &json!({
                "protocolVersion": version, "capabilities": capabilities,
                "serverInfo": { "name": "fake", "version": "1" },
            }),
        );
    }

    fn list(&self, id: &Value, params: &Value) {
        let tool = |name: &str| json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" } });
        let names = [
            "echo",
            "fail",
            "refuse",
            "crash",
            "sleep",
            "large",
            "rich",
            "progress",
            "ask",
            "env",
            "fork",
            "count",
            "change",
            "elicit",
            "stuck",
            "needs_more",
        ];
        let mut tools: Vec<Value> = names.map(tool).to_vec();
        if self.state.lock().unwrap().more_tools {
            tools.push(tool("added"));
        }
        let cursor = params["cursor"].as_str().map(str::to_owned);
        let mut result = match self.like["tools"].as_str() {
            Some("pages") => {
                let at: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
                let mut page = json!({ "tools": [tools[at]] });
                if at + 1 < tools.len() {
                    page["nextCursor"] = (at + 1).to_string().into();
                }
                page
            }
            Some("circle") => json!({ "tools": [tools[0]], "nextCursor": "again" }),
            Some("bad") => {
                json!({ "tools": [tools[0], { "name": "bad", "inputSchema": 7 }, { "nameless": true }] })
            }
            Some("hang") => return,
            Some("late") => {
                until_there("wake");
                json!({ "tools": tools })
            }
            Some("odd") => json!({ "tools": [tool("a.b/c d"), tool(&"x".repeat(100))] }),
            Some("telling") => telling(),
            Some("doubling") => doubling(),
            _ => json!({ "tools": tools }),
        };
        if self.is("speaks", "2026-07-28") {
            for (key, value) in [("resultType", "complete"), ("cacheScope", "private")] {
                result[key] = value.into();
            }
            result["ttlMs"] = 0.into();
        }
        self.answer(id, &result);
    }

    fn answer(&self, id: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn text(&self, id: &Value, text: &str) {
        let mut result = json!({ "content": [{ "type": "text", "text": text }] });
        if self.is("speaks", "2026-07-28") {
            result["resultType"] = "complete".into();
        }
        self.answer(id, &result);
    }

    fn error(&self, id: &Value, code: i32, message: &str) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }));
    }

    fn ask(&self, method: &str, params: &Value) -> Value {
        let id = {
            let mut state = self.state.lock().unwrap();
            state.asked += 1;
            json!(format!("from-server-{}", state.asked))
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        until_some("a request of the server is answered", || {
            self.state.lock().unwrap().answers.iter().find(|answer| answer["id"] == id).cloned()
        })
    }

    /// In a thread, so that calls run concurrently.
    fn call(&self, id: Value, params: Value) {
        let own = self.clone();
        std::thread::spawn(move || own.act(&id, &params));
    }

    fn act(&self, id: &Value, params: &Value) {
        let arguments = &params["arguments"];
        let token = &params["_meta"]["progressToken"];
        match params["name"].as_str().unwrap_or_default() {
            "echo" => self.text(id, &arguments.to_string()),
            "fail" => self
                .answer(id, &json!({ "isError": true, "content": [{ "type": "text", "text": "no luck" }] })),
            "refuse" => {
                let more =
                    "!".repeat(usize::try_from(arguments["characters"].as_u64().unwrap_or(0)).unwrap());
                self.error(id, -32602, &format!("wrong arguments, says the server{more}"));
            }
            "garbage" => self.garbage(id, arguments),
            "flood" => self.flood(id, token, arguments),
            "crash" => {
                eprintln!("panic: something terrible");
                std::process::exit(7);
            }
            "sleep" => {
                until_there("wake");
                self.text(id, "woke up");
                append("woken", "1");
            }
            "large" => self
                .text(id, &"ж".repeat(usize::try_from(arguments["characters"].as_u64().unwrap()).unwrap())),
            "rich" => self.rich(id),
            "progress" => self.progress(id, token),
            "report" => self.report(id, &params["_meta"]),
            "ask" => self.questions(id),
            "env" => self.environment(id),
            "fork" => self.fork(id),
            "count" => {
                note_count();
                until_there("wake");
                self.text(id, "counted");
            }
            "change" => {
                self.state.lock().unwrap().more_tools = true;
                self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
                self.text(id, "changed");
            }
            "elicit" => {
                let answer = self.ask("elicitation/create", &json!({
                    "message": "Who are you?",
                    "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
                }));
                self.text(id, &answer["result"].to_string());
            }
            "needs_more" => self.needs_more(id, params),
            "task" => self.answer(id, &task("working", &json!({ "resultType": "task" }))),
            _ => self.error(id, -32602, "unknown tool"),
        }
    }

    /// A truncated answer with an id, or a line that is not JSON.
    fn garbage(&self, id: &Value, arguments: &Value) {
        let line = match arguments["id"].as_bool() {
            Some(true) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"a\":"),
            _ => "Traceback (most recent call last):".to_owned(),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").unwrap();
        out.flush().unwrap();
    }

    /// Sends `count` notifications, then the answer.
    fn flood(&self, id: &Value, token: &Value, arguments: &Value) {
        for done in 0..arguments["count"].as_u64().unwrap() {
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": token, "progress": done, "message": "x".repeat(100),
            } }));
        }
        self.text(id, "flooded");
    }

    /// A task that asks `who`, and completes with the answer.
    fn task(&self, id: &Value, method: &str, params: &Value) {
        assert_eq!(params["taskId"], "T1");
        let mut state = self.state.lock().unwrap();
        match (method, state.input.clone()) {
            ("tasks/get", None) => {
                let who = json!({ "method": "elicitation/create", "params": {
                    "mode": "form", "message": "Who?",
                    "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
                } });
                self.answer(id, &task("input_required", &json!({ "inputRequests": { "who": who } })));
            }
            ("tasks/get", Some(answers)) => {
                let result = json!({ "content": [{ "type": "text", "text": answers.to_string() }] });
                self.answer(id, &task("completed", &json!({ "result": result })));
            }
            _ => {
                state.input = Some(params["inputResponses"].clone());
                self.answer(id, &json!({ "resultType": "complete" }));
            }
        }
    }

    fn needs_more(&self, id: &Value, params: &Value) {
        if let Some(state) = params["requestState"].as_str() {
            return self.text(id, &format!("{state} {}", params["inputResponses"]));
        }
        let requests = json!({
            "who": { "method": "elicitation/create", "params": {
                "mode": "form", "message": "Who?",
                "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
            } },
            "where": { "method": "roots/list" },
        });
        self.answer(
            id,
            &json!({
                "resultType": "input_required", "inputRequests": requests, "requestState": "sealed",
            }),
        );
    }

    fn rich(&self, id: &Value) {
        self.answer(
            id,
            &json!({ "content": [
            { "type": "text", "text": "one" }, { "type": "text", "text": "two" },
            { "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" },
            { "type": "resource_link", "uri": "file:///x", "name": "x" },
            { "type": "unheard_of" },
        ], "structuredContent": { "answer": 42 } }),
        );
    }

    /// The server sends each message after the test got the last one, because messages may overtake each other.
    fn progress(&self, id: &Value, token: &Value) {
        for done in 1..=3 {
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": token, "progress": done, "total": 3, "message": format!("step {done}"),
            } }));
            until_there(&format!("heard-{done}"));
        }
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {
            "level": "warning", "logger": "x", "data": "be careful",
        } }));
        until_there("heard-4");
        self.text(id, "done");
    }

    /// Reports twice, and at once answers. In the stateless era a request asks for log messages.
    fn report(&self, id: &Value, meta: &Value) {
        let progress = json!({ "progressToken": meta["progressToken"], "progress": 1, "message": "nearly" });
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress }));
        if !self.is("speaks", "2026-07-28") || meta["io.modelcontextprotocol/logLevel"] == "info" {
            let log = json!({ "level": "info", "data": "ready" });
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": log }));
        }
        self.text(id, "reported");
    }

    /// Sends every request that a server may send to a client, then answers.
    fn questions(&self, id: &Value) {
        let ping = self.ask("ping", &json!({}));
        let roots = self.ask("roots/list", &json!({}));
        let sampling = self.ask(
            "sampling/createMessage",
            &json!({
                "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }], "maxTokens": 5,
            }),
        );
        let odd = self.ask("no/such/method", &json!({}));
        let answers = json!({ "ping": ping, "roots": roots, "sampling": sampling, "odd": odd });
        self.text(id, &answers.to_string());
    }

    fn environment(&self, id: &Value) {
        let mut text = String::new();
        for (name, value) in std::env::vars().filter(|(name, _)| name != LIKE) {
            writeln!(text, "{name}={value}").unwrap();
        }
        let folder = std::env::current_dir().unwrap();
        let mut write = |name: &str, path: &Path| {
            let how = std::fs::write(path, "x").map_or_else(|error| error.to_string(), |()| "written".into());
            writeln!(text, "{name}: {how}").unwrap();
        };
        write("inside", &folder.join("inside"));
        write("outside", Path::new(self.like["outside"].as_str().unwrap_or("/outside")));
        self.text(id, &text);
    }

    /// Leaves a process in its own session that ignores the signals to end.
    #[expect(clippy::disallowed_methods, reason = "a server starts what it likes")]
    fn fork(&self, id: &Value) {
        let script = "trap '' TERM HUP INT; touch forked; while :; do sleep 1; touch still-there; done";
        let child = std::process::Command::new("setsid").args(["sh", "-c", script]).spawn();
        drop(child.unwrap());
        self.text(id, "forked");
    }
}

/// The task in a state.
fn task(status: &str, more: &Value) -> Value {
    let mut task = json!({
        "taskId": "T1", "status": status, "statusMessage": status, "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null, "pollIntervalMs": 1, "resultType": "complete",
    });
    more.as_object().unwrap().iter().for_each(|(key, value)| task[key] = value.clone());
    task
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// Waits until the test creates a file in the server's folder.
fn until_there(name: &str) {
    until(&format!("the test makes `{name}`"), || Path::new(name).exists());
}

fn noise(bytes: u64) {
    let line = format!("{}\n", "n".repeat(99));
    let mut err = std::io::stderr().lock();
    for _ in 0..bytes / 100 {
        err.write_all(line.as_bytes()).unwrap();
    }
}

/// Records a message in the server's folder.
fn note(line: &str) {
    append("received.jsonl", line);
}

fn note_count() {
    append("counted", "1");
}

fn append(name: &str, line: &str) {
    let file = std::fs::File::options().create(true).append(true).open(name);
    // One write per line, because several servers of a test may write to one file.
    file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The behaviour of a server with the prompt `review`, with two arguments, and without tools.
pub(crate) fn with_prompt() -> Value {
    let all = |result: Value| {
        json!({ "jsonrpc": "2.0", "id": "ID", "result": result }).to_string().replace("\"ID\"", "ID")
    };
    let arguments = json!([{ "name": "file", "required": true }, { "name": "depth" }]);
    let said = |role: &str, text: &str| json!({ "role": role, "content": { "type": "text", "text": text } });
    json!({ "raw": {
        "initialize": all(json!({
            "protocolVersion": "2025-11-25", "capabilities": { "prompts": {} },
            "serverInfo": { "name": "f", "version": "1" },
        })),
        "prompts/list": all(json!({ "prompts": [
            { "name": "review", "description": "Reviews a file\nwith care", "arguments": arguments },
        ] })),
        "prompts/get": all(json!({ "messages": [said("user", "Review it."), said("assistant", "I do.")] })),
    } })
}
