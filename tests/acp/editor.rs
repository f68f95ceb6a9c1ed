//! A scripted editor, which parses everything that it reads as JSON-RPC: a line that is not JSON-RPC fails the test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::common::HANG;
use crate::common::wait::ended;

/// The editor, with haft as its child.
pub(super) struct Editor {
    haft: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// All received messages, in order.
    pub(super) seen: Vec<Value>,
    next: i64,
    /// The answer to permission requests: the id of an option, or the error of an editor that cannot ask.
    pub(super) permit: Result<&'static str, i64>,
}

impl Editor {
    /// Starts haft and initializes the connection.
    pub(super) fn start(command: Command) -> Self {
        let mut editor = Self::silent(command);
        let answer = editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        editor
    }

    /// Starts haft without a message.
    pub(super) fn silent(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut haft = command.spawn().unwrap();
        let (input, output) = (haft.stdin.take(), haft.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { haft, input, lines, seen: Vec::new(), next: 0, permit: Ok("allow-once") }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    #[expect(clippy::needless_pass_by_value, reason = "a test says it in one expression")]
    pub(super) fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request and returns its id.
    #[expect(clippy::needless_pass_by_value, reason = "a test says it in one expression")]
    pub(super) fn send(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.write(format!("{message}\n").as_bytes());
        self.next
    }

    /// Sends a request, and waits for its answer.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// The answer to a request.
    pub(super) fn answer(&mut self, id: i64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Reads messages until `is_it` is true for one; answers permission requests on the way.
    pub(super) fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.read();
            let is_it = is_it(&message);
            if message["method"] == "session/request_permission" && !is_it {
                let id = &message["id"];
                let answer = match self.permit {
                    Ok("dismiss") => json!({ "result": { "outcome": { "outcome": "cancelled" } } }),
                    Ok(option) => {
                        json!({ "result": { "outcome": { "outcome": "selected", "optionId": option } } })
                    }
                    Err(code) => json!({ "error": { "code": code, "message": "no" } }),
                };
                let mut answer = answer;
                answer["jsonrpc"] = json!("2.0");
                answer["id"] = id.clone();
                self.write(format!("{answer}\n").as_bytes());
            }
            if is_it {
                return message;
            }
        }
    }

    /// The next message.
    pub(super) fn read(&mut self) -> Value {
        let line = self.lines.recv_timeout(HANG).expect("haft has nothing to say");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        self.seen.push(message.clone());
        message
    }

    /// The updates so far.
    pub(super) fn updates(&self) -> Vec<Value> {
        let updates = self.seen.iter().filter(|message| message["method"] == "session/update");
        updates.map(|message| message["params"]["update"].clone()).collect()
    }

    /// The model's text so far.
    pub(super) fn said(&self) -> String {
        let said = self.updates();
        let said = said.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        said.map(|update| update["content"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// The number of permission requests so far.
    pub(super) fn questions(&self) -> usize {
        self.seen.iter().filter(|message| message["method"] == "session/request_permission").count()
    }

    /// Closes haft's input and returns haft's exit code.
    pub(super) fn leave(mut self) -> i32 {
        self.input = None;
        ended(&mut self.haft).code().unwrap_or(-1)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.haft.kill();
        let _ = self.haft.wait();
    }
}
