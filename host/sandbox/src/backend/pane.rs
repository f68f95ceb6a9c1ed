//! Commands in a tmux pane, which a person can attach to, watch and type into. A command is a script file that
//! the pane's shell is told to run: one short line, for any command and any shell. The output and the exit
//! status come through pipes, never from the screen, so that nothing shown, typed or cleared there is taken for
//! them.
//!
//! One command runs at a time: the next one waits, or is refused if a command continues after its time limit.

mod names;
mod screen;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::names::TmuxSession;
pub use self::screen::{Captured, Snapshot};
use self::screen::{End, arguments, is_key};
use crate::backend::BackendConfig;
use crate::backend::plain::{Piece, Plain};
use crate::backend::remote_script::{self, Nowhere, Report};
use crate::backend::script::{
    CAPTURE, DISPATCH, FOLLOW, KEYS, OPEN, PANE, SCREEN, Script, TMUX, unguessable,
};
use crate::backend::transport::RunAs;
use crate::error::BackendError;
use crate::process::{detached, watch};
use crate::{Backend, CommandEnd, CommandOutcome, HostContext, OutputSink};
use haft_core::report::{plain, shortened};
use haft_core::sync::Lock;
use haft_core::tool::Context;

/// Time limit in tenths of a second for the pane's shell to start a command: a new shell reads its start-up
/// files first.
const PATIENCE: &str = "150";
/// Time limit of haft's own scripts on the target.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a command to end when haft ends.
const CLOSE: Duration = Duration::from_secs(6);
/// Limit on the characters of a command in a message.
const MAX_SHOWN: usize = 60;
/// Limit on the characters of a command in the pane; the whole command runs.
const MAX_HEADER: usize = 2000;

#[derive(Debug)]
pub(crate) struct Paned {
    plain: Arc<Plain>,
    session: TmuxSession,
    pane: Lock<String>,
    notices: Lock<Vec<String>>,
    /// The command that continues in the pane after its call has ended.
    left: Arc<Mutex<Option<Left>>>,
}

#[derive(Debug)]
struct Left {
    command: String,
    since: Instant,
    is_over: Arc<AtomicBool>,
    /// Stops the command when dropped.
    stop: DropGuard,
    task: JoinHandle<Result<Report, BackendError>>,
}

impl Paned {
    pub(crate) async fn open(
        plain: Arc<Plain>,
        choice: &BackendConfig,
        host_context: &HostContext,
    ) -> Result<Self, BackendError> {
        let paned = Self {
            session: TmuxSession::new(choice, host_context, plain.transport.wrapper())?,
            plain,
            pane: Lock::default(),
            notices: Lock::default(),
            left: Arc::default(),
        };
        paned.make().await?;
        Ok(paned)
    }

    fn script(&self) -> Result<Script, BackendError> {
        let script = Script::new()?;
        Ok(self.session.describe(script).then(TMUX))
    }

