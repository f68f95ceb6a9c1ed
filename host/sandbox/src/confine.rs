//! Holds child processes to their grant with the kernel's help. Every child of haft is started
//! here, by way of a helper that confines itself before it becomes the command. It refuses to
//! start anything under less than what is promised, unless it was told to leave children open.
//!
//! # Layers, in the order in which they are laid
//! 1. a cleared environment, a session of its own, no descriptor but three, small limits;
//! 2. namespaces: everything mounted read-only but what may be written, nothing of haft's own to be
//!    seen, processes outside invisible;
//! 3. no new privileges, Landlock, no capabilities, a filter of system calls;
//! 4. a watcher that ends everything when the command has ended or haft is gone.
//!
//! # Host and helper
//! The host has many threads and much memory, so nothing is done in a copy of it: it starts
//! itself anew ([`crate::entry`]). A helper serves one command. It may be made ready before there is
//! one ([`Confiner::prepare`]), so that confinement costs the call next to nothing.

mod helper;
mod identity;
mod layers;
mod living;
mod policy;
mod program;
mod refusal;
mod seals;
mod session;
pub(crate) mod sys;
pub(crate) mod wire;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::identity::{Identity, identity, meant};
pub use self::layers::{Layers, Verdict};
use self::living::Living;
use self::policy::Policy;
use self::program::Programs;
pub use self::refusal::Refusal;
use self::seals::Seals;
use self::session::HelperNotReady;
pub(super) use self::session::{HelperEvent, HelperSession, Streams};
pub(super) use self::wire::Command;
use crate::process::caches;
use haft_core::grant::Grant;
use haft_core::sync::Lock;

/// How long a helper that was made ready is kept: longer than a model takes for a turn. It holds
/// the mounts as they were when it was made.
const MAX_AGE: Duration = Duration::from_mins(5);

/// Runs the helper, if this process was started as one. From here on haft may start itself as one.
pub(crate) fn entry() -> Option<ExitCode> {
    program::is_able();
    helper::entry()
}

/// Starts confined children. One a process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Confiner(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Whether to use the layers as they are, none less and none judged.
    strict: bool,
    state: Lock<ConfinerState>,
    living: Arc<Living>,
}

#[derive(Debug)]
struct ConfinerState {
    programs: Programs,
    layers: Layers,
    /// Whether a helper has laid all of them.
    proven: bool,
    /// Why there are no namespaces, where there are none.
    missing: Option<String>,
    /// Whether children stay in the session of the terminal.
    terminal: bool,
    /// Whether to keep a helper in waiting.
    ahead: bool,
    ready: Option<Ready>,
}

#[derive(Debug)]
struct Ready {
    session: HelperSession,
    policy: Policy,
    identities: Vec<Option<Identity>>,
    made: Instant,
}

/// Why a child cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel cannot keep what is promised.
    #[error("refused, since it could not be confined: {0}")]
    Refused(String),
    /// A layer that was there has failed.
    #[error("cannot confine the command: {0}")]
    Failed(io::Error),
}

impl Confiner {
    /// Confines with every layer that this kernel offers, by way of this program, whose `main` must
    /// ask [`crate::entry`] first.
    pub fn new() -> Self {
        Self::with_programs(Programs::of_this_process(), Layers::offered(), false)
    }

    /// The same by way of another program that asks [`crate::entry`] first.
    pub fn with_helper(helper: impl Into<PathBuf>) -> Self {
        Self::with_programs(Programs::only(helper.into()), Layers::offered(), false)
    }

    /// Uses exactly these layers, whatever is lost. [`Layers::NONE`] watches over children without
    /// confining them; anything between the two is for finding out what a layer does.
    pub fn exactly(helper: impl Into<PathBuf>, layers: Layers) -> Self {
        Self::with_programs(Programs::only(helper.into()), layers, true)
    }

    /// Watches over children without confining them.
    pub fn open() -> Self {
        Self::with_programs(Programs::of_this_process(), Layers::NONE, true)
    }

    fn with_programs(programs: Programs, layers: Layers, strict: bool) -> Self {
        let state = Lock::new(ConfinerState {
            programs,
            layers,
            proven: strict,
            missing: None,
            terminal: false,
            ahead: false,
            ready: None,
        });
        Self(Arc::new(Inner { strict, state, living: Arc::default() }))
    }

