//! Keeps one program running with pipes to it, and stops all processes that it started. A service never
//! outlives its [`Life`], whatever happens to the host.
//!
//! **Start:** like every child ([`crate::process::start`]): in the grant's workspace, confined, with a cleared
//! environment and the given variables.
//! **Streams:** input and output are returned to the caller; standard error is read continuously, so that a
//! full pipe never blocks the service, and its end is kept.
//! **End:** when its own process has ended; its remaining processes are then stopped. Dropping the [`Life`]
//! kills at once, and so does the watcher when haft is gone.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::confine::{Command, Confiner, Connection, HelperEvent, HelperSession, Records, Refusal};
use crate::process::ProcessError;
use crate::process::start::{Piped, command, piped};
use haft_core::grant::Grant;
use haft_core::sync::Lock;
use haft_manifest::ProcessLimits;

/// Time for reading standard error after the service has ended.
const DRAIN: Duration = Duration::from_millis(200);
/// Time limit for stopping: a grace period for TERM, repeated KILL, and time for a loaded machine.
const STOP: Duration = Duration::from_secs(4);
/// Limit on the bytes of one read of standard error: the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// A service to run.
#[derive(Clone, Debug)]
pub struct ServiceSpec {
    /// The executable file.
    pub program: PathBuf,
    /// The arguments, passed unchanged.
    pub arguments: Vec<OsString>,
    /// Environment variables in addition to [`crate::process::start::ENVIRONMENT`] and those of the grant.
    pub environment: Vec<(OsString, OsString)>,
    /// The limits of its processes.
    pub limits: ProcessLimits,
}

/// A running service.
#[derive(Debug)]
pub struct Service {
    /// The input. Dropping it asks the service to end.
    pub input: Sender,
    /// The output.
    pub output: Receiver,
    /// The state of the service, and the means to end it.
    pub life: Life,
}

/// The lifetime of a service. Dropping it kills the service and all of its processes.
#[derive(Debug)]
pub struct Life {
    /// Whether the service is to be stopped; closed when this is dropped.
    stop: watch::Sender<bool>,
    /// Tells the supervisor to receive all refusals, and to reply.
    catch_up: mpsc::Sender<oneshot::Sender<()>>,
    state: watch::Receiver<ServiceState>,
    words: Arc<Lock<LastLines>>,
    records: Records,
}

#[derive(Clone, Debug)]
enum ServiceState {
    Running,
    Ended(Ending),
    /// No process of the service is left.
    Gone(Ending),
}

/// The end of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process exited, or was ended by a signal.
    Exited(ExitStatus),
    /// The process was not started; with the reason.
    NotStarted(String),
    /// The service was ended, since this file, which is closed to it, was replaced.
    Replaced(PathBuf),
    /// The end is unknown; with the reason.
    Unknown(String),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => match status.code() {
                Some(code) => write!(f, "exit code {code}"),
                // The standard library names the signal: `signal: 9 (SIGKILL)`.
                None => write!(f, "{status}"),
            },
            Self::Replaced(path) => ProcessError::Replaced { path: path.clone() }.fmt(f),
            Self::NotStarted(why) | Self::Unknown(why) => f.write_str(why),
        }
    }
}

