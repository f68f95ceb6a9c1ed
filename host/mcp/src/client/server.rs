//! One server: lists its tools, starts the server at its first use, and restarts it after its end, with a growing
//! pause after repeated failures. A tool that differs from the agreed one is neither offered nor called, whether it
//! is from the first list, a later list, a reconnection or the cache.

mod call;
mod start;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{broadcast, watch};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

pub(super) use self::call::Answer;
use self::start::ConnectionSlot;
use super::connection::{Connection, RequestLimits};
use super::tool_cache::{self, CachedTools, Era, MAX_UNTOLD_AGE};
use super::{Config, Endpoint, ServerError, ServerOffers, ToolList};
use crate::pins::ToolPins;
use haft_core::grant::{Grant, RightsTable, Root};
use haft_core::sync::Lock;
use haft_core::tool::Elicitor;
use haft_sandbox::confine::Confiner;

/// The wait for further changes before a changed list is requested.
const SETTLE: Duration = Duration::from_millis(200);

/// Maximum number of requests of all lists in a row. A server that reports a change during each is asked later.
const MAX_LISTINGS: usize = 3;

/// Maximum number of queued resource changes for a slow client. Beyond it the client gets the latest ones.
const MAX_UPDATES: usize = 256;

/// The environment of servers that their program provides.
#[derive(Clone, Debug)]
pub struct Host {
    /// Confines children to their grant.
    pub confiner: Confiner,
    /// The rights of the children.
    pub grant: Grant,
    /// The table of program.toml with these rights.
    pub table: RightsTable,
    /// Answers elicitation requests if the caller has no user; `None` without a user.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// The directory of the tool cache; `None` for no cache.
    pub cache: Option<PathBuf>,
}

/// A server. Its drop kills a child process; [`Self::close`] ends the server in order.
#[derive(Debug)]
pub struct Server {
    config: Config,
    host: Host,
    slot: tokio::sync::Mutex<ConnectionSlot>,
    /// The cached list, or the list that the server sent later.
    known: Lock<Option<KnownTools>>,
    /// The pins of the server's tools; `None` if every tool is accepted.
    pins: Lock<Option<Arc<ToolPins>>>,
    /// Counts the changes of the server's list.
    changes: watch::Sender<u64>,
    /// The URIs of resources that have changed, of those that are watched.
    updates: broadcast::Sender<Arc<str>>,
    closing: CancellationToken,
}

#[derive(Clone, Debug)]
struct KnownTools {
    /// The unmodified list of the server.
    sent: Arc<ToolList>,
    /// The offered part of the list.
    listed: Arc<ToolList>,
    /// Whether the server itself sent it, since haft was started.
    is_fresh: bool,
    age: Duration,
}

impl Server {
    /// Returns a server that is not started yet.
    pub fn new(config: Config, host: Host) -> Arc<Self> {
        let slot = ConnectionSlot::default();
        let server = Self {
            config,
            host,
            slot: tokio::sync::Mutex::new(slot),
            known: Lock::new(None),
            pins: Lock::new(None),
            changes: watch::Sender::new(0),
            updates: broadcast::Sender::new(MAX_UPDATES),
            closing: CancellationToken::new(),
        };
        let cached = server.file().and_then(|file| CachedTools::read(&file));
        let known = cached.map(|cached| {
            let age = cached.age();
            let sent = Arc::new(cached.listed);
            KnownTools { listed: sent.clone(), sent, is_fresh: false, age }
        });
        Arc::new(Self { known: Lock::new(known), ..server })
    }

    /// Returns the declaration of the server.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether `config` and `host` would create an equal server, so that this one can continue.
    pub fn is_same(&self, config: &Config, host: &Host) -> bool {
        let lives = !self.closing.is_cancelled();
        lives
            && self.config.is_same(config)
            && self.host.grant == host.grant
            && self.host.table == host.table
            && self.host.cache == host.cache
    }

    /// Returns the last known list, and its age.
    pub fn remembered(&self) -> Option<(Arc<ToolList>, Duration)> {
        self.known().map(|known| (known.listed, known.age))
    }

    /// Returns whether the known list may belong to a server that was replaced since, without a changed file.
    pub fn may_be_outdated(&self) -> bool {
        // haft looks at files there, not the server.
        let workspace = self.host.grant.base().map(Root::path);
        let known = self.known().filter(|known| !known.is_fresh);
        known.is_some_and(|known| known.age > MAX_UNTOLD_AGE) && !self.config.is_told_by_files(workspace)
    }

