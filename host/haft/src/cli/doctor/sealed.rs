//! Tries to change files that decide rights, and to read keys, through `bash` and the built-in tools, in a program
//! created for this test with a file of each kind. The result is read from the disk.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use serde_json::json;
use tempfile::{Builder, TempDir};

use super::{Line, Mark};
use haft::program::{Dirs, Options, Program, Trust};
use haft_core::call::ToolCall;
use haft_core::event::Events;
use haft_core::tool::Session;
use haft_manifest::Seal::{self, Fixed, Hidden};
use haft_sandbox::confine::{Confiner, Layers, Verdict};

/// Each kind of file that decides rights, the example of it in the test program, and the restriction of tools.
const SEALED: &[(&str, &str, Seal)] = &[
    ("program.toml", "program.toml", Fixed),
    ("program.lock", "program.lock", Fixed),
    ("an agent's program.toml", "agent/program.toml", Fixed),
    ("a key", "key", Hidden),
    ("the private key of a certificate", "private.pem", Hidden),
    ("a certificate", "certificate.pem", Fixed),
    ("the trusted certificates", "ca.pem", Fixed),
    ("ssh_config", "ssh_config", Fixed),
    ("jwks_file", "jwks.json", Fixed),
    ("a component", "plugin.wasm", Fixed),
    ("the schema of answers", "answer.json", Fixed),
    ("the script of a command", "command.sh", Fixed),
    ("the script of a server", "server.py", Fixed),
    ("a start-up file", ".git/config", Fixed),
];

/// The program.toml that refers to the files.
const PROGRAM: &str = r#"
[program]
name = "sealed"
version = "0.1.0"
[sandbox]
workspace = "."
[[agents]]
name = "a"
description = "d"
program = "./agent"
[provider]
name = "openai"
model = "m"
api_key = { file = "key" }
[agent]
output = "answer.json"
[nats]
ca = "ca.pem"
certificate = "certificate.pem"
key = "private.pem"
[backend]
ssh_config = "ssh_config"
[[serve.callers]]
name = "c"
tools = ["*"]
[serve.callers.jwt]
issuer = "https://issuer.example"
audience = "haft"
jwks_file = "jwks.json"
[[plugins]]
name = "p"
enabled = false
component = "plugin.wasm"
[[tools]]
name = "t"
description = "d"
command = "./command.sh"
[[mcp_servers]]
name = "s"
enabled = false
command = ["python3", "./server.py"]
"#;

/// The content of a file that tools must not read.
const SECRET: &str = "a-secret-that-the-self-test-made-up";

/// Time limit for the end of a process that haft must end. The end takes some milliseconds.
const BOUND: Duration = Duration::from_mins(1);

/// Time limit for the end of a process if no part of the sandbox ends it.
const NOTHING_ENDS_IT: Duration = Duration::from_secs(2);

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sealed {
    Done { tried: usize, held: usize, milliseconds: u128, got_through: Vec<String>, is_gap: bool },
    NotRun { why: String, is_failure: bool },
}

/// The test program, in a temporary folder.
struct Fixture {
    folder: TempDir,
    program: Program,
}

impl Sealed {
    pub(super) async fn test(confiner: &Confiner, dirs: &Dirs) -> Self {
        if matches!(confiner.layers().verdict(), Verdict::Refused(_)) {
            let why = "processes need a working sandbox to start".into();
            return Self::NotRun { why, is_failure: false };
        }
        match Box::pin(tried(confiner, dirs)).await {
            Ok(done) => done,
            Err(error) => Self::NotRun { why: format!("{error:#}"), is_failure: true },
        }
    }

    /// Returns whether every attempt was blocked that the layers in use promise to block.
    pub(super) fn holds(&self) -> bool {
        match self {
            Self::Done { got_through, is_gap, .. } => got_through.is_empty() || *is_gap,
            Self::NotRun { is_failure, .. } => !is_failure,
        }
    }

    pub(super) fn line(&self) -> Line {
        match self {
            Self::NotRun { why, is_failure } => {
                let mark = if *is_failure { Mark::Bad } else { Mark::Absent };
                Line::new(mark, "sealed files", format!("not tried: {why}"))
            }
            Self::Done { tried, held, milliseconds, got_through, is_gap } => {
                let (mark, word) = match (got_through.is_empty(), is_gap) {
                    (true, _) => (Mark::Good, ""),
                    (false, true) => (Mark::Warning, "not blocked: "),
                    (false, false) => (Mark::Bad, "ESCAPED: "),
                };
                let text = format!(
                    "{held} of {tried} attempts to read or change files that decide rights blocked \
                     ({milliseconds} ms)"
                );
                Line::new(mark, "sealed files", text)
                    .more(got_through.iter().map(|what| format!("{word}{what}")))
            }
        }
    }
}