/// Starts `job` with the rights of `grant`. Every line of its standard error is passed to `on_line`, truncated.
/// Must be called inside a tokio runtime.
pub async fn start(
    confiner: &Confiner,
    job: &ServiceSpec,
    grant: &Grant,
    on_line: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Service, ProcessError> {
    let command = command(&job.program, &job.arguments, &job.environment, grant)?;
    let command = Command { limits: job.limits, ..command };
    let Piped { session, input, output, errors } = piped(confiner, grant, &command).await?;
    let words = Arc::new(Lock::new(LastLines::default()));
    let errors = Errors { pipe: Some(errors), words: words.clone(), on_line: Box::new(on_line) };
    let records = session.records.clone();
    let (stop, orders) = watch::channel(false);
    let (catch_up, late) = mpsc::channel(1);
    let (sender, state) = watch::channel(ServiceState::Running);
    tokio::spawn(Supervisor { session, errors, sender }.keep(orders, late));
    Ok(Service { input, output, life: Life { stop, catch_up, state, words, records } })
}

impl Life {
    /// Returns the end, if the service has ended.
    pub fn ending(&self) -> Option<Ending> {
        match &*self.state.borrow() {
            ServiceState::Running => None,
            ServiceState::Ended(ending) | ServiceState::Gone(ending) => Some(ending.clone()),
        }
    }

    /// Waits until the service's own process has ended.
    pub async fn ended(&self) -> Ending {
        let mut state = self.state.clone();
        let ended = state.wait_for(|state| !matches!(state, ServiceState::Running)).await;
        drop(ended);
        self.ending().unwrap_or_else(|| Ending::Unknown("it is no longer supervised".to_owned()))
    }

    /// Returns the last lines of standard error, without control characters and limited.
    pub fn last_words(&self) -> String {
        self.words.lock().last()
    }

    /// Returns the connections of a service with single hosts since the last call of this function, limited.
    pub fn take_connections(&self) -> Vec<Connection> {
        self.records.connections.take()
    }

    /// Waits until [`Self::refused`] has the refusals of everything that the service has done so far.
    pub async fn caught_up(&self) {
        let (done, caught_up) = oneshot::channel();
        // Either error means that the service is gone, and everything was received.
        if self.catch_up.send(done).await.is_ok() {
            let _ = caught_up.await;
        }
    }

    /// Returns the sandbox's refusals so far, in order and limited.
    pub fn refused(&self) -> Vec<Refusal> {
        self.records.refused.lock().clone()
    }

    /// Reports whether the service was asked to stop.
    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Asks all processes to stop. Returns at once.
    pub fn stop(&self) {
        // An error means that no process is left.
        let _ = self.stop.send(true);
    }

    /// Waits for `patience` until the service has ended, then stops it. Returns when no process is left, or
    /// when the kernel cannot end one; at most 4 seconds after `patience`.
    pub async fn shut_down(&self, patience: Duration) {
        let _: Result<_, _> = timeout(patience, self.gone()).await;
        self.stop();
        let _: Result<_, _> = timeout(STOP, self.gone()).await;
    }

    async fn gone(&self) {
        let mut state = self.state.clone();
        // An error means that the sender has ended, and the service with it.
        drop(state.wait_for(|state| matches!(state, ServiceState::Gone(_))).await);
    }
}

struct Supervisor {
    session: HelperSession,
    errors: Errors,
    sender: watch::Sender<ServiceState>,
}

impl Supervisor {
    async fn keep(
        mut self,
        mut orders: watch::Receiver<bool>,
        mut late: mpsc::Receiver<oneshot::Sender<()>>,
    ) {
        let mut ending = None;
        loop {
            tokio::select! {
                order = orders.changed() => match order {
                    Ok(()) => drop(self.session.stop()),
                    // Dropped: the session is dropped too, which kills.
                    Err(_) => return,
                },
                Some(done) = late.recv() => {
                    self.session.catch_up();
                    // An error means that nobody waits any more.
                    let _ = done.send(());
                }
                news = self.session.news() => match news {
                    Ok(HelperEvent::Ended(ended)) => {
                        let ending_now = self.ending(ended.status);
                        let _: Result<_, _> = timeout(DRAIN, self.errors.read_to_end()).await;
                        self.sender.send_replace(ServiceState::Ended(ending_now.clone()));
                        ending = Some(ending_now);
                        if !ended.left {
                            break;
                        }
                        drop(self.session.stop());
                    }
                    Ok(HelperEvent::Gone(_)) => break,
                    Ok(HelperEvent::Refused(_)) => {}
                    Err(error) => {
                        ending.get_or_insert(Ending::Unknown(error.to_string()));
                        break;
                    }
                },
                never = self.errors.read_on() => match never {},
            }
        }
        let ending = ending.unwrap_or_else(|| Ending::Unknown("it was stopped".to_owned()));
        self.session.finish().await;
        self.sender.send_replace(ServiceState::Gone(ending));
    }

    fn ending(&self, status: i32) -> Ending {
        if let Some(path) = self.session.replaced() {
            return Ending::Replaced(path);
        }
        match self.session.not_started() {
            Some(why) => Ending::NotStarted(why),
            None => Ending::Exited(ExitStatus::from_raw(status)),
        }
    }
}

struct Errors {
    /// `None` after all write ends are closed.
    pipe: Option<Receiver>,
    words: Arc<Lock<LastLines>>,
    on_line: Box<dyn Fn(&str) + Send + Sync>,
}

impl Errors {
    async fn read_on(&mut self) -> Infallible {
        self.read_to_end().await;
        std::future::pending().await
    }

    async fn read_to_end(&mut self) {
        let mut buffer = vec![0; CHUNK].into_boxed_slice();
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer).await {
                Ok(count) if count > 0 => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    self.words.lock().push(bytes, &*self.on_line);
                }
                // Either means that the pipe is closed.
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }
}