    /// Returns a receiver of changes: the first list, and every other list of a running server.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Requests the server's lists, and starts the server if needed; continues in the background if the future is
    /// dropped. The result is cached.
    pub async fn list(self: &Arc<Self>) -> Result<Arc<ToolList>, ServerError> {
        let connection = self.connection().await?;
        if let Some(known) = self.known().filter(|known| known.is_fresh) {
            return Ok(known.listed);
        }
        // The list was requested at the start; this returns why there was no answer.
        match self.slot.lock().await.unlisted.clone() {
            Some(error) => Err(error),
            None => self.refresh(&connection).await,
        }
    }

    pub(super) fn updates(&self) -> &broadcast::Sender<Arc<str>> {
        &self.updates
    }

    /// Lists the server again after it has announced a change. A waiting caller gets the list of the last call.
    pub async fn settle(self: &Arc<Self>) {
        // A connection that is being opened requests the list itself.
        let connection = self.slot.try_lock().ok().and_then(|slot| slot.open());
        if let Some(connection) = connection.filter(|connection| connection.handler.changed.take()) {
            self.list_changes(&connection).await;
        }
    }

    /// Requests the changed list. If the server has forgotten the session, a new connection requests the list.
    async fn list_changes(self: &Arc<Self>, connection: &Arc<Connection>) {
        let listed = self.refresh(connection).await.map(drop);
        let listed = match self.unless_lost(connection, listed).await {
            Err(ServerError::Forgotten) => self.connection().await.map(drop),
            listed => listed,
        };
        if let Err(error) = listed {
            tracing::debug!(server = self.config.name, %error, "cannot list its changed tools");
        }
    }

    /// Returns the sandbox's refusals since the server was started, and the lines that would allow the accesses;
    /// empty if it does not run.
    pub async fn refused(&self) -> Vec<String> {
        let connection = self.slot.lock().await.open();
        let Some(connection) = connection else { return Vec::new() };
        connection.caught_up().await;
        connection.hints(&self.config.scripts(self.host.grant.base().map(Root::path)))
    }

    /// Ends the server in order, within a few seconds, and prevents another start.
    pub async fn close(&self) {
        self.closing.cancel();
        let connection = self.slot.lock().await.connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Returns the connection, and opens it if necessary. A separate task opens it: if a caller stops waiting, the next
    /// caller uses the connection.
    async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, ServerError> {
        if let Ok(slot) = self.slot.try_lock()
            && let Some(connection) = slot.open()
        {
            return Ok(connection);
        }
        let own = self.clone();
        let connecting = tokio::spawn(async move { own.connect().await });
        connecting.await.unwrap_or_else(|_| Err(ServerError::Closed))
    }

    async fn connect(self: &Arc<Self>) -> Result<Arc<Connection>, ServerError> {
        let mut slot = self.slot.lock().await;
        if let Some(connection) = slot.open() {
            return Ok(connection);
        }
        if let Some(ended) = slot.connection.take() {
            slot.note_end(ended.answered.load(Ordering::Relaxed));
        }
        if let Some(moment) = slot.not_before {
            tokio::select! {
                () = sleep_until(moment) => {}
                () = self.closing.cancelled() => {}
            }
        }
        let opened = tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(ServerError::Closed),
            opened = self.open(slot.era) => opened,
        };
        let connection = match opened {
            Ok(connection) => Arc::new(connection),
            Err(error) => {
                slot.note_end(false);
                return Err(error);
            }
        };
        slot.era = if connection.is_stateless() { Era::Stateless } else { Era::Handshake };
        // Before the first call: the list may differ from the cached one, and over HTTP the definition of a tool
        // determines the headers of a call.
        slot.unlisted = self.refresh(&connection).await.err();
        if slot.unlisted == Some(ServerError::Forgotten) {
            slot.note_end(false);
            return Err(ServerError::Forgotten);
        }
        if slot.unlisted.is_some() {
            // The known list may be of an earlier connection: a call of a pinned tool requests the list again.
            connection.handler.changed.say();
        }
        slot.connection = Some(connection.clone());
        tokio::spawn(watch_changes(Arc::downgrade(self), Arc::downgrade(&connection)));
        Ok(connection)
    }

