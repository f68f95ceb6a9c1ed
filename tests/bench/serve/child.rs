//! A server behind two pipes, driven without a library, so that only the server is measured.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) struct Child {
    process: std::process::Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Child {
    /// Starts `command` in `folder`, its home.
    pub(crate) fn start(command: &[String], folder: &Path) -> Self {
        let (program, arguments) = command.split_first().unwrap();
        let mut process = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env("HOME", folder)
            .env("HAFT_TRUST", "1")
            .env("XDG_CACHE_HOME", folder.join(".cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start `{program}`: {error}"));
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::with_capacity(1 << 20, output), next: 0 }
    }

    pub(crate) fn open(&mut self) {
        let client = json!({"name": "bench", "version": "0"});
        let open = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        self.request("initialize", open);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// Calls for half a second, so that caches and pools are full.
    pub(crate) fn settle(&mut self, call: &Value) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(500) {
            let answer = self.request("tools/call", call.clone());
            assert!(answer["result"]["isError"] != true && answer["error"].is_null(), "{answer}");
        }
    }

    fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, params: impl Into<Value>) -> u64 {
        let params: Value = params.into();
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn message(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the server hung up");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn request(&mut self, method: &str, params: impl Into<Value>) -> Value {
        let id = self.ask(method, params);
        loop {
            let message = self.message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Makes `count` calls, at most `most` of them concurrent.
    pub(crate) fn burst(&mut self, call: &Value, count: usize, most: usize) {
        let (mut asked, mut answered) = (0, 0);
        while answered < count {
            while asked < count && asked - answered < most {
                self.ask("tools/call", call.clone());
                asked += 1;
            }
            answered += usize::from(self.message().get("method").is_none());
        }
    }

    /// The peak memory, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() << 10
    }

    /// Processor time of all threads of the server.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }

    /// The time from the end of the input to the end of the process.
    pub(crate) fn hang_up(mut self) -> Duration {
        drop(self.input);
        let begun = Instant::now();
        self.process.wait().unwrap();
        begun.elapsed()
    }
}