// The standard error of a service: passed on line by line, and the last lines kept: at most [`MAX_LINES`]
// lines of [`MAX_LINE`] bytes.

/// Limit on the kept lines: a stack trace and its context.
const MAX_LINES: usize = 20;
/// Limit on the bytes of a line. The rest of a longer line is dropped.
const MAX_LINE: usize = 500;

#[derive(Debug, Default)]
struct LastLines {
    lines: VecDeque<String>,
    /// The first [`MAX_LINE`] bytes of the incomplete line.
    line: Vec<u8>,
}

impl LastLines {
    /// Adds bytes, and calls `on_line` with every complete line.
    fn push(&mut self, bytes: &[u8], on_line: &(impl Fn(&str) + ?Sized)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.extend(line);
            self.end_line(on_line);
            rest = after.get(1..).unwrap_or_default();
        }
        self.extend(rest);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.line.len();
        self.line.extend(bytes.iter().take(room));
    }

    fn end_line(&mut self, on_line: &(impl Fn(&str) + ?Sized)) {
        let line = shown(&std::mem::take(&mut self.line));
        if line.is_empty() {
            return;
        }
        on_line(&line);
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    fn last(&self) -> String {
        let unfinished = shown(&self.line);
        let unfinished = Some(unfinished.as_str()).filter(|line| !line.is_empty());
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).chain(unfinished).collect();
        lines.join("\n")
    }
}

/// Returns a line without control characters.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text: String =
        text.chars().map(|c| if c == '\t' { ' ' } else { c }).filter(|c| !c.is_control()).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// MC11: each line is reported once, and the last lines are kept.
    #[test]
    fn lines_are_told_once_and_the_last_are_kept() {
        let lines = RefCell::new(Vec::new());
        let on_line = |line: &str| lines.borrow_mut().push(line.to_owned());
        let mut words = LastLines::default();
        words.push(b"one\ntw", &on_line);
        words.push(b"o\r\n\n\x1b[31mred\x1b[0m", &on_line);
        assert_eq!(*lines.borrow(), ["one", "two"]);
        assert_eq!(words.last(), "one\ntwo\n[31mred[0m");
    }

    /// MC11: the stored part of an output of 1 MiB is bounded.
    #[test]
    fn a_megabyte_is_not_kept() {
        let mut words = LastLines::default();
        for number in 0..1000 {
            words.push(format!("{number} {}\n", "x".repeat(2000)).as_bytes(), &|_: &str| {});
        }
        words.push(&vec![b'y'; 1 << 20], &|_: &str| {});
        let last = words.last();
        assert!(last.len() <= (MAX_LINES + 1) * (MAX_LINE + 1) && last.starts_with("980 "), "{last}");
    }
}