    /// Leaves children in the session of the terminal that haft was started at, whose keys then reach them. Only for
    /// a terminal that was made for them: a pane.
    #[must_use]
    pub(crate) fn at_terminal(self) -> Self {
        self.state(|state| state.terminal = true);
        self
    }

    /// The same helper without any layer: it watches over children and does not confine them.
    #[must_use]
    pub fn without_layers(&self) -> Self {
        let programs = self.state(|state| state.programs.again());
        Self::with_programs(programs, Layers::NONE, true)
    }

    /// The layers in use, as far as they have been tried.
    pub fn layers(&self) -> Layers {
        self.state(|state| state.layers)
    }

    /// Whether it holds children to no grant.
    pub fn is_open(&self) -> bool {
        self.layers() == Layers::NONE
    }

    /// What holds children, in a few words.
    pub fn describe(&self) -> String {
        match self.layers() {
            Layers::NONE => "UNCONFINED: the sandbox was switched off".to_owned(),
            layers => format!("confined by {}", layers.describe()),
        }
    }

    /// Why a layer that the kernel should have cannot be had.
    pub fn missing(&self) -> Option<String> {
        self.state(|state| state.missing.clone())
    }

    /// Whether nothing may be started with this grant, as far as can be said without trying.
    pub fn refusal(&self, grant: &Grant) -> Option<ConfineError> {
        self.policy(grant).err()
    }

    /// Keeps a helper in waiting from now on, the first one for `grant`. To be called where many
    /// calls are to come, inside a runtime.
    pub fn keep_ready(&self, grant: &Grant) {
        self.state(|state| state.ahead = true);
        self.refill(grant);
    }

    /// Makes a helper ready in the background for the next call, if that is wanted.
    pub(super) fn refill(&self, grant: &Grant) {
        if self.state(|state| state.ahead) {
            let (confiner, grant) = (self.clone(), grant.clone());
            tokio::spawn(async move {
                if let Err(error) = confiner.prepare(&grant).await {
                    tracing::debug!(%error, "no helper made ready");
                }
            });
        }
    }

    /// Tries the layers with a helper that runs nothing, and says what they are good for.
    pub async fn probe(&self, grant: &Grant) -> Result<Verdict, ConfineError> {
        let session = self.started(grant).await?;
        drop(session);
        Ok(self.layers().verdict())
    }

    /// Makes a helper ready for the next child with this grant, in place of one for another.
    pub async fn prepare(&self, grant: &Grant) -> Result<(), ConfineError> {
        make_caches(grant);
        let policy = self.policy(grant)?;
        let identities = identities(grant);
        if self.state(|state| state.ready.as_ref().is_some_and(|ready| ready.is_for(&policy, &identities))) {
            return Ok(());
        }
        let (session, policy) = self.started(grant).await?;
        let ready = Ready { session, policy, identities, made: Instant::now() };
        let old = self.state(|state| state.ready.replace(ready));
        drop(old);
        Ok(())
    }

    /// Ends every child that is sealed against another file than is there now, and waits until nothing of it is left.
    /// After that no process can change, or read, a file that took the place of a sealed one before the call.
    ///
    /// # Errors
    /// Where the kernel could not end one in time.
    pub async fn end_outdated(&self) -> Result<(), ConfineError> {
        let living = self.0.living.clone();
        let ended = tokio::task::spawn_blocking(move || living.end_outdated()).await;
        match ended {
            Ok(true) => Ok(()),
            Ok(false) => Err(ConfineError::Failed(io::ErrorKind::TimedOut.into())),
            Err(error) => Err(ConfineError::Failed(error.into())),
        }
    }

    /// A helper for one child with this grant: the one in waiting, or one that is making itself
    /// ready. From here on it is ended when what it is sealed against is replaced.
    pub(super) async fn session(&self, grant: &Grant) -> Result<HelperSession, ConfineError> {
        make_caches(grant);
        let policy = self.policy(grant)?;
        // Looked at before the helper makes its mounts: what is replaced meanwhile counts as replaced.
        let seals = Seals::of(policy.sealed(grant));
        let mut session = self.unsealed_session(grant, policy).await?;
        // Where the helper did without namespaces, which may have shown only now, nothing is mounted over anything.
        if self.layers().namespaces {
            self.0.living.take_in(&session.seal(seals)).map_err(ConfineError::Failed)?;
        }
        Ok(session)
    }