    /// Requests all lists, again if the server reports a change meanwhile: otherwise the tools of a starting server
    /// would be older than its resources.
    async fn ask(&self, connection: &Connection) -> Result<ToolList, ServerError> {
        let limits = RequestLimits { timeout: self.config.timeout, cancel: &self.closing };
        let mut asked = 0;
        loop {
            let mut sent = connection.tools(limits, &self.config.redactor).await?;
            sent.offers = Box::pin(ServerOffers::ask(connection, limits, &self.config.redactor)).await;
            asked += 1;
            if asked == MAX_LISTINGS || !connection.handler.changed.take() {
                sent.pin_words();
                return Ok(sent);
            }
        }
    }

    /// Requests and stores the list.
    async fn refresh(&self, connection: &Connection) -> Result<Arc<ToolList>, ServerError> {
        let sent = Arc::new(self.ask(connection).await?);
        let (listed, before) = {
            let mut known = self.known.lock();
            let listed = self.offered(&sent);
            let new = KnownTools {
                sent: sent.clone(),
                listed: listed.clone(),
                is_fresh: true,
                age: Duration::ZERO,
            };
            (listed, known.replace(new))
        };
        // A first list counts too: a caller may have continued without it.
        if before.is_none_or(|before| before.sent != sent) {
            self.changes.send_modify(|count| *count += 1);
        }
        let era = if connection.is_stateless() { Era::Stateless } else { Era::Handshake };
        // An empty list is not cached: the server may be starting.
        if let Some(file) = self.file().filter(|_| sent.has_offers())
            && let Err(error) = CachedTools::new(era, (*sent).clone()).write(&file)
        {
            tracing::debug!(%error, "cannot write `{}`", file.display());
        }
        Ok(listed)
    }

    /// Accepts only tools that match `pins` from now on; `None` accepts every tool.
    pub fn hold_to(&self, pins: Option<Arc<ToolPins>>) {
        *self.pins.lock() = pins;
        let mut known = self.known.lock();
        if let Some(KnownTools { sent, listed, .. }) = known.as_mut() {
            *listed = self.offered(sent);
        }
    }

    /// Returns whether the server's tools are pinned.
    pub fn is_held(&self) -> bool {
        self.pins.lock().is_some()
    }

    /// Returns the server's last list, including tools that are held back; [`ToolList::sent`] has each tool as it
    /// was sent.
    pub fn sent(&self) -> Option<Arc<ToolList>> {
        self.known().map(|known| known.sent)
    }

    fn offered(&self, sent: &Arc<ToolList>) -> Arc<ToolList> {
        match self.pins.lock().as_deref() {
            Some(pins) => Arc::new(sent.held_to(pins)),
            None => sent.clone(),
        }
    }

    /// Refuses a call of a tool that is held back. If the server has reported a change of its tools, the list is
    /// requested first.
    async fn refuse_held(&self, tool: &str, connection: &Connection) -> Result<(), ServerError> {
        if self.pins.lock().is_none() {
            return Ok(());
        }
        if connection.handler.changed.take() {
            self.refresh(connection).await.inspect_err(|_| connection.handler.changed.say())?;
        }
        let listed = self.known().map(|known| known.listed);
        let difference = listed.and_then(|listed| listed.held(tool).cloned());
        let server = self.config.name.clone();
        difference.map_or(Ok(()), |difference| Err(ServerError::Held { difference, server }))
    }

    fn known(&self) -> Option<KnownTools> {
        self.known.lock().clone()
    }

    fn file(&self) -> Option<PathBuf> {
        // haft looks at files there, not the server.
        let workspace = self.host.grant.base().map(Root::path);
        Some(tool_cache::file(self.host.cache.as_ref()?, &self.config, workspace))
    }
}

/// Requests the list again whenever the server reports a change. Returns a boxed future, because a new connection, which
/// the future may open, spawns such a future too.
fn watch_changes(server: Weak<Server>, connection: Weak<Connection>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            let Some(open) = connection.upgrade().filter(|connection| !connection.is_closed()) else {
                return;
            };
            // Bounded, so that a connection without other owners is dropped.
            let changed = timeout(Duration::from_secs(1), open.handler.changed.heard()).await;
            if changed.is_err() {
                continue;
            }
            sleep(SETTLE).await;
            let Some(server) = server.upgrade() else { return };
            if open.handler.changed.take() {
                server.list_changes(&open).await;
            }
        }
    })
}
