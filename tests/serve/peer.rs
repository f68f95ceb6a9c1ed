//! A client that sends raw JSON-RPC to a child process and checks every line of its output.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde_json::{Value, json};

use super::Stage;
use crate::common::HANG;
use crate::common::wait::ended;

/// haft as a child process with piped standard streams.
pub(crate) struct Peer {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    said: Receiver<String>,
    /// Messages that came while the client waited for another one.
    pub(crate) aside: Vec<Value>,
    next: i64,
}

impl Peer {
    /// Starts haft and sends nothing.
    pub(crate) fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let arguments: Vec<&str> = std::iter::once("serve").chain(arguments.iter().copied()).collect();
        Self::of(stage.command(&arguments))
    }

    /// Starts `command` and sends nothing.
    pub(crate) fn of(mut command: std::process::Command) -> Self {
        let piped = std::process::Stdio::piped;
        let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
        let (lines, said) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        let input = child.stdin.take();
        Self { child, input, lines, said, aside: Vec::new(), next: 0 }
    }

    /// Starts haft and opens a session of `version` with `capabilities`.
    pub(crate) fn session(stage: &Stage, version: &str, capabilities: &Value) -> Self {
        let mut peer = Self::start(stage, &[]);
        let answer = peer.initialize(version, capabilities);
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        peer.notify("notifications/initialized", json!({}));
        peer
    }

    pub(crate) fn open(stage: &Stage) -> Self {
        Self::session(stage, "2025-11-25", &json!({}))
    }

    pub(crate) fn initialize(&mut self, version: &str, capabilities: &Value) -> Value {
        let client = json!({"name": "raw", "version": "0"});
        self.request(
            "initialize",
            json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}),
        )
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.write_bytes(text.as_bytes());
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n"));
    }

    pub(crate) fn notify(&mut self, method: &str, params: impl Into<Value>) {
        let params: Value = params.into();
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request without waiting; its id.
    pub(crate) fn ask(&mut self, method: &str, params: impl Into<Value>) -> i64 {
        let params: Value = params.into();
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn request(&mut self, method: &str, params: impl Into<Value>) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool; its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: impl Into<Value>) -> Value {
        let arguments: Value = arguments.into();
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))["result"].take()
    }

    /// The next message; `None` after the last. Every line must be a message.
    pub(crate) fn message(&mut self) -> Option<Value> {
        let line = match self.lines.recv_timeout(HANG) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("nothing came; aside: {:?}; said: {}", self.aside, self.stderr())
            }
        };
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    /// The answer to request `id`.
    pub(crate) fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.await_one(|message| message["id"] == id && message.get("method").is_none())
    }

    /// The first message for which `is_it` holds, also of the earlier ones.
    pub(crate) fn await_one(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.aside.iter().position(&is_it) {
            return self.aside.remove(index);
        }
        while let Some(message) = self.message() {
            if is_it(&message) {
                return message;
            }
            self.aside.push(message);
        }
        panic!("haft ended; aside: {:?}; said: {}", self.aside, self.stderr());
    }

    /// The lines of standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.said.try_iter().collect::<Vec<_>>().join("\n")
    }

    /// Waits until haft has written `what` to standard error.
    pub(crate) fn says(&self, what: &str) -> String {
        let mut all = String::new();
        while !all.contains(what) {
            match self.said.recv_timeout(HANG) {
                Ok(line) => all = all + &line + "\n",
                Err(error) => panic!("never said `{what}` ({error}): {all}"),
            }
        }
        all
    }

    /// Closes the input; the exit code of haft.
    pub(crate) fn hang_up(&mut self) -> Option<i32> {
        drop(self.input.take());
        ended(&mut self.child).code()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A failed test leaves no process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            if line.is_ok_and(|line| sender.send(line).is_ok()) {
                continue;
            }
            return;
        }
    });
    receiver
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}
