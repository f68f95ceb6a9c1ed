//! Servers that a package runner fetches (`npx`, `uvx` …). The fetch has the network and none of the user's files;
//! from then on the server has no network, and the runner takes the package from its cache.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::Start;
use super::command::Wrapping;
use super::rights::network;
use super::trial::Trial;
use super::watch::Watcher;
use haft::program::Dirs;
use haft_core::grant::Right;
use haft_core::report::plain;
use haft_sandbox::attached::Attached;

/// Programs that fetch the packages that they run.
const RUNNERS: &[&str] = &["npx", "npm", "pnpx", "pnpm", "yarn", "bunx", "bun", "uvx", "uv", "pipx", "deno"];
/// Variables that make a runner take a package from its cache, without a request to a registry.
const OFFLINE: &[(&str, &str)] =
    &[("npm_config_offline", "true"), ("pnpm_config_offline", "true"), ("UV_OFFLINE", "1")];
/// The file that marks a server as fetched. It is beside the server's own directory, where the server cannot write.
const MARK: &str = "fetched";
/// Time limit for a fetch. A server with a browser's libraries has several hundred megabytes.
const MAX_FETCH: Duration = Duration::from_mins(5);

/// Maximum bytes of a runner's output before the server's answer.
const MAX_OUTPUT: u64 = 16 << 20;

/// Maximum bytes of standard error that are displayed after a failed fetch.
const MAX_WORDS: u64 = 64 << 10;
/// Time limit for the rest of standard error after the server has ended.
const LAST: Duration = Duration::from_millis(500);

/// The revision of MCP in haft's request.
const REVISION: &str = "2025-06-18";

const ID: &str = "haft";

/// The state of a server's fetch.
pub(super) struct Fetch {
    /// The runner. `None` if the command is the server itself.
    runner: Option<String>,
    mark: PathBuf,
    is_fetched: bool,
    /// Whether the user agreed to the fetch in this start, and it was not tried yet.
    is_agreed: bool,
    pub(super) was_agreed: bool,
}

impl Fetch {
    /// Returns the state for `command`. Without a record the server is fetched again.
    ///
    /// # Errors
    /// The mark of a fetched server cannot be removed.
    pub(super) fn new(dirs: &Dirs, command: &Wrapping, is_known: bool) -> anyhow::Result<Self> {
        let runner = command.program.file_name().and_then(|name| name.to_str());
        let runner = runner.filter(|name| RUNNERS.contains(name)).map(str::to_owned);
        let mark = dirs.processes.join(&command.key).join(MARK);
        let is_fetched = runner.is_some() && mark.exists();
        let mut fetch = Self { runner, mark, is_fetched, is_agreed: false, was_agreed: false };
        if !is_known {
            fetch.forget()?;
        }
        Ok(fetch)
    }

    /// Returns the runner if it must still fetch the server.
    pub(super) fn runner(&self) -> Option<&str> {
        self.runner.as_deref().filter(|_| !self.is_fetched && !self.was_agreed)
    }

    /// Records that the server must be fetched.
    pub(super) fn agree(&mut self) {
        (self.is_agreed, self.was_agreed) = (true, true);
    }

    /// Updates the state after a `trial`; `refused` are the rights that it lacked. Returns the network if the fetched
    /// package was not enough for the start.
    ///
    /// # Errors
    /// The state cannot be recorded.
    pub(super) fn judge(&mut self, trial: &Trial, refused: &[Right]) -> anyhow::Result<Option<Right>> {
        match trial.answer {
            Some(_) if !trial.grant.network() => self.finish()?,
            None if trial.has_ended && refused.is_empty() && self.is_fetched => {
                self.forget()?;
                return Ok(Some(network()));
            }
            _ => {}
        }
        Ok(None)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if self.runner.is_some() {
            fs::write(&self.mark, "").with_context(|| format!("cannot write `{}`", self.mark.display()))?;
            self.is_fetched = true;
        }
        Ok(())
    }

