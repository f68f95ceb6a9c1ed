//! Confines child processes to their grants with the kernel's mechanisms. Every child of haft is started here,
//! by a helper that confines itself before it becomes the command. Never starts a child with less confinement
//! than promised, unless it was created without layers.
//!
//! # Layers, in the order of their application
//! 1. a cleared environment, a new session, only three descriptors, small limits;
//! 2. namespaces: all mounts read-only except writable paths, haft's own files hidden, other processes
//!    invisible;
//! 3. no new privileges, Landlock, no capabilities, a seccomp filter;
//! 4. a watcher that ends all processes when the command has ended or haft is gone.
//!
//! # Host and helper
//! The host has many threads and much memory, so it does not fork: it starts its own executable again
//! ([`crate::entry`]). A helper serves one command. It may be prepared before the command is known
//! ([`Confiner::prepare`]), which makes confinement almost free for the call.

mod egress;
mod helper;
mod layers;
mod learning;
mod living;
mod policy;
mod program;
mod refusal;
mod session;
pub(crate) mod sys;
pub(crate) mod wire;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use self::egress::Records;
pub use self::egress::{Bytes, Connection};
pub use self::layers::{Layers, Verdict};
pub use self::learning::Observed;
use self::living::{Identity, Living, Seals, identity, meant};
use self::policy::Policy;
use self::program::Programs;
pub use self::refusal::Refusal;
use self::session::HelperNotReady;
pub(super) use self::session::{HelperEvent, HelperSession, Streams};
pub(super) use self::wire::Command;
use crate::process::{caches, private};
use haft_core::grant::{Grant, Service};
use haft_core::sync::Lock;

/// Maximum age of a prepared helper: longer than a model's turn. A helper keeps the mounts from the time of its
/// start.
const MAX_AGE: Duration = Duration::from_mins(5);

/// Limit on the prepared helpers: for `bash` and the servers and commands that were started last.
const MAX_READY: usize = 8;

/// Runs the helper, if this process was started as one. Afterwards haft may start its own executable as a
/// helper.
pub(crate) fn entry() -> Option<ExitCode> {
    program::is_able();
    helper::entry()
}

/// Starts confined children. One per process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Confiner(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Whether exactly these layers are used, without a check of their strength.
    strict: bool,
    state: Lock<ConfinerState>,
    living: Arc<Living>,
}

#[derive(Debug)]
struct ConfinerState {
    programs: Programs,
    layers: Layers,
    /// Whether a helper has applied all layers successfully.
    proven: bool,
    /// The reason why namespaces are unavailable.
    missing: Option<String>,
    /// Whether children stay in the terminal's session.
    terminal: bool,
    /// Records what children need, if that is to be learnt.
    observed: Option<Observed>,
    /// Whether a helper is kept ready.
    ahead: bool,
    /// Prepared helpers, the newest last: one for each grant.
    ready: Vec<Ready>,
}

#[derive(Debug)]
struct Ready {
    session: HelperSession,
    policy: Policy,
    identities: Vec<Option<Identity>>,
    made: Instant,
}

/// Reasons why a child cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel lacks required mechanisms.
    #[error("refused: the command could not be confined: {0}")]
    Refused(String),
    /// An available layer failed.
    #[error("cannot confine the command: {0}")]
    Failed(io::Error),
}

impl Confiner {
    /// Confines with every layer that this kernel supports, with this program as helper. Its `main` must call
    /// [`crate::entry`] first.
    pub fn new() -> Self {
        Self::with_programs(Programs::of_this_process(), Layers::offered(), false)
    }

    /// Confines with every layer, with another program as helper, which calls [`crate::entry`] first.
    pub fn with_helper(helper: impl Into<PathBuf>) -> Self {
        Self::with_programs(Programs::only(helper.into()), Layers::offered(), false)
    }

    /// Uses exactly these layers, however weak. [`Layers::NONE`] supervises children without confining them;
    /// other subsets are for testing single layers.
    pub fn exactly(helper: impl Into<PathBuf>, layers: Layers) -> Self {
        Self::with_programs(Programs::only(helper.into()), layers, true)
    }

