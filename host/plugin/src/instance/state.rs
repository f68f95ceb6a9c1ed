//! The data of a guest's store: its rights, its limits and what it was denied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::denials::denied_access::DeniedAccess;
use crate::options::Belongings;
use crate::threads::OwnThreads;
use crate::threads::short_call::InlineTime;
use crate::threads::turns::Turn;
use crate::threads::writable::Writable;
use crate::wasi::disk_budget::{Disk, GoesOn};
use crate::wasi::files::{PrivateDirectories, ProtectedPaths, RelativePaths};
use crate::wasi::http::Http;
use crate::wasi::input::Input;
use crate::wasi::network::address_check::{self, RefusedAddresses};
use crate::wasi::output::Captured;
use haft_core::event::Events;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::trace::TraceParent;
use haft_core::undo::Changes;

/// Open files, streams and pollables of one guest. A tool needs a few dozen; each open file is
/// one of haft's own file descriptors.
pub(crate) const MAX_RESOURCES: usize = 1000;

/// Handles of resources, streams, futures and tasks that a guest may own; see also [`MAX_RESOURCES`].
pub(crate) const MAX_HANDLES: usize = 10_000;

/// Entries of a guest's tables, all together: function pointers, of which CPython has 20,000.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 1_000_000;

/// Core instances of a component: a Rust one has 4, one that embeds an interpreter some 30.
const MAX_INSTANCES: usize = 256;

/// Tables and memories of a component.
const MAX_TABLES: usize = 256;

/// Bytes of random numbers in one request.
const MAX_RANDOM: u64 = 1 << 20;

/// How long before its deadline a guest that asks is told to end: a tenth of its time, and no more than removing what it
/// has begun takes.
const MAX_WARNING: Duration = Duration::from_secs(1);

/// The data of a guest's store.
pub(crate) struct GuestState {
    pub(crate) wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    /// Where haft does work for the guest that the guest's thread may not do.
    pub(crate) own: OwnThreads,
    /// When it computes long.
    pub(crate) turn: Turn,
    pub(crate) grant: Arc<Grant>,
    pub(crate) belongings: Belongings,
    pub(crate) protected_paths: Arc<ProtectedPaths>,
    /// The directories that the call may write; none while there is no call.
    pub(crate) writable: Option<Writable>,
    pub(crate) budget: Budget,
    pub(crate) disk: Arc<Disk>,
    /// The directories of its own, opened for the call.
    pub(crate) private: PrivateDirectories,
    pub(crate) run: Run,
    pub(crate) denied: DeniedAccess,
    pub(crate) relative: RelativePaths,
    pub(crate) refused_addresses: RefusedAddresses,
    pub(crate) http: Http,
    /// As many as there are streams of WASI 0.3 from and into files, and one.
    pub(crate) open_streams: Arc<()>,
    /// The words of a command's command line, its name first; none for all other guests.
    pub(crate) arguments: Vec<String>,
    pub(crate) stdin: Input,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

/// The call that a guest works for.
pub(crate) struct Run {
    pub(crate) plugin: Arc<str>,
    pub(crate) call: String,
    pub(crate) events: Events,
    pub(crate) cancel: CancellationToken,
    pub(crate) deadline: Instant,
    /// When a guest that asks is told to end, before the deadline.
    pub(crate) warning: Instant,
    /// Whether it was told.
    pub(crate) warned: bool,
    /// Whether the guest asked whether it was cancelled, and it was.
    pub(crate) cancellation_seen: Arc<AtomicBool>,
    /// When a running guest was first seen to be cancelled.
    pub(crate) cancelled: Option<Instant>,
    /// How long the guest may use the thread that read its call. It yields at the first tick after that, to go on on
    /// another one.
    pub(crate) inline_time: Option<InlineTime>,
    pub(crate) logged: usize,
    /// What the guest's requests are a part of.
    pub(crate) trace: Option<TraceParent>,
    /// What the call changes.
    pub(crate) changes: Changes,
    /// Whether a person approved of the call.
    pub(crate) approved: bool,
    /// What the guest asked for, and what it was answered.
    pub(crate) asked: Vec<String>,
}

/// Memory and table limits, and the one that was exceeded.
pub(crate) struct Budget {
    memory: usize,
    used: usize,
    rest: StoreLimits,
    /// The limit that a growth was refused for.
    pub(crate) exceeded: Option<ExceededLimit>,
}

/// A limit of [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    /// The limit of all memories together.
    Memory,
    /// [`MAX_TABLE_ELEMENTS`].
    Tables,
}

impl Run {
    /// The call `call` of `plugin`, which may take as long as `limits` say from now on.
    pub(crate) fn new(
        plugin: Arc<str>,
        call: String,
        events: Events,
        cancel: CancellationToken,
        limits: &Limits,
    ) -> Self {
        let now = Instant::now();
        let ahead = (limits.time / 10).min(MAX_WARNING);
        let (deadline, warning) = (now + limits.time, now + limits.time.saturating_sub(ahead));
        let (cancellation_seen, cancelled, inline_time, logged) = (Arc::default(), None, None, 0);
        Self {
            plugin,
            call,
            events,
            cancel,
            deadline,
            warning,
            warned: false,
            cancellation_seen,
            cancelled,
            inline_time,
            logged,
            trace: None,
            approved: false,
            changes: Changes::default(),
            asked: Vec::new(),
        }
    }