async fn tried(confiner: &Confiner, dirs: &Dirs) -> anyhow::Result<Sealed> {
    let began = Instant::now();
    let fixture = Fixture::new(confiner, dirs).await?;
    if let Some(why) = confiner.refusal(&fixture.program.grant) {
        // If a path could not be blocked, it is not open either: `bash` does not run.
        return Ok(Sealed::NotRun { why: format!("`bash` is {why}"), is_failure: false });
    }
    let mut got_through = Vec::new();
    fixture.by_bash().await?;
    for (kind, file, seal) in SEALED {
        if fixture.is_changed(file)? || (*seal == Hidden && fixture.was_read(file)) {
            got_through.push(format!("{kind}, by `bash`"));
        }
        let path = fixture.path(file);
        fixture.call("write", json!({ "file_path": path, "content": "changed" }), &Session::default()).await;
        if fixture.is_changed(file)? {
            got_through.push(format!("{kind}, by `write`"));
        }
        let read = fixture.call("read", json!({ "file_path": path }), &Session::default()).await;
        if *seal == Hidden && read.contains(SECRET) {
            got_through.push(format!("{kind}, by `read`"));
        }
    }
    let layers = confiner.layers();
    let is_gap = layers == Layers::NONE || !layers.fix_files();
    if !fixture.is_ended_when_replaced("key", if is_gap { NOTHING_ENDS_IT } else { BOUND }).await? {
        got_through.push("a replaced key, by a process that was already running".to_owned());
    }
    fixture.program.close().await;
    let reads = SEALED.iter().filter(|(_, _, seal)| *seal == Hidden).count();
    let tried = 2 * SEALED.len() + reads + 1;
    Ok(Sealed::Done {
        tried,
        held: tried - got_through.len(),
        milliseconds: began.elapsed().as_millis(),
        is_gap,
        got_through,
    })
}

impl Fixture {
    async fn new(confiner: &Confiner, dirs: &Dirs) -> anyhow::Result<Self> {
        dirs.create()?;
        let folder = Builder::new().prefix("self-test-").tempdir_in(dirs.data.canonicalize()?)?;
        for (_, file, _) in SEALED {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(&path, content(file))?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        }
        let options = Options {
            program: Some(folder.path().join("program.toml")),
            trust: Trust::Everything,
            confiner: Some(confiner.clone()),
            no_journal: true,
            ..Options::default()
        };
        let program = Program::load(&options).await.context("the program for it cannot be loaded")?;
        Ok(Self { folder, program })
    }

    /// Lets `bash` try to read each file, and to change it by every method.
    async fn by_bash(&self) -> anyhow::Result<()> {
        let tries = |(at, (_, file, _)): (usize, &(&str, &str, Seal))| {
            let file = shell_words::quote(file);
            format!(
                "cat {file} >out{at}; echo changed >{file}; rm -f {file}; echo changed >other; mv -f other {file}\n"
            )
        };
        let command: String = SEALED.iter().enumerate().map(tries).collect();
        let answer = self.call("bash", json!({ "command": command }), &Session::default()).await;
        // Unchanged files are evidence only if the command ran.
        anyhow::ensure!(self.path("out0").exists(), "`bash` did not try: {answer}");
        Ok(())
    }

    /// Returns whether a file has changed, and restores it.
    fn is_changed(&self, file: &str) -> anyhow::Result<bool> {
        let (path, before) = (self.path(file), content(file));
        let is_changed = fs::read(&path).unwrap_or_default() != before.as_bytes();
        if is_changed {
            fs::write(&path, before)?;
        }
        Ok(is_changed)
    }

    /// Returns whether `bash` read a file.
    fn was_read(&self, file: &str) -> bool {
        let at = SEALED.iter().position(|(_, own, _)| *own == file).unwrap_or_default();
        fs::read_to_string(self.path(&format!("out{at}"))).unwrap_or_default().contains(SECRET)
    }

    /// Returns whether a running process is ended within `bound` after the file is replaced.
    async fn is_ended_when_replaced(&self, file: &str, bound: Duration) -> anyhow::Result<bool> {
        let begun = self.path("begun");
        let session = Session::default();
        let command = format!("touch begun; sleep {}", BOUND.as_secs() * 2);
        let mut running = std::pin::pin!(self.call("bash", json!({ "command": command }), &session));
        let has_begun = async {
            while !begun.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            answer = &mut running => anyhow::bail!("`bash` did not continue: {answer}"),
            () = has_begun => {}
        }
        fs::write(self.path("new"), content(file))?;
        fs::rename(self.path("new"), self.path(file))?;
        let ended = tokio::time::timeout(bound, running).await;
        session.cancel.cancel();
        Ok(ended.is_ok_and(|answer| answer.contains("replaced")))
    }

    async fn call(&self, tool: &str, arguments: serde_json::Value, session: &Session) -> String {
        let call = ToolCall { id: "self-test".into(), tool: tool.into(), arguments };
        let session =
            Session { cancel: session.cancel.clone(), ..self.program.session("doctor", Events::none()) };
        self.program.toolbox.dispatch(call, &session).await.content
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }
}

/// Returns the original content of a file.
fn content(file: &str) -> String {
    match Path::new(file).file_name().and_then(|name| name.to_str()) {
        Some("program.toml") if file == "program.toml" => PROGRAM.to_owned(),
        Some("program.toml") => "[program]\nname = \"a\"\nversion = \"0.1.0\"\n".to_owned(),
        Some("program.lock") => "version = 2\n".to_owned(),
        Some("answer.json") => "{\"type\": \"object\"}\n".to_owned(),
        _ => format!("{SECRET}\n"),
    }
}
