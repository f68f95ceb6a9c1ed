//! The host's side of one helper process, which serves one command. Dropping it ends all processes of the
//! helper.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};

use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command as Starter};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::egress::secrets::Relay;
use super::egress::{Egress, Records};
use super::helper::VERB;
use super::living::{LivingChild, Seals};
use super::policy::Policy;
use super::program::SOURCES;
use super::refusal::{MAX_REFUSALS, Refusal};
use super::wire::{
    self, Command, ENDED, ExitReport, FAILED, GONE, JOB, LACKING, READY, REFUSED, SETUP, STOP, received,
    watched,
};

/// Time limit for a helper to get ready, which takes a few milliseconds.
const READY_BOUND: Duration = Duration::from_secs(10);
const SILENT: &str = "the helper does not answer; a program that uses haft as a library has to ask `haft::backend::entry` first thing in `main`";
/// Time limit for an ended helper; only the kernel can end one that remains.
const REAP: Duration = Duration::from_secs(1);
/// Limit on the messages of one helper.
const MAX_MESSAGES: usize = 16 + MAX_REFUSALS;

/// The standard streams of a child: input, output, errors.
pub(crate) type Streams = [OwnedFd; 3];

#[derive(Debug)]
pub(crate) struct HelperSession {
    control: Control,
    job: AsyncFd<OwnedFd>,
    child: Child,
    received: usize,
    /// The number of refusals that [`Self::news`] has returned.
    told: usize,
    is_stopping: AtomicBool,
    /// An event that was received before it was asked for.
    early: Option<io::Result<HelperEvent>>,
    /// The refusals and connections of the command so far, in order and limited. [`Self::news`] adds refusals.
    pub(crate) records: Records,
    /// The variables of a command with secrets for hosts.
    given: Vec<(OsString, OsString)>,
    /// What serves the network of a command with single hosts; ends with this value.
    _egress: Option<AbortOnDropHandle<()>>,
    /// The entry in the confiner's list of running children.
    living: Option<Arc<LivingChild>>,
}

/// The helper's control socket. The list of running children shares it, so a drop has to shut it down.
#[derive(Debug)]
struct Control(AsyncFd<Arc<OwnedFd>>);

impl Drop for Control {
    fn drop(&mut self) {
        let _ = shutdown(self.0.get_ref(), Shutdown::Both);
    }
}

#[derive(Debug)]
pub(crate) enum HelperEvent {
    Ended(ExitReport),
    /// No process is left; the number of processes that had to be stopped.
    Gone(u32),
    /// The sandbox refused the command something, which [`HelperSession::records`] has too.
    Refused(Refusal),
}

#[derive(Debug)]
pub(super) struct HelperNotReady {
    /// Whether only namespaces are missing.
    pub(super) lacking: bool,
    pub(super) why: io::Error,
}

impl From<io::Error> for HelperNotReady {
    fn from(why: io::Error) -> Self {
        Self { lacking: false, why }
    }
}

impl From<io::Result<Option<wire::Message>>> for HelperNotReady {
    fn from(message: io::Result<Option<wire::Message>>) -> Self {
        let lacking = matches!(&message, Ok(Some(message)) if message.kind == LACKING);
        Self { lacking, why: message.map_or_else(|error| error, failure) }
    }
}

impl HelperSession {
    /// Starts a helper that prepares for `policy`. Returns at once.
    pub(super) fn start(helper: &Path, policy: &Policy) -> io::Result<Self> {
        let (control, theirs) = wire::pair()?;
        let (job, their_job) = wire::pair()?;
        let records = Records { learns: policy.learns, ..Records::default() };
        let has_secrets = !policy.secrets.is_empty();
        let relay = has_secrets.then(|| Relay::new(&policy.secrets, records.clone())).transpose()?;
        let given = relay.as_ref().map(Relay::variables).unwrap_or_default();
        let policy = policy.given(relay.as_ref().map(Relay::files).unwrap_or_default());
        let text = serde_json::to_vec(&policy).map_err(io::Error::other)?;
        let mut sockets = vec![their_job];
        let mut egress = None;
        if !policy.hosts.is_empty() {
            let (ours, outside) = wire::pair()?;
            egress = Some(Egress::serve(&policy, ours, records.clone(), relay)?);
            sockets.push(outside);
        }
        let child = starter(helper).stdin(Stdio::from(theirs)).spawn()?;
        wire::send_text(&control, SETUP, &text, &sockets.iter().collect::<Vec<_>>())?;
        drop(sockets);
        Ok(Self {
            control: Control(watched(Arc::new(control))?),
            job: watched(job)?,
            child,
            received: 0,
            told: 0,
            is_stopping: AtomicBool::default(),
            early: None,
            records,
            given,
            _egress: egress,
            living: None,
        })
    }

    /// Seals the child: it is ended when an object other than that of `seals` appears at a path.
    pub(super) fn seal(&mut self, seals: Seals) -> Arc<LivingChild> {
        let control = self.control.0.get_ref().clone();
        let child = Arc::new(LivingChild { control, seals, fate: OnceLock::new() });
        self.living = Some(child.clone());
        child
    }

    /// Returns the replaced file because of which the child was ended.
    pub(crate) fn replaced(&self) -> Option<PathBuf> {
        self.living.as_ref()?.replaced().map(Path::to_owned)
    }

