//! Supervises a running server: reports refusals of the sandbox, forwards signals, and ends the server when its
//! client is gone.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, getppid};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use super::rights::line;
use super::{Exit, Start, rights};
use crate::cli::terminal::{Terminal, is_hung_up};
use haft_core::grant::{Grant, Right, Why};
use haft_core::heap;
use haft_core::report::plain;
use haft_sandbox::attached::{self, Attached};
use haft_sandbox::confine::Refusal;

/// Interval between checks whether the client is gone, which is rare.
const LOOK: Duration = Duration::from_secs(1);
/// Time limit for the end of a server after its client is gone.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Watcher {
    terminal: Terminal,
    name: String,
    grant: Grant,
    script: Option<PathBuf>,
    signals: [Signal; 3],
    /// The process that started haft.
    client: Option<Pid>,
}

impl Watcher {
    /// Returns a watcher that handles signals from now on.
    pub(super) fn new(start: &Start, grant: &Grant) -> anyhow::Result<Self> {
        let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [terminate, interrupt, hang_up] = signals.map(signal);
        Ok(Self {
            terminal: start.terminal,
            name: start.command.name.clone(),
            grant: grant.clone(),
            script: start.command.script.clone(),
            signals: [terminate?, interrupt?, hang_up?],
            client: getppid(),
        })
    }

    /// Returns after the server has ended.
    pub(super) async fn watch(&mut self, server: &mut Attached) -> anyhow::Result<()> {
        let client = self.client;
        let mut is_alone = std::pin::pin!(client_is_gone(client));
        let mut is_stopped = false;
        loop {
            tokio::select! {
                refusal = server.refusal() => match refusal? {
                    Some(refusal) => self.tell(&refusal),
                    None => return Ok(()),
                },
                () = received(&mut self.signals) => server.stop(),
                () = &mut is_alone, if !is_stopped => {
                    is_stopped = true;
                    server.stop();
                }
            }
        }
    }

    /// Prints a line about a refused access, and the command that grants it.
    fn tell(&self, refusal: &Refusal) {
        if !refusal.is_folder_of(self.script.as_deref()) {
            tell(self.terminal, refusal, (&self.name, &self.grant));
        }
    }

    /// Reports that the server ended with `status` and has not answered.
    pub(super) fn tell_unanswered(&self, status: ExitStatus) {
        let text = format!("haft: {}: the server {}", self.name, unanswered(status));
        self.terminal.message(plain(&text));
    }

    /// Waits until the client has read the server's last output.
    pub(super) async fn wait_for(&mut self, passing: JoinHandle<()>) {
        tokio::select! {
            _ = passing => {}
            () = self.stopped() => {}
        }
    }

    /// Returns after a signal to end, or after the client is gone.
    pub(super) async fn stopped(&mut self) {
        let client = self.client;
        tokio::select! {
            () = received(&mut self.signals) => {}
            () = client_is_gone(client) => {}
        }
    }
}

async fn received([terminate, interrupt, hang_up]: &mut [Signal; 3]) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hang_up.recv() => {}
    }
}

/// Prints a line about a refused access of a server, and the command that grants it.
pub(super) fn tell(terminal: Terminal, refusal: &Refusal, (name, grant): (&str, &Grant)) {
    if !refusal.is_incidental() {
        terminal.message(told(refusal, name, grant));
    }
}

/// Returns a line such as `haft: NAME was refused to read /x: haft wrap --grant read=/x NAME`.
fn told(refusal: &Refusal, name: &str, grant: &Grant) -> String {
    let way_out = match rights::right(refusal, grant) {
        Some(right) => line(&[right], name, &[]),
        None => why_closed(refusal, name, grant),
    };
    plain(&format!("haft: {name} was refused to {refusal}: {way_out}"))
}

/// Returns the reason why no right is proposed.
fn why_closed(refusal: &Refusal, name: &str, grant: &Grant) -> String {
    let path = match refusal {
        Refusal::Read(path) | Refusal::Write(path) | Refusal::Remove(path) => path,
        Refusal::Socket(_) | Refusal::Connect(_) | Refusal::Host(..) | Refusal::Request { .. } => {
            return "no right allows it".to_owned();
        }
    };
    match grant.closed_at(path).map(|closed| closed.why) {
        Some(Why::Store(store)) => {
            let allowing = line(&[Right::Credentials(store)], name, &[]);
            format!("it belongs to the credential store `{store}`; `{allowing}` allows it")
        }
        Some(Why::Own) => "it belongs to haft".to_owned(),
        Some(Why::Denied) => "`deny` blocks it".to_owned(),
        Some(Why::StartUp) => "programs run it automatically".to_owned(),
        None => "this would grant a directory that is too wide".to_owned(),
    }
}

/// Returns some time after the process that started haft has ended and the other end of standard input is closed.
async fn client_is_gone(client: Option<Pid>) {
    tokio::time::sleep(LOOK).await;
    // From now on this process mostly waits.
    heap::let_go_of_code();
    loop {
        tokio::time::sleep(LOOK).await;
        if getppid() != client && is_hung_up(&io::stdin()) {
            tokio::time::sleep(PATIENCE).await;
            return;
        }
    }
}

/// Returns how a server ended that has not answered.
pub(super) fn unanswered(status: ExitStatus) -> String {
    let end = match (status.code(), status.signal()) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, signal) => format!("by signal {}", signal.unwrap_or_default()),
    };
    let doubt = if status.success() { "" } else { "; this may not be a matter of rights" };
    format!("ended {end} before it answered{doubt}")
}

/// Ends haft in the same way as its server: by the same signal, or with the same code.
pub(super) fn exit(status: ExitStatus) -> Exit {
    if let Some(signal) = status.signal() {
        attached::end_by(signal);
    }
    Exit::of_child(status)
}
