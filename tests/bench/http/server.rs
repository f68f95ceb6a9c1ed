//! A server that listens on a loopback port.

use std::fmt::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::setting::setting;

/// The token of haft's clients.
pub(crate) const TOKEN: &str = "a-token-of-the-benchmark-4711";

/// Time limit for the start of a server: the first start compiles.
const STARTING: Duration = Duration::from_mins(2);

/// The command that starts a server, and the call to measure.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    words: Vec<String>,
    environment: Vec<(String, String)>,
    /// The parameters of the call.
    pub(crate) echo: Value,
}

/// A running server. When dropped, it ends.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Command {
    pub(crate) fn haft() -> Self {
        let words = [env!("CARGO_BIN_EXE_haft"), "serve", "--token-env", "HAFT_BENCH_TOKEN"];
        let listen = ["--http", "127.0.0.1:PORT"];
        let hello = json!({"name": "p0__hello", "arguments": {"name": "hi"}});
        Self {
            name: "haft",
            words: words.iter().chain(&listen).map(ToString::to_string).collect(),
            environment: Vec::new(),
            echo: setting("HAFT_BENCH_ECHO").unwrap_or(hello),
        }
    }

    /// Another server.
    #[allow(dead_code, reason = "one benchmark uses it")]
    pub(crate) fn new(name: &'static str, words: Vec<String>, echo: Value) -> Self {
        Self { name, words, environment: Vec::new(), echo }
    }

    /// The command with one more environment variable.
    #[allow(dead_code, reason = "one benchmark uses it")]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn peer() -> Option<Self> {
        let command = std::env::var("HAFT_BENCH_HTTP_PEER").ok()?;
        let words = command.split_whitespace().map(str::to_owned).collect();
        let echo = json!({"name": "echo", "arguments": {"text": "hi"}});
        let environment = Vec::new();
        Some(Self { name: "peer", words, environment, echo: setting("HAFT_BENCH_PEER_ECHO").unwrap_or(echo) })
    }
}

/// A program of a few plugins, with `hello` among them.
pub(crate) fn write_program(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text =
        "[program]\nname = \"bench\"\nversion = \"1.0.0\"\n\n[serve]\nmax_sessions = 8192\n".to_owned();
    let mut plugin = |name: &str, component: &Path, more: &str| {
        let place = component.to_str().unwrap();
        write!(text, "\n[[plugins]]\nname = \"{name}\"\ncomponent = {place:?}\n{more}").unwrap();
    };
    let spin = "tools = [\"spin\"]\nlimits = { time = \"10m\" }\n";
    plugin("guest", &root.join("tests/guests/built/hostile.wasm"), spin);
    for (index, name) in ["hello", "time", "wordcount"].iter().enumerate() {
        plugin(&format!("p{index}"), &root.join(format!("plugins/built/{name}.wasm")), "");
    }
    if let Some(same) = std::env::var_os("HAFT_BENCH_SAME") {
        plugin("same", &std::fs::canonicalize(same).unwrap(), "");
    }
    std::fs::write(folder.join("program.toml"), text).unwrap();
}

impl Server {
    /// Starts `command` in `folder`, its home, and waits until it listens.
    pub(crate) fn start(command: &Command, folder: &Path) -> Self {
        // The port is free now, and other processes hardly take it at once.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let port = address.port().to_string();
        let words: Vec<String> = command.words.iter().map(|word| word.replace("PORT", &port)).collect();
        let process = std::process::Command::new(&words[0])
            .args(&words[1..])
            .current_dir(folder)
            .env("HOME", folder)
            .env("HAFT_TRUST", "1")
            .env("XDG_CACHE_HOME", folder.join(".cache"))
            .env("HAFT_BENCH_TOKEN", TOKEN)
            .envs(command.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start `{}`: {error}", words[0]));
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < STARTING, "`{}` does not listen", words[0]);
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, address }
    }

    /// Processor time of all threads of the server.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }

    /// The resident memory of the server, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