    async fn unsealed_session(&self, grant: &Grant, policy: Policy) -> Result<HelperSession, ConfineError> {
        let ready = self.state(|state| state.ready.take());
        if let Some(ready) = ready.filter(|ready| ready.is_for(&policy, &identities(grant))) {
            return Ok(ready.session);
        }
        if self.state(|state| state.proven) {
            // What failed before the command was started is told in the place of its end.
            let started = self.program(&policy).and_then(|program| HelperSession::start(&program, &policy));
            return started.map_err(ConfineError::Failed);
        }
        Ok(Box::pin(self.started(grant)).await?.0)
    }

    /// Starts a helper and waits until all its layers are laid; where namespaces cannot be had,
    /// does without them from now on, if that is enough.
    async fn started(&self, grant: &Grant) -> Result<(HelperSession, Policy), ConfineError> {
        let policy = self.policy(grant)?;
        match self.start(&policy).await {
            Ok(session) => Ok((session, policy)),
            // Tried once, then strict: what has worked and does not any more was made to fail.
            Err(error) if error.lacking && !self.0.strict && !self.state(|state| state.proven) => {
                let lesser = Layers { namespaces: false, ..policy.layers };
                let why = error.why.to_string();
                if let Verdict::Reduced(gaps) = lesser.verdict() {
                    tracing::warn!("commands are confined by less than usual ({why}): {}", gaps.join("; "));
                }
                self.state(|state| (state.layers, state.missing) = (lesser, Some(why)));
                let policy = self.policy(grant)?;
                let session = self.start(&policy).await;
                Ok((session.map_err(|error| ConfineError::Failed(error.why))?, policy))
            }
            Err(error) => Err(ConfineError::Failed(error.why)),
        }
    }

    async fn start(&self, policy: &Policy) -> Result<HelperSession, HelperNotReady> {
        match self.start_one(policy).await {
            // The small program may be another version's.
            Err(error) if !error.lacking && self.state(|state| state.programs.forget_small()) => {
                tracing::debug!(error = %error.why, "the small helper is of no use");
                self.start_one(policy).await
            }
            started => started,
        }
    }

    async fn start_one(&self, policy: &Policy) -> Result<HelperSession, HelperNotReady> {
        let mut session = HelperSession::start(&self.program(policy)?, policy)?;
        session.ready().await?;
        self.state(|state| state.proven = true);
        Ok(session)
    }

    fn program(&self, policy: &Policy) -> io::Result<PathBuf> {
        self.state(|state| state.programs.for_policy(policy))
    }

    fn policy(&self, grant: &Grant) -> Result<Policy, ConfineError> {
        let terminal = self.state(|state| state.terminal);
        let policy = Policy { terminal, ..Policy::new(grant, self.layers()) };
        if self.0.strict {
            return Ok(policy);
        }
        let verdict = policy.layers.verdict();
        let refused = match verdict {
            // Where everything may be written, Landlock has nothing to keep.
            Verdict::Refused(why) if policy.write.is_some() => Some(why),
            _ => policy.unenforceable(),
        };
        match refused {
            Some(why) => Err(ConfineError::Refused(match self.missing() {
                Some(missing) => format!("{why} (namespaces cannot be had: {missing})"),
                None => why,
            })),
            None => Ok(policy),
        }
    }

    fn state<T>(&self, with: impl FnOnce(&mut ConfinerState) -> T) -> T {
        with(&mut self.0.state.lock())
    }
}

impl Default for Confiner {
    fn default() -> Self {
        Self::new()
    }
}

impl Ready {
    /// Whether it is what `policy` asks for, the directories are still the same ones, and it is not
    /// too old.
    fn is_for(&self, policy: &Policy, identities: &[Option<Identity>]) -> bool {
        self.policy == *policy && self.identities == identities && self.made.elapsed() < MAX_AGE
    }
}

/// Makes what only a child of `grant` writes, where it is not there yet. Where it cannot be made, as in a home that is
/// read-only, children do without caches.
fn make_caches(grant: &Grant) {
    if let Some(caches) = grant.caches()
        && let Err(error) = caches::prepare(caches.path())
    {
        tracing::debug!(%error, "`{}` cannot be made, or its use noted", caches.path().display());
    }
}

/// Which directories and files the paths of `grant` mean now.
fn identities(grant: &Grant) -> Vec<Option<Identity>> {
    let writable = grant.writable().roots();
    let all = writable.iter().chain(grant.caches()).chain(grant.hidden()).chain(grant.fixed());
    all.flat_map(meant).map(|path| identity(&path)).collect()
}