    /// Runs one of haft's own scripts and returns its status.
    async fn ask(&self, script: &Script, out: &dyn OutputSink) -> Result<String, BackendError> {
        let stop = CancellationToken::new();
        let _end = stop.clone().drop_guard();
        let script = remote_script::run(&*self.plain.transport, RunAs::Haft, script, None, out, &stop);
        match timeout(SCRIPT_TIMEOUT, script).await {
            Ok(Ok(Report::Status(status))) => Ok(status),
            Ok(Ok(Report::Stopped)) => Err(BackendError::Cancelled),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.late()),
        }
    }

    fn late(&self) -> BackendError {
        self.failed(&format!("no answer within {} s", SCRIPT_TIMEOUT.as_secs()))
    }

    /// Finds the pane, or creates it. On this machine a new tmux server must outlive haft.
    async fn make(&self) -> Result<(), BackendError> {
        let script = self.script()?.then(OPEN);
        if !self.session.is_local {
            return self.made(&self.ask(&script, &Nowhere).await?);
        }
        let started = timeout(SCRIPT_TIMEOUT, detached::start(&script.text)).await;
        let status = started.map_err(|_| self.late())?.map_err(watch("start tmux"))?;
        let status = String::from_utf8_lossy(&status.stderr).into_owned();
        let last = status.rsplit_once(&script.nonce).map(|(_, last)| last.trim().to_owned());
        self.made(&last.ok_or_else(|| self.failed(&crate::error::joined_lines(&status)))?)
    }

    fn made(&self, status: &str) -> Result<(), BackendError> {
        let words: Vec<_> = status.split(' ').collect();
        let [_, state, pane] = words.as_slice() else { return Err(self.explained(status)) };
        let name = &self.session.name;
        let notice = match *state {
            "again" => Some(format!(
                "the pane of session `{name}` was closed or had other rights; this is a new pane"
            )),
            _ => None,
        };
        self.notices.lock().extend(notice);
        (*pane).clone_into(&mut *self.pane.lock());
        Ok(())
    }

    fn explained(&self, status: &str) -> BackendError {
        let (target, name) = (self.plain.transport.name(), &self.session.name);
        match status.split_once(' ').unwrap_or((status, "")) {
            ("!tmux", _) => BackendError::NoTmux(target),
            ("!session", _) => self.failed("cannot create the session"),
            ("!temporary", _) => self.failed("there is no writable directory for temporary files"),
            ("!missing", tool) => {
                let tool = plain(tool);
                self.failed(&format!(
                    "panes need `{tool}`, which is missing there; `tmux = false` runs commands without a pane"
                ))
            }
            ("!busy", what) => BackendError::Busy(format!(
                "`{}` runs in the pane of session `{name}`: wait for its end, look at it with `capture-pane`, or \
                 interrupt it with `send-keys` and the key `C-c`",
                plain(what)
            )),
            ("!target", pane) => BackendError::Target(format!(
                "`target` is not one of haft's panes; remove it, or write `{}`",
                plain(pane)
            )),
            ("!pane", _) => {
                BackendError::Target("the pane was closed; the next command opens a new pane".into())
            }
            ("!late", _) => BackendError::Busy(format!(
                "the shell in the pane of session `{name}` did not start the command in time, so the command \
                 will not run: look at the pane with `capture-pane`"
            )),
            _ => self.failed(&plain(status)),
        }
    }

    fn failed(&self, why: &str) -> BackendError {
        BackendError::Target(format!("tmux on {}: {why}", self.plain.transport.name()))
    }

    fn pane(&self) -> String {
        self.pane.lock().clone()
    }

    /// Returns the exclusive use of the pane, or the error that a command still runs in it.
    async fn turn(&self, limit: Duration) -> Result<OwnedMutexGuard<Option<Left>>, BackendError> {
        let busy =
            || BackendError::Busy(format!("another command has used the pane {} for {limit:?}", self.pane()));
        let mut left = timeout(limit, self.left.clone().lock_owned()).await.map_err(|_| busy())?;
        match &*left {
            Some(command) if !command.is_over.load(Ordering::Acquire) => Err(self.still(command)),
            _ => {
                *left = None;
                Ok(left)
            }
        }
    }

    fn still(&self, left: &Left) -> BackendError {
        let (pane, command) = (self.pane(), shown(&left.command, MAX_SHOWN));
        let since = left.since.elapsed().as_secs();
        BackendError::Busy(format!(
            "`{command}` still runs in tmux pane {pane} since {since} s: wait and call again, look at it with \
             `capture-pane`, or interrupt it with `send-keys` and the key `C-c`"
        ))
    }

    fn follow(&self, command: &str, part: &str, alone: bool) -> Result<Script, BackendError> {
        let mark = unguessable()?;
        let local_command = self.plain.inside(command);
        Ok(self
            .script()?
            .with("command", &local_command)
            .with("part", part)
            .with("alone", if alone { "yes" } else { "" })
            .with("shown", &format!("haft$ {}", shown(command, MAX_HEADER)))
            .with("mark", &mark)
            .with("patience", PATIENCE)
            .then(FOLLOW))
    }

    /// Follows a command in a separate task, which outlives the caller.
    fn followed(
        &self,
        script: Script,
        out: Arc<dyn OutputSink>,
        stop: CancellationToken,
    ) -> (JoinHandle<Result<Report, BackendError>>, Arc<AtomicBool>) {
        let (plain, is_over) = (self.plain.clone(), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        let task = tokio::spawn(async move {
            let report =
                remote_script::run(&*plain.transport, RunAs::Haft, &script, None, &*out, &stop).await;
            over.store(true, Ordering::Release);
            report
        });
        (task, is_over)
    }

    fn ended(&self, report: Result<Report, BackendError>) -> Result<CommandOutcome, BackendError> {
        let mut notices = self.take_notices();
        let end = match report {
            Ok(Report::Status(status)) if status == "!gone" => CommandEnd::Lost(format!(
                "the pane {} was closed or its shell ended; the next command gets a new pane",
                self.pane()
            )),
            Ok(Report::Status(status)) if status.starts_with('!') => return Err(self.explained(&status)),
            Ok(Report::Status(status)) => {
                let ended = self.plain.ended(&status)?;
                notices.extend(ended.notices);
                ended.how
            }
            Ok(Report::Stopped) => CommandEnd::Cancelled,
            Err(BackendError::Unreachable(why)) => CommandEnd::Lost(why),
            Err(error) => return Err(error),
        };
        Ok(CommandOutcome { how: end, notices })
    }

    fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock())
    }
}

/// Neutralises and truncates a command for display.
fn shown(command: &str, limit: usize) -> String {
    shortened(&command.lines().map(plain).collect::<Vec<_>>().join("\n"), limit)
}