    /// Whether the guest, which asks, is to end by itself: it was cancelled, or its time is nearly over.
    pub(crate) fn should_end(&mut self) -> bool {
        let cancelled = self.cancel.is_cancelled();
        self.cancellation_seen.fetch_or(cancelled, Ordering::Relaxed);
        self.warned |= Instant::now() >= self.warning;
        cancelled || self.warned
    }

    /// Whether the guest may still go on, for what blocks its thread.
    pub(crate) fn goes_on(&self) -> GoesOn {
        let (cancel, deadline) = (self.cancel.clone(), self.deadline);
        Arc::new(move || !cancel.is_cancelled() && Instant::now() < deadline)
    }

    /// The context of an instance of `plugin` between calls.
    pub(crate) fn idle(plugin: &Arc<str>, limits: &Limits) -> Self {
        Self::new(plugin.clone(), String::new(), Events::none(), CancellationToken::new(), limits)
    }
}

impl GuestState {
    /// The state of a guest that may do what `grant` says, within `limits`, with its requests
    /// going through `http`.
    pub(crate) fn new(
        (own, turn): (OwnThreads, Turn),
        grant: Arc<Grant>,
        (protected_paths, belongings): (Arc<ProtectedPaths>, Belongings),
        limits: &Limits,
        run: Run,
        http: Http,
    ) -> Self {
        let (stdin, stdout, stderr) = (Input::default(), Captured::default(), Captured::default());
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        let (denied, refused_addresses) = (DeniedAccess::default(), RefusedAddresses::new(http.decisions()));
        let wasi = wasi(&grant, (&stdin, &stdout, &stderr), &refused_addresses);
        let (budget, disk) = (Budget::new(limits), Arc::new(Disk::new(limits.disk)));
        let relative = RelativePaths::default();
        Self {
            wasi,
            table,
            own,
            turn,
            grant,
            belongings,
            protected_paths,
            writable: None,
            budget,
            disk,
            private: PrivateDirectories::default(),
            run,
            denied,
            relative,
            refused_addresses,
            http,
            open_streams: Arc::default(),
            arguments: Vec::new(),
            stdin,
            stdout,
            stderr,
        }
    }
}

impl GuestState {
    /// A call begins, which may write these directories.
    pub(crate) fn begin(&mut self, writable: Writable) {
        let goes_on = self.run.goes_on();
        self.private.begin(writable.private(), &self.disk, &goes_on);
        self.writable = Some(writable);
    }

    /// Forgets the call that is over: its denials, output, events and writable directories. The guest's memory and open
    /// resources stay.
    pub(crate) fn renew(&mut self, plugin: &Arc<str>, limits: &Limits) {
        (self.run, self.writable) = (Run::idle(plugin, limits), None);
        self.turn.renew();
        self.private.end();
        self.denied = self.denied.kept_for_next_call();
        self.disk.renew(limits.disk);
        self.refused_addresses.clear();
        self.http.renew();
        self.arguments.clear();
        self.stdin.fill(Vec::new());
        self.stdout.clear();
        self.stderr.clear();
    }
}

/// The WASI context: the granted environment variables and network addresses, and captured output.
/// Directories are handed out by `files`.
fn wasi(
    grant: &Arc<Grant>,
    (stdin, stdout, stderr): (&Input, &Captured, &Captured),
    refused_addresses: &RefusedAddresses,
) -> WasiCtx {
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdin(stdin.clone())
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .allow_blocking_current_thread(true)
        .max_random_size(MAX_RANDOM);
    address_check::allow_granted(&mut builder, grant, refused_addresses);
    for name in grant.env() {
        if let Some(value) = std::env::var_os(name) {
            builder.env(name, value.to_string_lossy());
        }
    }
    for (name, value) in grant.values() {
        builder.env(name, value);
    }
    if let Some(workspace) = grant.base() {
        builder.initial_cwd(workspace.path().to_string_lossy());
    }
    builder.build()
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.http.view(&mut self.table, self.run.trace.as_ref())
    }
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        let rest = StoreLimitsBuilder::new()
            .table_elements(MAX_TABLE_ELEMENTS)
            .instances(MAX_INSTANCES)
            .tables(MAX_TABLES)
            .memories(MAX_TABLES)
            .build();
        let memory = usize::try_from(limits.memory).unwrap_or(usize::MAX);
        Self { memory, used: 0, rest, exceeded: None }
    }

    /// Bytes of all memories together, which is also the most there was: none ever shrinks.
    pub(crate) fn used(&self) -> u64 {
        self.used as u64
    }
}

impl ResourceLimiter for Budget {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        // wasmtime reports one memory at a time; the limit is for all of them together.
        let used = self.used - current.min(self.used) + desired;
        if used > self.memory {
            self.exceeded = Some(ExceededLimit::Memory);
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let allowed = self.rest.table_growing(current, desired, maximum)?;
        if !allowed {
            self.exceeded = Some(ExceededLimit::Tables);
        }
        Ok(allowed)
    }

    fn instances(&self) -> usize {
        self.rest.instances()
    }

    fn tables(&self) -> usize {
        self.rest.tables()
    }

    fn memories(&self) -> usize {
        self.rest.memories()
    }
}

/// A size as program.toml writes it.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.into_iter().find(|(_, shift)| count >> shift << shift == count && count >> shift > 0);
    unit.map_or_else(|| format!("{count} bytes"), |(name, shift)| format!("{} {name}", count >> shift))
}
