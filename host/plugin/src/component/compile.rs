//! Limits the number of concurrent compilations, and reports slow ones as events.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard, OwnedMutexGuard, Semaphore, SemaphorePermit};
use wasmtime::{Config, OptLevel, RegallocAlgorithm};

use crate::component::source::Digest;
use crate::threads::Threads;
use haft_core::event::{Event, Events};
use haft_core::sync::Lock;

/// Maximum number of concurrent compilations. The compilation of many functions uses every processor; two
/// compilations of few functions do too.
const MAX_AT_ONCE: u32 = 2;

/// Size in bytes from which a component is compiled alone: the compiler takes some 300 MB for a component of 18
/// MB.
const LARGE: u64 = 4 << 20;

/// Duration of a compilation before it is reported.
const SLOW: Duration = Duration::from_millis(500);

/// The optimization level of the compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tier {
    /// Less than half of the time, for larger and slower code.
    Quick,
    /// Quick code.
    #[default]
    Optimized,
}

impl Tier {
    /// Sets the compiler options of this tier. Code does not depend on anything else of the engine.
    pub(crate) fn configure(self, config: &mut Config) {
        match self {
            Self::Quick => {
                config.cranelift_opt_level(OptLevel::None);
                config.cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
            }
            // Beside calls, which need the processors more.
            Self::Optimized => _ = config.parallel_compilation(false),
        }
    }
}

pub(crate) struct Compilations {
    permits: Semaphore,
    /// Held while quickly compiled code is compiled again.
    optimizing: AsyncMutex<()>,
    /// A lock for each component under discovery, by the key of its record in the cache: held while the component is
    /// compiled, its tools are listed and both are stored.
    locks: Lock<HashMap<Digest, Weak<AsyncMutex<()>>>>,
    events: Events,
}

pub(crate) struct Compilation<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    notice: Arc<CompileNotice>,
}

struct CompileNotice {
    plugin: String,
    bytes: u64,
    begun: Instant,
    events: Events,
    state: Lock<NoticeState>,
}

/// The emitted events of a compilation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoticeState {
    Nothing,
    Beginning,
    End,
}

impl Compilations {
    pub(crate) fn new(events: Events) -> Self {
        let permits = Semaphore::new(MAX_AT_ONCE as usize);
        Self { permits, optimizing: AsyncMutex::default(), locks: Lock::default(), events }
    }

    pub(crate) async fn begin_optimizing(&self) -> MutexGuard<'_, ()> {
        self.optimizing.lock().await
    }

    /// Waits until no other task discovers the component of this record: the first plugin of a component compiles
    /// it, and the others read the cache.
    pub(crate) async fn lock(&self, record: &Digest) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock();
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(record).and_then(Weak::upgrade).unwrap_or_default();
            locks.insert(record.clone(), Arc::downgrade(&known));
            known
        };
        lock.lock_owned().await
    }

    /// Waits until a component of `bytes` may be compiled. It counts as running until the returned value is
    /// dropped.
    pub(crate) async fn begin(&self, threads: &Threads, plugin: &str, bytes: u64) -> Compilation<'_> {
        let share = if bytes >= LARGE { MAX_AT_ONCE } else { 1 };
        // The semaphore is never closed, so that a permit is always available.
        let permit = self.permits.acquire_many(share).await.ok();
        tracing::info!(plugin, bytes, "compiling");
        let (events, state) = (self.events.clone(), Lock::new(NoticeState::Nothing));
        let notice = CompileNotice { plugin: plugin.to_owned(), bytes, begun: Instant::now(), events, state };
        let notice = Arc::new(notice);
        if self.events.has_listener() {
            let notice = notice.clone();
            threads.spawn(async move {
                tokio::time::sleep(SLOW).await;
                notice.begin();
            });
        }
        Compilation { _permit: permit, notice }
    }
}

impl CompileNotice {
    fn begin(&self) {
        let mut state = self.state.lock();
        if *state == NoticeState::Nothing {
            *state = NoticeState::Beginning;
            self.events.emit(|| Event::Compiling { plugin: self.plugin.clone(), bytes: self.bytes });
        }
    }

    fn end(&self) {
        let mut state = self.state.lock();
        let duration = self.begun.elapsed();
        if std::mem::replace(&mut *state, NoticeState::End) == NoticeState::Beginning {
            self.events.emit(|| Event::Compiled { plugin: self.plugin.clone(), duration });
        }
    }
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        self.notice.end();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use super::*;

    /// Only a hanging test reaches this.
    const HANG: Duration = Duration::from_mins(5);

    fn record_events() -> (Events, mpsc::Receiver<String>) {
        let (sender, recorded) = mpsc::channel();
        let events = Events::to(move |event| {
            let _ = sender.send(match event {
                Event::Compiling { plugin, bytes } => format!("compiling {plugin} {bytes}"),
                Event::Compiled { plugin, .. } => format!("compiled {plugin}"),
                other => format!("{other:?}"),
            });
        });
        (events, recorded)
    }

    /// Returns whether the future is pending now.
    fn waits(what: impl Future) -> bool {
        pin!(what).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// A short compilation emits nothing; a longer one emits its beginning and its end.
    #[test]
    fn only_what_takes_a_while_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let threads = Threads::new();
        let (events, recorded) = record_events();
        // The notice of a compilation that ends before it is due.
        let state = Lock::new(NoticeState::Nothing);
        let short = CompileNotice {
            plugin: "short".into(),
            bytes: 1,
            begun: Instant::now(),
            events: events.clone(),
            state,
        };
        short.end();
        short.begin();
        let compilations = Compilations::new(events);
        let long = runtime.block_on(compilations.begin(&threads, "long", 2));
        assert_eq!(recorded.recv_timeout(HANG).unwrap(), "compiling long 2");
        drop(long);
        assert_eq!(recorded.recv_timeout(HANG).unwrap(), "compiled long");
    }

    /// One task at a time has the lock of a record. The lock is removed with its last task.
    #[tokio::test]
    async fn one_at_a_time_finds_out_about_a_component() {
        let compilations = Compilations::new(Events::none());
        let [one, other] = [b"1", b"2"].map(|bytes| Digest::compute(bytes));
        let first = compilations.lock(&one).await;
        assert!(waits(compilations.lock(&one)));
        assert!(!waits(compilations.lock(&other)));
        drop(first);
        assert!(!waits(compilations.lock(&one)));
        assert_eq!(compilations.locks.lock().len(), 1, "the last one's");
    }

    /// A large component is compiled alone, small ones two at a time.
    #[tokio::test]
    async fn few_are_compiled_at_once() {
        let threads = Threads::new();
        let compilations = Compilations::new(Events::none());
        let begin = |bytes| compilations.begin(&threads, "one", bytes);
        let small = begin(1).await;
        let second = begin(1).await;
        assert!(waits(begin(1)));
        drop(second);
        assert!(waits(begin(LARGE)), "one small is under way");
        drop(small);
        let _large = begin(LARGE).await;
        assert!(waits(begin(1)));
    }
}