    /// Supervises children without confining them.
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
            observed: None,
            ahead: false,
            ready: Vec::new(),
        });
        Self(Arc::new(Inner { strict, state, living: Arc::default() }))
    }

    /// Keeps children in the session of haft's terminal, so that its keys reach them. Only for a terminal that
    /// was created for them: a pane.
    #[must_use]
    pub(crate) fn at_terminal(self) -> Self {
        self.state(|state| state.terminal = true);
        self
    }

    /// Records what the children need in `observed`.
    #[must_use]
    pub fn learning(self, observed: &Observed) -> Self {
        self.state(|state| state.observed = Some(observed.clone()));
        self
    }

    /// Returns a confiner with the same helper and no layers: it supervises children without confining them.
    #[must_use]
    pub fn without_layers(&self) -> Self {
        let programs = self.state(|state| state.programs.again());
        Self::with_programs(programs, Layers::NONE, true)
    }

    /// Returns the layers in use, as far as they were tried.
    pub fn layers(&self) -> Layers {
        self.state(|state| state.layers)
    }

    /// Reports whether children are unconfined.
    pub fn is_open(&self) -> bool {
        self.layers() == Layers::NONE
    }

    /// Describes the confinement in a few words.
    pub fn describe(&self) -> String {
        match self.layers() {
            Layers::NONE => "UNCONFINED: the sandbox was switched off".to_owned(),
            layers => format!("confined by {}", layers.describe()),
        }
    }

    /// Returns the reason why a layer is unavailable.
    pub fn missing(&self) -> Option<String> {
        self.state(|state| state.missing.clone())
    }

    /// Returns an error if this grant is certainly refused; does not try it.
    pub fn refusal(&self, grant: &Grant) -> Option<ConfineError> {
        self.policy(grant).err()
    }

    /// Keeps a helper ready from now on, the first one for `grant`. For callers with many calls, inside a tokio
    /// runtime.
    pub fn keep_ready(&self, grant: &Grant) {
        self.state(|state| state.ahead = true);
        self.refill(grant);
    }

    /// Prepares a helper in the background for the next call, if helpers are kept ready.
    pub(super) fn refill(&self, grant: &Grant) {
        if self.state(|state| state.ahead) {
            let (confiner, grant) = (self.clone(), grant.clone());
            tokio::spawn(async move {
                if let Err(error) = confiner.prepare(&grant).await {
                    tracing::debug!(%error, "no helper is ready");
                }
            });
        }
    }

    /// Tries the layers with a helper that runs nothing; returns their strength.
    pub async fn probe(&self, grant: &Grant) -> Result<Verdict, ConfineError> {
        let session = self.started(grant).await?;
        drop(session);
        Ok(self.layers().verdict())
    }

    /// Prepares a helper for the next child with this grant.
    pub async fn prepare(&self, grant: &Grant) -> Result<(), ConfineError> {
        make_directories(grant)?;
        let policy = self.policy(grant)?;
        let identities = identities(grant);
        if self.state(|state| state.ready.iter().any(|ready| ready.is_for(&policy, &identities))) {
            return Ok(());
        }
        let (session, policy) = self.started(grant).await?;
        let ready = Ready { session, policy, identities, made: Instant::now() };
        let old = self.state(|state| {
            let is_outdated = |old: &mut Ready| old.policy == ready.policy || old.made.elapsed() >= MAX_AGE;
            let mut old: Vec<Ready> = state.ready.extract_if(.., is_outdated).collect();
            state.ready.push(ready);
            old.extend((state.ready.len() > MAX_READY).then(|| state.ready.remove(0)));
            old
        });
        drop(old);
        Ok(())
    }

    /// Ends every child with a seal on a file that was replaced since, and waits for its end. Afterwards no
    /// process can change or read a file that replaced a sealed one before the call.
    ///
    /// # Errors
    /// The kernel did not end a process in time.
    pub async fn end_outdated(&self) -> Result<(), ConfineError> {
        let living = self.0.living.clone();
        let ended = tokio::task::spawn_blocking(move || living.end_outdated()).await;
        match ended {
            Ok(true) => Ok(()),
            Ok(false) => Err(ConfineError::Failed(io::ErrorKind::TimedOut.into())),
            Err(error) => Err(ConfineError::Failed(error.into())),
        }
    }

    /// Returns a helper for one child with this grant: the prepared one, or one that is starting. From now on
    /// it is ended when a sealed file is replaced.
    pub(super) async fn session(&self, grant: &Grant) -> Result<HelperSession, ConfineError> {
        make_directories(grant)?;
        let policy = self.policy(grant)?;
        // Taken before the helper creates its mounts: a replacement in between counts as a replacement.
        let seals = Seals::of(policy.sealed(grant));
        let mut session = self.unsealed_session(grant, policy).await?;
        if let Some(observed) = self.state(|state| state.observed.clone()) {
            observed.take_in(&session);
        }
        // Without namespaces, which the helper may only have discovered now, no mounts exist that could become
        // outdated.
        if self.layers().namespaces {
            self.0.living.take_in(&session.seal(seals)).map_err(ConfineError::Failed)?;
        }
        Ok(session)
    }

    async fn unsealed_session(&self, grant: &Grant, policy: Policy) -> Result<HelperSession, ConfineError> {
        let identities = identities(grant);
        let ready = self.state(|state| {
            let place = state.ready.iter().rposition(|ready| ready.is_for(&policy, &identities));
            place.map(|place| state.ready.remove(place))
        });
        if let Some(ready) = ready {
            return Ok(ready.session);
        }
        if self.state(|state| state.proven) {
            // An error before the command's start is reported as the command's end.
            let started = self.program(&policy).and_then(|program| HelperSession::start(&program, &policy));
            return started.map_err(ConfineError::Failed);
        }
        Ok(Box::pin(self.started(grant)).await?.0)
    }

    /// Starts a helper and waits until all its layers are applied; continues without namespaces if they are
    /// unavailable and the other layers are sufficient.
    async fn started(&self, grant: &Grant) -> Result<(HelperSession, Policy), ConfineError> {
        let policy = self.policy(grant)?;
        match self.start(&policy).await {
            Ok(session) => Ok((session, policy)),
            // Only the first helper may fall back: if namespaces worked before, somebody made them fail.
            Err(error) if error.lacking && !self.0.strict && !self.state(|state| state.proven) => {
                let lesser = Layers { namespaces: false, ..policy.layers };
                let why = error.why.to_string();
                if let Verdict::Reduced(gaps) = lesser.verdict() {
                    tracing::warn!(
                        "commands are confined with fewer layers than usual ({why}): {}",
                        gaps.join("; ")
                    );
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
        match self.start_helper(policy).await {
            // The small helper program may be of another version.
            Err(error) if !error.lacking && self.state(|state| state.programs.forget_small()) => {
                tracing::debug!(error = %error.why, "the small helper cannot be used");
                self.start_helper(policy).await
            }
            started => started,
        }
    }

    async fn start_helper(&self, policy: &Policy) -> Result<HelperSession, HelperNotReady> {
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
        let policy = match self.state(|state| state.observed.clone()) {
            Some(observed) => policy.learning(grant, observed.is_public()),
            None => policy,
        };
        if self.0.strict {
            return Ok(policy);
        }
        let verdict = policy.layers.verdict();
        let refused = match verdict {
            // Landlock is not needed if everything is writable.
            Verdict::Refused(why) if policy.write.is_some() => Some(why),
            _ => policy.unenforceable(),
        };
        match refused {
            Some(why) => Err(ConfineError::Refused(match self.missing() {
                Some(missing) => format!("{why} (namespaces are not available: {missing})"),
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
    /// Reports whether it has the policy `policy`, the same directories, and is not too old.
    fn is_for(&self, policy: &Policy, identities: &[Option<Identity>]) -> bool {
        self.policy == *policy && self.identities == identities && self.made.elapsed() < MAX_AGE
    }
}

/// Creates the directories of `grant`. If its caches cannot be created, as in a read-only home, children run without.
fn make_directories(grant: &Grant) -> Result<(), ConfineError> {
    private::prepare(grant).map_err(ConfineError::Failed)?;
    if let Some(caches) = grant.caches().filter(|_| grant.private().is_none())
        && let Err(error) = caches::prepare(caches.path())
    {
        tracing::debug!(%error, "cannot create `{}`, or record its use", caches.path().display());
    }
    Ok(())
}

/// Returns the identities of all files and directories that a helper mounts or makes rules for.
fn identities(grant: &Grant) -> Vec<Option<Identity>> {
    let (writable, readable) = (grant.writable().roots(), grant.readable().roots());
    let roots = writable
        .iter()
        .chain(grant.caches())
        .chain(grant.private())
        .chain(grant.hidden())
        .chain(grant.fixed());
    let sockets = grant.services().iter().flat_map(Service::sockets);
    let written = roots.flat_map(meant).chain(sockets).map(|path| identity(&path));
    let read = readable.iter().chain(grant.needs()).map(|root| identity(root.real()));
    written.chain(read).collect()
}