#[async_trait]
impl Backend for Paned {
    fn summary(&self) -> String {
        let (name, session) = (self.plain.transport.name(), &self.session.name);
        match name.strip_suffix(')') {
            Some(name) => format!("{name}, tmux:{session})"),
            None => format!("{name} (tmux:{session})"),
        }
    }

    fn confinement(&self) -> String {
        self.plain.confinement()
    }

    fn has_pane(&self) -> bool {
        true
    }

    async fn run(
        &self,
        command: &str,
        timeout: Duration,
        out: Arc<dyn OutputSink>,
        context: &Context<'_>,
    ) -> Result<CommandOutcome, BackendError> {
        let mut turn = self.turn(timeout).await?;
        for is_second in [false, true] {
            let script = self.follow(command, PANE, false)?;
            let stop = context.cancel.child_token();
            let (mut follower, is_over) = self.followed(script, out.clone(), stop.clone());
            // Dropping the call stops its command.
            let guard = stop.drop_guard();
            let report = tokio::select! {
                report = &mut follower => report.unwrap_or(Err(BackendError::Cancelled)),
                () = sleep(timeout) => {
                    context.notes.timed_out();
                    let command = command.to_owned();
                    *turn = Some(Left { command, since: Instant::now(), is_over, stop: guard, task: follower });
                    return Ok(CommandOutcome { how: CommandEnd::Running(self.pane()), notices: self.take_notices() });
                }
            };
            match report {
                Ok(Report::Status(status)) if status == "!pane" && !is_second => self.make().await?,
                _ if context.cancel.is_cancelled() => {
                    return Ok(CommandOutcome { how: CommandEnd::Cancelled, notices: self.take_notices() });
                }
                report => return self.ended(report),
            }
        }
        Err(self.failed("the pane closed right after its creation"))
    }

    async fn dispatch(&self, command: &str) -> Result<String, BackendError> {
        let _turn = self.turn(SCRIPT_TIMEOUT).await?;
        for is_second in [false, true] {
            let script = self.follow(command, DISPATCH, true)?;
            match self.ask(&script, &Nowhere).await?.as_str() {
                "!pane" if !is_second => self.make().await?,
                status if status.starts_with('!') => return Err(self.explained(status)),
                _ => break,
            }
        }
        Ok(self.pane())
    }

    async fn read(
        &self,
        path: &str,
        offset: u64,
        limit: usize,
        context: &Context<'_>,
    ) -> Result<Piece, BackendError> {
        self.plain.read(path, offset, limit, context).await
    }

    async fn write(&self, path: &str, bytes: Vec<u8>, context: &Context<'_>) -> Result<(), BackendError> {
        self.plain.write(path, bytes, context).await
    }

    async fn capture(&self, snapshot: &Snapshot) -> Result<Captured, BackendError> {
        let script = self.script()?;
        let script = script
            .with("target", snapshot.target.as_deref().unwrap_or_default())
            .with("alternate", if snapshot.alternate { "yes" } else { "" })
            .then(SCREEN)
            .then(&format!("set -- {}", snapshot.flags()?))
            .then(CAPTURE);
        let end = End::default();
        let status = self.ask(&script, &end).await?;
        let (_, fell_back) = self.shown_pane(&status)?;
        let bytes = end.0.into_inner();
        Ok(Captured { text: String::from_utf8_lossy(&bytes).into_owned(), fell_back })
    }

    async fn send(
        &self,
        target: Option<&str>,
        literal: &str,
        keys: &[String],
        enter: bool,
    ) -> Result<String, BackendError> {
        if let Some(unknown) = keys.iter().find(|key| !is_key(key)) {
            return Err(BackendError::Target(format!(
                "tmux does not know the key `{}`; keys are written like `C-c`, `Enter`, `Up`, `F5`, text \
                 belongs in `literal_text`",
                plain(unknown)
            )));
        }
        let arguments = arguments("\"$haft_pane\"", literal, keys, enter);
        let script = self.script()?.with("target", target.unwrap_or_default()).then(SCREEN);
        let script = script.then(&format!("set -- \\; {arguments}")).then(KEYS);
        let status = self.ask(&script, &Nowhere).await?;
        Ok(self.shown_pane(&status)?.0)
    }

    fn notices(&self) -> Vec<String> {
        vec![format!(
            "the pane can be watched and typed into: `{}`",
            self.session.attach(&self.plain.transport.name())
        )]
    }

    async fn close(&self) {
        if let Ok(mut left) = timeout(CLOSE, self.left.lock()).await
            && let Some(Left { stop, task, .. }) = left.take()
        {
            drop(stop);
            let _: Result<_, _> = timeout(CLOSE, task).await;
        }
        self.plain.transport.close().await;
    }
}
