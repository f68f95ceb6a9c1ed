//! The children of one confiner that live. One that is sealed against a file which is no longer there is ended: the
//! mount over that file is gone with it, and the child could read or write the new one.
//!
//! One thread looks after all of them, from the first child on until there was none for a while. It is woken by the
//! directories above what is sealed; in its first moment, which most calls do not outlive, it looks again and again
//! instead, since giving up a watch takes longer than a short call.

#[cfg_attr(target_os = "linux", path = "living/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "living/platform/macos.rs")]
mod platform;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

use self::platform::Events;
use super::seals::Seals;
use haft_core::sync::Lock;

/// Between two looks where no event tells of a change.
const ROUND: Duration = Duration::from_millis(10);
/// How long the thread does without events.
const MOMENT: Duration = Duration::from_millis(250);
/// Between two looks where events do: some file systems tell of no change.
const IDLE: Duration = Duration::from_secs(1);
/// How long the thread stays when there is no child: starting it anew costs more.
const LINGER: Duration = Duration::from_secs(5);
/// How long ended children are waited for: longer than a helper repeats KILL.
const END: Duration = Duration::from_secs(3);

/// The children that live.
#[derive(Debug, Default)]
pub(super) struct Living(Lock<LivingState>);

#[derive(Debug, Default)]
struct LivingState {
    children: Vec<Arc<LivingChild>>,
    /// Whether the thread runs.
    watched: bool,
    /// `None` in the first moment, after a change and where the system gives none.
    events: Option<Arc<Events>>,
}

/// A child that may run a command.
#[derive(Debug)]
pub(super) struct LivingChild {
    /// The helper's socket. Its other end is closed when nothing of the child is left.
    control: Arc<OwnedFd>,
    seals: Seals,
    /// Set once: which file was replaced; `None` where the child has ended by itself.
    fate: OnceLock<Option<PathBuf>>,
}

impl LivingChild {
    pub(super) fn new(control: Arc<OwnedFd>, seals: Seals) -> Self {
        Self { control, seals, fate: OnceLock::new() }
    }

    /// Notes that it has ended by itself.
    pub(super) fn ended(&self) {
        let _ = self.fate.set(None);
    }

    /// The file for whose sake it was ended.
    pub(super) fn replaced(&self) -> Option<&Path> {
        self.fate.get()?.as_deref()
    }

    /// Ends it if what it is sealed against is no longer there.
    fn check(&self) {
        if self.fate.get().is_some() {
            return;
        }
        let Some(path) = self.seals.broken() else { return };
        tracing::info!("ended a process: `{}` was replaced", path.display());
        let is_first = self.fate.set(Some(path)).is_ok();
        if is_first {
            // The helper takes it for the end of haft, and kills at once.
            let _ = shutdown(&self.control, Shutdown::Write);
        }
    }
}

impl Living {
    /// Takes in a child before it becomes a command, and ends it where it is sealed against another file already.
    pub(super) fn take_in(self: &Arc<Self>, child: &Arc<LivingChild>) -> io::Result<()> {
        if child.seals.paths().next().is_none() {
            return Ok(());
        }
        let is_watched = {
            let mut state = self.0.lock();
            state.children.push(child.clone());
            let added = state.events.as_ref().map_or(Ok(()), |events| events.add(child.seals.paths()));
            // Without events the thread looks more often.
            if added.is_err() {
                state.events = None;
            }
            std::mem::replace(&mut state.watched, true)
        };
        child.check();
        if !is_watched && let Err(error) = self.start() {
            self.0.lock().watched = false;
            return Err(error);
        }
        Ok(())
    }

    fn start(self: &Arc<Self>) -> io::Result<()> {
        let living = self.clone();
        std::thread::Builder::new().name("haft-seals".into()).spawn(move || living.watch()).map(drop)
    }

    /// What the thread does.
    fn watch(&self) {
        let started = Instant::now();
        let mut needed = started;
        loop {
            let events = self.events(started.elapsed() > MOMENT);
            if self.check() {
                needed = Instant::now();
            } else if needed.elapsed() > LINGER && self.stop() {
                return;
            }
            let Some(events) = events else {
                std::thread::sleep(ROUND);
                continue;
            };
            if events.wait(IDLE) {
                self.check();
                self.watch_again(&events);
            }
        }
    }

    /// The events of all children; made anew where there are none and they are wanted.
    fn events(&self, wanted: bool) -> Option<Arc<Events>> {
        let mut state = self.0.lock();
        if state.events.is_none() && wanted {
            let paths = state.children.iter().flat_map(|child| child.seals.paths());
            state.events = Events::new(paths).ok().map(Arc::new);
        }
        state.events.clone()
    }

    /// Follows the directories that were replaced with what is sealed.
    fn watch_again(&self, events: &Events) {
        let mut state = self.0.lock();
        let paths = state.children.iter().flat_map(|child| child.seals.paths());
        if events.add_again(paths).is_err() {
            state.events = None;
        }
    }

    /// Ends every child that is sealed against another file. Returns whether any child lives.
    fn check(&self) -> bool {
        let children = {
            let mut state = self.0.lock();
            state.children.retain(|child| !is_gone(&child.control, Duration::ZERO));
            state.children.clone()
        };
        for child in &children {
            child.check();
        }
        !children.is_empty()
    }

    /// Ends the thread unless a child came meanwhile.
    fn stop(&self) -> bool {
        let mut state = self.0.lock();
        if !state.children.is_empty() {
            return false;
        }
        *state = LivingState::default();
        true
    }

    /// Ends every child that is sealed against another file, and waits until nothing of it is left. Returns whether
    /// that is so.
    pub(super) fn end_outdated(&self) -> bool {
        self.check();
        let children = self.0.lock().children.clone();
        let end = Instant::now() + END;
        let mut outdated = children.iter().filter(|child| child.replaced().is_some());
        outdated.all(|child| is_gone(&child.control, end.saturating_duration_since(Instant::now())))
    }
}

/// Whether the other end of a socket is closed, or is within `limit`.
fn is_gone(control: &OwnedFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        // Only the hang-up is waited for, which needs no asking.
        let mut events = [PollFd::new(control, PollFlags::empty())];
        let left = end.saturating_duration_since(Instant::now());
        let polled = poll(&mut events, Some(&timespec(left)));
        let [control] = events;
        if control.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return true;
        }
        if polled.is_ok() || left.is_zero() {
            return false;
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: duration.subsec_nanos().into() }
}