    /// Sends the helper its command, which it executes once it is ready.
    pub(crate) fn become_command(&self, command: &Command, streams: &Streams) -> io::Result<()> {
        let [input, output, errors] = streams;
        let mut command = command.clone();
        command.environment.retain(|(name, _)| !self.given.iter().any(|(given, _)| given == name));
        command.environment.extend(self.given.iter().cloned());
        wire::send_text(self.job.get_ref(), JOB, &command.encode(), &[input, output, errors])
    }

    pub(super) async fn ready(&mut self) -> Result<(), HelperNotReady> {
        let ready = async {
            tokio::select! {
                biased;
                message = received(&self.job) => match message {
                    Ok(Some(message)) if message.kind == READY => Ok(()),
                    Ok(Some(message)) => Err(HelperNotReady::from(Ok(Some(message)))),
                    // The helper has ended; the reason is on the other socket, if at all.
                    _ => Err(HelperNotReady::from(received(&self.control.0).await)),
                },
                message = received(&self.control.0) => Err(HelperNotReady::from(message)),
            }
        };
        let late = || Err(HelperNotReady { lacking: false, why: io::Error::other(SILENT) });
        timeout(READY_BOUND, ready).await.unwrap_or_else(|_| late())
    }

    /// Waits for the next event. The future may be dropped and created again.
    pub(crate) async fn news(&mut self) -> io::Result<HelperEvent> {
        if let Some(early) = self.early.take() {
            return early;
        }
        loop {
            let refusal = self.records.refused.lock().get(self.told).cloned();
            if let Some(refusal) = refusal {
                self.told += 1;
                return Ok(HelperEvent::Refused(refusal));
            }
            let message = tokio::select! {
                message = received(&self.control.0) => message?,
                () = self.records.news.notified() => continue,
            };
            match self.event(message)? {
                None => {}
                Some(event) => return Ok(event),
            }
        }
    }

    /// Receives what the helper has sent already. A call of the command continues only after its refusal was sent, so
    /// [`Self::records`] then has the refusals of everything that the command has done.
    pub(crate) fn catch_up(&mut self) {
        while self.early.is_none()
            && let Ok(message) = wire::receive(&**self.control.0.get_ref())
        {
            self.early = self.event(message).transpose();
        }
    }

    /// Returns the event of a message; `None` for a refusal, which is added to [`Self::records`].
    fn event(&mut self, message: Option<wire::Message>) -> io::Result<Option<HelperEvent>> {
        self.received += 1;
        let Some(message) = message.filter(|_| self.received <= MAX_MESSAGES) else {
            return Err(io::Error::other("the process that supervises the command has ended"));
        };
        match message.kind {
            REFUSED => {
                let refusal = Refusal::decode(&message.body).ok_or_else(|| failure(None))?;
                self.records.refused.lock().push(refusal);
                Ok(None)
            }
            ENDED => {
                let ended = ExitReport::decode(&message.body).ok_or_else(|| failure(None))?;
                if let Some(living) = self.living.as_ref().filter(|_| !ended.left) {
                    living.ended();
                }
                Ok(Some(HelperEvent::Ended(ended)))
            }
            GONE => {
                let count = message.body.first_chunk().copied().map(u32::from_le_bytes);
                Ok(Some(HelperEvent::Gone(count.unwrap_or_default())))
            }
            _ => Err(failure(Some(message))),
        }
    }

    /// Returns the reason why the command was not started; `None` if it was.
    pub(crate) fn not_started(&self) -> Option<String> {
        // The socket closes when the command is executed; otherwise it contains the reason.
        while let Ok(Some(message)) = wire::receive(self.job.get_ref()) {
            if message.kind == FAILED {
                return Some(String::from_utf8_lossy(&message.body).into_owned());
            }
        }
        None
    }

    /// Asks the helper to end all processes, once: the helper may end before it reads a second request, and the kernel
    /// would then discard its last message.
    pub(crate) fn stop(&self) -> io::Result<()> {
        if self.is_stopping.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        wire::send(self.control.0.get_ref(), STOP, &[], &[] as &[OwnedFd])
    }

    /// Waits for the end of the helper, which ends when no process is left.
    pub(crate) async fn finish(self) {
        let Self { control, job, mut child, .. } = self;
        // The watcher waits until the control socket is closed, so it has to be closed first.
        drop((control, job));
        let _: Result<_, _> = timeout(REAP, child.wait()).await;
    }
}

fn failure(message: Option<wire::Message>) -> io::Error {
    let text = match message {
        Some(message) if matches!(message.kind, FAILED | LACKING) => {
            String::from_utf8_lossy(&message.body).into_owned()
        }
        Some(_) => "the helper speaks another language".to_owned(),
        None => "the helper ended without a message".to_owned(),
    };
    io::Error::other(text)
}

/// Returns the helper's command line, in a form that lets the library start it without copying the host's
/// memory.
#[expect(clippy::disallowed_methods, reason = "starts the helper that confines everything else")]
fn starter(helper: &Path) -> Starter {
    let mut starter = Starter::new(helper);
    starter
        .arg0("haft")
        .arg(VERB)
        .arg(SOURCES.to_string())
        .env_clear()
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    starter
}