    fn forget(&mut self) -> anyhow::Result<()> {
        self.is_fetched = false;
        match fs::remove_file(&self.mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove `{}`", self.mark.display()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the variables of a server with these rights.
    pub(super) fn environment(&self, rights: &[Right]) -> Vec<(OsString, OsString)> {
        let is_offline = self.is_fetched && !has_network(rights);
        OFFLINE.iter().filter(|_| is_offline).map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }
}

pub(super) fn has_network(rights: &[Right]) -> bool {
    rights.contains(&network())
}

/// Fetches the server if the user agreed to that. Starts it with the network, but without the variables of the
/// client's configuration and the files that its arguments name, until it answers or ends.
///
/// # Errors
/// The server cannot start, or the state cannot be recorded.
pub(super) async fn fetch(start: &mut Start) -> anyhow::Result<()> {
    if !std::mem::take(&mut start.fetch.is_agreed) {
        return Ok(());
    }
    let Start { command, dirs, .. } = &*start;
    let is_argument = |file: &&PathBuf| {
        command
            .arguments
            .iter()
            .any(|word| dirs.here.join(word).canonicalize().is_ok_and(|named| named == **file))
    };
    let installed: Vec<PathBuf> =
        command.started_from.iter().filter(|file| !is_argument(file)).cloned().collect();
    let (grant, job) = start.with(&[network()], &installed)?;
    let runner = start.fetch.runner.as_deref().unwrap_or_default();
    start.terminal.message(format_args!("fetching the server with `{}` …", plain(runner)));
    let ((their_input, mut input), (output, their_output)) = (io::pipe()?, io::pipe()?);
    let (errors, their_errors) = io::pipe()?;
    let streams = [their_input.into(), their_output.into(), their_errors.into()];
    let mut server = Attached::start(&start.confiner, &grant, &job, streams).await?;
    let words = spawn_blocking(move || words(errors));
    input.write_all(&initialize())?;
    // The thread ends with the server, which then closes its output. Runners also print their progress here.
    let answered = spawn_blocking(move || {
        let mut lines = BufReader::new(output.take(MAX_OUTPUT)).split(b'\n');
        lines.any(|line| line.is_ok_and(|line| is_answer(&line)))
    });
    let mut watcher = Watcher::new(start, &grant)?;
    let is_answered = tokio::select! {
        answered = timeout(MAX_FETCH, answered) => Some(matches!(answered, Ok(Ok(true)))),
        () = watcher.stopped() => None,
    };
    server.stop();
    while server.refusal().await?.is_some() {}
    // The exit status does not matter.
    let _ = server.finish().await;
    if is_answered != Some(true) {
        show(words).await;
    }
    // A server without an answer may have ended because a right is missing: the next trial shows that.
    start.fetch.is_fetched = true;
    match is_answered {
        Some(true) => start.fetch.finish(),
        Some(false) => Ok(()),
        None => {
            Err(anyhow::anyhow!("`{}` was not fetched: haft received a signal to end", start.command.name))
        }
    }
}

/// Reads the standard error of the runner and the server. It is not displayed after a successful fetch: the server
/// starts again and writes the same text.
fn words(mut errors: PipeReader) -> Vec<u8> {
    let mut words = Vec::new();
    // A read error has the same effect as a closed pipe.
    let _: io::Result<_> = (&mut errors).take(MAX_WORDS).read_to_end(&mut words);
    let _: io::Result<_> = io::copy(&mut errors, &mut io::sink());
    words
}

async fn show(words: JoinHandle<Vec<u8>>) {
    if let Ok(Ok(words)) = timeout(LAST, words).await {
        // Standard error may be closed.
        let _: io::Result<()> = io::stderr().write_all(&words);
    }
}

/// Returns whether `line` answers [`initialize`].
fn is_answer(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|answer| answer.get("id").is_some_and(|id| id == ID))
}

/// Returns the request that begins a session.
pub(super) fn initialize() -> Vec<u8> {
    let client = json!({ "name": "haft", "version": env!("CARGO_PKG_VERSION") });
    let parameters = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client });
    let request = json!({ "jsonrpc": "2.0", "id": ID, "method": "initialize", "params": parameters });
    format!("{request}\n").into_bytes()
}
