//! Keeps one program running that is talked to over pipes, and stops everything that it started. It
//! refuses to let a service outlive the [`Life`] it hangs on, whatever becomes of the host.
//!
//! **Start:** as every child does ([`crate::process::start`]): in the grant's workspace, confined, with a
//! cleared environment and what was named for it.
//! **Streams:** input and output are handed over; what it writes to standard error is read all the
//! time, so that it is never held up by a full pipe, and the end of it is kept.
//! **End:** when its own process has ended; what that left behind is stopped then. A dropped
//! [`Life`] kills at once, and when haft is gone the process that watches does the same.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::watch;
use tokio::time::timeout;

use self::words::LastLines;
use crate::confine::{Confiner, HelperEvent, HelperSession, Refusal};
use crate::process::start::{command, started};
use crate::process::{ProcessError, watch as watching};
use haft_core::grant::Grant;
use haft_core::sync::Lock;

mod words;

/// How long standard error is read on after the service has ended.
const DRAIN: Duration = Duration::from_millis(200);
/// How long stopping may take: a grace for TERM and repeated KILL, and some for a loaded machine.
const STOP: Duration = Duration::from_secs(4);
/// What one read of standard error takes at most; the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// What to keep running.
#[derive(Clone, Debug)]
pub struct ServiceSpec {
    /// An executable file.
    pub program: PathBuf,
    /// Its arguments, passed on as they are.
    pub arguments: Vec<OsString>,
    /// Variables that it gets besides [`crate::process::start::ENVIRONMENT`] and those of the grant.
    pub environment: Vec<(OsString, OsString)>,
}

/// A service that was started.
#[derive(Debug)]
pub struct Service {
    /// What it reads. Dropping it is how a service is asked to end.
    pub input: Sender,
    /// What it writes.
    pub output: Receiver,
    /// Whether it still runs, and the way to end it.
    pub life: Life,
}

/// The life of a service. Dropping it kills the service and all that it started.
#[derive(Debug)]
pub struct Life {
    /// Whether everything is to be stopped; closed when this is dropped.
    stop: watch::Sender<bool>,
    state: watch::Receiver<ServiceState>,
    words: Arc<Lock<LastLines>>,
    refused: Arc<Lock<Vec<Refusal>>>,
}

#[derive(Clone, Debug)]
enum ServiceState {
    Running,
    /// Its own process has ended.
    Ended(Ending),
    /// Nothing is left of it.
    Gone(Ending),
}

/// How a service ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, or by a signal.
    Exited(ExitStatus),
    /// It was never started, and why.
    NotStarted(String),
    /// It was ended, since this file, which is closed to it, was replaced.
    Replaced(PathBuf),
    /// The way it ended is unknown.
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

/// Starts `job` with the rights of `grant`. Every line that it writes to standard error goes to
/// `on_line`, cut to a bounded length. Must be called inside a runtime.
pub async fn start(
    confiner: &Confiner,
    job: &ServiceSpec,
    grant: &Grant,
    on_line: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Service, ProcessError> {
    let command = command(&job.program, &job.arguments, &job.environment, grant)?;
    let pipe = || io::pipe().map_err(watching("open a pipe"));
    let ((their_input, input), (output, their_output)) = (pipe()?, pipe()?);
    let (errors, their_errors) = pipe()?;
    let streams = [their_input.into(), their_output.into(), their_errors.into()];
    let failed = watching("talk over a pipe");
    let input = Sender::from_owned_fd(input.into()).map_err(&failed)?;
    let output = Receiver::from_owned_fd(output.into()).map_err(&failed)?;
    let errors = Receiver::from_owned_fd(errors.into()).map_err(&failed)?;
    let session = started(confiner, grant, &command, streams).await?;
    confiner.refill(grant);
    let words = Arc::new(Lock::new(LastLines::default()));
    let errors = Errors { pipe: Some(errors), words: words.clone(), on_line: Box::new(on_line) };
    let refused = session.refused();
    let (stop, orders) = watch::channel(false);
    let (sender, state) = watch::channel(ServiceState::Running);
    tokio::spawn(Supervisor { session, errors, sender }.keep(orders));
    Ok(Service { input, output, life: Life { stop, state, words, refused } })
}

impl Life {
    /// How it ended, if it has.
    pub fn ending(&self) -> Option<Ending> {
        match &*self.state.borrow() {
            ServiceState::Running => None,
            ServiceState::Ended(ending) | ServiceState::Gone(ending) => Some(ending.clone()),
        }
    }

    /// Waits until its own process has ended.
    pub async fn ended(&self) -> Ending {
        let mut state = self.state.clone();
        let ended = state.wait_for(|state| !matches!(state, ServiceState::Running)).await;
        drop(ended);
        self.ending().unwrap_or_else(unwatched)
    }

    /// The last lines that it wrote to standard error, without what steers a terminal; bounded.
    pub fn last_words(&self) -> String {
        self.words.lock().last()
    }

    /// What the sandbox has refused it so far, in order; bounded.
    pub fn refused(&self) -> Vec<Refusal> {
        self.refused.lock().clone()
    }

    /// Whether it was asked to.
    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Asks everything of it to stop. Returns at once.
    pub fn stop(&self) {
        // No receiver means that nothing is left.
        let _ = self.stop.send(true);
    }

    /// Waits for `patience` until it has ended by itself, then stops it. Returns when nothing of it
    /// is left, or when the kernel cannot end it; bounded by `patience` and a few seconds.
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

fn unwatched() -> Ending {
    Ending::Unknown("it is not watched any more".to_owned())
}

/// Watches over the service, in a task of its own.
struct Supervisor {
    session: HelperSession,
    errors: Errors,
    sender: watch::Sender<ServiceState>,
}

impl Supervisor {
    async fn keep(mut self, mut orders: watch::Receiver<bool>) {
        let mut ending = None;
        loop {
            tokio::select! {
                order = orders.changed() => match order {
                    Ok(()) => drop(self.session.stop()),
                    // Dropped: the session goes too, and kills.
                    Err(_) => return,
                },
                news = self.session.news() => match news {
                    Ok(HelperEvent::Ended(ended)) => {
                        let how = self.ending(ended.status);
                        let _: Result<_, _> = timeout(DRAIN, self.errors.read_to_end()).await;
                        self.sender.send_replace(ServiceState::Ended(how.clone()));
                        ending = Some(how);
                        if !ended.left {
                            break;
                        }
                        drop(self.session.stop());
                    }
                    Ok(HelperEvent::Gone(_)) => break,
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

/// What the service writes to standard error.
struct Errors {
    /// `None` once all writing ends are closed.
    pipe: Option<Receiver>,
    words: Arc<Lock<LastLines>>,
    on_line: Box<dyn Fn(&str) + Send + Sync>,
}

impl Errors {
    /// Reads for as long as it is polled.
    async fn read_on(&mut self) -> Infallible {
        self.read_to_end().await;
        std::future::pending().await
    }

    async fn read_to_end(&mut self) {
        let mut buffer = vec![0; CHUNK].into_boxed_slice();
        while let Some(pipe) = &self.pipe {
            // An error of either means that the pipe gives no more.
            let read = match pipe.readable().await {
                Ok(()) => pipe.try_read(&mut buffer),
                Err(error) => Err(error),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(count) if count > 0 => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    let mut words = self.words.lock();
                    words.push(bytes, &*self.on_line);
                }
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }
}
